"""The time that the store writes down: the one on the wall, but it neither goes back nor stands still."""

from __future__ import annotations

from rocketline.clock import Clock


class StoreClock:
    """Ticks on from the latest time that it told when the wall clock is set back, until that one has caught up.

    Look-ups by time rely on store times that never go back, and delays on times that go on: a message that is to wait
    for ten seconds is due ten seconds after it was stored, by this clock.
    """

    __slots__ = ("_base_ms", "_base_s", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._base_ms, self._base_s = 0, clock.monotonic()  # a time that this clock told, and when it did

    def begin_at(self, last_ms: int) -> None:
        """Tell no time before `last_ms`, which an earlier life of the store wrote down."""
        self._base_ms, self._base_s = last_ms, self._clock.monotonic()

    def lead_ms(self) -> int:
        """By how much it is ahead of the wall's, rounded up: so much later it tells a moment of that one's."""
        lead_ms = self.now_ms() - self._clock.wall_ms()
        return lead_ms + 1 if lead_ms > 0 else 0  # a part of a millisecond may have gone by between the two

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        wall_ms = self._clock.wall_ms()
        now_s = self._clock.monotonic()  # after the wall: else what lies between the two would be gained each time
        ticked_ms = self._base_ms + int((now_s - self._base_s) * 1000)
        if wall_ms <= ticked_ms:
            return ticked_ms
        self._base_ms, self._base_s = wall_ms, now_s
        return wall_ms
