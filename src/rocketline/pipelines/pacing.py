"""Work at a chosen rate: how long to wait before the next piece. Pure but for the clock and the sleep it is given."""

from __future__ import annotations

import time
from collections.abc import Callable

from rocketline.clock import Clock, SystemClock


class Pace:
    """So many pieces a second, counted from the first one: a pause is not made up for by a rush beyond a second's
    worth.

    >>> from rocketline.testing.fake_clock import FakeClock
    >>> waits: list[float] = []
    >>> pace = Pace(100, clock=FakeClock(), sleep=waits.append)
    >>> pace.wait_for(50), pace.wait_for(50), waits
    (None, None, [0.5])
    """

    def __init__(
        self, rate: float | None, *, clock: Clock | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """`rate`: pieces a second; None: as fast as it goes."""
        self._rate, self._clock, self._sleep = rate, clock or SystemClock(), sleep
        self._due_s: float | None = None

    def wait_for(self, count: int) -> None:
        """Return when `count` more pieces may be done."""
        if self._rate is None:
            return
        now_s = self._clock.monotonic()
        due_s = now_s if self._due_s is None else max(self._due_s, now_s - 1)
        if due_s > now_s:
            self._sleep(due_s - now_s)
        self._due_s = due_s + count / self._rate
