"""Work that nobody waits for, done in steps: the first at once, then one step of one chore in a turn of the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from rocketline.broker.long_work import Steps

T = TypeVar("T")


class Chores:
    """The lines of those that are not done, whose owners take turns: somebody with thousands of chores makes those of
    others wait for one step of his. Each is taken up by something that is bounded itself: a timer, the end of a
    connection, or a request that is answered when it is done. What is left when the broker ends is forgotten."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._lines: dict[object, deque[Steps[None]]] = {}
        """By owner; the first owner's turn is next."""

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def begin(self, steps: Steps[None], owner: object = None) -> None:
        """Do the first step now. Most chores have no other.

        What the same owner, such as a connection, has taken up before is done first. Without one it is its own."""
        owner = steps if owner is None else owner
        if owner not in self._lines and _is_done(steps):
            return
        is_idle = not self._lines
        self._lines.setdefault(owner, deque()).append(steps)
        if is_idle:
            self._call_soon(self._turn)

    def _turn(self) -> None:
        owner, line = next(iter(self._lines.items()))
        is_done = True
        try:
            is_done = _is_done(line[0])
        finally:
            if is_done:
                line.popleft()
            del self._lines[owner]
            if line:
                self._lines[owner] = line
            if self._lines:
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
