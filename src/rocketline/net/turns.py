"""Whose turn it is. Connections whose requests take long wait for each other, so that nobody else waits for them all.

The loop serves every connection that has something to say once in each of its turns. Six that each bring ten
milliseconds of work would make such a turn last sixty; so whoever has had a long one stands in line for the next, and
one of the line goes on in each turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

LONG_S: Final = 0.01
"""A connection that was served for so long has had a long turn."""


class LongTurns:
    """The line of those who had a long turn; each server has one."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called in a turn of the loop in which no other is."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            self._call_next()

    def _call_next(self) -> None:
        """Once others were read and answered: the loop does the one a turn after the other."""
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, loop.call_soon, self._next)

    def _next(self) -> None:
        go_on = self._waiting[0]
        try:
            go_on()
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._call_next()
