from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from rocketline.client.push.handler_pools import TaskPool, ThreadPool
from rocketline.client.scheduling import OwnedTasks


@contextmanager
def threads(
    run: Callable[[int], None], finished: Callable[[list[int]], None], size: int = 20
) -> Iterator[ThreadPool[int]]:
    pool = ThreadPool(run, finished, size=size, name="test")
    pool.start()
    yield pool
    pool.close()


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  # threads tell nobody
            await asyncio.sleep(0.001)


async def test_every_job_is_run_once_and_comes_back_once() -> None:
    run: list[int] = []
    back: list[int] = []
    with threads(run.append, back.extend) as pool:
        for start in range(0, 3200, 32):
            pool.submit(range(start, start + 32))
            await asyncio.sleep(0)
        await pool.idle()
    assert sorted(run) == sorted(back) == list(range(3200))
    assert pool.unfinished == 0


async def test_callbacks_that_wait_run_side_by_side_up_to_the_size() -> None:
    gate = threading.Event()
    running: list[int] = []

    def run(job: int) -> None:
        running.append(job)
        gate.wait()

    with threads(run, lambda jobs: None, size=5) as pool:
        pool.submit(range(12))
        await wait_until(lambda: len(running) == 5)
        await asyncio.sleep(0.02)
        assert len(running) == 5
        gate.set()
        await pool.idle()
    assert len(running) == 12


@pytest.mark.parametrize("size", [1, 2, 3, 20])
async def test_short_jobs_come_back_though_long_ones_follow_in_the_same_thread(size: int) -> None:
    for turn in range(30):
        await _run_short_and_long(size, turn)


async def _run_short_and_long(size: int, turn: int) -> None:
    gate = threading.Event()
    back: set[int] = set()
    short, long = turn % 5 + 1, turn % size + 1

    def run(job: int) -> None:
        if job >= 100:
            gate.wait()
        else:
            time.sleep(0.0001)  # the loop collects what is done until here

    with threads(run, back.update, size=size) as pool:
        pool.submit(range(short))
        if turn % 2:
            await asyncio.sleep(0)
        pool.submit(range(100, 100 + long))
        await wait_until(lambda: back == set(range(short)))
        gate.set()
        await pool.idle()


async def test_a_job_that_is_done_comes_back_while_others_still_run() -> None:
    gate = threading.Event()
    back: list[int] = []

    def run(job: int) -> None:
        if job:
            gate.wait()

    with threads(run, back.extend, size=2) as pool:
        pool.submit([0, 1])
        await wait_until(lambda: back == [0])
        gate.set()
        await pool.idle()


async def test_quick_jobs_come_back_in_bulk() -> None:
    bulks: list[int] = []
    with threads(lambda job: None, lambda jobs: bulks.append(len(jobs))) as pool:
        pool.submit(range(1000))
        await pool.idle()
    assert sum(bulks) == 1000
    assert len(bulks) < 500


async def test_jobs_that_have_not_begun_can_be_taken_back() -> None:
    gate = threading.Event()
    run: list[int] = []

    def wait(job: int) -> None:
        run.append(job)
        gate.wait()

    with threads(wait, lambda jobs: None, size=1) as pool:
        pool.submit(range(10))
        await wait_until(lambda: run == [0])
        assert pool.take_back() == list(range(1, 10))
        assert pool.unfinished == 1
        gate.set()
        await pool.idle()
    assert run == [0]


@pytest.mark.parametrize("size", [1, 7])
async def test_a_pool_grows_and_shrinks_while_it_works(size: int) -> None:
    gate = threading.Event()
    running: list[int] = []

    def run(job: int) -> None:
        running.append(job)
        gate.wait()

    with threads(run, lambda jobs: None, size=3) as pool:
        pool.resize(size)
        await wait_until(lambda: threads_of("test") == size)
        pool.submit(range(20))
        await wait_until(lambda: len(running) == size)
        await asyncio.sleep(0.02)
        assert len(running) == size
        gate.set()
        await pool.idle()


async def test_a_closed_pool_has_no_threads() -> None:
    with threads(lambda job: None, lambda jobs: None, size=4) as pool:
        pool.submit(range(100))
        await pool.idle()
        pool.resize(2)
    await wait_until(lambda: threads_of("test") == 0)


async def test_a_callback_knows_that_it_is_inside() -> None:
    inside: list[bool] = []
    with threads(lambda job: inside.append(pool.is_inside()), lambda jobs: None) as pool:
        assert not pool.is_inside()
        pool.submit([1])
        await pool.idle()
    assert inside == [True]


def test_a_result_that_comes_after_the_loop_was_closed_is_dropped() -> None:
    gate = threading.Event()
    running: list[int] = []
    back: list[int] = []

    def run(job: int) -> None:
        running.append(job)
        gate.wait()

    async def main() -> None:
        pool = ThreadPool(run, back.extend, size=1, name="late")
        pool.start()
        pool.submit([1])
        await wait_until(lambda: running == [1])
        pool.close()

    asyncio.run(main())
    gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("late_"):
            thread.join(10)
    assert threads_of("late") == 0
    assert back == []


def threads_of(name: str) -> int:
    return sum(thread.name.startswith(f"{name}_") for thread in threading.enumerate())


# --- tasks


class Tasks:
    """A pool of tasks that runs `run`, and what came back."""

    def __init__(self, run: Callable[[int], Awaitable[None]], size: int = 20) -> None:
        self.owner = OwnedTasks()
        self.back: list[int] = []
        self.pool: TaskPool[int] = TaskPool(run, self.back.extend, self.owner.spawn, size=size, name="test")

    async def __aenter__(self) -> Tasks:
        self.pool.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.pool.close()
        await self.owner.close()


async def test_coroutines_run_side_by_side_up_to_the_size() -> None:
    gate = asyncio.Event()
    running: list[int] = []

    async def run(job: int) -> None:
        running.append(job)
        await gate.wait()

    async with Tasks(run, size=5) as tasks:
        tasks.pool.submit(range(12))
        await wait_until(lambda: len(running) == 5)
        assert tasks.pool.unfinished == 12
        gate.set()
        await tasks.pool.idle()
    assert sorted(tasks.back) == list(range(12))


async def test_coroutines_that_never_wait_let_others_have_a_turn() -> None:
    turns: list[int] = []

    async def run(job: int) -> None: ...

    async with Tasks(run) as tasks:
        tasks.pool.submit(range(1000))
        while tasks.pool.unfinished:
            turns.append(tasks.pool.unfinished)
            await asyncio.sleep(0)
    assert len(turns) >= 4


async def test_a_pool_of_tasks_grows_shrinks_and_gives_back() -> None:
    gate = asyncio.Event()
    running: list[int] = []

    async def run(job: int) -> None:
        running.append(job)
        await gate.wait()

    async with Tasks(run, size=3) as tasks:
        tasks.pool.resize(2)
        tasks.pool.submit(range(9))
        await wait_until(lambda: len(running) == 2)
        tasks.pool.resize(4)
        await wait_until(lambda: len(running) == 4)
        assert tasks.pool.take_back() == [4, 5, 6, 7, 8]
        gate.set()
        await tasks.pool.idle()
    assert sorted(tasks.back) == [0, 1, 2, 3]


async def test_a_coroutine_knows_that_it_is_inside() -> None:
    inside: list[bool] = []

    async def run(job: int) -> None:
        inside.append(tasks.pool.is_inside())

    async with Tasks(run) as tasks:
        assert not tasks.pool.is_inside()
        tasks.pool.submit([1])
        await tasks.pool.idle()
    assert inside == [True]
