"""`ClientRuntime`: what clients share. Java: MQClientInstance.

Each producer or consumer makes one of its own unless it is given one. Those that are given the same share its client
id, its connections and its heartbeats:

    async with ClientRuntime.at("127.0.0.1:9876") as runtime:
        producer = Producer(group="orders", runtime=runtime)
        consumer = PushConsumer(group="billing", runtime=runtime)
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Self, TypeVar, Unpack

from rocketline.client.options import ClientKeywords, ClientOptions, make_options
from rocketline.client.runtime.connections import Connections, RequestDecorator, tls_context, vip_address
from rocketline.client.runtime.heartbeats import Heartbeats
from rocketline.client.runtime.identity import own_client_id, own_namespace
from rocketline.client.runtime.inbound import Inbound
from rocketline.client.runtime.members import ConsumerMember as ConsumerMember
from rocketline.client.runtime.members import Members
from rocketline.client.runtime.members import ProducerMember as ProducerMember
from rocketline.client.runtime.name_servers import NameServerCaller, discover, discovery_url
from rocketline.client.runtime.pending_requests import PendingRequests
from rocketline.client.runtime.rebalance_timer import RebalanceService
from rocketline.client.runtime.requests import checked, command_of
from rocketline.client.runtime.route_updates import RouteUpdates
from rocketline.client.runtime.routes import ClientRoutes
from rocketline.client.scheduling import Alarm, OwnedTasks, Stoppable, Timers, repeat, running_loop
from rocketline.clock import Clock, SystemClock
from rocketline.errors import (
    CallTimeoutError,
    ClosedError,
    ConnectionLostError,
    ForkedError,
    NameServerNotReadyError,
    NotStartedError,
    RocketlineError,
    WrongLoopError,
)
from rocketline.logs import Log, Throttle
from rocketline.net.channel import Channel
from rocketline.wire.command import Command
from rocketline.wire.headers import Header
from rocketline.wire.namespaces import with_namespace, without_namespace

_log = Log(__name__)
Result = TypeVar("Result")

_ROUTES_FIRST_S: Final = 0.01
_HEARTBEAT_FIRST_S: Final = 1.0
_PERSIST_FIRST_S: Final = 10.0
_COME_BACK_S: Final = 0.5
"""The pause between attempts to reach a broker through which a reply may come."""
_DISCOVERY_FIRST_S, _DISCOVERY_PERIOD_S = 10.0, 120.0


class ClientRuntime:
    """Connections, routes, heartbeats and periodic work of the clients that use it, on one event loop.

    It runs from the first `lease` to the last `release`, or to `close`.
    """

    def __init__(self, options: ClientOptions, *, clock: Clock | None = None, is_name_stable: bool = False) -> None:
        """Raises `ConfigError` if TLS files cannot be used. `is_name_stable`: see `own_client_id`."""
        self.options = options
        self.clock: Clock = clock or SystemClock()
        self.client_id = own_client_id(options, is_name_stable=is_name_stable)
        self.namespace = own_namespace(options)
        self.tls = tls_context(options.tls)
        self.routes = ClientRoutes()
        self.decorator = RequestDecorator(options)
        self._members = Members(self.client_id)
        self._tasks = OwnedTasks()
        self._timers = Timers(self.clock)
        self._rebalances = RebalanceService(self._timers, self.clock, self._rebalance_all)
        self.requests = PendingRequests(self)
        """What its producers have asked, and not been replied to yet."""
        inbound = Inbound(
            self._members,
            self.requests,
            spawn=self._tasks.spawn,
            wake_rebalance=self.wake_rebalance,
            log=Throttle(self.clock, name=__name__),
            namespace=self.namespace,
        )
        self.connections = Connections(
            options,
            self.decorator,
            self.clock,
            tls=self.tls,
            dispatch=inbound.dispatch,
            on_connect=self._connected,
            on_lost=self._lost,
        )
        self._name_servers = NameServerCaller(options.name_servers, self.connections, self.clock)
        self._updates = RouteUpdates(self.routes, self._members, self.ask_name_server, self._tasks.spawn)
        self._heartbeats = Heartbeats(
            self._members, self.routes, self.connections, self.clock, timeout_s=options.api_timeout_s
        )
        self._coming_back: set[str] = set()
        self._leases = 0
        self._starting = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self.is_closed = False

    @classmethod
    def at(cls, name_servers: str | Sequence[str] | None = None, **options: Unpack[ClientKeywords]) -> Self:
        """One that asks these name servers, or those of NAMESRV_ADDR."""
        return cls(make_options(ClientOptions, name_servers, options))

    def __repr__(self) -> str:
        return f"<ClientRuntime {self.client_id}>"

    # --- life

    async def __aenter__(self) -> Self:
        await self.lease()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def lease(self) -> None:
        """Use it; whoever is first starts it. Raises `ClosedError`, `WrongLoopError` or `ForkedError`."""
        if self.is_closed:
            raise ClosedError(f"{self!r} is closed: make a new one")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self.check()
        async with self._starting:
            if not self._leases:
                await self._start()
            self._leases += 1

    async def release(self) -> None:
        """Use it no more; whoever is last closes it."""
        self._leases -= 1
        if not self._leases:
            await self.close()

    async def close(self) -> None:
        """Say farewell for all members, end all work, close all connections. Calls that wait fail with `ClosedError` or
        `ConnectionLostError`. Closing again, or in a forked child, does nothing. Raises `WrongLoopError`."""
        was_running = self._loop is not None and not self.is_closed and os.getpid() == self._pid
        if was_running:
            self.check()
        self.is_closed = True
        if not was_running:
            return
        try:
            await self._heartbeats.say_farewells(self.client_id)
        finally:
            self.requests.end_all()
            for producer in list(self._members.producers.values()):
                producer.runtime_closed()
            await self._tasks.close()
            self._timers.close()
            await self.connections.close()
            for consumer in list(self._members.consumers.values()):
                consumer.runtime_closed()

    async def _start(self) -> None:
        options = self.options
        self._timers.open(on_turn=self.connections.look_at_clock)
        if not options.name_servers and options.discovery_domain:
            await self._discover()
            self.every(_DISCOVERY_PERIOD_S, _DISCOVERY_FIRST_S, self._discover, name="find name servers")
        self.every(options.route_period_s, _ROUTES_FIRST_S, self._updates.update_all, name="update routes")
        self.every(options.heartbeat_period_s, _HEARTBEAT_FIRST_S, self._look_after_brokers, name="heartbeat")
        self.every(options.offset_persist_period_s, _PERSIST_FIRST_S, self._persist_all, name="persist offsets")
        self.spawn(self._rebalances.run(), name="rebalance")

    def check(self, thing: str = "") -> None:
        """Raise the error that tells why `thing`, a client on this runtime, cannot be used here and now."""
        thing = thing or repr(self)
        if os.getpid() != self._pid:
            raise ForkedError(thing)
        if self.is_closed:
            raise ClosedError(f"{thing} is closed: make a new one")
        if self._loop is None:
            raise NotStartedError(thing)
        if self._loop is not running_loop():
            raise WrongLoopError(thing)

    # --- time and tasks

    def spawn(self, work: Coroutine[Any, Any, Result], *, name: str) -> asyncio.Task[Result]:
        """Run `work` until it ends or the runtime closes. What it lets escape is logged."""
        return self._tasks.spawn(work, name=name)

    def every(self, period_s: float, first_s: float, work: Callable[[], Awaitable[object]], *, name: str) -> Stoppable:
        """Do `work` after `first_s` and then every `period_s`, on its own. A run that fails is logged."""
        due_s = self.clock.monotonic() + first_s  # counted from this call, whenever the task gets its first turn
        return self.spawn(repeat(self._timers, self.clock, work, due_s, period_s, name=name), name=name)

    async def sleep(self, delay_s: float) -> None:
        """Wait on the runtime's clock."""
        await self._timers.sleep(delay_s)

    def call_later(self, delay_s: float, action: Callable[[], object]) -> Alarm:
        """Call `action` on the loop after `delay_s` on the runtime's clock, unless cancelled."""
        return self._timers.call_later(delay_s, action)

    async def wait_for(self, event: asyncio.Event, timeout_s: float) -> bool:
        """Wait until `event` is set, and say whether it is; not longer than `timeout_s` on the runtime's clock."""
        return await self._timers.wait_for(event, timeout_s)

    def limit(self, timeout_s: float) -> AbstractAsyncContextManager[None]:
        """Raise `TimeoutError` if the block takes longer than `timeout_s` on the runtime's clock."""
        return self._timers.limit(timeout_s)

    @asynccontextmanager
    async def limit_search(self, topic: str, timeout_s: float) -> AsyncIterator[None]:
        """Raise `CallTimeoutError` if the block, which has name servers asked for `topic`, takes longer than that.

        For calls whose own time may be over before that of the question, which others may wait for.
        """
        try:
            async with self.limit(timeout_s):
                yield
        except TimeoutError as error:
            if isinstance(error, RocketlineError):
                raise
            raise CallTimeoutError(f"asking {', '.join(self.name_servers)} where {topic!r} is", timeout_s) from None

    async def look_for_route(self, topic: str) -> None:
        """`update_route` for a consumer that begins: it can wait for a name server that is not ready."""
        try:
            await self.update_route(topic)
        except NameServerNotReadyError as error:
            _log.warning("route not known yet", topic=topic, problem=error)

    # --- members

    def register_producer(self, group: str, producer: ProducerMember) -> None:
        """Name it in heartbeats and tell it of routes. Raises `GroupInUseError`."""
        self._members.add_producer(group, producer)

    def register_consumer(self, group: str, consumer: ConsumerMember) -> None:
        """The same, and have it rebalance, persist and answer. Raises `GroupInUseError`."""
        self._members.add_consumer(group, consumer)

    async def unregister_producer(self, group: str) -> None:
        """Forget it, and tell every known broker. If it was not registered nothing happens."""
        if self._members.remove_producer(group) and not self.is_closed:
            await self._heartbeats.say_farewell(self.client_id, producer=group)

    async def unregister_consumer(self, group: str) -> None:
        """The same for a consumer."""
        if self._members.remove_consumer(group) and not self.is_closed:
            await self._heartbeats.say_farewell(self.client_id, consumer=group)

    def wake_rebalance(self) -> None:
        """Rebalance all consumers soon."""
        self._rebalances.wake()

    async def _rebalance_all(self) -> bool:
        results = await self._of_consumers("rebalance", lambda consumer: consumer.rebalance())
        return all(result is True for result in results)

    async def _persist_all(self) -> None:
        await self._of_consumers("persist offsets", lambda consumer: consumer.persist_offsets())

    async def _of_consumers(self, what: str, work: Callable[[ConsumerMember], Awaitable[object]]) -> list[object]:
        """Have every consumer do it at once; one that fails holds up none of the others."""

        async def guarded(group: str, consumer: ConsumerMember) -> object:
            try:
                return await work(consumer)
            except Exception as error:  # noqa: BLE001  # its next turn may well succeed
                _log.error(f"{what} failed", error=error, group=group)
                return None

        return await asyncio.gather(*(guarded(*member) for member in list(self._members.consumers.items())))

    # --- names

    def with_namespace(self, name: str) -> str:
        """A topic or group as it is on the wire."""
        return with_namespace(self.namespace, name) if self.namespace else name

    def without_namespace(self, name: str) -> str:
        """A topic or group as the application knows it."""
        return without_namespace(name, self.namespace) if self.namespace else name

    # --- asking

    def target(self, address: str, *, vip: bool) -> str:
        """The address that a request really goes to: the broker's second port, if `vip` and so configured."""
        return vip_address(address) if vip and self.options.vip_channel else address

    async def ask(
        self, address: str, header: Header | Command, body: bytes = b"", *, timeout_s: float, vip: bool = False
    ) -> Command:
        """The answer of `address`, whatever its code. Raises `TransportError`."""
        self.check()
        return await self.connections.ask(self.target(address, vip=vip), command_of(header, body), timeout_s)

    async def ask_ok(
        self, address: str, header: Header | Command, body: bytes = b"", *, timeout_s: float, vip: bool = False
    ) -> Command:
        """The answer of `address`. Raises the error of its code unless that is success; `TransportError`."""
        command = command_of(header, body)
        answer = await self.ask(address, command, timeout_s=timeout_s, vip=vip)
        return checked(answer, command, address)

    async def send_oneway(
        self, address: str, header: Header | Command, body: bytes = b"", *, timeout_s: float, vip: bool = False
    ) -> None:
        """Send what nobody answers. Raises `TransportError` if it cannot be sent."""
        self.check()
        await self.connections.send_oneway(self.target(address, vip=vip), command_of(header, body), timeout_s)

    async def connect(self, address: str, timeout_s: float) -> Channel:
        """The connection to `address`, for `begin`. Raises `ConnectError`."""
        self.check()
        return await self.connections.connect(address, timeout_s)

    def begin(self, address: str, command: Command, deadline_s: float) -> asyncio.Future[Command]:
        """Ask on a live connection, without a task or a timer; `deadline_s` is a time of `clock.monotonic`.

        The command is completed in place and must be nobody else's. Raises `ConnectionLostError` if there is no live
        connection: `connect` first. An answer GO_AWAY is the caller's to send again, by `ask`.
        """
        channel = self.connections.channel(address)
        if channel is None:
            raise ConnectionLostError(address, "there is no connection")
        return self.connections.begin(channel, address, command, max(deadline_s - self.clock.monotonic(), 0.0))

    def prepare(self, command: Command, address: str) -> None:
        """Add what every request carries, for those who write their own sockets. From any thread."""
        self.decorator.apply(command, address)

    async def ask_name_server(
        self, header: Header | Command, body: bytes = b"", *, timeout_s: float | None = None
    ) -> Command:
        """The answer of a name server, whatever its code. Raises `NoNameServerError` or `TransportError`."""
        self.check()
        return await self._name_servers.ask(command_of(header, body), timeout_s or self.options.api_timeout_s)

    @property
    def name_servers(self) -> tuple[str, ...]:
        return self._name_servers.addresses

    async def replace_name_servers(self, addresses: Sequence[str]) -> None:
        """Ask these from now on. Java: updateNameServerAddressList."""
        await self._name_servers.replace(addresses)

    async def _discover(self) -> None:
        try:
            found = await discover(discovery_url(self.options))
        except RocketlineError as error:
            _log.warning("name servers not found", problem=str(error))
        else:
            if found:
                await self.replace_name_servers(found)

    # --- routes and heartbeats

    async def update_route(self, topic: str, *, default_topic_queue_nums: int | None = None) -> bool:
        """Ask a name server for the route of `topic`, and take it in; whether it is new or has changed.

        With `default_topic_queue_nums` the route is that of topics that brokers make by themselves, with at most so
        many queues on each. An unknown topic is False. Raises `TransportError`, `NoNameServerError`,
        `NotNameServerError`, `NameServerNotReadyError` if no route is known from before, and `ResponseError` for any
        other refusal.
        """
        self.check()
        return await self._updates.update(topic, default_topic_queue_nums)

    async def heartbeat_all(self, *, even_if_running: bool = False) -> bool:
        """Tell every broker who is here. False if there is nobody to tell or a round is under way already.

        `even_if_running`: do not skip it because a round is running, which may carry an older subscription.
        """
        return await self._heartbeats.send_all(is_forced=even_if_running)

    async def heartbeat(self, address: str) -> bool:
        """Tell one broker; whether it took it."""
        return await self._heartbeats.send(address)

    async def _look_after_brokers(self) -> None:
        await self.connections.drop(self.routes.clean_offline())
        self.connections.forget_unused()
        await self._heartbeats.send_all()

    def _connected(self, address: str) -> None:
        if self.options.heartbeat_on_connect and not self.is_closed and self._heartbeats.is_wanted(address):
            self.spawn(self._greet(address), name=f"greet {address}")

    async def introduce(self, addresses: Iterable[str]) -> None:
        """Have these brokers know who is here, on the connections of now: what they have for us then reaches us. One
        that cannot be reached is left out, and logged."""
        strangers = {address for address in addresses if not self._heartbeats.is_told(address)}
        await asyncio.gather(*(self._heartbeats.send(address) for address in strangers))

    def _lost(self, address: str) -> None:
        """Replies come over a connection that this client made: while some are waited for it is made anew at once."""
        is_wanted = self.requests and not self.is_closed and address not in self._coming_back
        if is_wanted and self.routes.is_known(address):
            self._coming_back.add(address)
            self.spawn(self._come_back(address), name=f"come back to {address}")

    async def _come_back(self, address: str) -> None:
        try:
            while self.requests and not self._heartbeats.is_told(address):
                if not await self._heartbeats.send(address):
                    await self.sleep(_COME_BACK_S)
        finally:
            self._coming_back.discard(address)

    async def _greet(self, address: str) -> None:
        if await self._heartbeats.send(address):
            self.wake_rebalance()
