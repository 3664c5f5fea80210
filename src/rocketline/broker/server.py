"""The broker as a whole: what it keeps, what works in the background, two listening sockets."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AsyncExitStack

from rocketline.broker.config import BrokerConfig
from rocketline.broker.routing import RequestRouting
from rocketline.broker.services import Services
from rocketline.broker.storage import BrokerStorage
from rocketline.clock import Clock, SystemClock
from rocketline.errors import ConfigError
from rocketline.hot import HotPath
from rocketline.logs import Throttle
from rocketline.model.ids import HostAddress
from rocketline.net.address import format_address
from rocketline.net.dispatch import Dispatcher, Handler
from rocketline.net.listening import Held, hold_ports
from rocketline.net.server import Server
from rocketline.net.turns import LongTurns
from rocketline.settings import Settings
from rocketline.store.filesystem import DiskFileSystem, FileSystem

FAST_PORT_BELOW = 2
"""The second port, for clients that must not wait behind pulls, lies so far below the first one."""


class Broker:
    """A broker from entering to leaving its `async with`. Java: BrokerController.

    Raises when entered: `StoreLockedError` or `CorruptStoreError` for the folder, `ListenError` for a taken port,
    `ConfigError` for an address that cannot be told to clients.
    """

    def __init__(
        self, settings: Settings[BrokerConfig], *, files: FileSystem | None = None, clock: Clock | None = None
    ) -> None:
        self._settings, self._files, self._clock = settings, files or DiskFileSystem(), clock or SystemClock()
        self._throttle = Throttle(self._clock, name=__name__)
        self._stack = AsyncExitStack()
        self._held: dict[int, Held] = {}
        self._long_turns = LongTurns()

    async def __aenter__(self) -> Broker:
        """Registered with name servers once it takes requests; closed in the opposite order."""
        settings, clock, log = self._settings, self._clock, self._throttle
        async with AsyncExitStack() as stack:
            settings.value = config = _with_ports(settings.value, await self._chosen_port(stack))
            self.address = format_address(config.broker_ip1, config.network.listen_port)
            store_host = await _store_host(config)
            self.storage = BrokerStorage(settings, self._files, clock, store_host, log)
            stack.callback(self.storage.close)
            self.services = Services(self.storage, settings, self.address, clock, log)
            routing = RequestRouting(self.storage, self.services, settings, self._files, clock, log)
            wire_up(self.storage, self.services, routing)
            await stack.enter_async_context(self.services)
            port = config.network.listen_port
            hot_path = routing.hot_path(with_pulls=True)
            await stack.enter_async_context(self._server(port, routing.pulls | routing.others, hot_path))
            port, hot_path = max(port - FAST_PORT_BELOW, 0), routing.hot_path(with_pulls=False)
            await stack.enter_async_context(self._server(port, routing.others, hot_path))
            stack.push_async_callback(self.services.name_servers.unregister)
            await self.services.name_servers.begin()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    @property
    def port(self) -> int:
        """The main port; clients that ask for the fast one take two less."""
        return self._settings.value.network.listen_port

    async def _chosen_port(self, stack: AsyncExitStack) -> int:
        """The port from the settings; or a free one, which is held for us, as the one below it is, until we listen."""
        network, self._held = self._settings.value.network, {}
        if network.listen_port:
            return network.listen_port
        main, fast = await hold_ports(network.bind_address, below=FAST_PORT_BELOW)
        for bound in (*main, *fast):
            stack.callback(bound.close)
        port = int(main[0].getsockname()[1])
        self._held = {port: main, port - FAST_PORT_BELOW: fast}
        return port

    def _server(self, port: int, handlers: dict[int, Handler], hot_path: HotPath | None) -> Server:
        config = self._settings.value
        return Server(
            dataclasses.replace(config.network, listen_port=port),
            config.tls,
            Dispatcher(handlers, self._throttle),
            log=self._throttle,
            hot_path=hot_path,
            on_close=self.services.expiry.connection_closed,
            on_event=self.storage.stats.channel_event,
            clock=self._clock,
            held=self._held.get(port, ()),
            long_turns=self._long_turns,
        )


def wire_up(storage: BrokerStorage, services: Services, routing: RequestRouting) -> None:
    """Who is told of what happens to the store and the tables, and who is asked: all of it, here."""
    hooks = dataclasses.replace(
        services.flusher.hooks,
        settle=routing.settle,
        on_arrival=services.held.on_arrival,
        is_needed=storage.has_late_timers,
    )
    storage.store.connect(hooks)
    storage.when_flushed = services.checks.commit_safe
    storage.topics.before_create = storage.make_way
    services.consumers.on_empty = storage.filters.unregister
    storage.topics.on_change = services.name_servers.register_topics
    storage.stats.call_soon = asyncio.get_running_loop().call_soon


def _with_ports(config: BrokerConfig, port: int) -> BrokerConfig:
    """A configuration whose ports are known, because clients, replicas and messages are told of them."""
    network, store = dataclasses.replace(config.network, listen_port=port), config.store
    if not store.ha_listen_port:
        store = dataclasses.replace(store, ha_listen_port=min(port + 1, 65535))
    return dataclasses.replace(config, network=network, store=store)


async def _store_host(config: BrokerConfig) -> HostAddress:
    """`brokerIP1` as messages keep it, looked up if it is a name."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(config.broker_ip1, config.network.listen_port)
    except (OSError, UnicodeError) as error:
        raise ConfigError([f"brokerIP1={config.broker_ip1}: {error}; name an address of this machine"]) from error
    ip = str(min(found)[4][0])  # IPv4 before IPv6, which older clients do not read
    return HostAddress.parse(format_address(ip, config.network.listen_port))
