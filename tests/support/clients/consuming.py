"""A way of consuming without a network: messages go in by hand, and what would be sent is noted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from rocketline.client.consumer.hooks import ConsumeHooks
from rocketline.client.consumer.offset_store import OffsetStore
from rocketline.client.consumer.process_queue import ProcessQueue, Queue
from rocketline.client.consumer.stats import ConsumerStats
from rocketline.client.push.concurrent import ConcurrentConsumption
from rocketline.client.push.consume_request import Handler, HandlerCaller
from rocketline.client.push.consumption import ConsumptionContext
from rocketline.client.push.handler_table import HandlerTable
from rocketline.client.push.options import PushOptions
from rocketline.client.push.orderly import OrderlyConsumption
from rocketline.client.push.replies import Replies
from rocketline.client.push.send_back import SendBack
from rocketline.client.received_message import ReceivedMessage, decode_messages
from rocketline.client.replies import Reply
from rocketline.client.scheduling import OwnedTasks, Timers
from rocketline.logs import Throttle
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.message_codec import encode_record

QUEUE = MessageQueue("orders", "broker-a", 0)
RETRY_QUEUE = MessageQueue("%RETRY%billing", "broker-a", 0)
_HOST = HostAddress(bytes([127, 0, 0, 1]), 10911)


def received(
    offsets: Sequence[int], *, queue: MessageQueue = QUEUE, reconsume_times: int = 0, **properties: str
) -> list[ReceivedMessage]:
    """Messages as a pull brings them; the body is the offset as text."""
    records = b"".join(
        encode_record(
            StoredMessage(
                topic=queue.topic,
                body=str(offset).encode(),
                properties={"UNIQ_KEY": f"ID{offset}", **properties},
                flag=0,
                queue_id=queue.queue_id,
                queue_offset=QueueOffset(offset),
                log_offset=LogOffset(1000 + offset),
                sys_flag=0,
                born_ms=1,
                born_host=_HOST,
                store_ms=2,
                store_host=_HOST,
                reconsume_times=reconsume_times,
            )
        )
        for offset in offsets
    )
    return decode_messages(records, queue)


def offsets_of(messages: Sequence[ReceivedMessage]) -> list[int]:
    return [message.queue_offset for message in messages]


class NotedReplies(Replies):
    """Sends nothing, and remembers what it should have sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.gate = asyncio.Event()
        """Cleared, replies do not get away."""
        self.gate.set()

    async def send(self, replies: Sequence[Reply]) -> None:
        await self.gate.wait()
        self.sent += [reply.body for reply in replies]


class NotedSendBack(SendBack):
    """Sends nothing, and remembers what it should have sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []
        """Queue offset and delay level of each message sent back."""
        self.published: list[int] = []
        self.fails = 0
        """So many calls fail from now on."""

    async def send(self, message: ReceivedMessage, queue: MessageQueue, delay_level: int = 0) -> bool:
        await asyncio.sleep(0)
        if self._has_failed():
            return False
        self.sent.append((message.queue_offset, delay_level))
        return True

    async def publish(self, message: ReceivedMessage, reconsume_max: int | None = None) -> bool:
        await asyncio.sleep(0)
        if self._has_failed():
            return False
        self.published.append(message.queue_offset)
        return True

    def _has_failed(self) -> bool:
        self.fails -= 1
        return self.fails >= 0


class NotedLocks:
    """Grants locks, unless told otherwise."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.asked: list[MessageQueue] = []
        self.grants = True

    async def lock(self, queue: MessageQueue) -> bool:
        self.asked.append(queue)
        if self.grants:
            self._bench.lock()
        return self.grants


class _NoKeeper:
    async def load(self) -> dict[MessageQueue, int]:
        return {}

    async def fetch(self, queue: MessageQueue) -> int | None:
        return None

    async def save(self, offsets: object) -> None: ...


class Bench:
    """One queue and the way it is consumed. Use it as `async with`."""

    def __init__(self, handler: Callable[..., Any], *, hooks: Sequence[Any] = (), **options: Any) -> None:
        self.clock = FakeClock()
        self.options = PushOptions(**options)
        self.process_queue: Queue = ProcessQueue(self.clock.monotonic())
        self.send_back = NotedSendBack()
        self.replies = NotedReplies()
        self.offsets = OffsetStore(_NoKeeper())
        self.stats = ConsumerStats(self.clock)
        self.locks = NotedLocks(self)
        self.progress: list[MessageQueue] = []
        self.timers = Timers(self.clock)
        self.tasks = OwnedTasks()
        throttle = Throttle(self.clock)
        handlers = HandlerTable("billing", "", self.options.consume_batch_max)
        handlers.put("orders", Handler(handler, is_batch=self.options.consume_batch_max > 1))
        calls = HandlerCaller("billing", "", ConsumeHooks(hooks, throttle), self.clock, self.options.consume_timeout_s)
        shared = ConsumptionContext(
            group="billing",
            options=self.options,
            clock=self.clock,
            handlers=handlers,
            calls=calls,
            offsets=self.offsets,
            stats=self.stats,
            send_back=self.send_back,
            replies=self.replies,
            throttle=throttle,
            spawn=self.tasks.spawn,
            later=self.timers.call_later,
            progressed=self.progress.append,
        )
        self.concurrent = ConcurrentConsumption(shared)
        self.orderly = OrderlyConsumption(shared, self.locks)
        self.handlers = handlers

    async def __aenter__(self) -> Bench:
        self.timers.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.concurrent.close(10)
        await self.orderly.close(10)
        await self.tasks.close()
        self.timers.close()

    def lock(self) -> None:
        self.process_queue.is_locked = True
        self.process_queue.last_lock_s = self.clock.monotonic()

    def pull(self, messages: Sequence[ReceivedMessage], queue: MessageQueue = QUEUE) -> None:
        """What a pull loop does with messages."""
        must_start = self.process_queue.put(messages)
        if not self.options.orderly:
            self.concurrent.take_in(queue, self.process_queue, messages)
        elif must_start:
            self.orderly.take_in(queue, self.process_queue, messages)

    @property
    def offset(self) -> int:
        """How far the group is, as far as the consumer has noted it."""
        return self.offsets.cached(QUEUE)

    @property
    def is_pausing(self) -> bool:
        """No handler is at work on the queue, and what the last one said has been taken in on the loop."""
        return self.process_queue.idle.is_set()

    async def settle(self) -> None:
        """Let everything happen that can happen without the clock."""
        for _ in range(10):
            await asyncio.sleep(0.002)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what threads and the loop bring about."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110  # threads tell nobody
                await asyncio.sleep(0.001)

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.settle()
