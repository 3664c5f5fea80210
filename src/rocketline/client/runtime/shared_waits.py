"""Many who wait for one thing: it is done once, and each waits its own time for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from rocketline.client.scheduling import Alarm
from rocketline.clock import Clock
from rocketline.errors import ClosedError, RocketlineError, one_more


class _Timing(Protocol):
    """What a runtime has of it."""

    @property
    def clock(self) -> Clock: ...

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]: ...

    def call_later(self, delay_s: float, action: Callable[[], object]) -> Alarm: ...


class _Waiters:
    """Callers that wait for one thing. One alarm, for the first whose time will be over, serves them all."""

    __slots__ = ("_alarm", "_due_s", "_timing", "_waiting")

    def __init__(self, timing: _Timing) -> None:
        self._timing = timing
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []
        self._alarm: Alarm | None = None
        self._due_s = math.inf

    def add(self, waiter: asyncio.Future[None], timeout_s: float) -> None:
        due_s = self._timing.clock.monotonic() + timeout_s
        self._waiting.append((due_s, waiter))
        if due_s < self._due_s:
            self._set_alarm(due_s, timeout_s)

    def _set_alarm(self, due_s: float, delay_s: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._due_s, self._alarm = due_s, self._timing.call_later(delay_s, self._look)

    def _look(self) -> None:
        now_s = self._timing.clock.monotonic()
        for due_s, waiter in self._waiting:
            if due_s <= now_s:
                _tell(waiter, TimeoutError())
        self._waiting = [entry for entry in self._waiting if not entry[1].done()]
        self._due_s = math.inf
        if self._waiting:
            due_s = min(due_s for due_s, _ in self._waiting)
            self._set_alarm(due_s, due_s - now_s)

    def tell(self, problem: Exception | None) -> None:
        """What they wait for is over."""
        if self._alarm is not None:
            self._alarm.cancel()
        for _, waiter in self._waiting:
            _tell(waiter, one_more(problem) if isinstance(problem, RocketlineError) else problem)


class SharedWaits:
    """What is being done, by name, and who waits for it. On one loop.

    A caller costs a future, and no task and no timer: thousands may begin with the same first question.
    """

    def __init__(self, timing: _Timing) -> None:
        self._timing = timing
        self._waiting: dict[str, _Waiters] = {}

    def wait(
        self, name: str, work: Callable[[], Coroutine[Any, Any, object]], timeout_s: float
    ) -> asyncio.Future[None]:
        """Done when `work` is, which begins now unless it is under way under this name.

        Raises the error that it ends with, a copy for each who waits, `TimeoutError` when the caller's own time is
        over, and `ClosedError` if its owner ends it.
        """
        waiters = self._waiting.get(name)
        if waiters is None:
            waiters = self._waiting[name] = _Waiters(self._timing)
            self._timing.spawn(self._do(name, work, waiters), name=name)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.add(done, timeout_s)
        return done

    async def _do(self, name: str, work: Callable[[], Coroutine[Any, Any, object]], waiters: _Waiters) -> None:
        problem: Exception | None = ClosedError(f"the client was closed while it was to {name}")
        try:
            await work()
            problem = None
        except Exception as error:
            problem = error
            if not isinstance(error, RocketlineError):
                raise  # a fault of ours, which is logged as well
        finally:
            del self._waiting[name]
            waiters.tell(problem)


def _tell(waiter: asyncio.Future[None], problem: Exception | None) -> None:
    if waiter.done():
        return
    if problem is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(problem)
