"""Pulling for a push consumer: one queue, one pull at a time, for as long as the queue is ours.

Java: PullMessageService and DefaultMQPushConsumerImpl.pullMessage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketline.client.consumer.backoff import PullBackoff
from rocketline.client.consumer.offset_store import OffsetStore
from rocketline.client.consumer.process_queue import Queue
from rocketline.client.consumer.pull_request import PullQuery
from rocketline.client.consumer.pulls import PullBegun, PullResult, Pulls, PullStatus, RawPull
from rocketline.client.consumer.stats import ConsumerStats
from rocketline.client.consumer.subscriptions import Subscriptions
from rocketline.client.push.consumption import Consumption
from rocketline.client.push.options import PushOptions
from rocketline.client.rebalance.rebalancer import Rebalancer, queue_threshold
from rocketline.errors import FlowControlError, RocketlineError
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel
from rocketline.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

SUSPENDED_S: Final = 1.0
FULL_S: Final = 0.05
"""How long a queue rests that has too many messages, unless some are done with before."""
SUSPEND_AT_BROKER_S: Final = 15.0
"""How long a broker may hold a pull back."""
_MIB: Final = 1024 * 1024


@dataclass(slots=True)
class PullLimits:
    """How much of one queue may wait in memory. It is pulled while no limit is exceeded, so one pull may exceed it."""

    count: int
    size_mib: int
    span: int

    @classmethod
    def of(cls, options: PushOptions, owned_count: int) -> PullLimits:
        """What the options say for a consumer that has so many queues."""
        return cls(
            queue_threshold(options.pull_count_max, options.pull_topic_count_max, owned_count),
            queue_threshold(options.pull_size_max_mib, options.pull_topic_size_max_mib, owned_count),
            options.pull_span_max,
        )

    def are_exceeded(self, queue: Queue, *, is_orderly: bool) -> bool:
        """In order the span does not matter: what blocks is the first message anyway."""
        return (
            queue.message_count > self.count
            or queue.body_bytes // _MIB > self.size_mib
            or (not is_orderly and queue.span > self.span)
        )

    def leave_room_for(self, queue: Queue, count: int, size_bytes: int) -> bool:
        """Whether the limits hold when so many messages have come, which follow those that are here."""
        return (
            queue.message_count + count <= self.count
            and (queue.body_bytes + size_bytes) // _MIB <= self.size_mib
            and queue.span + count <= self.span
        )


@dataclass(slots=True)
class PullContext:
    """What the pulls of all queues of one consumer work with."""

    runtime: ClientRuntime
    options: PushOptions
    subscriptions: Subscriptions
    offsets: OffsetStore
    rebalancer: Rebalancer
    consumption: Consumption
    pulls: Pulls
    stats: ConsumerStats
    throttle: Throttle
    start: Callable[[MessageQueue], Awaitable[int]]
    limits: PullLimits
    """Replaced when the number of queues changes."""
    is_suspended: bool = False


class PullLoop:
    """Pulls one queue."""

    def __init__(self, shared: PullContext, queue: MessageQueue, process_queue: Queue, offset: int) -> None:
        self.queue, self.process_queue, self.next_offset = queue, process_queue, offset
        self._shared = shared
        self._was_locked = False
        """An orderly queue is read from the stored offset once its lock is ours: its last owner has saved it then."""
        self._rest: asyncio.Future[None] | None = None
        self._backoff = PullBackoff()
        self._ahead: tuple[PullQuery, PullBegun] | None = None
        """The next pull, if it was asked while the messages of the last were still being looked at."""

    async def run(self) -> None:
        """Until the queue is dropped."""
        shared, process_queue = self._shared, self.process_queue
        while not process_queue.is_dropped:
            process_queue.last_pull_s = shared.runtime.clock.monotonic()
            if shared.is_suspended:
                await self._rest_for(SUSPENDED_S)
            elif self._is_full():
                await self._rest_for(FULL_S)
            else:
                try:
                    await self._pull()
                except Exception as error:  # noqa: BLE001  # an application's hook or keeper may raise anything
                    await self._rest_after(error)
        shared.pulls.plan.forget(self.queue)

    def wake(self) -> None:
        """Messages are done with, or the consumer was resumed: a rest that waits for this need not go on."""
        rest = self._rest
        if rest is not None and not (self._shared.is_suspended or self._is_full()):
            _end(rest)

    def _is_full(self) -> bool:
        return self._shared.limits.are_exceeded(self.process_queue, is_orderly=self._shared.options.orderly)

    async def _rest_for(self, seconds: float) -> None:
        self._rest = rest = asyncio.get_running_loop().create_future()
        alarm = self._shared.runtime.call_later(seconds, lambda: _end(rest))
        try:
            await rest
        finally:
            self._rest = None
            alarm.cancel()

    async def _rest_after(self, error: Exception) -> None:
        shared = self._shared
        if isinstance(error, FlowControlError) and error.code == ResponseCode.FLOW_CONTROL:
            await shared.runtime.sleep(self._backoff.after_refusal())
            return
        if not self.process_queue.is_dropped:
            shared.throttle.warning("pull failed", "the queue is pulled again soon", queue=self.queue, problem=error)
        await shared.runtime.sleep(shared.options.pull_pause_s)

    async def _pull(self) -> None:
        """One pull and what follows from it. Raises what a pause may mend."""
        shared = self._shared
        if shared.options.orderly and not await self._is_locked():
            await shared.runtime.sleep(shared.options.pull_pause_s)
            return
        query, begun = self._ahead or (self._query(), None)
        self._ahead = None
        if query is None:
            await shared.runtime.sleep(shared.options.pull_pause_s)
            return
        begun_s = shared.runtime.clock.monotonic()
        raw = await shared.pulls.pull_raw(query, begun=begun)
        now_s = shared.runtime.clock.monotonic()
        elapsed_s = now_s - begun_s
        if self.process_queue.is_dropped:
            return
        self.next_offset = raw.next_offset
        self._ask_ahead(query, raw)
        try:
            result = shared.pulls.plan.result(query, raw)
        except RocketlineError:
            self.next_offset, self._ahead = query.offset, None
            raise
        pause_s = self._backoff.after(raw.next_offset - query.offset, bool(raw.body), elapsed_s, now_s)
        await self._take_in(result, elapsed_s)
        if pause_s:
            await shared.runtime.sleep(pause_s)

    def _query(self) -> PullQuery | None:
        """What to ask next; None if nobody has subscribed to the topic any more."""
        shared, queue = self._shared, self.queue
        subscription = shared.subscriptions.get(queue.topic)
        if subscription is None:
            return None
        return PullQuery(
            queue,
            self.next_offset,
            subscription,
            shared.options.pull_batch_max,
            shared.options.pull_bytes_max,
            self._commit_offset(),
            SUSPEND_AT_BROKER_S,
            with_subscription=shared.options.pulls_with_subscription,
        )

    def _ask_ahead(self, query: PullQuery, raw: RawPull) -> None:
        """Let the broker work on the next pull while we decode this one, if nothing speaks against a next one."""
        shared, options = self._shared, self._shared.options
        if raw.status is not PullStatus.FOUND or options.orderly or shared.is_suspended or options.pull_interval_s:
            return
        if raw.next_offset <= query.offset:
            return  # the same messages again?
        if shared.limits.leave_room_for(self.process_queue, raw.next_offset - query.offset, len(raw.body)):
            following = self._query()
            if following is not None and (begun := shared.pulls.begin(following)) is not None:
                self._ahead = following, begun

    async def _is_locked(self) -> bool:
        """The queue's lock is ours, and we know where to begin."""
        if not self.process_queue.is_locked:
            return False
        if not self._was_locked:
            self.next_offset = await self._shared.start(self.queue)
            self._was_locked = True
        return True

    def _commit_offset(self) -> int:
        """How far the group is, which travels with the pull; 0 if the broker is not the one to keep it."""
        shared = self._shared
        return (
            max(shared.offsets.cached(self.queue), 0) if shared.options.message_model is MessageModel.CLUSTERING else 0
        )

    async def _take_in(self, result: PullResult, elapsed_s: float) -> None:
        shared, queue, process_queue = self._shared, self.queue, self.process_queue
        if result.status is PullStatus.OFFSET_ILLEGAL:
            shared.throttle.warning(
                "offset outside of its queue", "reading goes on elsewhere", queue=queue, offset=result.next_offset
            )
            await shared.rebalancer.restart_at(queue, result.next_offset)
        elif result.status is not PullStatus.FOUND:
            if not process_queue.message_count:
                shared.offsets.update(queue, result.next_offset, increase_only=True)
        elif result.messages:
            self._count(len(result.messages), elapsed_s)
            must_start = process_queue.put(result.messages, result.max_offset)
            if must_start or not shared.options.orderly:
                shared.consumption.take_in(queue, process_queue, result.messages)
            if shared.options.pull_interval_s:
                await shared.runtime.sleep(shared.options.pull_interval_s)

    def _count(self, messages: int, elapsed_s: float) -> None:
        counters = self._shared.stats.of(self.queue.topic)
        counters.pulled.value += messages
        counters.pulled.times += 1
        counters.pull_ms.value += round(1000 * elapsed_s)
        counters.pull_ms.times += 1


def _end(rest: asyncio.Future[None]) -> None:
    if not rest.done():
        rest.set_result(None)
