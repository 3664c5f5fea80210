"""How long to wait before asking again a broker whose answers bring nothing. Pure.

A broker holds a pull back until there is a message, or for fifteen seconds. One that answers at once and with nothing,
again and again, would be asked ten thousand times a second.
"""

from __future__ import annotations

import math
from typing import Final

_FREE: Final = 16
"""So many answers in a row may bring nothing before there is a pause."""
_LONG_S: Final = 0.1
"""Who takes so long for an answer needs no pause."""
_STEP: Final = 10
"""Who passes over so many messages at once works, though none is wanted. Both brokers look at 800 of a filtered queue
for one answer, unless they are set otherwise, and a consumer asks for at least so many."""
_PULLS_A_S: Final = 500
"""Answers that bring nothing and yet lead on. It makes 400,000 messages a second of each queue, several times what a
broker takes in: whoever wants a rare tag catches up. One who only says so is not asked more often."""
_AT_ONCE: Final = 100
"""So many of these may come one right after the other, after a rest."""
_PAUSE_MIN_S: Final = 0.002
PAUSE_MAX_S: Final = 1.0
REFUSED_S: Final = 0.02
"""The first pause after a broker said that it has too much to do. Java has this one alone."""


class PullBackoff:
    """The pauses of one queue: they grow while nothing comes, and are gone when something has.

    >>> backoff = PullBackoff()
    >>> [backoff.after(0, False, 0.001, 0.0) for _ in range(20)][14:]
    [0.0, 0.0, 0.002, 0.004, 0.008, 0.016]
    >>> backoff.after(32, True, 0.001, 0.0), backoff.after(0, False, 0.001, 0.0)
    (0.0, 0.0)
    """

    __slots__ = ("_budget", "_in_vain", "_refused")

    def __init__(self) -> None:
        self._in_vain = self._refused = 0
        self._budget = _Budget()

    def after(self, advance: int, has_brought: bool, elapsed_s: float, now_s: float) -> float:
        """A pull took `elapsed_s`, and the next one begins `advance` messages further on; how long to wait before.

        `has_brought`: there were messages in the answer, whether or not anybody wants them.
        """
        self._refused = 0
        if (has_brought and advance > 0) or elapsed_s >= _LONG_S:
            self._in_vain = 0
            return 0.0
        self._in_vain = 0 if advance >= _STEP else self._in_vain + 1
        return max(_grown(_PAUSE_MIN_S, self._in_vain - _FREE), self._budget.take(now_s))

    def after_refusal(self) -> float:
        """The broker has too much to do; how long to leave it alone."""
        self._refused += 1
        return _grown(REFUSED_S, self._refused)


class _Budget:
    """How often a broker may be asked for what may well be nothing: so often a second, and a few times at once."""

    __slots__ = ("_left", "_seen_s")

    def __init__(self) -> None:
        self._left, self._seen_s = float(_AT_ONCE), -math.inf

    def take(self, now_s: float) -> float:
        """One more time; how long to wait before the next."""
        self._left = min(self._left + (now_s - self._seen_s) * _PULLS_A_S, float(_AT_ONCE)) - 1
        self._seen_s = now_s
        return max((1 - self._left) / _PULLS_A_S, 0.0)


def _grown(first_s: float, times: int) -> float:
    """Twice as long each time, from the first on; before it there is none."""
    return min(first_s * 2.0 ** min(times - 1, 30), PAUSE_MAX_S) if times > 0 else 0.0
