"""A push consumer at work: the parts that find queues, pull them and call handlers, and what its runtime asks of it.

`push_consumer.PushConsumer` is what an application sees of it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from rocketline.client.consumer.filter_check import check_filters
from rocketline.client.consumer.hooks import ConsumeHook, ConsumeHooks
from rocketline.client.consumer.offset_store import ReadFrom
from rocketline.client.consumer.process_queue import Queue
from rocketline.client.consumer.pulls import PullPlan, Pulls
from rocketline.client.consumer.queue_bounds import QueueBounds
from rocketline.client.consumer.running_info import running_info
from rocketline.client.consumer.stats import ConsumerStats
from rocketline.client.consumer.subscriptions import Subscriptions
from rocketline.client.pop.pops import PopPlan, Pops
from rocketline.client.pop.settling import Settling
from rocketline.client.producer.trace_producer import trace_dispatcher
from rocketline.client.push.concurrent import ConcurrentConsumption
from rocketline.client.push.consume_request import HandlerCaller
from rocketline.client.push.consumption import ConsumptionContext
from rocketline.client.push.direct import DirectConsumption
from rocketline.client.push.handler_table import HandlerTable
from rocketline.client.push.options import PushOptions
from rocketline.client.push.orderly import OrderlyConsumption
from rocketline.client.push.pop_consumption import PopConsumption
from rocketline.client.push.pop_loop import PopContext, PopLoops
from rocketline.client.push.pull_loop import PullContext, PullLimits, PullLoop
from rocketline.client.push.replies import Replies
from rocketline.client.push.running_properties import running_properties
from rocketline.client.push.send_back import SendBack
from rocketline.client.push.traced import ConsumeTrace
from rocketline.client.rebalance.listeners import is_inside_listener, tell_listener
from rocketline.client.rebalance.options import make_offset_store, start_timestamp_ms
from rocketline.client.rebalance.queue_locks import LOCK_PERIOD_S
from rocketline.client.rebalance.rebalancer import Rebalancer
from rocketline.client.rebalance.start_offset import StartOffsets
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.scheduling import Stoppable
from rocketline.client.trace.dispatcher import TraceDispatcher
from rocketline.errors import InvalidFilterError, RocketlineError
from rocketline.logs import Log, Throttle
from rocketline.model.names import retry_topic
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rocketline.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

_log = Log(__name__)
RESET_WAIT_S: Final = 10.0
"""How long handlers may go on whose queue gets another offset. Java: MQClientInstance.resetOffset."""
_STATS_PERIOD_S: Final = 10.0
_LOCK_FIRST_S: Final = 1.0
_RETRY_TOPIC_SEARCHES_S: Final = (1.0, 2.0, 4.0, 8.0)
"""A broker makes a new group's retry topic at the first heartbeat. It is looked for before the next round of routes,
with which the first retry of a Java consumer comes half a minute late."""


class PushConsumerCore:
    """The member of a group that a push consumer is. It lives on the runtime's loop, from `begin` to `end`."""

    def __init__(self, runtime: ClientRuntime, group: str, options: PushOptions) -> None:
        """`group` is as on the wire."""
        self.group, self.options = group, options
        self._runtime = runtime
        self.is_clustering = options.message_model is MessageModel.CLUSTERING
        self.topics = Subscriptions(runtime.clock)
        self.handlers = HandlerTable(group, runtime.namespace, options.consume_batch_max)
        self.throttle = Throttle(runtime.clock, name=__name__)
        self.stats = ConsumerStats(runtime.clock)
        self.offsets = make_offset_store(options, runtime, group)
        self.send_back = SendBack(runtime, group, self.throttle, reconsume_max=options.reconsume_times_max)
        self.replies = Replies(runtime, group, self.throttle)
        start = StartOffsets(
            functools.partial(self.offsets.read, source=ReadFrom.STORE),
            QueueBounds(runtime),
            options.consume_from,
            start_timestamp_ms(options, runtime.clock),
        )
        self._tracing: TraceDispatcher | None = None
        shared = self._context(self._hooks())
        self.pop_loops = self._pop_loops(shared) if options.asks_brokers else None
        self.rebalancer = Rebalancer(
            runtime,
            group,
            self,
            message_model=options.message_model,
            strategy=options.allocation,
            subscriptions=self.topics,
            offsets=self.offsets,
            start=start,
            is_orderly=options.orderly,
            pops=self.pop_loops,
        )
        self._concurrent = None if options.orderly else ConcurrentConsumption(shared)
        self.consumption = self._concurrent or OrderlyConsumption(shared, self.rebalancer.locks)
        self._direct = DirectConsumption(
            group, self.handlers, self.replies, runtime.clock, self.throttle, is_orderly=options.orderly
        )
        self._shared = PullContext(
            runtime=runtime,
            options=options,
            subscriptions=self.topics,
            offsets=self.offsets,
            rebalancer=self.rebalancer,
            consumption=self.consumption,
            pulls=Pulls(runtime, self._pull_plan()),
            stats=self.stats,
            throttle=self.throttle,
            start=start,
            limits=PullLimits.of(options, 0),
        )
        self.threads = options.consume_threads
        self._pulling: dict[MessageQueue, tuple[PullLoop, asyncio.Task[None]]] = {}
        self._work: list[Stoppable] = []
        self._started_ms = 0
        self._is_running = False
        self.over = asyncio.Event()
        """Set when the consumer is closed, or the runtime under it."""

    def _hooks(self) -> ConsumeHooks:
        """The application's, behind our own if the consumer traces."""
        runtime, options = self._runtime, self.options
        hooks: tuple[ConsumeHook, ...] = options.consume_hooks
        if options.trace:
            group = runtime.without_namespace(self.group)
            trace = ConsumeTrace(runtime, group, options.trace_topic)
            self._tracing = trace_dispatcher(runtime, group, "CONSUME", options.trace_topic, trace.buffer)
            hooks = (trace, *hooks)
        return ConsumeHooks(hooks, self.throttle)

    def _context(self, hooks: ConsumeHooks) -> ConsumptionContext:
        runtime, options = self._runtime, self.options
        return ConsumptionContext(
            group=self.group,
            options=options,
            clock=runtime.clock,
            handlers=self.handlers,
            calls=HandlerCaller(self.group, runtime.namespace, hooks, runtime.clock, options.consume_timeout_s),
            offsets=self.offsets,
            stats=self.stats,
            send_back=self.send_back,
            replies=self.replies,
            throttle=self.throttle,
            spawn=runtime.spawn,
            later=runtime.call_later,
            progressed=self._progressed,
        )

    def _pop_loops(self, shared: ConsumptionContext) -> PopLoops:
        runtime, options = self._runtime, self.options
        plan = PopPlan(
            self.group,
            namespace=runtime.namespace,
            filter_hooks=options.filter_hooks,
            unit_mode=options.unit_mode,
        )
        settling = Settling(runtime, self.group, timeout_s=options.api_timeout_s)
        context = PopContext(
            runtime=runtime,
            options=options,
            subscriptions=self.topics,
            pops=Pops(runtime, plan),
            settling=settling,
            consumption=PopConsumption(shared, settling),
            stats=self.stats,
            throttle=self.throttle,
            is_suspended=lambda: self.is_suspended,
        )
        return PopLoops(context)

    def _pull_plan(self) -> PullPlan:
        runtime, options = self._runtime, self.options
        return PullPlan(
            runtime.routes,
            self.group,
            filter_hooks=options.filter_hooks,
            namespace=runtime.namespace,
            unit_mode=options.unit_mode,
        )

    # --- from beginning to end

    async def join(self) -> None:
        """Load offsets and register. Raises `GroupInUseError`, and what the keeper of offsets raises."""
        if self.is_clustering:
            self.topics.put(retry_topic(self.group))
        await self.offsets.load()
        self._runtime.register_consumer(self.group, self)

    async def begin(self) -> None:
        """Find routes and brokers, and have queues shared out. Raises `TransportError` if no name server answers, and
        `InvalidFilterError` if a broker refuses an expression."""
        self._is_running = True
        self._started_ms = self._runtime.clock.wall_ms()
        if self._tracing is not None:
            self._tracing.begin()
        self._begin_periodic_work()
        for topic in list(self.topics):
            await self._runtime.look_for_route(topic)
        await check_filters(self._runtime, self.group, self.subscriptions())
        if await self._runtime.heartbeat_all(even_if_running=True):
            self._runtime.wake_rebalance()

    def _begin_periodic_work(self) -> None:
        every, spawn, group = self._runtime.every, self._runtime.spawn, self.group
        self._work.append(every(_STATS_PERIOD_S, 0.0, self._sample, name=f"statistics of {group}"))
        if self._concurrent is not None:
            period_s = self.options.consume_timeout_s
            self._work.append(every(period_s, period_s, self._clean_expired, name=f"expired messages of {group}"))
        if self.options.orderly and self.is_clustering:
            lock_all = self.rebalancer.locks.lock_all
            self._work.append(every(LOCK_PERIOD_S, _LOCK_FIRST_S, lock_all, name=f"locks of {group}"))
        if self.is_clustering:
            self._work.append(spawn(self._find_retry_topic(), name=f"retry topic of {group}"))

    async def _sample(self) -> None:
        self.stats.tick()
        self.throttle.flush_due()

    async def _clean_expired(self) -> None:
        assert self._concurrent is not None
        await self._concurrent.clean_expired(dict(self.rebalancer.queues))

    async def _find_retry_topic(self) -> None:
        topic, routes = retry_topic(self.group), self._runtime.routes
        for pause_s in _RETRY_TOPIC_SEARCHES_S:
            await self._runtime.sleep(pause_s)
            if routes.route(topic) is not None:
                return
            await self.announce(topic)

    async def announce(self, topic: str) -> None:
        """Bring a new subscription about. Java waits for its next rounds of routes and rebalancing."""
        try:
            await self._runtime.update_route(topic)
        except RocketlineError as error:
            _log.warning("route of a subscription not known yet", topic=topic, problem=error)
        try:
            await check_filters(self._runtime, self.group, self.subscriptions())
        except InvalidFilterError as error:  # whoever subscribed is gone by now; pulls will be refused
            _log.error("subscription by SQL is refused", topic=topic, problem=error)
        await self._runtime.heartbeat_all(even_if_running=True)
        self._runtime.wake_rebalance()

    async def end(self) -> None:
        """Stop pulling, let handlers end, unlock queues, save offsets, leave the group: in this order."""
        self._is_running = False
        for work in (*self._work, *(task for _, task in self._pulling.values())):
            work.cancel()
        self._pulling.clear()
        try:
            await self._end_consumption()
            self._direct.close()
            await self.rebalancer.stop()
            if self.options.orderly and self.is_clustering:
                await self.rebalancer.locks.unlock_all()
            await self.persist_offsets(is_last=True)
            await self._runtime.unregister_consumer(self.group)
        finally:
            if self._tracing is not None:
                await self._tracing.close()
            self.rebalancer.close()
            self.throttle.flush()

    async def _end_consumption(self) -> None:
        wait_s = self.options.close_wait_s
        if self.pop_loops is None:
            await self.consumption.close(wait_s)
        else:
            self.pop_loops.close()
            await asyncio.gather(self.consumption.close(wait_s), self.pop_loops.consumption.close(wait_s))

    @property
    def is_suspended(self) -> bool:
        return self._shared.is_suspended

    def suspend(self) -> None:
        """Begin no pull until `resume`."""
        self._shared.is_suspended = True

    def resume(self) -> None:
        """Pull again, at once."""
        self._shared.is_suspended = False
        for pull_loop, _ in self._pulling.values():
            pull_loop.wake()
        if self.pop_loops is not None:
            self.pop_loops.wake()
        self._runtime.wake_rebalance()

    def resize(self, threads: int) -> None:
        """Run so many handlers at once from now on."""
        self.threads = threads
        self.consumption.resize(threads)
        if self.pop_loops is not None:
            self.pop_loops.consumption.resize(threads)

    def is_inside_handler(self) -> bool:
        """The caller is a handler of this consumer, or its listener on the loop."""
        is_popped = self.pop_loops is not None and self.pop_loops.consumption.is_inside()
        is_pulled = self.consumption.is_inside() or self._direct.is_inside()
        return is_popped or is_pulled or is_inside_listener(self.throttle)

    # --- queues that come and go

    def begin_pulling(self, queue: MessageQueue, process_queue: Queue, offset: int) -> None:
        """Pull the queue until it is dropped."""
        if not self._is_running:
            return
        former = self._pulling.pop(queue, None)
        if former is not None:
            former[1].cancel()
        pull_loop = PullLoop(self._shared, queue, process_queue, offset)
        task = self._runtime.spawn(pull_loop.run(), name=f"pull {queue}")
        self._pulling[queue] = pull_loop, task
        task.add_done_callback(functools.partial(self._pulling_ended, queue))

    def _pulling_ended(self, queue: MessageQueue, task: asyncio.Task[None]) -> None:
        if queue in self._pulling and self._pulling[queue][1] is task:
            del self._pulling[queue]

    def _progressed(self, queue: MessageQueue) -> None:
        pulling = self._pulling.get(queue)
        if pulling is not None:
            pulling[0].wake()
        elif self.pop_loops is not None:
            self.pop_loops.progressed(queue)

    async def queues_changed(
        self, topic: str, queues: Collection[MessageQueue], assigned: Collection[MessageQueue]
    ) -> None:
        """Share limits for all queues out anew, and tell the application."""
        self._shared.limits = PullLimits.of(self.options, len(self.rebalancer.queues))
        if self.options.queue_listener is not None:
            await tell_listener(self._runtime, self.throttle, self.options.queue_listener, topic, queues, assigned)

    # --- what the runtime asks

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
        """Topics as on the wire, the group's retry topic among them."""
        return list(self.topics.values())

    async def rebalance(self) -> bool:
        """One round. A suspended consumer keeps what it has, and counts as not balanced."""
        if not self._is_running:
            return True
        return not self.is_suspended and await self.rebalancer.run()

    def runtime_closed(self) -> None:
        self.over.set()

    async def persist_offsets(self, *, is_last: bool = False) -> None:
        await self.offsets.persist_all(list(self.rebalancer.queues), is_last=is_last)

    def running_info(self, is_with_stacks: bool) -> ConsumerRunningInfo:
        """For GET_CONSUMER_RUNNING_INFO (307)."""
        properties = running_properties(
            self.options, self._runtime, group=self.group, threads=self.threads, started_ms=self._started_ms
        )
        info = running_info(
            self._runtime,
            properties,
            self.subscriptions(),
            self.rebalancer.queues,
            self.offsets,
            {topic: self.stats.status(topic) for topic in self.topics},
            is_with_stacks=is_with_stacks,
        )
        return info if self.pop_loops is None else replace(info, mq_pop_table=dict(self.pop_loops.infos()))

    @property
    def queues(self) -> Collection[MessageQueue]:
        """Those that it pulls, and those that it pops."""
        return [*self.rebalancer.queues, *(() if self.pop_loops is None else self.pop_loops.queues)]

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """All of RESET_CONSUMER_CLIENT_OFFSET (220): queues are dropped, and taken anew with the offsets given.

        Pulling stops meanwhile, for the ten seconds in which handlers that run may end.
        """
        reset = [queue for queue in self.rebalancer.queues if queue.topic == topic and queue in offsets]
        if not reset:
            return
        was_suspended = self.is_suspended
        self.suspend()
        try:
            for queue in reset:
                process_queue = self.rebalancer.queues[queue]
                process_queue.is_dropped = True
                process_queue.clear()
            await self._runtime.sleep(RESET_WAIT_S)
            for queue in reset:
                self.offsets.update(queue, offsets[queue], increase_only=False)
                await self.rebalancer.remove(queue)
        finally:
            if not was_suspended:
                self.resume()

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        """For GET_CONSUMER_STATUS_FROM_CLIENT (221)."""
        return self.offsets.offsets(topic or None)

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult:
        """For CONSUME_MESSAGE_DIRECTLY (309)."""
        return await self._direct.consume(message)
