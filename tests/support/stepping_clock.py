"""A clock whose time on the wall can be set, as an administrator or a time server does it."""

from __future__ import annotations

from rocketline.testing.fake_clock import FakeClock


class SteppingClock(FakeClock):
    """Only the wall's time jumps; the other goes on as if nothing had happened."""

    def step(self, seconds: float) -> None:
        self._wall_ms += round(seconds * 1000)
