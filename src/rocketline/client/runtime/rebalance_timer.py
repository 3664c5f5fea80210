"""When to rebalance: every 20 s, every second while something is left to do, and soon after a wake-up.

Java: RebalanceService.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from rocketline.clock import Clock

PERIOD_S: Final = 20.0
"""Java: rocketmq.client.rebalance.waitInterval."""
PERIOD_MIN_S: Final = 1.0
"""Java: rocketmq.client.rebalance.minInterval."""


class RebalancePace:
    """How long to wait, and whether it is time when the waiting is over. Pure.

    >>> pace = RebalancePace(now_s=100.0)
    >>> pace.wait_s
    20.0
    >>> pace.is_due(100.2), pace.wait_s                 # woken at once: a first round need not wait
    (True, 20.0)
    >>> pace.ran(100.2, is_balanced=False); pace.wait_s
    1.0
    >>> pace.is_due(100.7), round(pace.wait_s, 3)       # woken too early: the rest of that second
    (False, 0.5)
    """

    def __init__(self, now_s: float) -> None:
        self.wait_s = PERIOD_S
        self._last_s = now_s - PERIOD_MIN_S

    def is_due(self, now_s: float) -> bool:
        """A wait has ended, by time or by a wake-up: may a round begin? If not, `wait_s` is what is left."""
        left_s = self._last_s + PERIOD_MIN_S - now_s
        if left_s > 0:
            self.wait_s = left_s
            return False
        return True

    def ran(self, now_s: float, *, is_balanced: bool) -> None:
        """A round has ended."""
        self._last_s = now_s
        self.wait_s = PERIOD_S if is_balanced else PERIOD_MIN_S


class EventTimers(Protocol):
    """`scheduling.Timers`, as far as it is needed here."""

    async def wait_for(self, event: asyncio.Event, timeout_s: float) -> bool: ...


class RebalanceService:
    """Calls `rebalance`, which answers whether all is balanced, when it is time. One for each runtime."""

    def __init__(self, timers: EventTimers, clock: Clock, rebalance: Callable[[], Awaitable[bool]]) -> None:
        self._timers, self._clock, self._rebalance = timers, clock, rebalance
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Something changed: look soon, but not more than once in a second."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled. `rebalance` does not raise."""
        pace = RebalancePace(self._clock.monotonic())
        while True:
            await self._timers.wait_for(self._woken, pace.wait_s)
            self._woken.clear()
            if pace.is_due(self._clock.monotonic()):
                is_balanced = await self._rebalance()
                pace.ran(self._clock.monotonic(), is_balanced=is_balanced)
