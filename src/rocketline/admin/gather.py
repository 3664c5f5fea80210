"""Several brokers asked at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from rocketline.errors import RocketlineError

T = TypeVar("T")


async def settled(work: Iterable[Coroutine[Any, Any, T]]) -> list[T | RocketlineError]:
    """The result of each, in order; the error itself where one failed."""

    async def result(each: Coroutine[Any, Any, T]) -> T | RocketlineError:
        try:
            return await each
        except RocketlineError as error:
            return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(result(each)) for each in work]
    return [task.result() for task in tasks]


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The result of each, in order. Raises the first failure, after all have ended."""
    results: list[T] = []
    for result in await settled(work):
        if isinstance(result, RocketlineError):
            raise result
        results.append(result)
    return results
