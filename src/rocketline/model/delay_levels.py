"""Delay levels: the few lengths of time that a message may be held back for, numbered from 1."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rocketline.errors import ConfigError

FIRST_RETRY_LEVEL = 3
"""Of the first retry of a message that its consumer could not handle: ten seconds, unless the levels are configured
otherwise. Each further retry has the next one."""

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_is_level = re.compile(r"([0-9]{1,12})([smhd])").fullmatch


class DelayLevels:
    """How long each level holds a message back. Java: messageDelayLevel.

    >>> levels = DelayLevels.parse("1s 5s 10s 30s 1m")
    >>> levels.max_level, levels.delay_ms(3), levels.capped(99)
    (5, 10000, 5)
    """

    __slots__ = ("_delays_ms", "max_level")

    def __init__(self, delays_ms: Sequence[int]) -> None:
        self._delays_ms = tuple(delays_ms)
        self.max_level = len(self._delays_ms)

    @classmethod
    def parse(cls, text: str) -> DelayLevels:
        """The levels in text like `1s 5m 2h 1d`. Raises `ConfigError`."""
        delays_ms = []
        for word in text.split():
            level = _is_level(word)
            if level is None:
                raise ConfigError([f"messageDelayLevel: {word!r} is no time like 30s, 5m, 2h or 1d"])
            delays_ms.append(int(level[1]) * _UNITS_MS[level[2]])
        if not delays_ms:
            raise ConfigError(["messageDelayLevel is empty: name at least one time, like 1s"])
        return cls(delays_ms)

    def capped(self, level: int) -> int:
        """The level that is used for one that a message asks for: too high a number means the last."""
        return min(level, self.max_level)

    def delay_ms(self, level: int) -> int:
        """How long `level`, from 1 to `max_level`, holds a message back."""
        return self._delays_ms[level - 1]
