"""The hour of a test server, which a test may turn forward."""

from __future__ import annotations

from rocketline.clock import SystemClock


class VirtualClock(SystemClock):
    """The machine's clock, with a wall time that runs ahead by as much as it was turned.

    Delays, retries and retention go by wall time. Timeouts, heartbeats and locks go by the monotonic one, which is not
    touched: a server that is turned forward by a day does not find all of its clients gone.

    >>> clock = VirtualClock()
    >>> before_ms = clock.wall_ms()
    >>> clock.turn(3600)
    >>> 3_600_000 <= clock.wall_ms() - before_ms < 3_660_000
    True
    """

    def __init__(self) -> None:
        self.ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms

    def turn(self, seconds: float) -> None:
        """Forward only: stored times never go back."""
        if seconds < 0:
            raise ValueError(f"{seconds} s: time is turned forward only")
        self.ahead_ms += round(seconds * 1000)
