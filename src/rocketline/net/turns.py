"""Whose turn it is. Connections whose requests take long wait for each other, so that nobody else waits for them all.

The loop serves every connection that has something to say once in each of its turns. Six that each bring ten
milliseconds of work would make such a turn last sixty; so whoever has had a long one stands in line for the next, one
of the line goes on at a time, and between two of them everybody else is read, stored and answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

LONG_S: Final = 0.01
"""A connection that was served for so long has had a long turn."""
PAUSE_S: Final = 0.001
"""Between two long turns. A request is read in one turn of the loop, stored in the next and answered in a third, and
there may be more of them: time is what lets all of them go by, however many there are."""


class LongTurns:
    """The line of those who had a long turn; each server has one."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called when those before it were, and others have had time to be served."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            self._call_next()

    def _call_next(self) -> None:
        asyncio.get_running_loop().call_later(PAUSE_S, self._next)

    def _next(self) -> None:
        go_on = self._waiting[0]
        try:
            go_on()
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._call_next()
