"""The lite pull consumer without its `poll`: what its asyncio and its blocking form share, on the runtime's loop.

Either `subscribe`, and rebalances give it queues, or `assign`, and it has exactly those. `LitePullLoops` pulls them
into `AssignedQueues`, where `poll` takes from. Java: DefaultLitePullConsumerImpl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from enum import Enum
from functools import partial
from typing import Any, TypeAlias

from rocketline.client.consumer.filter_check import check_filters
from rocketline.client.consumer.offset_store import ReadFrom
from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.client.consumer.pulls import PullPlan, Pulls
from rocketline.client.consumer.queue_bounds import QueueBounds
from rocketline.client.consumer.running_info import running_info
from rocketline.client.consumer.subscriptions import MessageSelector, Subscriptions, parse_subscription
from rocketline.client.lite_pull.assigned_queues import NOWHERE, AssignedQueues
from rocketline.client.lite_pull.options import LitePullOptions
from rocketline.client.lite_pull.pull_loop import LitePullLoops
from rocketline.client.rebalance.listeners import tell_listener
from rocketline.client.rebalance.options import make_offset_store, start_timestamp_ms
from rocketline.client.rebalance.rebalancer import Rebalancer
from rocketline.client.rebalance.start_offset import StartOffsets
from rocketline.client.rebalance.topic_watch import TopicListener, TopicWatch
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.namespaced import as_seen, find_queues, on_wire
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.validation import check_topic
from rocketline.errors import ClientError, InvalidFilterError, InvalidOffsetError, RocketlineError
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rocketline.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

Cache: TypeAlias = ProcessQueue[ReceivedMessage]


class _Mode(Enum):
    """Who chooses the queues. Java: SubscriptionType."""

    NONE = "neither"
    SUBSCRIBE = "subscribe"
    ASSIGN = "assign"


class LitePullCore:
    """A member of its group from `join` to `end`. Queues and topics are as applications name them.

    One class for both ways to get queues: who has chosen one cannot change it (`_choose`), and how queues come is all
    that differs. Positions, pauses, commits and what `poll` takes are the same for both, and need everything here.
    """

    def __init__(self, runtime: ClientRuntime, group: str, options: LitePullOptions, queues: AssignedQueues) -> None:
        """`queues` is where messages wait for `poll`."""
        self.queues = queues
        self._runtime, self._options = runtime, options
        self._group = runtime.with_namespace(group)
        self._mode = _Mode.NONE
        self._is_running = False
        self._throttle = Throttle(runtime.clock, name=__name__)
        self._subscriptions = Subscriptions(runtime.clock)
        self._expressions: dict[str, SubscriptionData] = {}
        """By topics whose queues were assigned."""
        self._given_up: set[MessageQueue] = set()
        """Queues that were assigned, and whose offsets have not been saved since."""
        self._offsets = make_offset_store(options, runtime, self._group)
        self._bounds = QueueBounds(runtime)
        start = StartOffsets(
            partial(self._offsets.read, source=ReadFrom.MEMORY_THEN_STORE),
            self._bounds,
            options.consume_from,
            start_timestamp_ms(options, runtime.clock),
        )
        plan = PullPlan(
            runtime.routes,
            self._group,
            filter_hooks=options.filter_hooks,
            namespace=runtime.namespace,
            unit_mode=options.unit_mode,
        )
        self._loops = LitePullLoops(
            runtime,
            options,
            queues,
            Pulls(runtime, plan),
            start=start,
            subscription=self._subscription,
            throttle=self._throttle,
        )
        self._rebalancer = Rebalancer(
            runtime,
            self._group,
            self,
            message_model=options.message_model,
            strategy=options.allocation,
            subscriptions=self._subscriptions,
            offsets=self._offsets,
            start=start,
            is_push=False,
        )
        self._watch = TopicWatch(runtime, self._throttle)

    # --- life

    async def join(self) -> None:
        """Load offsets and register. Raises `GroupInUseError`, and what the keeper of offsets raises."""
        await self._offsets.load()
        self._runtime.register_consumer(self._group, self)

    async def begin(self) -> None:
        """Find routes and set to work: listeners are called from here on, and may seek. Raises `TransportError` or
        `NoNameServerError` if no name server answers, `InvalidFilterError` if a broker refuses an expression."""
        self._is_running = True
        for topic in list(self._subscriptions):
            await self._runtime.look_for_route(topic)
        await check_filters(self._runtime, self._group, self._wanted())
        await self._watch.start(self._options.topic_check_period_s)
        await self._settle_in()

    async def end(self) -> None:
        """Stop pulling, save what was committed, leave the group. Positions that nobody committed are lost."""
        self._is_running = False
        self._watch.close()
        await self._loops.close()
        try:
            await self._rebalancer.stop()
            await self.persist_offsets(is_last=True)
            await self._runtime.unregister_consumer(self._group)
        finally:
            self._rebalancer.close()
            self.queues.close()
            self._throttle.flush()

    async def _settle_in(self) -> None:
        """Tell brokers what we read, so that others make room, and look for our share; or begin at once."""
        if not self._is_running:  # any more
            return
        if self._mode is _Mode.ASSIGN:
            self._begin_assigned()
        elif await self._runtime.heartbeat_all():
            self._runtime.wake_rebalance()

    # --- choosing queues

    def subscribe(self, topic: str, selector: MessageSelector | str | None) -> None:
        """Share the topic's queues with the other members of the group. Raises `ClientError`, `InvalidNameError`."""
        check_topic(topic)
        self._choose(_Mode.SUBSCRIBE)
        topic_on_wire = self._runtime.with_namespace(topic)
        self._subscriptions.put(topic_on_wire, selector)
        if self._is_running:
            self._runtime.spawn(self._look_up(topic_on_wire), name=f"subscribe to {topic}")

    async def _look_up(self, topic: str) -> None:
        try:
            await self._runtime.update_route(topic)
        except RocketlineError as error:
            self._throttle.warning("route not known", "it is asked for again soon", topic=topic, problem=error)
        try:
            await check_filters(self._runtime, self._group, self._wanted())
        except InvalidFilterError as error:  # whoever subscribed is gone by now; pulls will be refused
            self._throttle.error("subscription by SQL is refused", str(error), topic=topic)
        await self._settle_in()

    def unsubscribe(self, topic: str) -> None:
        """Give the topic's queues up, at once."""
        topic_on_wire = self._runtime.with_namespace(topic)
        if topic_on_wire in self._subscriptions:
            self._subscriptions.remove(topic_on_wire)
            self._take_over(
                {queue: cache for queue, cache in self.queues.caches().items() if queue.topic != topic_on_wire}
            )
            self._runtime.wake_rebalance()

    def assign(self, queues: Collection[MessageQueue], selector: MessageSelector | str | None) -> None:
        """Read exactly these queues from now on, whatever others of the group do. Raises `ClientError`."""
        self._choose(_Mode.ASSIGN)
        wanted = [on_wire(self._runtime.namespace, queue) for queue in queues]
        topics = {queue.topic for queue in wanted}
        self._expressions = {topic: parse_subscription(topic, selector, sub_version=0) for topic in topics}
        known, now_s = self.queues.caches(), self._runtime.clock.monotonic()
        self._given_up = (self._given_up | known.keys()) - set(wanted)
        self._take_over({queue: known.get(queue) or ProcessQueue(now_s) for queue in wanted})
        if self._is_running:
            self._begin_assigned()

    def _choose(self, mode: _Mode) -> None:
        if self._mode not in (mode, _Mode.NONE):
            raise ClientError(
                f"this consumer gets its queues by {self._mode.value} and cannot {mode.value} too: make another one"
            )
        self._mode = mode

    def _take_over(self, caches: Mapping[MessageQueue, Cache]) -> None:
        for removed in self.queues.assign(caches).removed:
            self._loops.end(removed)

    def _take_over_share(self) -> None:
        """Read what rebalances have given us."""
        owned = self._rebalancer.queues
        self._take_over({queue: cache for queue, cache in owned.items() if not cache.is_dropped})

    def _begin_assigned(self) -> None:
        for queue in self.queues.queues():
            self._loops.begin(self.queues.find(queue))

    def _wanted(self) -> list[SubscriptionData]:
        return list((self._expressions if self._mode is _Mode.ASSIGN else self._subscriptions).values())

    def _subscription(self, topic: str) -> SubscriptionData | None:
        return (self._expressions if self._mode is _Mode.ASSIGN else self._subscriptions).get(topic)

    def checked_timeout_s(self, timeout_s: float | None) -> float:
        """How long a `poll` may wait. Raises `ValueError`."""
        if timeout_s is None:
            return self._options.poll_timeout_s
        if timeout_s < 0:
            raise ValueError(f"timeout_s={timeout_s}: a poll cannot end before it begins; 0 looks and does not wait")
        return timeout_s

    def assignment(self) -> set[MessageQueue]:
        return {as_seen(self._runtime.namespace, queue) for queue in self.queues.queues()}

    async def topic_queues(self, topic: str) -> set[MessageQueue]:
        """The queues of a topic by its newest route. Raises `TopicNotFoundError`."""
        return await find_queues(self._runtime, topic)

    def watch(self, topic: str, listener: TopicListener) -> None:
        check_topic(topic)
        self._watch.add(topic, listener)

    # --- going elsewhere

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Raises `ClientError` for a queue that is not assigned, `InvalidOffsetError` for an offset outside of it."""
        self.queues.find(on_wire(self._runtime.namespace, queue))
        low, high = await asyncio.gather(self.min_offset(queue), self.max_offset(queue))
        if not low <= offset <= high:
            raise InvalidOffsetError(queue, offset, low, high)
        self._go(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        self._go(queue, await self.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        self._go(queue, await self.max_offset(queue))

    async def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        self._go(queue, await self.search_offset(queue, time_ms))

    def _go(self, queue: MessageQueue, offset: int) -> None:
        self._loops.begin_anew(self.queues.seek(on_wire(self._runtime.namespace, queue), offset))

    def set_paused(self, queues: Collection[MessageQueue], is_paused: bool) -> None:
        self.queues.set_paused([on_wire(self._runtime.namespace, queue) for queue in queues], is_paused)

    # --- offsets

    async def commit(
        self, what: Collection[MessageQueue] | Mapping[MessageQueue, int] | None, *, is_persisted: bool
    ) -> None:
        """Commit the positions of all queues or of those given, or the offsets given with them."""
        if isinstance(what, Mapping):
            given, mine = (
                {on_wire(self._runtime.namespace, queue): offset for queue, offset in what.items()},
                self.queues.queues(),
            )
            positions = {queue: offset for queue, offset in given.items() if offset != NOWHERE and queue in mine}
        else:
            positions = self.queues.positions(
                None if what is None else [on_wire(self._runtime.namespace, one) for one in what]
            )
        self.commit_positions(positions)
        if is_persisted:
            await asyncio.gather(*map(self._offsets.persist, positions))

    def commit_positions(self, positions: Mapping[MessageQueue, int]) -> None:
        """Commit what `AssignedQueues.positions` says. Brokers hear of it within seconds."""
        for queue, offset in positions.items():
            self._offsets.update(queue, offset, increase_only=False)

    async def committed(self, queue: MessageQueue) -> int:
        """The group's offset, or -1. Raises what the broker or the network says: then nobody knows."""
        wanted = on_wire(self._runtime.namespace, queue)
        is_mine = wanted in self.queues.queues()  # of others' queues our memory grows old
        return await self._offsets.read(wanted, ReadFrom.MEMORY_THEN_STORE if is_mine else ReadFrom.STORE)

    async def min_offset(self, queue: MessageQueue) -> int:
        return await self._bounds.min_offset(on_wire(self._runtime.namespace, queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        return await self._bounds.max_offset(on_wire(self._runtime.namespace, queue))

    async def search_offset(self, queue: MessageQueue, time_ms: int) -> int:
        return await self._bounds.search_offset(on_wire(self._runtime.namespace, queue), time_ms)

    # --- what rebalances say (`QueueOwner`)

    def begin_pulling(self, queue: MessageQueue, process_queue: ProcessQueue[Any], offset: int) -> None:
        self._take_over_share()
        assigned = self.queues.find(queue)
        if assigned.pull_offset == NOWHERE:  # else the application went elsewhere meanwhile
            assigned.pull_offset = offset
        if self._is_running:
            self._loops.begin(assigned)

    async def queues_changed(
        self, topic: str, queues: Collection[MessageQueue], assigned: Collection[MessageQueue]
    ) -> None:
        self._take_over_share()  # before the listener looks at the assignment, or seeks
        if self._options.queue_listener is not None:
            await tell_listener(self._runtime, self._throttle, self._options.queue_listener, topic, queues, assigned)

    # --- what the runtime asks (`ConsumerMember`)

    @property
    def group(self) -> str:
        return self._group

    @property
    def consume_type(self) -> ConsumeType:
        return ConsumeType.CONSUME_ACTIVELY

    @property
    def message_model(self) -> MessageModel:
        return self._options.message_model

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET  # whatever the options say, as in Java

    @property
    def unit_mode(self) -> bool:
        return self._options.unit_mode

    def subscriptions(self) -> Collection[SubscriptionData]:
        return list(self._subscriptions.values())

    async def rebalance(self) -> bool:
        if self._mode is not _Mode.SUBSCRIBE or not self._is_running:
            return True
        is_balanced = await self._rebalancer.run()
        self._take_over_share()
        return is_balanced

    def runtime_closed(self) -> None:
        self.queues.wake()

    async def persist_offsets(self, *, is_last: bool = False) -> None:
        if self._mode is _Mode.SUBSCRIBE:
            await self._offsets.persist_all(self._rebalancer.queues, is_last=is_last)
            return
        given_up, self._given_up = self._given_up, set()
        await self._offsets.persist_all(self.queues.queues() | given_up, is_last=is_last)
        for queue in given_up - self.queues.queues():
            self._offsets.remove(queue)

    def running_info(self, is_with_stacks: bool) -> ConsumerRunningInfo:
        properties = {
            "consumerGroup": self._group,
            "messageModel": self._options.message_model.name,
            "PROP_CONSUME_TYPE": self.consume_type.name,
            "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in self._runtime.name_servers),
        }
        return self.queues.look(
            lambda caches: running_info(
                self._runtime,
                properties,
                self.subscriptions(),
                caches,
                self._offsets,
                {},
                is_with_stacks=is_with_stacks,
            )
        )

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Only push consumers can be reset from outside; the application of this one seeks."""

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return self._offsets.offsets(topic or None)

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult:
        raise ClientError("a lite pull consumer has no handler that could consume a message on demand")
