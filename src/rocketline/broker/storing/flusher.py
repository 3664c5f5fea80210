"""Brings what the store has written to disk, and tells those who wait for it. Java: GroupCommitService and its kin.

With SYNC_FLUSH a flush begins as soon as something is written and no other runs; everything written until it begins
is durable when it ends, and answered in one go. With ASYNC_FLUSH it happens twice a second. One thread waits for the
log, another for what has time: queues, checkpoint, space for the messages to come, files to be deleted.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from rocketline.clock import Clock
from rocketline.logs import Log
from rocketline.net.background import Timer
from rocketline.store.config import StoreConfig
from rocketline.store.index.key_hashes import load_numpy
from rocketline.store.log.commit_log import FlushJob
from rocketline.store.log.log_space import SpaceJob
from rocketline.store.message_store import MessageStore
from rocketline.store.queue_flush import QueueFlushJob
from rocketline.store.store_hooks import StoreHooks

_log = Log(__name__)

_PAGE_BYTES: Final = 4096
_NUMPY_AFTER_S: Final = 0.5
"""A thread that imports it takes turns with the loop, which has enough to do when the broker starts."""
_CLEAN_FIRST_S: Final = 60.0
_DEADLINE_CHECK_S: Final = 0.1
_NO_SPACE_S: Final = 1.0
"""Pause before an index that found no room on the disk is tried again."""
_CATCH_UP_EFFORT: Final = 4096
"""What one turn of the loop adds to an index that is being rebuilt, a hundred records with their keys or a part of one
with thousands: a few milliseconds."""

_RELEASED_A_TURN: Final = 256
"""Messages whose senders are told in one turn of the loop: five milliseconds. A disk that stands still for a second
lets ten thousand go at once."""
_LOOK_QUEUES: Final = 20
"""Queues that one turn of the loop compares with the log: a few milliseconds as well."""


class Flushed(Enum):
    """How waiting for a flush ended."""

    OK = auto()
    TIMEOUT = auto()
    """The message is written, and no more can be said of it."""
    FAILED = auto()
    """The store is read-only now, and the message must count as lost."""


_Writing: TypeAlias = "Generator[None, None, QueueFlushJob | None]"


class _Waiter(NamedTuple):
    end: int
    deadline_s: float
    done: Callable[[Flushed], None]
    messages: int


class Flusher:
    """The store's clockwork. Use it as `async with`, inside the life of the store, which is connected to
    its `hooks`."""

    def __init__(self, store: MessageStore, config: Callable[[], StoreConfig], clock: Clock) -> None:
        self._store, self._config, self._clock = store, config, clock
        self._waiters: deque[_Waiter] = deque()
        self._waiting = 0
        self._log_thread = ThreadPoolExecutor(1, "flush-log")
        self._slow_thread = ThreadPoolExecutor(1, "flush-queues")
        self._running: asyncio.Future[None] | None = None
        self._running_queues: asyncio.Future[None] | None = None
        self._reserving: asyncio.Future[None] | None = None
        self._unlinking: asyncio.Future[None] | None = None
        self._sweeping: asyncio.Future[None] | None = None
        self._timers: list[Timer] = []
        self._next_step: asyncio.TimerHandle | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._next_write: asyncio.TimerHandle | None = None
        self._next_release: asyncio.Handle | None = None
        self._next_cleaning: asyncio.TimerHandle | None = None
        self._loading: asyncio.TimerHandle | None = None
        self._thorough_s = self._queues_thorough_s = clock.monotonic()
        self._is_closing = False

    async def __aenter__(self) -> Flusher:
        config = self._config()
        periods = [(config.flush_interval_consume_queue, self._write_behind)]
        if self._store.is_sync:
            periods.append((int(_DEADLINE_CHECK_S * 1000), self._check_deadlines))
        else:
            periods.append((config.flush_interval_commit_log, self._flush_if_due))
        self._timers = [Timer(action, first_s=ms / 1000, period_s=ms / 1000) for ms, action in periods]
        self._timers.append(Timer(self._clean, first_s=_CLEAN_FIRST_S, period_s=config.clean_resource_interval / 1000))
        loop = asyncio.get_running_loop()
        self._loading = loop.call_later(_NUMPY_AFTER_S, self._slow_thread.submit, load_numpy)
        self._catch_up()
        self._look_on()
        self._reserve()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Finish the running syncs; what is still to be flushed the store does when it closes."""
        self._is_closing = True
        for timer in self._timers:
            timer.cancel()
        for handle in (self._next_step, self._next_look, self._next_write, self._next_cleaning, self._loading):
            if handle is not None:
                handle.cancel()
        for running in (self._running, self._running_queues, self._reserving, self._unlinking, self._sweeping):
            if running is not None:
                await asyncio.wait([running])
        self._log_thread.shutdown()
        self._slow_thread.shutdown()
        self._release_all()

    @property
    def hooks(self) -> StoreHooks:
        """What the store has to tell it."""
        return StoreHooks(
            on_written=self.flush,
            on_low=self._reserve_soon,
            on_behind=self._catch_up_soon,
            on_broken=self._look_soon,
        )

    @property
    def waiting(self) -> int:
        """How many messages wait for a flush."""
        return self._waiting

    def wait(self, end: int, done: Callable[[Flushed], None], messages: int = 1) -> None:
        """Call `done` once the log is durable up to `end`, or it is clear that it will not be in time."""
        if self._store.problem is not None:
            done(Flushed.FAILED)
            return
        if end <= self._store.flushed_log_offset:
            done(Flushed.OK)
            return
        deadline_s = self._clock.monotonic() + self._config().sync_flush_timeout / 1000
        self._waiters.append(_Waiter(end, deadline_s, done, messages))
        self._waiting += messages

    async def drain(self) -> None:
        """Return once nobody waits any more, or the store takes nothing."""
        while self._waiters:
            if self._is_durable(self._waiters[0]):
                self._release(Flushed.OK)
                continue
            self.flush()
            if self._running is None:
                return
            await asyncio.wait([self._running])

    def flush(self) -> None:
        """Begin a flush unless one runs, which then begins the next when it ends."""
        if self._running is not None or self._is_closing:
            return
        job = self._store.begin_flush()
        if job is not None:
            self._running = asyncio.get_running_loop().run_in_executor(self._log_thread, job.run)
            self._running.add_done_callback(partial(self._flushed, job))

    def _flushed(self, job: FlushJob, running: asyncio.Future[None]) -> None:
        self._running = None
        self._store.finish_flush(job, _error(running))
        if self._store.problem is not None:
            self._release_all()
            return
        if self._next_release is None:
            self._release_durable()
        if self._store.is_sync:
            # Group commit: two turns of the loop later, so that requests that are readable already join this fsync,
            # which costs as much as many messages.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self.flush)

    def _release_durable(self) -> None:
        """Tell those who waited for what is flushed by now, some in this turn of the loop."""
        self._next_release, left = None, _RELEASED_A_TURN
        while self._waiters and self._is_durable(self._waiters[0]):
            if left <= 0:
                self._next_release = asyncio.get_running_loop().call_soon(self._release_durable)
                return
            left -= max(self._waiters[0].messages, 1)
            self._release(Flushed.OK)

    def _is_durable(self, waiter: _Waiter) -> bool:
        return waiter.end <= self._store.flushed_log_offset

    def _release_all(self) -> None:
        while self._waiters:
            self._release(Flushed.FAILED)

    def _release(self, flushed: Flushed) -> None:
        """Tell the first one that; or that all is well, if it is."""
        waiter = self._waiters.popleft()
        self._waiting -= waiter.messages
        waiter.done(Flushed.OK if self._is_durable(waiter) else flushed)

    # --- what the timers call

    def _check_deadlines(self) -> None:
        """Answer those who wait for too long; and flush what nobody waits for."""
        now_s = self._clock.monotonic()
        while self._waiters and self._waiters[0].deadline_s <= now_s:
            self._release(Flushed.TIMEOUT)
        self.flush()

    def _flush_if_due(self) -> None:
        config, now_s = self._config(), self._clock.monotonic()
        is_thorough = now_s >= self._thorough_s + config.flush_commit_log_thorough_interval / 1000
        behind = self._store.max_log_offset - self._store.flushed_log_offset
        if is_thorough or behind >= config.flush_commit_log_least_pages * _PAGE_BYTES:
            self._thorough_s = now_s if is_thorough else self._thorough_s
            self.flush()

    def _write_behind(self) -> None:
        """Begin to write what queues and index have in memory, unless that is under way: there may be new units in
        thousands of queues."""
        if self._next_write is not None:
            return
        if self._running_queues is not None or self._store.problem is not None:
            self._write_on(_without_flush(self._store.writing_behind()))
            return
        config, now_s = self._config(), self._clock.monotonic()
        is_thorough = now_s >= self._queues_thorough_s + config.flush_consume_queue_thorough_interval / 1000
        if is_thorough:
            self._queues_thorough_s = now_s
        self._write_on(self._store.beginning_queue_flush(is_thorough=is_thorough))

    def _write_on(self, writing: _Writing) -> None:
        """A step, and as long a pause after it for everybody else; then the sync in a thread."""
        self._next_write = None
        begin_s = self._clock.monotonic()
        try:
            next(writing)
        except StopIteration as done:
            self._flush_queues(done.value)
        else:
            pause_s = self._clock.monotonic() - begin_s
            self._next_write = asyncio.get_running_loop().call_later(pause_s, self._write_on, writing)

    def _flush_queues(self, job: QueueFlushJob | None) -> None:
        if job is not None and self._store.problem is None:
            self._running_queues = asyncio.get_running_loop().run_in_executor(self._slow_thread, job.run)
            self._running_queues.add_done_callback(partial(self._queues_flushed, job))

    def _queues_flushed(self, job: QueueFlushJob, running: asyncio.Future[None]) -> None:
        self._running_queues = None
        self._store.finish_queue_flush(job, _error(running))

    def _reserve_soon(self) -> None:
        """Not at once: it is told in the midst of an append, which nothing here may break."""
        if not self._is_closing:
            asyncio.get_running_loop().call_soon(self._reserve)

    def _reserve(self) -> None:
        """Make space for the log ahead, as long as some is due, and the next file of the log."""
        if self._reserving is not None or self._is_closing:
            return
        job = self._store.begin_space()
        if job is None:
            return
        try:
            self._reserving = asyncio.get_running_loop().run_in_executor(self._slow_thread, job.run)
        except RuntimeError as error:  # the thread has not been needed before, and the system has none left
            self._store.finish_space(job, OSError(errno.EAGAIN, str(error)))
        else:
            self._reserving.add_done_callback(partial(self._reserved, job))

    def _reserved(self, job: SpaceJob, running: asyncio.Future[None]) -> None:
        self._reserving = None
        self._store.finish_space(job, _error(running))
        self._reserve()

    def _clean(self) -> None:
        """Delete what has expired. Unlinking a gigabyte takes its time, so a thread does it; should the process end
        before, the files are found and deleted again."""
        self._reserve()  # there was perhaps no space to spare when it was due
        self._sweep()
        if self._next_look is None and self._store.retry_looks():
            self._look_on()
        unused = self._store.drop_expired()
        if self._next_cleaning is None:
            self._clean_on(self._store.cleaning())
        if unused and self._unlinking is None:
            loop = asyncio.get_running_loop()
            self._unlinking = loop.run_in_executor(self._slow_thread, self._store.unlink, unused)
            self._unlinking.add_done_callback(self._unlinked)

    def _clean_on(self, cleaning: Iterator[None]) -> None:
        """Let queues and index forget what went with the log, in steps as well."""
        self._next_cleaning = None
        begin_s = self._clock.monotonic()
        try:
            next(cleaning)
        except StopIteration:
            return
        pause_s = self._clock.monotonic() - begin_s
        self._next_cleaning = asyncio.get_running_loop().call_later(pause_s, self._clean_on, cleaning)

    def _unlinked(self, running: asyncio.Future[None]) -> None:
        self._unlinking = None
        if (error := _error(running)) is not None:
            _log.warning("old files of the log cannot be deleted", problem=str(error))

    def _sweep(self) -> None:
        """Delete what deleted topics left behind. The thread has other things to do between two parts of it."""
        job = None if self._sweeping is not None or self._is_closing else self._store.begin_sweep()
        if job is not None:
            self._sweeping = asyncio.get_running_loop().run_in_executor(self._slow_thread, job.run)
            self._sweeping.add_done_callback(self._swept)

    def _swept(self, running: asyncio.Future[None]) -> None:
        self._sweeping = None
        if (error := _error(running)) is None:
            self._sweep()
        else:
            _log.warning("what deleted topics left behind cannot be deleted", problem=str(error))

    def _catch_up(self) -> None:
        """Go on rebuilding the index, in small steps and with as long a pause after each for everybody else."""
        self._next_step = None
        begin_s = self._clock.monotonic()
        if not self._is_closing and self._store.catch_up(_CATCH_UP_EFFORT):
            pause_s = self._clock.monotonic() - begin_s if self._store.shortage is None else _NO_SPACE_S
            self._next_step = asyncio.get_running_loop().call_later(pause_s, self._catch_up)

    def _catch_up_soon(self) -> None:
        """Not at once: the index falls behind in the midst of a dispatch."""
        if self._next_step is None and not self._is_closing:
            self._next_step = asyncio.get_running_loop().call_later(0, self._catch_up)

    def _look_soon(self) -> None:
        """Likewise. What is left to be derived when the broker closes is left to the next start."""
        if self._next_look is None and not self._is_closing:
            self._next_look = asyncio.get_running_loop().call_later(0, self._look_on)

    def _look_on(self) -> None:
        """Go on comparing queues with the log, likewise."""
        self._next_look = None
        begin_s = self._clock.monotonic()
        if not self._is_closing and self._store.look_on(_LOOK_QUEUES):
            loop = asyncio.get_running_loop()
            self._next_look = loop.call_later(self._clock.monotonic() - begin_s, self._look_on)


def _without_flush(steps: Iterator[None]) -> _Writing:
    yield from steps
    return None


def _error(running: asyncio.Future[None]) -> OSError | None:
    """What the job raised; anything but a failure of the disk is a fault of ours and goes to the loop."""
    error = running.exception()
    if error is not None and not isinstance(error, OSError):
        raise error
    return error
