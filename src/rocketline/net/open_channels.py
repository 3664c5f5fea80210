"""The channels of one owner: counted, closed when nothing happens on them, and closed together at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from rocketline.clock import Clock
from rocketline.net.channel import Channel


class OpenChannels:
    """A set of channels. A channel that neither read nor wrote for `idle_s` is closed; either end may do so.

    Once `close` was called, a channel that still comes is cut off at once.

    One timer serves all: it looks twenty times in `idle_s`, but every 5 s at least, and only while there are channels.
    """

    def __init__(self, clock: Clock, idle_s: float, on_idle: Callable[[], None] | None = None) -> None:
        self._clock, self._idle_s, self._on_idle = clock, idle_s, on_idle
        self._channels: set[Channel] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._emptied = asyncio.Event()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._channels)

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._channels)

    def add(self, channel: Channel) -> None:
        self._channels.add(channel)
        self._emptied.clear()
        if self._timer is None:
            self._set_timer()
        if self._is_closed:
            channel.abort()

    def discard(self, channel: Channel) -> None:
        self._channels.discard(channel)
        if not self._channels:
            self._emptied.set()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(min(self._idle_s / 20, 5.0), self._tick)

    def _tick(self) -> None:
        self.close_idle()
        self._set_timer()

    def close_idle(self) -> None:
        """Close what is idle now. What was closed before and is still here is cut off: its peer takes nothing."""
        oldest = self._clock.monotonic() - self._idle_s
        for channel in [channel for channel in self._channels if channel.last_active <= oldest]:
            if channel.is_closed:
                channel.abort()
            else:
                channel.close()
                if self._on_idle is not None:
                    self._on_idle()

    async def wait_empty(self, timeout_s: float) -> None:
        """Return when the last channel is gone, or the time is up."""
        if self._channels:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._emptied.wait()
            except TimeoutError:
                pass

    async def close(self, grace_s: float) -> None:
        """Close all; those whose peers do not take what was written within `grace_s` are cut off."""
        self._is_closed = True
        for channel in list(self._channels):
            channel.close()
        await self.wait_empty(grace_s)
        for channel in list(self._channels):
            channel.abort()
        await self.wait_empty(grace_s)
