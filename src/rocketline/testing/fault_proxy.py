"""A TCP proxy that can be made to behave like a bad network: it cuts connections, delays bytes, or swallows them.

    async with FaultProxy(broker.address) as proxy:
        proxy.delay_s = 0.5          # what arrives from now on is passed on half a second later
        proxy.is_black_hole = True   # connections stay open and are made, and nothing passes
        proxy.cut()                  # every connection is reset

Bytes keep their order, whatever is changed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Self, cast

from rocketline.net.address import format_address, parse_address
from rocketline.net.background import Background
from rocketline.testing.server_process import LOOPBACK

_HELD_BYTES_MAX: Final = 64 * 1024**2
"""What a proxy keeps for one direction of a connection; above it the sender has to wait."""


class FaultProxy:
    """Passes on to `target`, as `host:port`. Use it as `async with`; `port` 0 takes a free one."""

    def __init__(self, target: str, *, port: int = 0) -> None:
        self.target = target
        """Connections that are made from now on go there."""
        self.delay_s = 0.0
        self.is_black_hole = False
        """Nothing passes. What was swallowed comes when this is set back, as after a broken link is mended."""
        self.refuses = False
        """New connections are closed at once."""
        self.background = Background()
        """Where connections to the target are made."""
        self._port = port
        self._listener: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()
        self.connections_cut = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        await self.background.__aenter__()
        self._listener = await loop.create_server(lambda: _Pair(self).near, LOOPBACK, self._port)
        self._port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut()
        await self.background.__aexit__()
        await asyncio.sleep(0)  # for the transports to see that they are closed

    @property
    def address(self) -> str:
        return format_address(LOOPBACK, self._port)

    @property
    def connections(self) -> int:
        """How many pass through it now."""
        return len(self._pairs)

    def cut(self) -> None:
        """Reset every connection, with all bytes that are still on their way."""
        for pair in list(self._pairs):
            self.connections_cut += 1
            pair.cut()

    def pass_on(self) -> None:
        """The black hole is gone: what it holds goes on its way."""
        self.is_black_hole = False
        for pair in list(self._pairs):
            pair.near.forward()
            pair.far.forward()

    def opened(self, pair: _Pair) -> None:
        self._pairs.add(pair)

    def closed(self, pair: _Pair) -> None:
        self._pairs.discard(pair)


class _Pair:
    """One connection through the proxy: the end near to the client, and the far one to the target."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.near, self.far = _End(self), _End(self)
        self.near.other, self.far.other = self.far, self.near
        self.is_cut = False

    def begin(self) -> None:
        """The near end is connected."""
        if self.proxy.refuses:
            self.cut()
            return
        self.proxy.opened(self)
        self.proxy.background.start(self._dial)

    async def _dial(self) -> None:
        loop, (host, port) = asyncio.get_running_loop(), parse_address(self.proxy.target)
        try:
            await loop.create_connection(lambda: self.far, host, port)
        except OSError:
            self.cut()

    def cut(self) -> None:
        if self.is_cut:
            return
        self.is_cut = True
        for end in (self.near, self.far):
            end.abort()
        self.proxy.closed(self)

    def end(self, other: _End) -> None:
        """One end was closed by its peer: the other one may still send what was handed to it."""
        self.is_cut = True
        other.close()
        self.proxy.closed(self)


class _End(asyncio.Protocol):
    """One of the two sockets. What it receives it hands to the other one, in order, when its time has come."""

    other: _End

    def __init__(self, pair: _Pair) -> None:
        self._pair = pair
        self._transport: asyncio.Transport | None = None
        self._held: deque[tuple[float, bytes]] = deque()
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of a class of its own
        if self._pair.is_cut:
            self._transport.abort()
        elif self is self._pair.near:
            self._pair.begin()
        else:
            self.other.forward()

    def data_received(self, data: bytes) -> None:
        self._held.append((asyncio.get_running_loop().time() + self._pair.proxy.delay_s, data))
        self._held_bytes += len(data)
        if self._held_bytes > _HELD_BYTES_MAX and self._transport is not None:
            self._transport.pause_reading()
        self.forward()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._pair.is_cut:
            self.forward()
            self._pair.end(self.other)

    def forward(self) -> None:
        """Write what is due to the other end; come back for the rest."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        sink = self.other._transport
        if sink is None or sink.is_closing() or self._pair.proxy.is_black_hole:
            return
        while self._held and self._held[0][0] <= loop.time():
            _, data = self._held.popleft()
            self._held_bytes -= len(data)
            sink.write(data)
        if self._held:
            self._timer = loop.call_at(self._held[0][0], self.forward)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        self._stop()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._stop()
        if self._transport is not None:
            self._transport.abort()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
