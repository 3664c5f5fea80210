"""Stand-ins for the two neighbours of a channel: a transport without a socket, and an owner that writes down."""

from __future__ import annotations

import asyncio
from typing import Any

from rocketline.clock import Clock
from rocketline.hot import HotPath
from rocketline.net.channel import Channel, ChannelLimits, Dispatch, Outcome
from rocketline.net.turns import LongTurns
from rocketline.wire import frame
from rocketline.wire.codes import SerializeType
from rocketline.wire.command import Command, response


class MemoryTransport(asyncio.Transport):
    """Collects what is written. With `takes_bytes` off it behaves like a peer that reads nothing."""

    def __init__(self, protocol: Channel) -> None:
        super().__init__()
        self.protocol = protocol
        self.written: list[bytes] = []
        self.unsent_bytes = 0
        self.takes_bytes = True
        self._is_reading = True
        self.closed = False
        self.high = self.low = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 50000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high, self.low = high or 0, low or 0

    def write(self, data: bytes | bytearray | memoryview) -> None:  # type: ignore[override,unused-ignore]
        assert not self.closed, "written to after close"
        self.written.append(bytes(data))
        if not self.takes_bytes:
            self.unsent_bytes += len(data)
            if self.unsent_bytes > self.high:
                self.protocol.pause_writing()

    def drain(self) -> None:
        """The peer reads again."""
        self.takes_bytes = True
        self.unsent_bytes = 0
        self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def is_reading(self) -> bool:
        return self._is_reading

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def commands(self) -> list[Command]:
        """Everything written so far, decoded."""
        reader = frame.FrameReader()
        reader.feed(b"".join(self.written))
        found = []
        while (whole := reader.take()) is not None:
            found.append(frame.decode(whole))
        return found


class RecordingOwner:
    """Owns channels in tests. By default it echoes a request's body."""

    def __init__(
        self,
        clock: Clock,
        dispatch: Dispatch | None = None,
        *,
        limits: ChannelLimits | None = None,
        hot_path: HotPath | None = None,
    ) -> None:
        self.clock = clock
        self.dispatch: Dispatch = dispatch or self._echo
        self.limits = limits or ChannelLimits()
        self.hot_path = hot_path
        self.read_buffer = memoryview(bytearray(256 * 1024))
        self.long_turns: LongTurns | None = None
        self.serialize_type = SerializeType.JSON
        self.requests: list[Command] = []
        self.opened: list[Channel] = []
        self.closed: list[tuple[Channel, Exception | None]] = []

    def _echo(self, channel: Channel, request: Command) -> Outcome:
        self.requests.append(request)
        return response(0, body=request.body)

    def channel_opened(self, channel: Channel) -> None:
        self.opened.append(channel)

    def channel_closed(self, channel: Channel, reason: Exception | None) -> None:
        self.closed.append((channel, reason))


def connected(owner: RecordingOwner) -> tuple[Channel, MemoryTransport]:
    """A channel on a memory transport, open."""
    channel = Channel(owner)
    transport = MemoryTransport(channel)
    channel.connection_made(transport)
    return channel, transport


def feed(channel: Channel, data: bytes) -> None:
    """What a loop does when `data` arrived, read by read."""
    while data:
        buffer = channel.get_buffer(-1)
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        data = data[size:]
        channel.buffer_updated(size)


async def turn() -> None:
    """Let everything that is due in this turn of the loop happen."""
    await asyncio.sleep(0)
