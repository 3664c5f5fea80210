"""How much is done in one go, counted in calls: the same on every machine, and however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Effort:
    """Calls of functions, Python's and the interpreter's own, since it was begun or `taken`."""

    def __init__(self) -> None:
        self._calls = 0

    def taken(self) -> int:
        """How many since the last time."""
        calls, self._calls = self._calls, 0
        return calls

    def _count(self, frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self._calls += 1

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Calls of this thread in the block count."""
        before = sys.getprofile()
        sys.setprofile(self._count)
        try:
            yield
        finally:
            sys.setprofile(before)


def calls_of(action: Callable[[], object]) -> int:
    """That one action makes."""
    effort = Effort()
    with effort.measured():
        action()
    return effort.taken()


def calls_by_step(steps: Generator[None, None, T]) -> tuple[T, list[int]]:
    """What the steps lead to, and how many calls each of them made."""
    efforts: list[int] = []
    effort = Effort()
    while True:
        try:
            with effort.measured():
                next(steps)
        except StopIteration as done:
            result: T = done.value
            return result, [*efforts, effort.taken()]
        efforts.append(effort.taken())
