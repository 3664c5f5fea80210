"""A listening socket and the channels that were accepted on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from rocketline.clock import Clock, SystemClock
from rocketline.errors import ConfigError, RocketlineError
from rocketline.hot import HotPath
from rocketline.logs import Throttle
from rocketline.net.address import format_address
from rocketline.net.channel import Channel, ChannelLimits
from rocketline.net.config import NetworkConfig, TlsConfig, TlsMode
from rocketline.net.dispatch import Dispatcher
from rocketline.net.listening import Held, listen
from rocketline.net.open_channels import OpenChannels
from rocketline.net.preamble import Preamble
from rocketline.net.tls import ServerTls
from rocketline.net.turns import LongTurns

_READ_BUFFER_BYTES = 256 * 1024
_HEADER_BYTES_MAX = 1024 * 1024
"""Five times the longest header of a request: 32 KB of message properties, each byte escaped."""
_CLOSE_S = 1.0
"""How long a closing server waits for peers to take what was written to them."""


class ChannelEvent(Enum):
    """What happens to connections. Those that end as IDLE or with an EXCEPTION also CLOSE. Java: NettyEventType."""

    CONNECT = "CONNECT"
    CLOSE = "CLOSE"
    IDLE = "IDLE"
    EXCEPTION = "EXCEPTION"


class Server:
    """Accepts connections and hands their requests to `dispatch`. Use it as `async with`.

    `on_close` is called once for every connection that ends, however it ends. `on_event` is for who counts. It listens
    on the port that is `held` for it, or else where `network` says. Servers on one loop share their `long_turns`.
    """

    def __init__(
        self,
        network: NetworkConfig,
        tls: TlsConfig,
        dispatch: Dispatcher,
        *,
        log: Throttle,
        hot_path: HotPath | None = None,
        on_close: Callable[[Channel], None] | None = None,
        on_event: Callable[[ChannelEvent], None] = lambda event: None,
        clock: Clock | None = None,
        held: Held = (),
        long_turns: LongTurns | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.dispatch = dispatch
        self.hot_path = hot_path
        self.serialize_type = network.serialize_type
        self.read_buffer = memoryview(bytearray(_READ_BUFFER_BYTES))
        self.long_turns = LongTurns() if long_turns is None else long_turns
        self.limits = _limits(network)
        self.channels = OpenChannels(self.clock, network.idle_close_s, lambda: on_event(ChannelEvent.IDLE))
        self._network, self._tls_mode, self._tls = network, tls.server_mode, ServerTls(tls)
        if self._tls_mode is TlsMode.ENFORCING and self._tls.context() is None:
            raise ConfigError(["tls.server.mode=enforcing needs tls.server.certPath and tls.server.keyPath"])
        self._log, self._on_close, self._on_event = log, on_close, on_event
        self._held = held
        self._listeners: list[asyncio.Server] = []
        self.address = ""
        """Where it listens, `host:port`, once it does."""

    async def __aenter__(self) -> Server:
        host, port, backlog = self._network.bind_address, self._network.listen_port, self._network.backlog
        self._listeners = await listen(self._accept, host, port, held=self._held, backlog=backlog)
        self.address = format_address(*self._listeners[0].sockets[0].getsockname()[:2])
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def _accept(self) -> Channel:
        return Channel(self, preamble=Preamble(self._tls_mode, self._tls))

    async def close(self) -> None:
        """Accept no more; if so configured send peers elsewhere and give them time; then close what is left."""
        if not self._listeners:
            return
        while self._listeners:
            self._listeners.pop().close()
        if self._network.goes_away_gracefully:
            # The hot path knows nothing of going away.
            self.dispatch.is_going_away, self.hot_path = True, None
            await self.channels.wait_empty(self._network.shutdown_wait_s)
        await self.channels.close(_CLOSE_S)
        self._log.flush()

    # --- what a channel tells its owner

    def channel_opened(self, channel: Channel) -> None:
        channel.set_socket_buffers(self._network.send_buffer_bytes, self._network.receive_buffer_bytes)
        self.channels.add(channel)
        self._on_event(ChannelEvent.CONNECT)

    def channel_closed(self, channel: Channel, reason: Exception | None) -> None:
        self.channels.discard(channel)
        if reason is not None:
            self._on_event(ChannelEvent.EXCEPTION)
        self._on_event(ChannelEvent.CLOSE)
        if isinstance(reason, RocketlineError):
            self._log.warning("peer dropped", str(reason), peer=channel.peer)
        if self._on_close is not None:
            self._on_close(channel)


def _limits(network: NetworkConfig) -> ChannelLimits:
    """What the settings say; a zero leaves the default, or what goes with the other mark if only one is set."""
    default = ChannelLimits()
    high, low = network.write_buffer_high_bytes, network.write_buffer_low_bytes
    high = high or max(default.write_high_bytes, low)
    return ChannelLimits(
        header_bytes_max=_HEADER_BYTES_MAX,
        in_flight_max=network.async_in_flight_max,
        write_high_bytes=high,
        write_low_bytes=low or min(default.write_low_bytes, high),
    )
