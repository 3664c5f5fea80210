"""Things that are due at a moment. Whatever is settled before leaves nothing behind."""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_LEFT_MAX: Final = 64


class Due(Generic[T]):
    """Things by the tick in which they are due, found in the order of ticks; those of one tick in any order."""

    def __init__(self) -> None:
        self._at: dict[int, dict[T, None]] = {}
        self._ticks: list[int] = []
        """A heap. A tick in which nothing is due any more stays until it comes up, or such are too many."""

    def add(self, tick: int, thing: T) -> None:
        things = self._at.get(tick)
        if things is None:
            things = self._at[tick] = {}
            if len(self._ticks) > 2 * len(self._at) + _LEFT_MAX:
                self._ticks = list(self._at)
                heapq.heapify(self._ticks)
            else:
                heapq.heappush(self._ticks, tick)
        things[thing] = None

    def discard(self, tick: int, thing: T) -> None:
        """It is not due any more, if it was in that tick."""
        things = self._at.get(tick)
        if things is not None:
            things.pop(thing, None)
            if not things:
                del self._at[tick]

    def has_any(self, now: int) -> bool:
        """Something is due by now."""
        while self._ticks and self._ticks[0] not in self._at:
            heapq.heappop(self._ticks)
        return bool(self._ticks) and self._ticks[0] <= now

    def next(self, now: int) -> T | None:
        """One that is due by now, and counts no more; None if nothing is."""
        if not self.has_any(now):
            return None
        tick = self._ticks[0]
        thing, _ = self._at[tick].popitem()
        if not self._at[tick]:
            del self._at[tick]
        return thing
