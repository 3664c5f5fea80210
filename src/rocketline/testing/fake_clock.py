"""A clock that moves only when told to."""

from __future__ import annotations

from collections.abc import Callable


class FakeClock:
    """Both times advance together, by hand.

    >>> clock = FakeClock()
    >>> clock.advance(1.5)
    >>> clock.monotonic(), clock.wall_ms()
    (1001.5, 1700000001500)
    """

    def __init__(self, monotonic_s: float = 1000.0, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_s, self._wall_ms = monotonic_s, wall_ms
        self._listeners: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        return self._monotonic_s

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, seconds: float) -> None:
        self._monotonic_s += seconds
        self._wall_ms += round(seconds * 1000)
        for listener in list(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each turn, until what this returns is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
