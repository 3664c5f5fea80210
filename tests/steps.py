"""Work in steps, done to its end."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def finished(work: Generator[None, None, Result]) -> Result:
    """What it comes to."""
    return counted(work)[0]


def counted(work: Generator[None, None, Result]) -> tuple[Result, int]:
    """What it comes to, and after how many steps."""
    steps = 1
    try:
        while True:
            next(work)
            steps += 1
    except StopIteration as end:
        return end.value, steps
