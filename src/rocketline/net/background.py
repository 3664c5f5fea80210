"""Work that nobody waits for: tasks, and what comes round again and again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVarTuple

Arguments = TypeVarTuple("Arguments")


class Background:
    """Starts tasks that end with their owner, who uses it as `async with` and makes sure that none of them raises.

    At most `tasks_max` run at once; one more is not started. Whoever leaves that out bounds their number otherwise.
    """

    def __init__(self, tasks_max: int = sys.maxsize) -> None:
        self._tasks_max = tasks_max
        self._group = asyncio.TaskGroup()
        self._running: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        """How many run."""
        return len(self._running)

    async def __aenter__(self) -> Background:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Cancel what runs. What happened in the `async with` is none of the group's business."""
        self._is_closed = True
        for task in self._running:
            task.cancel()
        await self._group.__aexit__(None, None, None)

    def start(self, work: Callable[[*Arguments], Coroutine[Any, Any, None]], *arguments: *Arguments) -> bool:
        """Start `work(*arguments)`, or drop it if the owner has ended. False if too many run already."""
        if self._is_closed:
            return True
        if len(self._running) >= self._tasks_max:
            return False
        task = self._group.create_task(work(*arguments))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return True


class Timer:
    """Calls `action` after `first_s` and then every `period_s`, until cancelled."""

    def __init__(self, action: Callable[[], object], *, first_s: float, period_s: float) -> None:
        self._action, self._period_s = action, period_s
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(first_s, self._tick)

    def _tick(self) -> None:
        # Before the action: should that fail, which the loop logs, the next time comes all the same.
        self._handle = self._loop.call_later(self._period_s, self._tick)
        self._action()

    def cancel(self) -> None:
        self._handle.cancel()
