"""How an executor reaches brokers: routes, and connections that stay open from one task to the next.

A Python worker runs one task after another. What it has opened for one is kept for the next with the same settings, in
this process and no other: a fork begins anew. There is no thread behind it and no heartbeat, only sockets.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Final

from rocketline.client.consumer.pull_options import PullOptions
from rocketline.client.consumer.pull_request import PullNode, PullRequests
from rocketline.client.options import make_options
from rocketline.client.runtime.connections import RequestDecorator, tls_context
from rocketline.client.runtime.name_servers import NameServerChoice, check_name_server
from rocketline.client.runtime.requests import checked, command_of
from rocketline.client.runtime.routes import ClientRoutes
from rocketline.client.sync.connections import BlockingConnection, BlockingConnections
from rocketline.clock import Clock, SystemClock
from rocketline.errors import (
    BrokerNotFoundError,
    NoNameServerError,
    NotNameServerError,
    ResponseError,
    RouteError,
    TopicNotFoundError,
    TransportError,
)
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.model.route import MASTER_ID
from rocketline.model.topic_config import TopicConfig
from rocketline.spark.options.client import ClientSettings
from rocketline.spark.pulling.frames import AnswerReader, FrameCutter, PullAnswer
from rocketline.wire import bodies
from rocketline.wire.bodies.believed_routes import decode_route
from rocketline.wire.bodies.routes import ClusterInfo
from rocketline.wire.codes import RequestCode, ResponseCode, SerializeType
from rocketline.wire.command import Command
from rocketline.wire.headers import GetRouteInfoRequestHeader, GetTopicConfigRequestHeader

_IDLE_S: Final = 60.0
"""A connection that nobody used for so long is closed: brokers close theirs after two minutes."""
_CLIENTS_MAX: Final = 8
"""Settings that a process keeps connections for; the oldest go first."""
_OPAQUE_MASK: Final = 2**31 - 1
_CLEANUP_POLICY, _COMPACTION = "cleanup.policy", "COMPACTION"

_log = Log(__name__)


class PullConnection:
    """A connection to one broker with many pulls under way, for one reader at a time."""

    def __init__(self, connection: BlockingConnection, clock: Clock) -> None:
        self._connection, self._clock = connection, clock
        self._opaques = itertools.count(1)
        self._frames, self._answers = FrameCutter(), AnswerReader()
        self.address = connection.address

    def next_opaque(self) -> int:
        return next(self._opaques) & _OPAQUE_MASK

    def send(self, frames: Sequence[bytes], timeout_s: float) -> None:
        """Raises `TransportError`."""
        self._connection.tell(b"".join(frames), timeout_s)

    def receive(self, timeout_s: float) -> list[PullAnswer]:
        """The next answers: one, and all that came with it. Raises `TransportError`, also if nothing comes in time, or
        `RemoteProtocolError`."""
        end_s = self._clock.monotonic() + timeout_s
        answers: list[PullAnswer] = []
        while not answers:
            frames = self._frames.cut(self._connection.receive_bytes(end_s))
            # Requests are passed over: brokers have no reason to ask here.
            answers = [answer for whole in frames if (answer := self._answers.read(whole)) is not None]
        return answers

    def note_use(self) -> None:
        self._connection.used_s = self._clock.monotonic()

    def is_usable(self) -> bool:
        """The connection was used not long ago, and the broker has not said anything since."""
        return self._clock.monotonic() - self._connection.used_s < _IDLE_S and self._connection.is_quiet()

    def close(self) -> None:
        self._connection.close()


class ExecutorClient:
    """The name servers and brokers of one cluster, for one set of settings. Not for use by several threads."""

    def __init__(self, settings: ClientSettings, clock: Clock | None = None) -> None:
        """Nothing is opened yet. Raises `ConfigError` if files for TLS cannot be used."""
        self.clock: Clock = clock or SystemClock()
        self._settings = settings
        options = make_options(PullOptions, settings.name_servers, settings.keywords())
        self._decorator = RequestDecorator(options)
        self._tls = tls_context(options.tls)
        self._choice = NameServerChoice(options.name_servers)
        self._asking = BlockingConnections(
            tls=self._tls, connect_timeout_s=settings.connect_timeout_s, idle_s=_IDLE_S, clock=self.clock
        )
        self._routes = ClientRoutes()
        self._asked_s: dict[str, float] = {}
        """When the route of each topic was asked for."""
        self._requests: dict[str, PullRequests] = {}
        self._compacted: dict[tuple[str, str], bool] = {}
        self._idle: dict[str, PullConnection] = {}
        self.grains: dict[tuple[str, int], int] = {}
        """How many messages brokers gave at once, by their names and how many they were asked for."""

    @property
    def is_signed(self) -> bool:
        """Requests are signed, each over all that it says."""
        return self._settings.credentials is not None

    def close(self) -> None:
        """Close what nobody uses; what is in use is its user's to close."""
        self._asking.close()
        for connection in self._idle.values():
            connection.close()
        self._idle.clear()

    # --- requests

    def requests(self, group_on_wire: str) -> PullRequests:
        """What pulls of this group say."""
        return self._requests.setdefault(group_on_wire, PullRequests(self._routes, group_on_wire))

    def complete(self, command: Command, address: str) -> None:
        """Add what every request carries, the signature last."""
        self._decorator.apply(command, address)

    def _ask(self, address: str, command: Command, timeout_s: float) -> Command:
        """The answer, whatever its code. Raises `TransportError`."""
        self.complete(command, address)
        return self._asking.request(address, command, timeout_s)

    def _ask_name_server(self, command: Command) -> Command:
        """The answer of the first name server that gives one. Raises `NoNameServerError`, `NotNameServerError` or
        `TransportError`."""
        problem: TransportError | NotNameServerError | None = None
        for address in self._choice.order():
            try:
                answer = self._ask(address, command, self._settings.api_timeout_s)
                check_name_server(address, command, answer)
            except (TransportError, NotNameServerError) as error:
                self._choice.failed(address)
                problem = error
            else:
                self._choice.works(address)
                return answer
        raise problem or NoNameServerError()

    # --- routes

    def node(self, queue: MessageQueue, route_ttl_s: float) -> PullNode:
        """Where to pull the queue, named as on the wire: from the master, or if there is none from a replica.

        A route that is older is asked for again: where one broker was, another may be by now. If nobody tells, the old
        one is better than none. Raises `BrokerNotFoundError` or `TopicNotFoundError` if the newest route does not tell,
        `TransportError`.
        """
        node, now_s = self._known_node(queue), self.clock.monotonic()
        if node is None or now_s - self._asked_s.get(queue.topic, now_s) >= route_ttl_s:
            self._asked_s[queue.topic] = now_s
            try:
                self.update_route(queue.topic)
            except (TransportError, RouteError, ResponseError) as error:
                if node is None:
                    raise
                _log.info("route not renewed, the old one serves", topic=queue.topic, problem=error)
            node = self._known_node(queue)
        if node is None:
            raise BrokerNotFoundError(queue.broker_name, f"the newest route of topic {queue.topic!r} does not name it")
        return node

    def _known_node(self, queue: MessageQueue) -> PullNode | None:
        if self._routes.route(queue.topic) is None:
            return None
        found = self._routes.address_for_pull(self._routes.broker_of(queue), MASTER_ID)
        return found and PullNode(*found)

    def update_route(self, topic_on_wire: str) -> None:
        """Ask a name server anew. Raises `TopicNotFoundError`, `NoNameServerError`, `TransportError`."""
        command = command_of(GetRouteInfoRequestHeader(topic=topic_on_wire, accept_standard_json_only=True))
        answer = self._ask_name_server(command)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise TopicNotFoundError(topic_on_wire, self._choice.addresses)
        route = decode_route(topic_on_wire, checked(answer, command, "the name server").body)
        self._routes.apply(topic_on_wire, route)

    def is_gone(self, queue: MessageQueue, route_ttl_s: float) -> bool:
        """The queue's broker is registered, and the route does not tell of it: the topic is not there any more.

        A broker registers together with its topics, so only a route that is asked for once it is registered proves
        this: one from before may be of the time when the broker was away. Raises `NoNameServerError`, `TransportError`.
        """
        if not self._has_broker(queue.broker_name):
            return False
        try:
            self.update_route(queue.topic)
            self.node(queue, route_ttl_s)
        except (TopicNotFoundError, BrokerNotFoundError):
            return True
        return False

    def _has_broker(self, name: str) -> bool:
        command = Command(RequestCode.GET_BROKER_CLUSTER_INFO)
        answer = checked(self._ask_name_server(command), command, "the name server")
        return name in bodies.decode(ClusterInfo, answer.body).broker_addr_table

    def is_compacted(self, topic_on_wire: str, node: PullNode, timeout_s: float) -> bool:
        """The broker keeps only the last message of each key, so that offsets are missing and nothing is wrong.

        Raises `TransportError`. A broker that does not know the question does not compact.
        """
        known = self._compacted.get((topic_on_wire, node.address))
        if known is None:
            command = command_of(GetTopicConfigRequestHeader(topic=topic_on_wire))
            try:
                answer = checked(self._ask(node.address, command, timeout_s), command, node.address)
                known = bodies.decode(TopicConfig, answer.body).attributes.get(_CLEANUP_POLICY) == _COMPACTION
            except ResponseError:
                known = False
            self._compacted[topic_on_wire, node.address] = known
        return known

    # --- connections

    def borrow(self, address: str) -> PullConnection:
        """A connection for one reader; give it back, or close it. Raises `ConnectError`."""
        idle = self._idle.pop(address, None)
        if idle is not None and idle.is_usable():
            return idle
        if idle is not None:
            idle.close()
        connection = BlockingConnection(
            address,
            tls=self._tls,
            timeout_s=self._settings.connect_timeout_s,
            clock=self.clock,
            serialize_type=SerializeType.JSON,
        )
        return PullConnection(connection, self.clock)

    def give_back(self, connection: PullConnection) -> None:
        """For the next reader. Nothing may be under way on it."""
        connection.note_use()
        before = self._idle.pop(connection.address, None)
        if before is not None:
            before.close()
        self._idle[connection.address] = connection


_kept: dict[tuple[int, ClientSettings], ExecutorClient] = {}
"""By process and settings; the newest last."""


def client_for(settings: ClientSettings) -> ExecutorClient:
    """The client of this process, made if there is none yet."""
    key = os.getpid(), settings
    client = _kept.pop(key, None) or ExecutorClient(settings)
    _kept[key] = client
    while len(_kept) > _CLIENTS_MAX:
        (process, _), oldest = next(iter(_kept.items()))
        del _kept[process, _]
        if process == os.getpid():  # a parent's connections are the parent's to close
            oldest.close()
    return client


def close_clients() -> None:
    """Close all that this process keeps. For tests: a worker of Spark's keeps them until it ends."""
    own = [key for key in _kept if key[0] == os.getpid()]
    for key in own:
        _kept.pop(key).close()
