"""Waiting on a clock that may be a test's, and tasks that have an owner."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from rocketline.clock import Clock
from rocketline.errors import ClosedError
from rocketline.logs import Log

_log = Log(__name__)
Result = TypeVar("Result")


class Stoppable(Protocol):
    """Something under way that can be ended."""

    def cancel(self) -> object: ...


class Alarm:
    """A call that is due at some time. Made by `Timers.call_later`."""

    __slots__ = ("action", "due_s")

    def __init__(self, due_s: float, action: Callable[[], object] | None) -> None:
        self.due_s, self.action = due_s, action

    def cancel(self) -> None:
        self.action = None


class Timers:
    """Calls that are due at times of `clock`. They belong to one loop, from `open` to `close`.

    A clock that is turned by hand says so: it has `listen`, and calls whom it was given after each turn. Then whatever
    became due happens in the next turn of the loop, and no real time has to pass.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarms: list[tuple[float, int, Alarm]] = []
        self._resting: set[asyncio.Future[None]] = set()
        self._count = itertools.count()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.TimerHandle | None = None
        self._unlisten: Callable[[], None] | None = None

    def open(self, on_turn: Callable[[], None] | None = None) -> None:
        """Begin on the running loop. `on_turn` is called there whenever the clock was turned by hand."""
        self._loop = loop = asyncio.get_running_loop()
        listen = getattr(self._clock, "listen", None)

        def turned() -> None:
            self._run()
            if on_turn is not None:
                on_turn()

        if listen is not None:
            self._unlisten = listen(lambda: loop.call_soon_threadsafe(turned))

    def close(self) -> None:
        if self._unlisten is not None:
            self._unlisten()
        if self._wake is not None:
            self._wake.cancel()
        self._alarms.clear()
        for over in self._resting:
            if not over.done():
                over.set_exception(ClosedError("the client was closed during a wait"))
        self._loop = self._wake = self._unlisten = None

    def call_later(self, delay_s: float, action: Callable[[], object]) -> Alarm:
        """Call `action` on the loop once `delay_s` have passed on the clock. Raises `ClosedError`."""
        if self._loop is None:
            raise ClosedError("the client is not running")
        alarm = Alarm(self._clock.monotonic() + delay_s, action)
        heapq.heappush(self._alarms, (alarm.due_s, next(self._count), alarm))
        if self._alarms[0][2] is alarm:
            self._set_wake(self._loop)
        return alarm

    async def sleep(self, delay_s: float) -> None:
        """Wait until `delay_s` have passed on the clock. Raises `ClosedError` if the timers close before."""
        if delay_s <= 0:
            await asyncio.sleep(0)
        else:
            await self._rest(asyncio.get_running_loop().create_future(), delay_s)

    async def wait_for(self, event: asyncio.Event, timeout_s: float) -> bool:
        """Wait until `event` is set, and say whether it is; not longer than `timeout_s` on the clock."""
        if not event.is_set():
            loop = asyncio.get_running_loop()
            over: asyncio.Future[None] = loop.create_future()
            waiting = loop.create_task(event.wait())
            waiting.add_done_callback(lambda _: _finish(over))
            try:
                await self._rest(over, timeout_s)
            finally:
                waiting.cancel()
        return event.is_set()

    async def _rest(self, over: asyncio.Future[None], delay_s: float) -> None:
        alarm = self.call_later(delay_s, lambda: _finish(over))
        self._resting.add(over)
        try:
            await over
        finally:
            alarm.cancel()
            self._resting.discard(over)

    def _set_wake(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = loop.call_later(max(self._alarms[0][0] - self._clock.monotonic(), 0.0), self._run)

    def _run(self) -> None:
        """Call what is due. An action that fails is logged by the loop; the others are called all the same."""
        loop, now_s = self._loop, self._clock.monotonic()
        if loop is None:
            return
        while self._alarms and (self._alarms[0][0] <= now_s or self._alarms[0][2].action is None):
            alarm = heapq.heappop(self._alarms)[2]
            if alarm.action is not None:
                loop.call_soon(alarm.action)
        if self._alarms:
            self._set_wake(loop)


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class OwnedTasks:
    """Tasks that end with their owner. What one of them lets escape is a fault of ours, and logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Result], *, name: str) -> asyncio.Task[Result]:
        """Run `work` on this loop until it ends or the owner does."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        if self._is_closed:
            task.cancel()
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task failed", error=error, task=task.get_name())

    async def close(self) -> None:
        """Cancel all and wait for them, but for the task that calls this, should it be one of them."""
        self._is_closed = True
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)


async def repeat(
    timers: Timers, clock: Clock, work: Callable[[], Awaitable[object]], due_s: float, period_s: float, *, name: str
) -> None:
    """Do `work` at `due_s` on the clock and then every `period_s`, without end. A run that fails is logged; one that
    takes longer than the period is followed by the next at once. Java: scheduleAtFixedRate."""
    while True:
        await timers.sleep(due_s - clock.monotonic())
        try:
            await work()
        except Exception as error:  # noqa: BLE001  # the next run may well succeed
            _log.error("periodic task failed", error=error, task=name)
        due_s = max(due_s + period_s, clock.monotonic())
