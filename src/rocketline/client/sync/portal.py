"""A door from blocking code to an event loop that runs in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from rocketline.errors import CallTimeoutError, ClientError, ClosedError, ForkedError
from rocketline.net.loop import loop_factory

Result = TypeVar("Result")
_JOIN_S: Final = 5.0
"""How long closing waits for the thread; tasks that were cancelled take part of it."""
CTRL_C_S: Final = 0.5
"""No wait for whatever may never come is longer at a time: a signal that arrives just before a thread falls asleep on
a lock does not wake it, and Python looks at it only after the sleep."""


class _Call(Generic[Result]):
    """Work that a thread waits for, by a plain lock that the loop opens when it is done.

    A future has a lock of its own, which the waiting thread holds at times. A signal's handler that runs just then, and
    has the loop do something else, would wait for a loop that waits for this lock.
    """

    __slots__ = ("_done", "_task", "_work", "is_done")

    def __init__(self, work: Coroutine[Any, Any, Result]) -> None:
        self._work: Coroutine[Any, Any, Result] | None = work
        self._task: asyncio.Task[Result] | None = None
        self._done = threading.Lock()
        self._done.acquire()
        self.is_done = False

    def begin(self) -> None:
        """On the loop, as `cancel` is."""
        work, self._work = self._work, None
        if work is not None:
            self._task = asyncio.get_running_loop().create_task(work)
            self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Result]) -> None:
        self.is_done = True
        self._done.release()

    def cancel(self) -> None:
        self.give_up()
        if self._task is not None:
            self._task.cancel()

    def give_up(self) -> None:
        """If it was not begun, it never will be."""
        work, self._work = self._work, None
        if work is not None:
            work.close()

    def wait(self, timeout_s: float) -> bool:
        """Whether it is done by then. Handlers of signals may run meanwhile, and do whatever they like."""
        return self.is_done or self._done.acquire(timeout=timeout_s)

    def result(self) -> Result:
        """Raises what the work raised, and `CancelledError` if it was ended, or never begun."""
        if self._task is None or not self._task.done():
            raise asyncio.CancelledError
        return self._task.result()


class Portal:
    """A loop in a daemon thread, started by the first call and ended by `close` or with the process.

    >>> async def answer() -> int:
    ...     return 42
    >>> with Portal("doors") as portal:
    ...     portal.call(answer())
    42
    """

    def __init__(self, thing: str) -> None:
        """`thing` is what errors call it: the client that it belongs to."""
        self._thing = thing
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal's handler may close what is being started or closed
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._is_closed = False
        self._joining = 0
        """The thread that waits for the end of ours, 0 if none does."""

    def __enter__(self) -> Portal:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, started if it was not. Raises `ClosedError` or `ForkedError`."""
        loop = self._loop
        if loop is None or self._is_closed or os.getpid() != self._pid:
            loop = self._start()
        return loop

    @property
    def is_started(self) -> bool:
        """There is a loop, or was."""
        return self._loop is not None

    @property
    def is_open(self) -> bool:
        """There is a loop that works can be run on, from here and now."""
        return self.is_started and not self._is_closed and os.getpid() == self._pid

    @property
    def is_inside(self) -> bool:
        """This is the loop's own thread, from which `call` would wait for itself."""
        return self._thread is threading.current_thread()

    def call(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Run `work` on the loop and wait for what it returns or raises.

        Raises `CallTimeoutError` if it takes longer than `timeout_s`; then, and if the waiting thread is interrupted,
        `work` is cancelled. Raises `ClosedError` if the portal closes meanwhile.
        """
        call = _Call(work)
        try:
            if self.is_inside:
                raise ClientError(f"{self._thing}: a blocking call on the loop's own thread would wait for itself")
            loop = self.loop
            loop.call_soon_threadsafe(call.begin)
        except BaseException:
            work.close()  # it will never run; unclosed it would warn of that
            raise
        try:
            self._wait(call, timeout_s)
        finally:
            if not call.is_done:
                with suppress(RuntimeError):  # what a loop that was closed gives
                    loop.call_soon_threadsafe(call.cancel)
        try:
            return call.result()
        except asyncio.CancelledError:
            raise ClosedError(f"{self._thing} was closed during the call") from None

    def _wait(self, call: _Call[Any], timeout_s: float | None) -> None:
        end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not call.wait(min(max(end_s - time.monotonic(), 0.0), CTRL_C_S)):
            if time.monotonic() >= end_s:
                raise CallTimeoutError(self._thing, timeout_s or 0.0)
            if self._thread is None or not self._thread.is_alive():
                call.give_up()
                return

    def call_closing(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`, which closes something on the loop, and wait for it. Where no loop is, and so nothing that lives
        there, nothing is to do: it was never started, was closed before, or a fork left it in the parent."""
        if not self.is_started:
            work.close()
            return
        with suppress(ClosedError, ForkedError):
            self.call(work)

    def post(self, action: Callable[..., object], *arguments: object) -> None:
        """Call `action` on the loop, soon. Nobody waits for it; after `close` it is dropped. Raises `ForkedError`."""
        self.check_process()
        with suppress(ClosedError, RuntimeError):  # the latter is what a loop that was just closed gives
            self.loop.call_soon_threadsafe(action, *arguments)

    def check_process(self, thing: str = "") -> None:
        """Raise `ForkedError`, of a `thing` that needs the loop, in a forked child, where no loop runs and nothing
        would ever come of waiting."""
        if os.getpid() != self._pid:
            raise ForkedError(thing or self._thing)

    def close(self) -> None:
        """Cancel what runs, end the thread and wait for it. Closing again, or in a forked child, does nothing."""
        if os.getpid() != self._pid:
            return  # the thread stayed in the parent, and the lock may have been held there
        with self._lock:
            self._is_closed = True
            thread, loop, end = self._thread, self._loop, self._end
        if thread is None or loop is None or end is None:
            return
        with suppress(RuntimeError):  # it was closed before
            loop.call_soon_threadsafe(end.set)
        me = threading.get_ident()
        if not self.is_inside and self._joining != me:  # else this is a signal's handler, and who it stopped joins
            self._joining = me
            thread.join(_JOIN_S)
            self._joining = 0

    def _start(self) -> asyncio.AbstractEventLoop:
        self.check_process()
        with self._lock:
            if self._is_closed:
                raise ClosedError(f"{self._thing} is closed: make a new one")
            if self._loop is None:
                started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
                self._thread = threading.Thread(
                    target=self._run, args=(started,), name=f"{self._thing} loop", daemon=True
                )
                self._thread.start()
                self._loop = started.result()
                atexit.register(_close_at_exit, weakref.ref(self))
            if not self.is_open:  # closed by a signal's handler, just now
                self.close()
                raise ClosedError(f"{self._thing} is closed: make a new one")
            return self._loop

    def _run(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        try:
            runner = asyncio.Runner(loop_factory=loop_factory(os.environ))
            runner.get_loop()
        except BaseException as error:  # noqa: BLE001  # whoever waits for the start gets it
            started.set_exception(error)
            return
        with runner:  # its end cancels the tasks that are left, and waits for them
            runner.run(self._serve(started))

    async def _serve(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        self._end = end = asyncio.Event()
        started.set_result(asyncio.get_running_loop())
        await end.wait()


def _close_at_exit(portal: weakref.ref[Portal]) -> None:
    """A loop that is still running when the interpreter goes away complains about its tasks."""
    still_there = portal()
    if still_there is not None:
        still_there.close()
