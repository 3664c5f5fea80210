"""How long to wait before asking again a broker whose answers bring nothing. Pure.

A broker holds a pull back until there is a message, or for fifteen seconds. One that answers at once and with nothing,
again and again, would be asked ten thousand times a second.
"""

from __future__ import annotations

from typing import Final

_FREE: Final = 16
"""So many answers in a row may bring nothing before there is a pause: tags that are rare are passed over like this."""
_LONG_S: Final = 0.1
"""Who takes so long for an answer needs no pause."""
_LEAP: Final = 1000
"""Who passes over so many messages at once works, though none is wanted."""
_PAUSE_MIN_S: Final = 0.002
PAUSE_MAX_S: Final = 1.0
REFUSED_S: Final = 0.02
"""The first pause after a broker said that it has too much to do. Java has this one alone."""


class PullBackoff:
    """The pauses of one queue: they grow while nothing comes, and are gone when something has.

    >>> backoff = PullBackoff()
    >>> [backoff.after(0, False, 0.001) for _ in range(20)][14:]
    [0.0, 0.0, 0.002, 0.004, 0.008, 0.016]
    >>> backoff.after(32, True, 0.001), backoff.after(0, False, 0.001)
    (0.0, 0.0)
    """

    __slots__ = ("_in_vain", "_refused")

    def __init__(self) -> None:
        self._in_vain = self._refused = 0

    def after(self, advance: int, is_found: bool, elapsed_s: float) -> float:
        """A pull took `elapsed_s`, and the next one begins `advance` messages further on; how long to wait before."""
        self._refused = 0
        if (is_found and advance > 0) or elapsed_s >= _LONG_S:
            self._in_vain = 0
            return 0.0
        if advance >= _LEAP:
            return 0.0
        self._in_vain += 1
        return _grown(_PAUSE_MIN_S, self._in_vain - _FREE)

    def after_refusal(self) -> float:
        """The broker has too much to do; how long to leave it alone."""
        self._refused += 1
        return _grown(REFUSED_S, self._refused)


def _grown(first_s: float, times: int) -> float:
    """Twice as long each time, from the first on; before it there is none."""
    return min(first_s * 2.0 ** min(times - 1, 30), PAUSE_MAX_S) if times > 0 else 0.0
