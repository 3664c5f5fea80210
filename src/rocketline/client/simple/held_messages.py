"""Messages that somebody works on: kept from others for as long as it takes.

A message is asked for anew when half of its time is over. What a broker answers replaces the message's handle, so that
nothing else may be said of the message meanwhile: `stop` waits for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.client.pop.settling import Settling
from rocketline.client.scheduling import Alarm
from rocketline.errors import RocketlineError
from rocketline.logs import Throttle

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

_AGAIN_S: Final = 5.0


class _Hold:
    """A message that is worked on."""

    __slots__ = ("alarm", "extending", "invisible_s", "is_over", "owner", "until_s")

    def __init__(self, invisible_s: float, until_s: float, owner: object) -> None:
        self.invisible_s, self.until_s, self.owner = invisible_s, until_s, owner
        self.alarm: Alarm | None = None
        self.extending: asyncio.Task[None] | None = None
        self.is_over = False
        """It is extended no more."""

    def end(self) -> None:
        self.is_over = True
        if self.alarm is not None:
            self.alarm.cancel()


class HeldMessages:
    """All of one consumer's. For the loop's thread."""

    def __init__(
        self, runtime: ClientRuntime, settling: Settling, throttle: Throttle, *, invisible_s: float, max_s: float
    ) -> None:
        self._runtime, self._settling, self._throttle = runtime, settling, throttle
        self._invisible_s, self._max_s = invisible_s, max_s
        self._holds: dict[PoppedMessage, _Hold] = {}
        self._changed = asyncio.Event()

    def hold(self, message: PoppedMessage, owner: object) -> None:
        """Keep it from others until `stop`, or for the longest time allowed. `owner` is who works on it."""
        self.let_go(message)
        hold = _Hold(self._invisible_s, self._runtime.clock.monotonic() + self._max_s, owner)
        self._holds[message] = hold
        self._set_alarm(message, hold, (message.expires_s - self._runtime.clock.monotonic()) / 2)

    async def stop(self, message: PoppedMessage) -> None:
        """Extend it no more. Its handle is its last one when this returns."""
        hold = self._holds.get(message)
        if hold is None:
            return
        hold.end()
        if hold.extending is not None:
            await asyncio.wait({hold.extending})

    def go_on(self, message: PoppedMessage) -> None:
        """Extend it again, after `stop`, if somebody works on it."""
        hold = self._holds.get(message)
        if hold is not None:
            hold.is_over = False
            self._set_alarm(message, hold, (message.expires_s - self._runtime.clock.monotonic()) / 2)

    def let_go(self, message: PoppedMessage) -> None:
        """Nobody works on it any more, and the broker knows what became of it."""
        hold = self._holds.pop(message, None)
        if hold is not None:
            hold.end()
            self._changed.set()

    async def settled(self, owner: object, timeout_s: float) -> bool:
        """Wait until nobody but `owner` works any more; whether it is so. Not longer than so."""
        due_s = self._runtime.clock.monotonic() + timeout_s
        while any(hold.owner != owner for hold in self._holds.values()):
            left_s = due_s - self._runtime.clock.monotonic()
            self._changed.clear()
            if left_s <= 0 or not await self._runtime.wait_for(self._changed, left_s):
                return False
        return True

    def close(self) -> None:
        """Extend nothing any more."""
        for hold in self._holds.values():
            hold.end()
        self._holds.clear()

    def _set_alarm(self, message: PoppedMessage, hold: _Hold, delay_s: float) -> None:
        def extend() -> None:
            hold.extending = self._runtime.spawn(self._extend(message, hold), name=f"extend {message}")

        hold.alarm = self._runtime.call_later(delay_s, extend)

    async def _extend(self, message: PoppedMessage, hold: _Hold) -> None:
        pause_s = hold.invisible_s / 2
        try:
            if self._runtime.clock.monotonic() < min(hold.until_s, message.expires_s):
                await self._settling.hide(message, hold.invisible_s)
            else:
                self._give_up(message, hold)
                return
        except RocketlineError as error:
            pause_s = min(hold.invisible_s / 8, _AGAIN_S)
            self._throttle.warning("message not extended", "it is tried again", popped=message, problem=error)
        finally:
            hold.extending = None
        if not hold.is_over:
            self._set_alarm(message, hold, pause_s)

    def _give_up(self, message: PoppedMessage, hold: _Hold) -> None:
        why = "extend_max_s is over" if message.expires_s > hold.until_s else "its invisible time ended before"
        self._throttle.warning("message extended no more", f"{why}; it comes again", popped=message)
