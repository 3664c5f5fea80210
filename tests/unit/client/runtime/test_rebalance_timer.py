from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rocketline.client.runtime.rebalance_timer import RebalancePace, RebalanceService
from rocketline.client.scheduling import Timers
from rocketline.testing.fake_clock import FakeClock


def test_balanced_clients_look_every_20_s_and_others_every_second() -> None:
    """C143."""
    pace = RebalancePace(now_s=100.0)
    assert pace.wait_s == 20.0
    pace.ran(120.0, is_balanced=False)
    assert pace.wait_s == 1.0
    assert pace.is_due(121.0)
    pace.ran(121.0, is_balanced=True)
    assert pace.wait_s == 20.0


def test_wake_up_within_a_second_of_the_last_round_waits_for_the_rest_of_it() -> None:
    pace = RebalancePace(now_s=100.0)
    pace.ran(100.0, is_balanced=True)
    assert not pace.is_due(100.25)
    assert pace.wait_s == 0.75
    assert pace.is_due(101.0)


class Rounds:
    """Counts rounds, at times of a clock that is turned by hand."""

    def __init__(self, clock: FakeClock, timers: Timers) -> None:
        self.clock = clock
        self.times_s: list[float] = []
        self.is_balanced = True
        self.started_s = clock.monotonic()
        self.service = RebalanceService(timers, clock, self.round)

    async def round(self) -> bool:
        self.times_s.append(self.clock.monotonic() - self.started_s)
        return self.is_balanced

    async def pass_time(self, seconds: float, step_s: float = 0.25) -> None:
        for _ in range(round(seconds / step_s)):
            self.clock.advance(step_s)
            for _ in range(8):
                await asyncio.sleep(0)


@asynccontextmanager
async def running() -> AsyncIterator[Rounds]:
    clock = FakeClock()
    timers = Timers(clock)
    timers.open()
    rounds = Rounds(clock, timers)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rounds.service.run())
        await asyncio.sleep(0)
        yield rounds
        task.cancel()
    timers.close()


async def test_rounds_come_every_20_s_while_all_is_balanced() -> None:
    """C143."""
    async with running() as rounds:
        await rounds.pass_time(61)
    assert rounds.times_s == [20.0, 40.0, 60.0]


async def test_rounds_come_every_second_until_all_is_balanced() -> None:
    """C143."""
    async with running() as rounds:
        rounds.is_balanced = False
        await rounds.pass_time(22.5)
        rounds.is_balanced = True
        await rounds.pass_time(22)
    assert rounds.times_s == [20.0, 21.0, 22.0, 23.0, 43.0]


async def test_first_wake_up_is_heard_at_once_and_more_of_them_make_one_round_a_second() -> None:
    async with running() as rounds:
        for _ in range(8):
            rounds.service.wake()
            await rounds.pass_time(0.25)
        await rounds.pass_time(19)
    assert rounds.times_s[0] <= 0.25
    assert len(rounds.times_s) == 3, "two seconds of wake-ups"
