"""What the driver asks name servers and brokers, on an event loop: all questions of one kind at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketline.admin.calls import Calls, together
from rocketline.admin.offsets import Offsets
from rocketline.admin.topics import Topics
from rocketline.client.consumer.offset_store import one_ahead
from rocketline.client.consumer.pull_request import PullQuery
from rocketline.client.consumer.pulls import PullPlan, Pulls
from rocketline.client.consumer.subscriptions import ALL, MessageSelector, parse_subscription
from rocketline.client.runtime.routes import STATIC_BROKER_PREFIX
from rocketline.errors import BrokerNotFoundError, ConfigError, ResponseError, TopicNotFoundError
from rocketline.model.names import is_dlq_topic, is_retry_topic, is_system_topic, reply_topic
from rocketline.model.queue import MessageQueue
from rocketline.spark.cluster.view import QueueExtent
from rocketline.spark.options.source_and_sink import SourceOptions
from rocketline.spark.queue_json import shown
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.heartbeat import CheckClientRequestBody
from rocketline.wire.bodies.routes import ClusterInfo
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.namespaces import namespace_of, without_namespace

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

_NO_FILTER_CODES: Final = (ResponseCode.SYSTEM_ERROR, ResponseCode.SUBSCRIPTION_PARSE_FAILED)
"""What brokers answer if they do not know SQL, or not this."""


class Survey(NamedTuple):
    """The queues that are to be read, and those that were."""

    queues: frozenset[MessageQueue]
    gone: frozenset[MessageQueue]


def is_meant(options: SourceOptions, queue: MessageQueue) -> bool:
    """The options want it. Whoever takes a topic out of `subscribe` loses nothing by mistake."""
    if options.assignment:
        return queue in options.assignment
    if options.pattern is not None:
        return matches(options.pattern, queue.topic)
    return queue.topic in options.topics


def matches(pattern: str, topic: str) -> bool:
    """The pattern means the topic. Retry and dead-letter topics are meant only by a pattern that begins like them.

    >>> matches("order.*", "orders"), matches("order", "orders"), matches(".*", "%DLQ%billing")
    (True, False, False)
    """
    is_derived = is_retry_topic(topic) or is_dlq_topic(topic)
    return (not is_derived or pattern.startswith("%")) and re.fullmatch(pattern, topic) is not None


class ClusterQueries:
    """Each method is one round of questions. Topics are as users name them; on the wire they have their namespace."""

    def __init__(self, options: SourceOptions, runtime: ClientRuntime) -> None:
        self._options, self._runtime = options, runtime
        self._calls = Calls(runtime, options.client.api_timeout_s)
        self._offsets = Offsets(self._calls)
        self._pulls = Pulls(runtime, PullPlan(runtime.routes, options.group_on_wire))

    # --- which queues

    async def survey(self, known: Collection[MessageQueue]) -> Survey:
        """The queues that the options mean, and which of the known ones are gone.

        Raises `TopicNotFoundError` and `ConfigError` for what is named, not there, and was not known before;
        `BrokerNotFoundError` if a broker that had queues is not registered: it may come back, with its messages. Who
        does not mind lost messages goes on without it, and where it was once it is back.
        """
        options = self._options
        topics = await self._topics()
        found: set[MessageQueue] = set()
        known_topics = {queue.topic for queue in known}
        for topic, queues in zip(topics, await together(map(self._queues, topics)), strict=True):
            found.update(queues or ())
            if not queues and topic not in known_topics and options.pattern is None:
                if queues is None:
                    raise TopicNotFoundError(topic, self._runtime.name_servers)
                raise ConfigError([f"topic {topic!r} has no queue to read: look at its permission"])
        wanted = set(options.assignment) | {queue for queue in known if is_meant(options, queue)}
        missing = wanted - found
        if needed := missing if options.fail_on_data_loss else missing.difference(known):
            await self._check_brokers(needed)
            # A broker registers together with its topics, so only a route that is asked for once it is registered
            # proves that a queue is gone: the first one may be of the time when the broker was away.
            for queues in await together(map(self._queues, sorted({queue.topic for queue in needed}))):
                found.update(queues or ())
            missing -= found
        for queue in sorted(missing.difference(known)):
            raise ConfigError([f"assign: there is no {shown(queue)}"])
        if options.assignment:
            found &= set(options.assignment)
        return Survey(frozenset(found), frozenset(missing))

    async def _queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """By the newest route; None if the topic has none."""
        name, routes = self._options.client.on_wire(topic), self._runtime.routes
        try:
            routes.apply(name, await self._calls.route(name))
        except TopicNotFoundError:
            return None
        return tuple(MessageQueue(topic, queue.broker_name, queue.queue_id) for queue in routes.queues_to_read(name))

    async def _topics(self) -> list[str]:
        options = self._options
        if options.pattern is None:
            return sorted({*options.topics, *(queue.topic for queue in options.assignment)})
        names = await Topics(self._calls).names()
        names = users_topics(names, await self._calls.cluster_info(), options.client.namespace)
        return [name for name in names if matches(options.pattern, name)]

    async def _check_brokers(self, missing: Iterable[MessageQueue]) -> None:
        registered = (await self._calls.cluster_info()).broker_addr_table
        for queue in sorted(missing):
            is_static = queue.broker_name.startswith(STATIC_BROKER_PREFIX)  # it stands for several, which may change
            if queue.broker_name not in registered and not is_static:
                raise BrokerNotFoundError(
                    queue.broker_name,
                    f"it has {shown(queue)} and is not registered with the name server: is it down? If it has left for "
                    "good, set failOnDataLoss=false to go on without it",
                )

    # --- what they hold

    async def bounds(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, QueueExtent]:
        """Where each begins and ends."""
        return dict(zip(queues, await together(map(self._bounds, queues)), strict=True))

    async def _bounds(self, queue: MessageQueue) -> QueueExtent:
        low = await self._offsets.min(self._on_wire(queue))
        return QueueExtent(low, max(low, await self._offsets.max(self._on_wire(queue))))

    async def offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first message of each queue that was stored at its time or later; the queue's end if none was."""
        found = await together(self._offsets.at_time(self._on_wire(queue), at_ms) for queue, at_ms in times_ms.items())
        return dict(zip(times_ms, found, strict=True))

    async def committed(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Where the consumer group is in each; None if it has no offset there."""
        group = self._options.group_on_wire
        found = await together(self._offsets.committed(group, self._on_wire(queue)) for queue in queues)
        return dict(zip(queues, found, strict=True))

    async def store_times(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """When the message at each queue's offset was stored; queues without such a message are left out."""
        times = await together(self._store_ms(queue, offset) for queue, offset in offsets.items())
        return {queue: time_ms for queue, time_ms in zip(offsets, times, strict=True) if time_ms is not None}

    async def _store_ms(self, queue: MessageQueue, offset: int) -> int | None:
        result = await self._pulls.pull(self._query(queue, offset, ALL), self._options.pull_timeout_s)
        return next((message.store_ms for message in result.messages if message.queue_offset == offset), None)

    # --- what they can, and are told

    async def check_reading(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Pull as tasks will. Raises `ConfigError` for an expression that a broker does not take."""
        await together(self._check_reading(queue, offset) for queue, offset in offsets.items())

    async def _check_reading(self, queue: MessageQueue, offset: int) -> None:
        query = self._query(queue, offset, self._options.selector)
        if self._options.sql is not None:
            await self._check_sql(query)
        await self._pulls.pull_raw(query, self._options.pull_timeout_s)

    async def _check_sql(self, query: PullQuery) -> None:
        """Ask first: a pull whose expression Apache's broker cannot parse brings all messages, and no error."""
        queue, client = query.queue, self._options.client
        body = CheckClientRequestBody(
            self._runtime.client_id, self._options.group_on_wire, client.namespace or None, query.subscription
        )
        try:
            await self._calls.ask(await self._calls.master(queue), RequestCode.CHECK_CLIENT_CONFIG, body=encode(body))
        except ResponseError as error:
            if error.code not in _NO_FILTER_CODES:
                raise
            raise ConfigError(
                [
                    f"sql={self._options.sql!r}: broker {queue.broker_name!r} refuses it: {error.remark or error}. "
                    "Brokers filter by SQL with enablePropertyFilter=true; else filter by tags, or in Spark"
                ]
            ) from None

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Have brokers keep how far the consumer group is."""
        group = self._options.group_on_wire
        for part in one_ahead(offsets):
            await together(self._offsets.commit(group, self._on_wire(queue), offsets[queue]) for queue in part)

    def _on_wire(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(self._options.client.on_wire(queue.topic), queue.broker_name, queue.queue_id)

    def _query(self, queue: MessageQueue, offset: int, selector: MessageSelector | str) -> PullQuery:
        wanted = self._on_wire(queue)
        subscription = parse_subscription(wanted.topic, selector, sub_version=self._runtime.clock.wall_ms())
        return PullQuery(wanted, offset, subscription, count_max=1, with_subscription=True)


def users_topics(names: Iterable[str], info: ClusterInfo, namespace: str = "") -> list[str]:
    """The topics that belong to users, of all that a name server knows, as users of a namespace name them.

    Brokers also register topics of their own, some of them named after themselves and their cluster.
    """
    own = {*info.broker_addr_table, *info.cluster_addr_table, *map(reply_topic, info.cluster_addr_table)}
    users = [name for name in names if name not in own and not is_system_topic(name)]
    if not namespace:
        return sorted(users)
    return sorted(without_namespace(name, namespace) for name in users if namespace_of(name) == namespace)
