"""Popping for a push consumer: one queue, or all of a broker's, one pop at a time, for as long as it is assigned.

Java: PopMessageService and DefaultMQPushConsumerImpl.popMessage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketline.client.consumer.backoff import PullBackoff
from rocketline.client.consumer.process_queue import ProcessQueue, Queue
from rocketline.client.consumer.stats import ConsumerStats
from rocketline.client.consumer.subscriptions import Subscriptions
from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.client.pop.pops import PopQuery, PopResult, Pops, PopStatus
from rocketline.client.pop.settling import Settling, each_of
from rocketline.client.push.options import PushOptions
from rocketline.client.push.pop_consumption import PopConsumption
from rocketline.client.push.pull_loop import FULL_S, SUSPENDED_S
from rocketline.client.rebalance.rebalancer import FIRST_PULL_S
from rocketline.errors import FlowControlError
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere
from rocketline.wire.bodies.running import PopProcessQueueInfo
from rocketline.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

POLL_S: Final = 15.0
"""How long a broker may hold a pop back. Java: BROKER_SUSPEND_MAX_TIME_MILLIS."""
_TIMEOUT_S: Final = 25.0


@dataclass(frozen=True, slots=True)
class PopContext:
    """What the pops of all queues of one consumer work with."""

    runtime: ClientRuntime
    options: PushOptions
    subscriptions: Subscriptions
    pops: Pops
    settling: Settling
    consumption: PopConsumption
    stats: ConsumerStats
    throttle: Throttle
    is_suspended: Callable[[], bool]


class PopLoop:
    """Pops one queue. Its `process_queue` only counts: no message of it has a place there."""

    def __init__(self, shared: PopContext, queue: MessageQueue) -> None:
        self._shared, self.queue = shared, queue
        self.process_queue: Queue = ProcessQueue(shared.runtime.clock.monotonic())
        self._backoff = PullBackoff()
        self._rest = asyncio.Event()

    async def run(self) -> None:
        """Until the queue is dropped."""
        shared, process_queue = self._shared, self.process_queue
        while not process_queue.is_dropped:
            process_queue.last_pull_s = shared.runtime.clock.monotonic()
            if shared.is_suspended():
                await self._rest_for(SUSPENDED_S)
            elif self._is_full:
                await self._rest_for(FULL_S)
            else:
                try:
                    await self._pop()
                except Exception as error:  # noqa: BLE001  # an application's hook may raise anything
                    await self._rest_after(error)

    @property
    def _is_full(self) -> bool:
        return self.process_queue.message_count > self._shared.options.pop_count_max

    def wake(self) -> None:
        """Messages are done with, or the consumer was resumed: a rest that waits for this need not go on."""
        if not (self._shared.is_suspended() or self._is_full):
            self._rest.set()

    async def _rest_for(self, seconds: float) -> None:
        self._rest.clear()
        await self._shared.runtime.wait_for(self._rest, seconds)

    async def _rest_after(self, error: Exception) -> None:
        shared = self._shared
        if isinstance(error, FlowControlError) and error.code == ResponseCode.FLOW_CONTROL:
            await shared.runtime.sleep(self._backoff.after_refusal())
            return
        if not self.process_queue.is_dropped:
            shared.throttle.warning("pop failed", "the queue is popped again soon", queue=self.queue, problem=error)
        await shared.runtime.sleep(shared.options.pull_pause_s)

    async def _pop(self) -> None:
        """One pop and what follows from it. Raises what a pause may mend."""
        shared, monotonic = self._shared, self._shared.runtime.clock.monotonic
        query = self._query()
        if query is None:
            await shared.runtime.sleep(shared.options.pull_pause_s)
            return
        begun_s = monotonic()
        result = await shared.pops.pop(query, _TIMEOUT_S)
        now_s = monotonic()
        count = len(result.messages) + len(result.unwanted)
        pause_s = self._backoff.after(count, bool(count), now_s - begun_s, now_s)
        await self._take_in(result, now_s - begun_s)
        if result.status is PopStatus.POLLING_FULL:
            pause_s = shared.options.pull_pause_s
        if pause_s:
            await shared.runtime.sleep(pause_s)

    def _query(self) -> PopQuery | None:
        """What to ask; None if nobody has subscribed to the topic any more."""
        options, subscription = self._shared.options, self._shared.subscriptions.get(self.queue.topic)
        if subscription is None:
            return None
        from_first = options.consume_from is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        return PopQuery(self.queue, subscription, options.pop_batch_max, options.pop_invisible_s, POLL_S, from_first)

    async def _take_in(self, result: PopResult, elapsed_s: float) -> None:
        shared = self._shared
        if result.messages:
            counters = shared.stats.of(self.queue.topic)
            counters.pulled.value += len(result.messages)
            counters.pulled.times += 1
            counters.pull_ms.value += round(1000 * elapsed_s)
            counters.pull_ms.times += 1
        if self.process_queue.is_dropped:
            await each_of(result.messages, self._give_back)
        elif result.messages:
            shared.consumption.take_in(self.queue, self.process_queue, result.messages)
        for message, error in await shared.settling.ack_all(result.unwanted):
            shared.throttle.warning("message not acknowledged", "it comes again", popped=message, problem=error)

    async def _give_back(self, message: PoppedMessage) -> None:
        """Somebody else has the queue now, or nobody."""
        await self._shared.settling.give_back(message, 0.0)

    def info(self, now_s: float, now_ms: int) -> PopProcessQueueInfo:
        """For administrators."""
        queue = self.process_queue
        return PopProcessQueueInfo(
            queue.message_count, queue.is_dropped, now_ms - round(1000 * (now_s - queue.last_pull_s))
        )


class PopLoops:
    """The queues that a consumer pops (`PopOwner`)."""

    def __init__(self, shared: PopContext) -> None:
        self._shared = shared
        self.consumption = shared.consumption
        self._loops: dict[MessageQueue, PopLoop] = {}
        self._is_closed = False

    @property
    def queues(self) -> Collection[MessageQueue]:
        return self._loops.keys()

    def topics(self) -> Collection[str]:
        return {queue.topic for queue in self._loops}

    def assign(self, topic: str, queues: Collection[MessageQueue]) -> bool:
        if self._is_closed:  # while a rebalance was under way
            return False
        known = {queue for queue in self._loops if queue.topic == topic}
        for queue in known.difference(queues):
            self._loops.pop(queue).process_queue.is_dropped = True
        for queue in set(queues) - known:
            self._begin(queue)
        return known != set(queues)

    def _begin(self, queue: MessageQueue) -> None:
        """Half a second later, as with queues that are pulled."""
        loop, runtime = PopLoop(self._shared, queue), self._shared.runtime
        self._loops[queue] = loop
        runtime.call_later(FIRST_PULL_S, lambda: runtime.spawn(loop.run(), name=f"pop {queue}"))

    def progressed(self, queue: MessageQueue) -> None:
        """It has fewer messages than before."""
        loop = self._loops.get(queue)
        if loop is not None:
            loop.wake()

    def wake(self) -> None:
        """The consumer was resumed."""
        for loop in self._loops.values():
            loop.wake()

    def close(self) -> None:
        """Begin no pop any more. Those under way end by themselves, and what they bring is given back."""
        self._is_closed = True
        for loop in self._loops.values():
            loop.process_queue.is_dropped = True
            loop.wake()
        self._loops.clear()

    def infos(self) -> Mapping[MessageQueue, PopProcessQueueInfo]:
        """For administrators."""
        now_s, now_ms = self._shared.runtime.clock.monotonic(), self._shared.runtime.clock.wall_ms()
        return {queue: loop.info(now_s, now_ms) for queue, loop in self._loops.items()}
