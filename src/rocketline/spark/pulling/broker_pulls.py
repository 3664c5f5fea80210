"""Pulls under way to one broker, and what happens when the network or the broker fails.

Asking goes on after a failure, on a new connection and by a new route if need be, as long as there is hope: when
nothing has come for ten times `pullTimeoutMs`, the error is raised, and Spark runs the task again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from rocketline.client.consumer.pull_request import PullNode, PullQuery
from rocketline.client.consumer.subscriptions import parse_subscription
from rocketline.errors import CallTimeoutError, ConnectionLostError, RemoteProtocolError, RouteError, TransportError
from rocketline.logs import Log
from rocketline.model.queue import MessageQueue
from rocketline.spark.options.source_and_sink import SourceOptions
from rocketline.spark.pulling.executor_client import ExecutorClient, PullConnection
from rocketline.spark.pulling.frames import PreparedPull, PullAnswer, SignedPull
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command

_PATIENCE_PULLS: Final = 10
_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Between attempts; the last one again and again."""

_log = Log(__name__)
Token = TypeVar("Token")


@dataclass(frozen=True, slots=True)
class Ask(Generic[Token]):
    """One pull to send."""

    queue: MessageQueue
    """As on the wire."""
    offset: int
    count: int
    token: Token
    """What the caller knows it by."""
    is_plain: bool = False
    """Without the filter of the options."""


class Patience:
    """How long failures may go on without anything good in between."""

    def __init__(self, client: ExecutorClient, limit_s: float, sleep: Callable[[float], None]) -> None:
        self._clock, self._limit_s, self._sleep = client.clock, limit_s, sleep
        self._since_s: float | None = None
        self._failures = 0

    def reward(self) -> None:
        """Something came of it."""
        self._since_s, self._failures = None, 0

    def strain(self, what: str, problem: Exception | str) -> None:
        """Wait a moment before the next attempt. Raises the error, or `CallTimeoutError`, once it is over."""
        now_s = self._clock.monotonic()
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s >= self._limit_s:
            if isinstance(problem, Exception):
                raise problem
            raise CallTimeoutError(f"{what}, of which nothing came ({problem}),", self._limit_s)
        _log.info("pull failed, next attempt follows", queue=what, problem=problem)
        self._sleep(_PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)])
        self._failures += 1


class BrokerPulls(Generic[Token]):
    """The pulls of one reader from one broker, all of one topic. Close it."""

    def __init__(
        self,
        client: ExecutorClient,
        options: SourceOptions,
        queue: MessageQueue,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`queue`, as on the wire, is one of those that are pulled: the others are in the same place."""
        self._client, self._options, self._queue = client, options, queue
        self._requests = client.requests(options.group_on_wire)
        self._patience = Patience(client, _PATIENCE_PULLS * options.pull_timeout_s, sleep)
        self._connection: PullConnection | None = None
        self._is_route_old = False
        self._frames: dict[tuple[MessageQueue, bool], PreparedPull | SignedPull] = {}
        self._under_way: dict[int, Token] = {}
        now_ms = client.clock.wall_ms()
        self._filtered = parse_subscription(queue.topic, options.selector, sub_version=now_ms)
        self._plain = parse_subscription(queue.topic, None, sub_version=now_ms)
        self.node = PullNode("", is_slave=False)
        """Who was asked last."""
        self.tags = frozenset(self._filtered.tags_set)
        """The tags to compare: brokers compare hashes."""

    def exchange(self, asks: Sequence[Ask[Token]]) -> list[tuple[Token, PullAnswer]] | None:
        """Send pulls, if any, then wait for answers to any that are under way.

        None: the connection was lost, and every pull that was under way with it. Raises `TransportError`, `RouteError`
        or `RemoteProtocolError` when patience is over.
        """
        timeout_s = self._options.pull_timeout_s
        try:
            connection = self._connect()
            if asks:
                connection.send([self._frame(connection, ask) for ask in asks], timeout_s)
            answers = connection.receive(timeout_s)
            if any(answer.code == ResponseCode.GO_AWAY for answer in answers):
                raise ConnectionLostError(connection.address, "the broker is about to leave")
        except (TransportError, RouteError, RemoteProtocolError) as error:
            self._drop()
            self._is_route_old = True
            self._patience.strain(f"pulling {self._queue}", error)
            return None
        under_way = self._under_way
        return [(under_way.pop(answer.opaque), answer) for answer in answers if answer.opaque in under_way]

    def _connect(self) -> PullConnection:
        if self._connection is None:
            if self._is_route_old:
                self._client.update_route(self._queue.topic)
                self._is_route_old = False
            self.node = self._client.node(self._queue, self._options.route_ttl_s)
            self._connection = self._client.borrow(self.node.address)
        return self._connection

    def reward(self) -> None:
        """An answer was of use."""
        self._patience.reward()

    def strain(self, problem: str) -> None:
        """An answer was of no use; wait a moment. Raises `CallTimeoutError` when patience is over."""
        self._patience.strain(f"pulling {self._queue}", problem)

    def _frame(self, connection: PullConnection, ask: Ask[Token]) -> bytes:
        key = ask.queue, ask.is_plain
        pulls = self._frames.get(key)
        if pulls is None:
            pulls = self._frames[key] = self._make_frames(ask)
        opaque = connection.next_opaque()
        self._under_way[opaque] = ask.token
        return pulls.frame(ask.offset, ask.count, opaque)

    def _make_frames(self, ask: Ask[Token]) -> PreparedPull | SignedPull:
        subscription = self._plain if ask.is_plain else self._filtered

        def command(offset: int, count: int) -> Command:
            query = PullQuery(ask.queue, offset, subscription, count, with_subscription=True)
            made = self._requests.command(query, self.node)
            self._client.complete(made, self.node.address)
            return made

        return SignedPull(command) if self._client.is_signed else PreparedPull(command(0, 1))

    def _drop(self) -> None:
        self._under_way.clear()
        self._frames.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Leave the connection to the next reader, unless answers are still to come on it."""
        if self._under_way:
            self._drop()
        elif self._connection is not None:
            self._client.give_back(self._connection)
            self._connection = None
