"""Work that comes round again and again."""

from __future__ import annotations

import asyncio

import pytest

from rocketline.net.background import Timer


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
