"""The time, as something that can be handed in: production passes `SystemClock`, tests a clock they turn by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two times: one to wait by, one to write down."""

    def monotonic(self) -> float:
        """Seconds that never go back. For timeouts and ages."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970. For stamps that people and other machines read."""
        ...


class SystemClock:
    """The machine's own clocks."""

    monotonic = staticmethod(time.monotonic)  # asked several times for every read

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
