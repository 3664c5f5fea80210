from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rocketline.client.scheduling import OwnedTasks, Timers, repeat
from rocketline.clock import SystemClock
from rocketline.errors import ClosedError
from rocketline.testing.fake_clock import FakeClock
from support.clients.members import settled


@pytest.fixture
async def timers(clock: FakeClock) -> AsyncIterator[Timers]:
    timers = Timers(clock)
    timers.open()
    yield timers
    timers.close()


async def test_alarms_go_off_in_the_order_of_their_times(clock: FakeClock, timers: Timers) -> None:
    heard: list[int] = []
    for delay in (3, 1, 2):
        timers.call_later(delay, lambda delay=delay: heard.append(delay))  # type: ignore[misc]
    clock.advance(2)
    await settled()
    assert heard == [1, 2]
    clock.advance(1)
    await settled()
    assert heard == [1, 2, 3]


async def test_cancelled_alarm_is_silent(clock: FakeClock, timers: Timers) -> None:
    heard: list[str] = []
    timers.call_later(1, lambda: heard.append("cancelled")).cancel()
    timers.call_later(2, lambda: heard.append("other"))
    clock.advance(5)
    await settled()
    assert heard == ["other"]


async def test_sleep_ends_with_the_clock_and_not_before(clock: FakeClock, timers: Timers) -> None:
    async with asyncio.TaskGroup() as group:
        sleeping = group.create_task(timers.sleep(10))
        await settled()
        clock.advance(9.99)
        await settled()
        assert not sleeping.done()
        clock.advance(0.02)


async def test_machines_clock_needs_no_turning() -> None:
    timers = Timers(SystemClock())
    timers.open()
    try:
        await timers.sleep(0.001)
        assert not await timers.wait_for(asyncio.Event(), 0.001)
    finally:
        timers.close()


async def test_wait_ends_with_the_event_or_the_time(clock: FakeClock, timers: Timers) -> None:
    event = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(timers.wait_for(event, 5))
        await settled()
        clock.advance(5)
        assert await waiting is False
        waiting = group.create_task(timers.wait_for(event, 5))
        await settled()
        event.set()
        assert await waiting is True
    assert await timers.wait_for(event, 5)


async def test_closing_wakes_those_who_wait(clock: FakeClock) -> None:
    """A call of the application must not hang because its client was closed meanwhile."""
    timers = Timers(clock)
    timers.open()
    sleeping, waiting = timers.sleep(5), timers.wait_for(asyncio.Event(), 5)
    asyncio.get_running_loop().call_soon(timers.close)
    outcomes = await asyncio.gather(sleeping, waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ClosedError, ClosedError]
    with pytest.raises(ClosedError):
        timers.call_later(1, list)


async def test_repeated_work_keeps_its_pace_and_survives_failures(clock: FakeClock, timers: Timers) -> None:
    """Fixed rate: a run that takes 3 s of a period of 10 does not push the next one back."""
    runs: list[float] = []

    async def work() -> None:
        runs.append(clock.monotonic())
        clock.advance(3)
        raise ValueError("a fault of the test's")

    start_s = clock.monotonic()
    task = asyncio.get_running_loop().create_task(repeat(timers, clock, work, start_s + 1, 10, name="work"))
    for _ in range(25):
        await settled()
        clock.advance(1)
    task.cancel()
    await asyncio.wait([task])
    assert [run - start_s for run in runs] == [1, 11, 21, 31]


async def test_work_that_takes_too_long_is_followed_at_once_and_not_made_up_for(
    clock: FakeClock, timers: Timers
) -> None:
    runs: list[float] = []

    async def work() -> None:
        runs.append(clock.monotonic())
        clock.advance(35)

    start_s = clock.monotonic()
    task = asyncio.get_running_loop().create_task(repeat(timers, clock, work, start_s, 10, name="work"))
    while len(runs) < 3:
        await settled()
    task.cancel()
    await asyncio.wait([task])
    assert [run - start_s for run in runs[:3]] == [0, 35, 70]


async def test_owned_tasks_end_with_their_owner_but_not_the_one_that_closes(clock: FakeClock) -> None:
    """A callback may close its own client."""
    tasks = OwnedTasks()
    other = tasks.spawn(asyncio.sleep(3600), name="other")
    after: list[bool] = []

    async def closing() -> None:
        await tasks.close()
        after.append(other.cancelled())

    await tasks.spawn(closing(), name="closing")
    assert after == [True]
    late = tasks.spawn(asyncio.sleep(3600), name="late")
    with pytest.raises(asyncio.CancelledError):
        await late
    assert len(tasks) == 0


async def test_task_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("a fault of the test's")

    tasks = OwnedTasks()
    task = tasks.spawn(fail(), name="failing")
    await asyncio.wait([task])
    await settled()
    assert "task failed" in caplog.text
