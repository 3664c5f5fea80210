"""A door from blocking code to an event loop that runs in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from rocketline.errors import CallTimeoutError, ClientError, ClosedError, ForkedError
from rocketline.net.loop import loop_factory

Result = TypeVar("Result")
_JOIN_S: Final = 5.0
"""How long closing waits for the thread; tasks that were cancelled take part of it."""
CTRL_C_S: Final = 0.5
"""No wait for whatever may never come is longer at a time: a signal that arrives just before a thread falls asleep on
a lock does not wake it, and Python looks at it only after the sleep."""


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
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._is_closed = False

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
        try:
            if self.is_inside:
                raise ClientError(f"{self._thing}: a blocking call on the loop's own thread would wait for itself")
            waiting = asyncio.run_coroutine_threadsafe(work, self.loop)
        except BaseException:
            work.close()  # it will never run; unclosed it would warn of that
            raise
        try:
            return waiting.result(timeout_s)
        except concurrent.futures.CancelledError:
            raise ClosedError(f"{self._thing} was closed during the call") from None
        except TimeoutError:
            if waiting.done():
                raise  # the work's own
            raise CallTimeoutError(self._thing, timeout_s or 0.0) from None
        finally:
            waiting.cancel()

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
        if not self.is_inside:
            thread.join(_JOIN_S)

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
