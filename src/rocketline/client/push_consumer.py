"""The asyncio push consumer. Java: DefaultMQPushConsumer.

    async def handle(message: ReceivedMessage) -> None:
        print(message.body)

    async with PushConsumer("127.0.0.1:9876", group="billing") as consumer:
        consumer.subscribe("orders", "new || paid", handle)
        await consumer.run()

"Push" is pulling that the client does by itself: a rebalance finds the queues, a pull loop for each brings messages,
and a way of consuming calls handlers with them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Final, Self, Unpack

from rocketline.client.concurrent_consumption import ConcurrentConsumption
from rocketline.client.consume_hooks import ConsumeHooks
from rocketline.client.consumer_options import make_offset_store, start_timestamp_ms
from rocketline.client.consumer_stats import ConsumerStats
from rocketline.client.consumption import Surroundings
from rocketline.client.direct_consumption import DirectConsumption
from rocketline.client.handlers import Handlers
from rocketline.client.handling import (
    AsyncBatchHandler,
    AsyncMessageHandler,
    BatchHandler,
    Calls,
    Handler,
    MessageHandler,
    Queue,
)
from rocketline.client.offset_store import ReadFrom
from rocketline.client.options import make_options
from rocketline.client.orderly_consumption import OrderlyConsumption
from rocketline.client.pull_loop import PullDesk, PullLimits, PullLoop
from rocketline.client.pulling import PullPlan, Pulls
from rocketline.client.push_options import PushKeywords, PushOptions
from rocketline.client.queue_bounds import QueueBounds
from rocketline.client.queue_locks import LOCK_PERIOD_S
from rocketline.client.rebalance import Rebalancer
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.running_info import consumer_properties, running_info
from rocketline.client.runtime import ClientRuntime
from rocketline.client.scheduling import Stoppable
from rocketline.client.send_back import SendBack
from rocketline.client.start_offset import StartOffsets
from rocketline.client.subscriptions import MessageSelector, Subscriptions, parse_subscription
from rocketline.client.validation import check_group, check_topic
from rocketline.clock import Clock
from rocketline.errors import ClientError, ClosedError, NotStartedError, RocketlineError
from rocketline.logs import Log, Throttle
from rocketline.model.names import retry_topic
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rocketline.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

_log = Log(__name__)
RESET_WAIT_S: Final = 10.0
"""How long callbacks of queues whose offset is reset may go on. Java: ClientRemotingProcessor.resetOffset."""
_STATS_PERIOD_S: Final = 10.0
_LOCK_FIRST_S: Final = 1.0


class _State(Enum):
    NEW = "new"
    RUNNING = "running"
    CLOSED = "closed"


class PushConsumer:
    """Has messages brought to handlers. Use it as `async with`, or between `start` and `close`, on one event loop."""

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        group: str,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[PushKeywords],
    ) -> None:
        """Nothing is sent or opened yet. Raises `InvalidNameError`, `ConfigError` or `TypeError`.

        Clients that are given the same `runtime` share its connections, and its options count.
        """
        check_group(group)
        self.options = make_options(PushOptions, name_servers, options)
        is_broadcasting = self.options.message_model is MessageModel.BROADCASTING
        self._runtime = runtime or ClientRuntime(self.options, clock=clock, is_name_stable=is_broadcasting)
        self.application_group = group
        self.group = self._runtime.with_namespace(group)
        self._state = _State.NEW
        self._subscriptions = Subscriptions(self._runtime.clock)
        self._handlers = Handlers(self.group, self._runtime.namespace, self.options.consume_batch_max)
        self._threads = self.options.consume_threads
        self._loops: dict[MessageQueue, tuple[PullLoop, asyncio.Task[None]]] = {}
        self._timers: list[Stoppable] = []
        self._closing: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._started_ms = 0
        self._make_parts()

    def _make_parts(self) -> None:
        """Everything that works together, none of which does anything before `start`."""
        runtime, options, group = self._runtime, self.options, self.group
        clock, namespace = runtime.clock, runtime.namespace
        self._throttle = throttle = Throttle(clock, name=__name__)
        self._stats = ConsumerStats(clock)
        self._offsets = make_offset_store(options, runtime, group)
        self._start_offsets = StartOffsets(
            functools.partial(self._offsets.read, source=ReadFrom.STORE),
            QueueBounds(runtime),
            options.consume_from,
            start_timestamp_ms(options, clock),
        )
        self._rebalancer = Rebalancer(
            runtime,
            group,
            self,
            message_model=options.message_model,
            strategy=options.allocation,
            subscriptions=self._subscriptions,
            offsets=self._offsets,
            start=self._start_offsets,
            is_orderly=options.orderly,
        )
        self._send_back = SendBack(runtime, group, throttle, reconsume_max=options.reconsume_times_max)
        hooks = ConsumeHooks(options.consume_hooks, throttle)
        around = Surroundings(
            group=group,
            options=options,
            clock=clock,
            handlers=self._handlers,
            calls=Calls(group, namespace, hooks, clock, options.consume_timeout_s),
            offsets=self._offsets,
            stats=self._stats,
            send_back=self._send_back,
            throttle=throttle,
            spawn=runtime.spawn,
            later=runtime.call_later,
            progressed=self._progressed,
        )
        self._concurrent = None if options.orderly else ConcurrentConsumption(around)
        self._consumption = self._concurrent or OrderlyConsumption(around, self._rebalancer.locks)
        self._direct = DirectConsumption(group, self._handlers, clock, throttle, is_orderly=options.orderly)
        plan = PullPlan(
            runtime.routes, group, filter_hooks=options.filter_hooks, namespace=namespace, unit_mode=options.unit_mode
        )
        self._desk = PullDesk(
            runtime=runtime,
            options=options,
            subscriptions=self._subscriptions,
            offsets=self._offsets,
            rebalancer=self._rebalancer,
            consumption=self._consumption,
            pulls=Pulls(runtime, plan),
            stats=self._stats,
            throttle=throttle,
            start=self._start_offsets,
            limits=PullLimits.of(options, 0),
        )

    def __repr__(self) -> str:
        return f"<PushConsumer {self.application_group}, {self._state.value}>"

    # --- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Join the group and begin to consume. A topic that does not exist yet is waited for.

        Raises `GroupInUseError`, or `TransportError` if no name server can be reached; then nothing is left running.
        """
        if self._state is not _State.NEW:
            raise ClientError(f"{self!r} was started before: make a new one")
        await self._runtime.lease()
        try:
            if self._is_clustering:
                self._subscriptions.put(retry_topic(self.group))
            await self._offsets.load()
            self._runtime.register_consumer(self.group, self)
        except BaseException:
            await self._runtime.release()
            raise
        self._state = _State.RUNNING
        self._started_ms = self._runtime.clock.wall_ms()
        try:
            self._begin_periodic_work()
            for topic in list(self._subscriptions):
                await self._runtime.update_route(topic)
            if await self._runtime.heartbeat_all():
                self._runtime.wake_rebalance()
        except BaseException:
            await self.close()
            raise

    def _begin_periodic_work(self) -> None:
        every, options = self._runtime.every, self.options
        self._timers.append(every(_STATS_PERIOD_S, 0.0, self._sample, name=f"statistics of {self.group}"))
        if self._concurrent is not None:
            period_s = options.consume_timeout_s
            self._timers.append(every(period_s, period_s, self._clean_expired, name=f"expire of {self.group}"))
        elif self._is_clustering:
            lock_all = self._rebalancer.locks.lock_all
            self._timers.append(every(LOCK_PERIOD_S, _LOCK_FIRST_S, lock_all, name=f"locks of {self.group}"))

    async def _sample(self) -> None:
        self._stats.tick()
        self._throttle.flush_due()

    async def _clean_expired(self) -> None:
        if self._concurrent is not None:
            await self._concurrent.clean_expired(dict(self._rebalancer.queues))

    async def close(self) -> None:
        """Stop pulling, wait up to `close_wait_s` for handlers that run, unlock and save offsets, leave the group.

        From inside a handler it begins all this and returns, since it cannot wait for the handler that calls it.
        Closing again waits for the first.
        """
        if self._state is _State.NEW:
            self._state = _State.CLOSED
            self._closed.set()
        if self._state is _State.RUNNING:
            self._state = _State.CLOSED
            # Not one of the runtime's tasks: those are cancelled by the very thing that this one does last.
            self._closing = asyncio.get_running_loop().create_task(self._close(), name=f"close {self.group}")
        if self._closing is not None and not self.is_inside_handler():
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            for timer in self._timers:
                timer.cancel()
            for _, task in self._loops.values():
                task.cancel()
            self._loops.clear()
            await self._consumption.close(self.options.close_wait_s)
            self._direct.close()
            await self._rebalancer.stop()
            if self.options.orderly and self._is_clustering:
                await self._rebalancer.locks.unlock_all()
            await self._offsets.persist_all(self._owned())
            await self._runtime.unregister_consumer(self.group)
        finally:
            self._rebalancer.close()
            self._throttle.flush()
            await self._runtime.release()
            self._closed.set()

    async def run(self) -> None:
        """Wait until somebody closes the consumer."""
        self._check_started()
        await self._closed.wait()

    def is_inside_handler(self) -> bool:
        """The caller is a handler of this consumer."""
        return self._consumption.is_inside() or self._direct.is_inside()

    @property
    def _is_clustering(self) -> bool:
        return self.options.message_model is MessageModel.CLUSTERING

    def _check_started(self) -> None:
        if self._state is _State.NEW:
            raise NotStartedError(repr(self))
        if self._state is _State.CLOSED:
            raise ClosedError(f"{self!r}: make a new one")

    # --- what the application wants

    def subscribe(
        self,
        topic: str,
        expression: str | MessageSelector,
        handler: MessageHandler | BatchHandler | AsyncMessageHandler | AsyncBatchHandler,
        *,
        is_batch: bool | None = None,
    ) -> None:
        """Have messages of `topic` brought to `handler`: those tagged as in `"new || paid"`, or all by `"*"`.

        The handler gets a message or, if `is_batch`, a sequence of up to `consume_batch_max` messages; without
        `is_batch`, a sequence if that number is above 1. A second parameter without a default gets a `ConsumeContext`.
        A coroutine function runs as a task, any other in a thread. It returns None or a `ConsumeResult`.

        All members of a group must have the same subscriptions. Subscribing again replaces the former one. Raises
        `InvalidNameError`, `ClientError` for an expression that means nothing, `ClosedError`.
        """
        if self._state is _State.CLOSED:
            raise ClosedError(f"{self!r}: make a new one")
        check_topic(topic)
        on_wire = self._runtime.with_namespace(topic)
        parse_subscription(on_wire, expression, sub_version=0)  # before anything changes
        is_batch = self.options.consume_batch_max > 1 if is_batch is None else is_batch
        self._handlers.put(topic, Handler(handler, is_batch=is_batch))
        self._subscriptions.put(on_wire, expression)
        if self._state is _State.RUNNING:
            self._runtime.spawn(self._announce(on_wire), name=f"subscribe to {on_wire}")

    async def _announce(self, topic: str) -> None:
        """Java waits for the next round of routes and of rebalancing; there is no need to."""
        try:
            await self._runtime.update_route(topic)
        except RocketlineError as error:
            _log.warning("route of a new subscription not known yet", topic=topic, problem=error)
        await self._runtime.heartbeat_all(is_forced_full=True)
        self._runtime.wake_rebalance()

    def unsubscribe(self, topic: str) -> None:
        """Have no further messages of `topic` brought. Those that failed before may still come again."""
        on_wire = self._runtime.with_namespace(topic)
        self._subscriptions.remove(on_wire)
        self._stats.forget(on_wire)
        if self._state is _State.RUNNING:
            self._runtime.wake_rebalance()

    def suspend(self) -> None:
        """Pull no more until `resume`. Messages that are here already are consumed."""
        self._check_started()
        self._desk.is_suspended = True

    def resume(self) -> None:
        """Pull again."""
        self._check_started()
        self._desk.is_suspended = False
        for pull_loop, _ in self._loops.values():
            pull_loop.wake()
        self._runtime.wake_rebalance()

    @property
    def consume_threads(self) -> int:
        """How many handlers run at once."""
        return self._threads

    def resize(self, consume_threads: int) -> None:
        """Run so many handlers at once from now on. Java: updateCorePoolSize."""
        self._check_started()
        PushOptions(consume_threads=consume_threads)  # raises ConfigError if it is out of range
        self._threads = consume_threads
        self._consumption.resize(consume_threads)

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Have a message delivered to the group again, later. Raises `ClientError` if that failed.

        Java: sendMessageBack.
        """
        self._check_started()
        queue = self._on_wire(message.queue)
        if not await self._send_back.send(message, queue, delay_level):
            raise ClientError(f"message {message.message_id} could not be sent back: the log says why")

    async def reset_to_time(self, time_ms: int) -> None:
        """Go on, in all owned queues, at the first message stored then or later. Java: resetOffsetByTimeStamp."""
        self._check_started()
        bounds = QueueBounds(self._runtime)
        offsets = {queue: await bounds.search_offset(queue, time_ms) for queue in self._owned()}
        for topic in {queue.topic for queue in offsets}:
            await self.reset_offsets(topic, offsets)

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues that are this consumer's now, those of the retry topic among them."""
        return tuple(map(self._as_seen, self._owned()))

    def offsets(self) -> dict[MessageQueue, int]:
        """How far this consumer is in its queues: the next offset of each, as far as it is known here."""
        return {self._as_seen(queue): offset for queue, offset in self._offsets.offsets().items()}

    # --- queues that come and go (QueueOwner)

    def begin_pulling(self, queue: MessageQueue, process_queue: Queue, offset: int) -> None:
        """Pull the queue until it is dropped."""
        if self._state is not _State.RUNNING:
            return
        former = self._loops.pop(queue, None)
        if former is not None:
            former[1].cancel()
        pull_loop = PullLoop(self._desk, queue, process_queue, offset)
        task = self._runtime.spawn(pull_loop.run(), name=f"pull {queue}")
        self._loops[queue] = pull_loop, task
        task.add_done_callback(functools.partial(self._pulling_ended, queue, pull_loop))

    def _pulling_ended(self, queue: MessageQueue, pull_loop: PullLoop, task: object) -> None:
        if self._loops.get(queue, (None,))[0] is pull_loop:
            del self._loops[queue]

    async def queues_changed(
        self, topic: str, queues: Collection[MessageQueue], assigned: Collection[MessageQueue]
    ) -> None:
        """Share limits for all queues out anew, and tell the application."""
        self._desk.limits = PullLimits.of(self.options, len(self._rebalancer.queues))
        if self.options.queue_listener is not None:
            seen = self._runtime.without_namespace(topic)
            self.options.queue_listener(seen, list(map(self._as_seen, queues)), list(map(self._as_seen, assigned)))

    def _progressed(self, queue: MessageQueue) -> None:
        pulling = self._loops.get(queue)
        if pulling is not None:
            pulling[0].wake()

    def _owned(self) -> list[MessageQueue]:
        return list(self._rebalancer.queues)

    def _as_seen(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(self._runtime.without_namespace(queue.topic), queue.broker_name, queue.queue_id)

    def _on_wire(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(self._runtime.with_namespace(queue.topic), queue.broker_name, queue.queue_id)

    # --- what the runtime asks (ConsumerMember)

    @property
    def consume_type(self) -> ConsumeType:
        return ConsumeType.CONSUME_PASSIVELY

    @property
    def message_model(self) -> MessageModel:
        return self.options.message_model

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        return self.options.consume_from

    @property
    def unit_mode(self) -> bool:
        return self.options.unit_mode

    def subscriptions(self) -> Collection[SubscriptionData]:
        """Those of heartbeats: topics as on the wire, the group's retry topic among them."""
        return list(self._subscriptions.values())

    def on_route(self, topic: str, queues: Sequence[MessageQueue]) -> None:
        """Queues are looked up when a rebalance needs them."""

    async def rebalance(self) -> bool:
        """One round, unless the consumer is suspended or closing."""
        if self._state is not _State.RUNNING or self._desk.is_suspended:
            return self._state is not _State.RUNNING
        return await self._rebalancer.run()

    async def persist_offsets(self) -> None:
        await self._offsets.persist_all(self._owned())

    def running_info(self, is_with_stacks: bool) -> ConsumerRunningInfo:
        """For GET_CONSUMER_RUNNING_INFO (307)."""
        properties = consumer_properties(
            self.options, self._runtime, group=self.group, threads=self._threads, started_ms=self._started_ms
        )
        return running_info(
            self._runtime,
            properties,
            self.subscriptions(),
            self._rebalancer.queues,
            self._offsets,
            {topic: self._stats.status(topic) for topic in self._subscriptions},
            is_with_stacks=is_with_stacks,
        )

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """All of RESET_CONSUMER_CLIENT_OFFSET (220): queues are dropped, and taken anew with the offsets given.

        Pulling stops meanwhile, for ten seconds in which handlers that run may end.
        """
        self._desk.is_suspended = True
        try:
            reset = [queue for queue in self._owned() if queue.topic == topic and queue in offsets]
            for queue in reset:
                process_queue = self._rebalancer.queues[queue]
                process_queue.is_dropped = True
                process_queue.clear()
            if reset:
                await self._runtime.sleep(RESET_WAIT_S)
            for queue in reset:
                self._offsets.update(queue, offsets[queue], increase_only=False)
                await self._rebalancer.remove(queue)
        finally:
            if self._state is _State.RUNNING:
                self.resume()

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        """For GET_CONSUMER_STATUS_FROM_CLIENT (221)."""
        return self._offsets.offsets(topic or None)

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult:
        """For CONSUME_MESSAGE_DIRECTLY (309)."""
        return await self._direct.consume(message)
