"""Waiting on a clock that may be a test's, and tasks that have an owner."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from rocketline.clock import Clock
from rocketline.errors import ClosedError
from rocketline.logs import Log

_log = Log(__name__)
Result = TypeVar("Result")


class Stoppable(Protocol):
    """Something under way that can be ended."""

    def cancel(self) -> object: ...


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop of this thread; None if it runs none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Alarm:
    """A call that is due at some time. Made by `Timers.call_later`."""

    __slots__ = ("action", "is_awaited")

    def __init__(self, action: Callable[[], object] | None, *, is_awaited: bool = False) -> None:
        self.action, self.is_awaited = action, is_awaited

    def ring(self) -> None:
        if self.action is not None:
            self.action()

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
        """No call is made any more. Whoever waits gets `ClosedError`."""
        if self._unlisten is not None:
            self._unlisten()
        if self._wake is not None:
            self._wake.cancel()
        self._loop = self._wake = self._unlisten = None
        for _, _, alarm in self._alarms:
            if alarm.is_awaited:
                alarm.ring()
        self._alarms.clear()

    def call_later(self, delay_s: float, action: Callable[[], object]) -> Alarm:
        """Call `action` on the loop once `delay_s` have passed on the clock. Raises `ClosedError`."""
        return self._set(delay_s, Alarm(action))

    async def sleep(self, delay_s: float) -> None:
        """Wait until `delay_s` have passed on the clock. Raises `ClosedError` if the timers close before."""
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        alarm = self._set(delay_s, Alarm(lambda: _finish(over), is_awaited=True))
        try:
            await over
        finally:
            alarm.cancel()
        self._check_open()

    async def wait_for(self, event: asyncio.Event, timeout_s: float) -> bool:
        """Wait until `event` is set, and say whether it is; not longer than `timeout_s` on the clock."""
        if not event.is_set():
            with suppress(TimeoutError):
                async with self.limit(timeout_s):
                    await event.wait()
        return event.is_set()

    @asynccontextmanager
    async def limit(self, timeout_s: float) -> AsyncIterator[None]:
        """Raise `TimeoutError` if the block takes longer than `timeout_s` on the clock."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as limit:
                alarm = self._set(timeout_s, Alarm(lambda: limit.reschedule(loop.time()), is_awaited=True))
                try:
                    yield
                finally:
                    alarm.cancel()
        except TimeoutError:
            self._check_open()
            raise

    def _set(self, delay_s: float, alarm: Alarm) -> Alarm:
        loop = self._check_open()
        heapq.heappush(self._alarms, (self._clock.monotonic() + delay_s, next(self._count), alarm))
        if self._alarms[0][2] is alarm:
            self._set_wake(loop)
        return alarm

    def _check_open(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise ClosedError("the client is not running, or was closed during a wait")
        return self._loop

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
            # Each in a turn of its own: one that fails keeps none of the others, and one may still be cancelled.
            loop.call_soon(heapq.heappop(self._alarms)[2].ring)
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
