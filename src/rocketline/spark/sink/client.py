"""What the tasks of one Python worker share when they write: a producer that knows routes and makes requests.

Routes and heartbeats have a thread of their own. The requests go by sockets that the tasks write and read themselves
(`rocketline.spark.sink.task_sender`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from rocketline.admin.calls import settled
from rocketline.client.aio.producer import Producer
from rocketline.client.options import make_options
from rocketline.client.producer.options import ProducerKeywords, ProducerOptions
from rocketline.client.producer.send_request import SendRequest
from rocketline.client.scheduling import Alarm
from rocketline.client.sync.connections import BlockingConnection
from rocketline.client.sync.runtime import ClientRuntime
from rocketline.errors import ResponseError
from rocketline.model import property_names
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.model.route import MASTER_ID
from rocketline.spark.options.source_and_sink import SinkOptions
from rocketline.wire import bodies, frame, headers
from rocketline.wire.bodies.routes import ClusterInfo
from rocketline.wire.codes import RequestCode, ResponseCode, SerializeType
from rocketline.wire.command import Command
from rocketline.wire.headers import SendMessageRequestHeaderV2
from rocketline.wire.properties import format_properties

_NEVER: Final = 2**31 - 1
_CLIENTS_MAX: Final = 4
"""Clients that a worker keeps, for options that differ; one more, and the one used longest ago is closed."""
_IDLE_S: Final = 30.0
_TIMERS: Final[Mapping[int, bool]] = {ResponseCode.MESSAGE_ILLEGAL: True, ResponseCode.SYSTEM_ERROR: False}
"""Whether a broker has timers, by its answer to a message for a time that is none."""


class SinkClient:
    """A producer for those who write their own sockets. Used by one thread.

    It is a member of its group inside of `with`, and for half a minute after it: tasks follow each other.
    """

    def __init__(self, options: SinkOptions) -> None:
        """Nothing is asked yet. Raises `ConfigError` or `InvalidNameError`."""
        name_servers = options.client.name_servers
        own = ProducerKeywords(
            send_timeout_s=options.send_timeout_s,
            message_bytes_max=options.message_bytes_max,
            compress_over_bytes=_NEVER,
        )
        own.update(options.client.keywords())  # type: ignore[typeddict-item]  # a part of what producers have
        self._runtime = ClientRuntime(make_options(ProducerOptions, name_servers, own))
        core = self._runtime.core
        self._producer = Producer(name_servers, group=options.group, runtime=core, **own)
        """Made for what it knows; the requests go by our own sockets, so it is never started."""
        self._group = core.with_namespace(options.group)
        self._core, self._clock = self._producer.core, core.clock
        self._is_plain = not core.decorator.is_needed
        self._timeout_s = options.send_timeout_s
        self._asked: set[str] = set()
        self._idle: dict[str, list[BlockingConnection]] = {}
        self._leaving: Alarm | None = None
        self._is_member = False
        self._runtime.lease()

    @property
    def namespace(self) -> str:
        return self._runtime.core.namespace

    # --- membership

    def __enter__(self) -> Self:
        self._runtime.portal.call(self._join())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._runtime.portal.call(self._rest())

    async def _join(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        if not self._is_member:
            self._is_member = True
            self._runtime.core.register_producer(self._group, self._producer)

    async def _rest(self) -> None:
        core = self._runtime.core
        self._leaving = core.call_later(_IDLE_S, lambda: core.spawn(self._leave(), name="leave the group"))

    async def _leave(self) -> None:
        """Nobody has written anything for a while: keep nothing open, and forget what may change meanwhile."""
        self._is_member = False
        self._asked.clear()
        self._close_idle()
        await self._runtime.core.unregister_producer(self._group)

    def close(self) -> None:
        """Close all connections."""
        self._close_idle()
        self._runtime.close()

    def _close_idle(self) -> None:
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    def check_name_servers(self) -> None:
        """Raise `TransportError` unless a name server answers."""
        core = self._runtime.core
        self._runtime.portal.call(core.ask_name_server(Command(RequestCode.GET_BROKER_CLUSTER_INFO)))

    # --- routes

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues, named as on the wire, that messages of a topic can be sent to.

        Raises `RouteError` if there are none: a topic is never made by writing to it. Raises `TransportError` if no
        name server can be asked.
        """
        full = self._runtime.core.with_namespace(topic)
        if full not in self._asked:
            self._runtime.portal.call(self._ask(full))
        info = self._core.publish_info(full)
        if info is None:
            raise self._core.no_route(full, self._runtime.core.name_servers)
        return info.queues

    def ask_again(self, topic: str) -> None:
        """Have a look at whether the topic's queues are still where they were. Raises `TransportError`."""
        self._runtime.portal.call(self._ask(self._runtime.core.with_namespace(topic)))

    async def _ask(self, topic: str) -> None:
        self._core.topics.add(topic)  # from now on the runtime keeps its route up to date
        if await self._runtime.core.update_route(topic) or topic not in self._asked:
            await self._runtime.core.heartbeat_all()  # brokers hear of the group even if it has little to write
        self._asked.add(topic)

    def address(self, queue: MessageQueue) -> str:
        """Where the queue's master is. Raises `BrokerNotFoundError`."""
        routes = self._core.routes
        broker_name = routes.broker_of(queue)
        address = routes.master(broker_name)
        if address is None:
            raise self._core.no_address(broker_name)
        return self._runtime.core.target(address, vip=True)

    # --- requests

    def connect(self, address: str) -> BlockingConnection:
        """A connection that nobody else uses; `give_back` keeps it for the next task. Raises `ConnectError`."""
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.is_quiet():
                return connection
            connection.close()
        core = self._runtime.core
        return BlockingConnection(
            address,
            tls=core.tls,
            timeout_s=core.options.connect_timeout_s,
            clock=self._clock,
            serialize_type=SerializeType.JSON,
        )

    def give_back(self, connection: BlockingConnection) -> None:
        """Nothing is on its way on it any more, in either direction."""
        self._idle.setdefault(connection.address, []).append(connection)

    def batch_frame(self, topic: str, body: bytes, queue: MessageQueue, address: str, opaque: int) -> bytes:
        """The frame that carries a batch that is laid out already."""
        return self._frame(self._core.requests.prepare_laid_out(topic, body), queue, address, opaque)

    def message_frame(self, message: Message, queue: MessageQueue, address: str, opaque: int) -> bytes:
        """The frame that carries one message."""
        return self._frame(self._core.requests.prepare(message), queue, address, opaque)

    def _frame(self, request: SendRequest, queue: MessageQueue, address: str, opaque: int) -> bytes:
        producer_core, born_ms = self._core, self._clock.wall_ms()
        broker_name = producer_core.routes.broker_of(queue)
        if self._is_plain:
            return producer_core.requests.frame(request, queue, broker_name, born_ms, opaque)
        command = producer_core.requests.command(request, queue, broker_name, born_ms)
        self._runtime.core.prepare(command, address)
        return frame.encode(replace(command, opaque=opaque))

    # --- what brokers can do

    def brokers_without_timers(self, topic: str) -> list[str]:
        """The names of the topic's brokers that keep no message until a given time.

        They are asked with a message that none of them stores: its time is no number. Who has timers says so (13), who
        has none says that (1). Raises `RouteError`, `TransportError`, and `ResponseError` for any other answer.
        """
        first_queues = {queue.broker_name: queue for queue in reversed(self.queues(topic))}
        return sorted(name for name, queue in first_queues.items() if not self._has_timers(topic, queue))

    def _has_timers(self, topic: str, queue: MessageQueue) -> bool:
        probe = Message.of(topic, b"probe", {property_names.TIMER_DELIVER_MS: "never"}, 0)
        address = self.address(queue)
        answer = self._request(probe, queue, address)
        if (has_timers := _TIMERS.get(answer.code)) is None:
            raise ResponseError(answer.code, answer.remark, request="SEND_MESSAGE_V2", address=address)
        return has_timers

    def timers_of_masters(self) -> dict[str, bool]:
        """The names of the masters that tell whether they keep messages until a given time, with what they tell.

        They are asked in the same way, with a message to the topic that each of them has by its own name. Who is down
        or lets nobody write there tells nothing. Raises `TransportError` unless a name server answers.
        """
        return self._runtime.portal.call(self._timers_of_masters())

    async def _timers_of_masters(self) -> dict[str, bool]:
        core = self._runtime.core
        answer = await core.ask_name_server(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
        if answer.code != ResponseCode.SUCCESS:
            return {}
        brokers = bodies.decode(ClusterInfo, answer.body).broker_addr_table.values()
        masters = {each.broker_name: each.broker_addrs[MASTER_ID] for each in brokers if MASTER_ID in each.broker_addrs}
        answers = await settled(
            core.ask(address, self._timer_probe(name), timeout_s=self._timeout_s, vip=True)
            for name, address in masters.items()
        )
        return {
            name: _TIMERS[each.code]
            for name, each in zip(masters, answers, strict=True)
            if isinstance(each, Command) and each.code in _TIMERS
        }

    def _timer_probe(self, broker_name: str) -> Command:
        """Made by hand: the topic has no namespace, and is its own model, so that asking makes none."""
        properties = {property_names.TIMER_DELIVER_MS: "never"}
        header = SendMessageRequestHeaderV2(
            producer_group=self._group,
            topic=broker_name,
            default_topic=broker_name,
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=0,
            born_timestamp=self._clock.wall_ms(),
            flag=0,
            properties=format_properties(properties),
            target_broker=broker_name,
        )
        return Command(RequestCode.SEND_MESSAGE_V2, headers.encode(header), b"probe")

    def _request(self, message: Message, queue: MessageQueue, address: str) -> Command:
        connection = self.connect(address)
        try:
            end_s = self._clock.monotonic() + self._timeout_s
            answer = connection.ask(self.message_frame(message, queue, address, 1), 1, self._timeout_s, end_s)
        except BaseException:
            connection.close()
            raise
        self.give_back(connection)
        return answer


_clients: dict[tuple[int, SinkOptions], SinkClient] = {}
"""By process, because a fork has none of its parent's threads; the one that was used last is the last."""


def shared_client(options: SinkOptions) -> SinkClient:
    """The client of this process for these options, whatever the topic: tasks follow each other in a Python worker."""
    process_id = os.getpid()
    which = process_id, replace(options, topic=None, adds_identity=True, unknown=())
    _clients[which] = client = _clients.pop(which, None) or SinkClient(options)
    own = [key for key in _clients if key[0] == process_id]
    if len(own) > _CLIENTS_MAX:
        _clients.pop(own[0]).close()
    return client
