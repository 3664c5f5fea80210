"""Background tasks: bounded, and gone with their owner. Timers: work that comes round again and again."""

from __future__ import annotations

import asyncio

import pytest

from rocketline.net.background import Background, Timer


async def test_tasks_run_and_are_counted_while_they_do() -> None:
    done: list[str] = []
    gate = asyncio.Event()

    async def work(name: str) -> None:
        await gate.wait()
        done.append(name)

    async with Background() as background:
        assert background.start(work, "a")
        assert background.start(work, "b")
        assert len(background) == 2
        gate.set()
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(background) == 0
    assert done == ["a", "b"]


async def test_task_over_the_bound_is_not_started() -> None:
    async with Background(1) as background:
        assert background.start(_forever)
        assert not background.start(_forever)


async def test_end_cancels_what_runs_and_drops_what_comes() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async with Background() as background:
        background.start(work, "running")
        await asyncio.sleep(0)
        background.start(work, "not even begun")
    assert ended == ["running"]
    assert background.start(work, "late")
    assert len(background) == 0


async def test_failure_of_the_owner_is_its_own() -> None:
    with pytest.raises(KeyError, match="the owner's"):
        async with Background():
            raise KeyError("the owner's")


async def _forever() -> None:
    await asyncio.Event().wait()


# --- timers


class Bell:
    """Rings until somebody has heard it often enough."""

    def __init__(self, wanted: int) -> None:
        self.rung, self._wanted, self.is_enough = 0, wanted, asyncio.Event()

    def ring(self) -> None:
        self.rung += 1
        if self.rung == self._wanted:
            self.is_enough.set()


async def test_timer_calls_again_and_again_until_cancelled() -> None:
    bell = Bell(3)
    timer = Timer(bell.ring, first_s=0, period_s=0)
    await bell.is_enough.wait()
    timer.cancel()
    rung = bell.rung
    await asyncio.sleep(0.01)

    assert bell.rung == rung


async def test_action_that_fails_is_told_to_the_loop_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    bell = Bell(2)

    def break_down() -> None:
        bell.ring()
        raise ValueError("cracked")

    timer = Timer(break_down, first_s=0, period_s=0)
    await bell.is_enough.wait()
    timer.cancel()

    assert "cracked" in caplog.text
