"""What a producer knows and decides, for both of its shells, the asyncio one and the blocking one: no socket, no wait.

Any thread may call it. What changes (routes, faults, positions) is replaced by single assignments.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from rocketline.client.options import ClientOptions
from rocketline.client.producer.attempts import RetryRules, SendAttempts, retry_rules
from rocketline.client.producer.hooks import SendContext, SendHooks, SendMode, hooked
from rocketline.client.producer.options import ProducerOptions
from rocketline.client.producer.queue_choice import BrokerFaults, Positions, QueueSelector, choose, select
from rocketline.client.producer.receipts import SendReceipt, read_receipt
from rocketline.client.producer.send_request import SendRequest, SendRequests
from rocketline.client.runtime.identity import id_address
from rocketline.client.runtime.namespaced import as_seen, on_wire
from rocketline.client.runtime.routes import ClientRoutes, PublishInfo
from rocketline.clock import Clock
from rocketline.errors import (
    BrokerNotFoundError,
    InvalidMessageError,
    NoNameServerError,
    RouteError,
    TopicNotFoundError,
)
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.wire.command import Command
from rocketline.wire.namespaces import with_namespace, without_namespace
from rocketline.wire.unique_id import UniqueIdGenerator

if TYPE_CHECKING:
    from rocketline.client.producer.traced import SendTrace

NO_ROUTE: Final = 10005


class ModeRules(NamedTuple):
    """The rules of one way to send: if any queue will do, and if one is given."""

    any_queue: RetryRules
    given_queue: RetryRules

    @classmethod
    def of(cls, options: ProducerOptions, mode: SendMode) -> ModeRules:
        return cls(*(retry_rules(options, mode, is_queue_given=is_given) for is_given in (False, True)))


class ProducerCore:
    """The core of one producer."""

    requests_kind: ClassVar[type[SendRequests]] = SendRequests
    trace: SendTrace | None = None
    """Where a producer that traces writes down what became of its messages: see `traced.TracedCore`."""

    def __init__(
        self,
        group: str,
        options: ProducerOptions,
        *,
        client_id: str,
        namespace: str,
        common: ClientOptions,
        routes: ClientRoutes,
        clock: Clock,
    ) -> None:
        """`common` are the options of the runtime, which other clients may share."""
        self.group, self.options, self.clock, self.routes = group, options, clock, routes
        self._client_id, self.namespace = client_id, namespace
        ids = UniqueIdGenerator(id_address(common), os.getpid(), random.getrandbits(32), clock)
        self.requests = self.requests_kind(with_namespace(namespace, group), options, namespace, ids)
        self.hooks = SendHooks(options.send_hooks, options.forbidden_hooks)
        self.faults = BrokerFaults(options.latency_levels) if options.avoids_slow_brokers else None
        self.topics: set[str] = set()
        """Those that were asked for, found or not: their routes are kept up to date. Written on the loop alone."""
        self.sync, self.soon = (ModeRules.of(options, mode) for mode in (SendMode.SYNC, SendMode.ASYNC))
        self._first_limit_s = options.attempt_timeout_s if options.retries else None

    def prepare(self, messages: Message | Sequence[Message]) -> SendRequest:
        """The request for a message or a batch. Raises `InvalidNameError` or `InvalidMessageError`."""
        if self.options.message_hooks:
            if isinstance(messages, Message):
                return self.requests.prepare(self.hooked(messages))
            messages = [self.hooked(message) for message in messages]
        return (
            self.requests.prepare(messages) if isinstance(messages, Message) else self.requests.prepare_batch(messages)
        )

    def hooked(self, message: Message) -> Message:
        """What is sent in the place of a message."""
        hooks = self.options.message_hooks
        return hooked(hooks, message) if hooks and isinstance(message, Message) else message

    def publish_info(self, topic: str) -> PublishInfo | None:
        """The queues of a topic, named as on the wire; None if there is none that could be sent to."""
        info = self.routes.publish_info(topic)
        return info if info is not None and info.queues else None

    def no_route(self, topic: str, name_servers: Sequence[str]) -> RouteError:
        """Why a message cannot be sent to `topic`."""
        if not name_servers:
            return NoNameServerError()
        info = self.routes.publish_info(topic)
        if info is None or not info.has_route:
            return TopicNotFoundError(self._without_namespace(topic), name_servers)
        error = RouteError(
            f"topic {self._without_namespace(topic)!r} has no queue to write to: its permission forbids writing "
            "(6 allows it), or none of its brokers has a master"
        )
        error.code = NO_ROUTE
        return error

    def first_queue(
        self,
        request: SendRequest,
        positions: Positions,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
    ) -> MessageQueue | None:
        """Where the first attempt goes: the queue given, the one that `selector` chooses, or the next in turn.

        None if the topic's queues must be asked for first. Raises `SelectorError`, and `InvalidMessageError` if the
        queue is one of another topic.
        """
        topic = request.topic
        if queue is not None:
            if queue.topic != request.messages[0].topic:
                raise InvalidMessageError(request.messages[0].topic, f"the queue given is one of topic {queue.topic!r}")
            return on_wire(self.namespace, queue)
        info = self.routes.publish_info(topic) if topic in self.topics else None
        if info is None or not info.queues:
            return None
        if selector is not None:
            queues = [as_seen(self.namespace, one) for one in info.queues]
            return on_wire(self.namespace, select(selector, queues, request.messages[0]))
        now_s = 0.0 if self.faults is None else self.clock.monotonic()
        return choose(positions, topic, info.queues, None, self.faults, now_s)

    def first_timeout_s(self, timeout_s: float, *, is_given: bool) -> float:
        """How long the first attempt of a call may take that has `timeout_s` in all."""
        limit_s = self._first_limit_s
        return timeout_s if limit_s is None or is_given else min(limit_s, timeout_s)

    def attempts(
        self,
        rules: ModeRules,
        positions: Positions,
        first: MessageQueue,
        started_s: float,
        timeout_s: float,
        *,
        is_given: bool,
    ) -> SendAttempts:
        """The attempts of a message whose first one goes, or went, to `first`; all of them if that `is_given`."""
        topic, faults = first.topic, self.faults
        info = None if is_given else self.routes.publish_info(topic)
        queues = info.queues if info is not None and info.queues else (first,)
        attempts = SendAttempts(
            rules.given_queue if is_given else rules.any_queue,
            lambda last, now_s: choose(positions, topic, queues, last, faults, now_s),
            started_s,
            timeout_s,
            faults,
        )
        attempts.begin_with(first)
        return attempts

    def no_address(self, broker_name: str) -> BrokerNotFoundError:
        return BrokerNotFoundError(broker_name, "no route that was read names its master")

    def receipt(self, answer: Command, request: SendRequest, queue: MessageQueue, address: str) -> SendReceipt:
        """The receipt in an answer, or the `ResponseError` in it, raised."""
        if self.namespace:
            queue = as_seen(self.namespace, queue)
        return read_receipt(answer, request.message_id, request.batch_id, queue, address, request.code)

    def context(self, request: SendRequest, queue: MessageQueue, address: str, mode: SendMode) -> SendContext:
        """What hooks are shown of an attempt."""
        return SendContext(
            self.group,
            request.messages,
            as_seen(self.namespace, queue),
            address,
            mode,
            self._client_id,
            self.namespace,
            self.options.unit_mode,
        )

    def _without_namespace(self, topic: str) -> str:
        return without_namespace(topic, self.namespace) if self.namespace else topic
