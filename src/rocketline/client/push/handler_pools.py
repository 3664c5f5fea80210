"""Threads, or tasks, that run an application's callbacks. Jobs are handed over, and come back, many at a time.

A future, a lock or a wake-up for each message would cost more than most callbacks. So the loop appends jobs to a deque
and wakes one worker, and a worker that finds more jobs than its own wakes the next one, never two at a time. While a
callback computes, it holds the interpreter: its worker takes job after job, and the woken one finds nothing left. Once
a callback waits for something, the next worker runs, and wakes another, up to all of them.

Only one thread has the interpreter, and to wake another that must wait for it costs both. So the loop wakes a worker
when it has nothing else to do, and a worker tells the loop what is done when it has nothing else to do, or the loop
was not told for a millisecond. Should the worker's next job take long, the one that is woken then tells it; if all
are at work, each tells at once.

Why no job is forgotten while everybody sleeps, without a lock. A job is appended first, then `_is_waking` is looked at.

- It is False: whoever looked sets it and puts a wake-up, and a worker that gets one looks for jobs.
- It is True: a wake-up is under way. Whoever gets it clears the mark first and looks for jobs then, so later than the
  job was appended.

Two that look at the same time may both put one: the second worker finds nothing, and sleeps again. What is done goes
back the same way: a worker appends to `_done` and then looks at `_is_reporting`, which the loop clears before it looks
at `_done`. Each of these steps is one operation on a deque, a queue or an attribute, which the interpreter does whole.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from queue import SimpleQueue
from typing import Final, Generic, Protocol, TypeVar

Job = TypeVar("Job")

_REPORT_S: Final = 0.001
"""Results wait for so long at most while a worker goes on to further short jobs."""
_TURN_JOBS: Final = 16
"""So many jobs a task runs before it lets others on the loop have a turn, if no callback waits by itself."""


class Pool(Protocol[Job]):
    """Where jobs are run. All methods are for the loop's thread."""

    unfinished: int
    """Jobs that were submitted and neither came back nor were taken back."""

    def start(self) -> None: ...

    def submit(self, jobs: Sequence[Job]) -> None:
        """Run each job once, in any order. Whoever submits bounds their number."""

    def take_back(self) -> list[Job]:
        """The jobs that have not begun, which then never will."""

    def resize(self, size: int) -> None:
        """Run up to `size` jobs at once from now on; what runs already goes on."""

    def is_inside(self) -> bool:
        """The caller is a callback of this pool, which must not wait for the pool's callbacks."""

    async def idle(self) -> None:
        """Wait until no job is unfinished."""

    def close(self) -> None:
        """Begin no further job. Callbacks that run cannot be stopped: their jobs come back if the loop still turns."""


class _Count:
    """How many jobs are out, with a way to wait until none is."""

    def __init__(self) -> None:
        self.unfinished = 0
        self._waiting: list[asyncio.Future[None]] = []

    def _add(self, count: int) -> None:
        self.unfinished += count
        if not self.unfinished and self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def idle(self) -> None:
        """Wait until no job is unfinished."""
        while self.unfinished:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future


class ThreadPool(_Count, Generic[Job]):
    """Runs jobs in threads. They are daemons: a callback that hangs does not keep the process from ending."""

    def __init__(
        self, run: Callable[[Job], None], finished: Callable[[list[Job]], None], *, size: int, name: str
    ) -> None:
        """`run` is called in a thread for each job and must not raise; `finished` on the loop, for many of them."""
        super().__init__()
        self._run, self._finished, self._name = run, finished, name
        self._size, self._started = size, 0
        self._jobs: deque[Job | None] = deque()
        """None ends the thread that takes it."""
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._is_waking = False
        """A wake-up is under way: whoever gets it looks for jobs after it has cleared this, so none is overlooked."""
        self._done: deque[Job] = deque()
        self._is_reporting = False
        """The loop has been told that jobs are done, and has not begun to collect them."""
        self._reported_s = 0.0
        self._sleeping: set[int] = set()
        """Workers who wait to be woken. Any job that is taken while others wait wakes one, if there is one."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: set[int] = set()

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for _ in range(self._size):
            self._start_thread()

    def submit(self, jobs: Sequence[Job]) -> None:
        assert self._loop is not None
        self._add(len(jobs))
        self._jobs.extend(jobs)
        if not self._is_waking:
            self._is_waking = True
            self._loop.call_soon(self._wakes.put, None)  # by then what else has come was looked at

    def take_back(self) -> list[Job]:
        taken: list[Job] = []
        ends = 0
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:
                break
            if job is None:
                ends += 1
            else:
                taken.append(job)
        self._jobs.extend([None] * ends)
        self._add(-len(taken))
        return taken

    def resize(self, size: int) -> None:
        for _ in range(self._size, size):
            self._start_thread()
        for _ in range(size, self._size):
            self._jobs.appendleft(None)
        self._size = size
        self._wake()

    def is_inside(self) -> bool:
        return threading.get_ident() in self._threads

    def close(self) -> None:
        self.take_back()
        self.resize(0)

    def _start_thread(self) -> None:
        self._started += 1
        threading.Thread(target=self._work, name=f"{self._name}_{self._started}", daemon=True).start()

    def _wake(self) -> None:
        if not self._is_waking:
            self._is_waking = True
            self._wakes.put(None)

    def _work(self) -> None:
        identity = threading.get_ident()
        self._threads.add(identity)
        try:
            while self._run_jobs(identity):
                pass
        finally:
            self._threads.discard(identity)

    def _run_jobs(self, identity: int) -> bool:
        """Wait for a wake-up, then run jobs until there are none. False if this thread is to end."""
        jobs, run, done, sleeping = self._jobs, self._run, self._done, self._sleeping
        sleeping.add(identity)
        self._wakes.get()
        sleeping.discard(identity)
        self._is_waking = False
        self._report()
        while True:
            try:
                job = jobs.popleft()
            except IndexError:
                self._report()
                return True
            if jobs:
                self._wake()
            if job is None:
                self._report()
                return False
            run(job)
            done.append(job)
            if not sleeping or time.monotonic() - self._reported_s > _REPORT_S:
                self._report()

    def _report(self) -> None:
        """Tell the loop that jobs are done, unless it knows."""
        if self._done and not self._is_reporting and self._loop is not None:
            self._is_reporting = True
            self._reported_s = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(self._collect)
            except RuntimeError:  # the loop was closed while the callback ran: nobody waits for its result
                self._done.clear()

    def _collect(self) -> None:
        self._is_reporting = False  # before looking: what is done from here on is reported anew
        done, jobs = self._done, []
        while done:
            jobs.append(done.popleft())
        try:
            self._finished(jobs)
        finally:
            self._add(-len(jobs))


class TaskPool(_Count, Generic[Job]):
    """Runs jobs whose callbacks are coroutines, as tasks on the loop."""

    def __init__(
        self,
        run: Callable[[Job], Awaitable[None]],
        finished: Callable[[list[Job]], None],
        spawn: Callable[..., asyncio.Task[None]],
        *,
        size: int,
        name: str,
    ) -> None:
        """`spawn(coroutine, name=…)` starts a task that ends with its owner at the latest."""
        super().__init__()
        self._run, self._finished, self._spawn, self._name = run, finished, spawn, name
        self._size, self._started = size, 0
        self._jobs: deque[Job | None] = deque()
        self._sleepers: deque[asyncio.Future[None]] = deque()
        self._is_waking = False
        """A task has been woken and has not run yet."""
        self._done: list[Job] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        for _ in range(self._size):
            self._start_task()

    def submit(self, jobs: Sequence[Job]) -> None:
        self._add(len(jobs))
        self._jobs.extend(jobs)
        self._wake()

    def take_back(self) -> list[Job]:
        taken = [job for job in self._jobs if job is not None]
        ends = len(self._jobs) - len(taken)
        self._jobs.clear()
        self._jobs.extend([None] * ends)
        self._add(-len(taken))
        return taken

    def resize(self, size: int) -> None:
        for _ in range(self._size, size):
            self._start_task()
        for _ in range(size, self._size):
            self._jobs.appendleft(None)
        self._size = size
        self._wake()

    def is_inside(self) -> bool:
        return asyncio.current_task() in self._tasks

    def close(self) -> None:
        self.take_back()
        self.resize(0)

    def _start_task(self) -> None:
        self._started += 1
        task = self._spawn(self._work(), name=f"{self._name}_{self._started}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _wake(self) -> None:
        while self._sleepers and not self._is_waking:
            sleeper = self._sleepers.popleft()
            if not sleeper.done():
                sleeper.set_result(None)
                self._is_waking = True

    async def _work(self) -> None:
        """Run jobs until one is None, and sleep while there are none."""
        jobs, turn = self._jobs, 0
        while True:
            while not jobs:
                sleeper = asyncio.get_running_loop().create_future()
                self._sleepers.append(sleeper)
                try:
                    await sleeper
                finally:
                    self._is_waking = False
            job = jobs.popleft()
            if jobs:
                self._wake()
            if job is None:
                return
            await self._run(job)
            self._report(job)
            turn += 1
            if turn % _TURN_JOBS == 0:
                await asyncio.sleep(0)

    def _report(self, job: Job) -> None:
        if not self._done:
            asyncio.get_running_loop().call_soon(self._collect)
        self._done.append(job)

    def _collect(self) -> None:
        jobs, self._done = self._done, []
        try:
            self._finished(jobs)
        finally:
            self._add(-len(jobs))
