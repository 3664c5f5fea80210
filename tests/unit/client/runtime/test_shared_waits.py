from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rocketline.client.options import ClientOptions
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.runtime.shared_waits import SharedWaits
from rocketline.errors import ClosedError, TopicNotFoundError
from rocketline.testing.fake_clock import FakeClock
from support.clients.members import settled


@pytest.fixture
async def runtime(clock: FakeClock) -> AsyncIterator[ClientRuntime]:
    async with ClientRuntime(ClientOptions(), clock=clock) as runtime:
        yield runtime


async def test_work_is_done_once_for_all_who_wait(runtime: ClientRuntime) -> None:
    waits, done, runs = SharedWaits(runtime), asyncio.Event(), 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        await done.wait()

    waiting = [waits.wait("it", work, 3) for _ in range(1000)]
    await settled()
    done.set()
    await asyncio.gather(*waiting)
    assert runs == 1
    await waits.wait("it", work, 3)
    assert runs == 2


async def test_each_waits_its_own_time(runtime: ClientRuntime, clock: FakeClock) -> None:
    waits, done = SharedWaits(runtime), asyncio.Event()
    patient, hasty, late = (waits.wait("it", done.wait, seconds) for seconds in (9, 1, 2))
    for waiting, seconds in ((hasty, 1.01), (late, 1.01)):
        clock.advance(seconds)
        with pytest.raises(TimeoutError):
            await waiting
    assert not patient.done()
    done.set()
    await patient


async def test_all_are_told_what_went_wrong(runtime: ClientRuntime) -> None:
    async def fail() -> None:
        raise TopicNotFoundError("T")

    waits = SharedWaits(runtime)
    outcomes = await asyncio.gather(*(waits.wait("it", fail, 3) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [TopicNotFoundError] * 3
    assert len(set(map(id, outcomes))) == 3, "each has a traceback of its own"
    assert len({id(outcome.__cause__) for outcome in outcomes if isinstance(outcome, Exception)}) == 1


async def test_fault_is_told_as_what_it_is(runtime: ClientRuntime) -> None:
    """And not as if the client had been closed, which nobody tries again after."""

    async def fail() -> None:
        raise ValueError("embedded null character")

    with pytest.raises(ValueError, match="embedded null"):
        await SharedWaits(runtime).wait("it", fail, 3)


async def test_nobody_waits_on_once_the_runtime_is_closed(runtime: ClientRuntime) -> None:
    waiting = SharedWaits(runtime).wait("it", asyncio.Event().wait, 30)
    await settled()
    await runtime.close()
    with pytest.raises(ClosedError):
        await waiting
