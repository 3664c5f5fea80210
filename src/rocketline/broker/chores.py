"""Work that nobody waits for, done in steps: the first at once, then one step of one chore in a turn of the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from rocketline.broker.long_work import Steps

T = TypeVar("T")


class Chores:
    """The line of those that are not done. Each is taken up by something that is bounded itself: a timer, or the end of
    a connection. What is left when the broker ends is forgotten."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._line: deque[Steps[None]] = deque()

    def __len__(self) -> int:
        return len(self._line)

    def begin(self, steps: Steps[None]) -> None:
        """Do the first step now. Most chores have no other."""
        if _is_done(steps):
            return
        self._line.append(steps)
        if len(self._line) == 1:
            self._call_soon(self._turn)

    def _turn(self) -> None:
        steps = self._line.popleft()
        try:
            if not _is_done(steps):
                self._line.append(steps)
        finally:
            if self._line:
                self._call_soon(self._turn)


def _is_done(steps: Steps[None]) -> bool:
    try:
        next(steps)
    except StopIteration:
        return True
    return False


async def in_turns(steps: Steps[T]) -> T:
    """What the steps lead to, one in each turn of the loop: for a task that waits for it."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        await asyncio.sleep(0)
