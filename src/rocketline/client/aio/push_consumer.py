"""The asyncio push consumer. Java: DefaultMQPushConsumer.

"Push" is pulling that the client does by itself: a rebalance finds the queues, a pull loop for each brings messages,
and a way of consuming calls handlers with them. All that is in `push`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias, Unpack

from rocketline.client.aio.shell import AsyncClient
from rocketline.client.consumer.queue_bounds import QueueBounds
from rocketline.client.consumer.subscriptions import MessageSelector, parse_subscription
from rocketline.client.push.consume_request import (
    AsyncBatchHandler,
    AsyncMessageHandler,
    BatchHandler,
    Handler,
    MessageHandler,
)
from rocketline.client.push.core import PushConsumerCore
from rocketline.client.push.options import PushKeywords, PushOptions
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.namespaced import as_seen, on_wire
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.validation import check_topic
from rocketline.clock import Clock
from rocketline.errors import ClientError
from rocketline.model.queue import MessageQueue

AnyHandler: TypeAlias = MessageHandler | BatchHandler | AsyncMessageHandler | AsyncBatchHandler


class PushConsumer(AsyncClient[PushOptions]):
    """Has messages brought to handlers. Use it as `async with`, or between `start` and `close`, on one event loop.

    >>> async def main(address: str) -> None:
    ...     async with Producer(address, group="shop") as producer:
    ...         await producer.send(Message("orders", b"42", tags="new"))
    ...     consumed = asyncio.Event()
    ...     async def handle(message: ReceivedMessage) -> None:  # None is success, an exception is a retry
    ...         print(message.tags, message.body)
    ...         consumed.set()
    ...     async with PushConsumer(address, group="billing") as consumer:
    ...         consumer.subscribe("orders", "new || paid", handle)
    ...         await consumed.wait()  # here until one has come; elsewhere `await consumer.run()`
    >>> from rocketline.aio import Message, Producer
    >>> from rocketline.testing import Server
    >>> with Server() as server:
    ...     asyncio.run(main(server.address))
    new b'42'
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        group: str,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[PushKeywords],
    ) -> None:
        super().__init__(PushOptions, name_servers, options, group, runtime, clock)
        self.core = PushConsumerCore(self.runtime, self.runtime.with_namespace(group), self.options)
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<PushConsumer {self.group!r}, {self._life}>"

    # --- life

    async def start(self) -> None:
        """Join the group and begin to consume. A topic that does not exist yet is waited for.

        Raises `GroupInUseError`, `TransportError` if no name server can be reached, `InvalidFilterError` if a broker
        refuses an expression in SQL, and `ClosedError` if it was closed meanwhile; then nothing is left running.
        """
        await super().start()

    async def close(self) -> None:
        """Stop pulling, wait up to `close_wait_s` for handlers that run, unlock and save offsets, leave the group.

        From inside a handler or a queue listener it begins all this and returns, since it cannot wait for its caller.
        Closing again waits for the first.
        """
        closing = self.begin_close()
        if closing is not None and not self.is_inside_handler():
            await asyncio.shield(closing)

    def begin_close(self) -> asyncio.Task[None] | None:
        """Close without waiting. The task ends when it is done; None if nothing had been started."""
        if self._life.close():
            # Not one of the runtime's tasks: those are cancelled by what this one does last.
            self._closing = asyncio.get_running_loop().create_task(self._leave(), name=f"close {self!r}")
        return self._closing

    async def _join(self) -> None:
        await self.core.join()

    async def _begin(self) -> None:
        await self.core.begin()

    async def _leave(self) -> None:
        try:
            await self.core.end()
        finally:
            await super()._leave()
            self.core.over.set()

    async def run(self) -> None:
        """Wait until the consumer, or the runtime that it shares, is closed, by a handler say."""
        if self._closing is None:
            self._life.check()
        await self.core.over.wait()

    @property
    def is_over(self) -> bool:
        """Closing has ended, of the consumer or of the runtime under it."""
        return self.core.over.is_set()

    def is_inside_handler(self) -> bool:
        """The caller is a handler of this consumer, in its thread or task, or its listener in its task."""
        return self.core.is_inside_handler()

    # --- what to consume

    def subscribe(
        self, topic: str, expression: str | MessageSelector, handler: AnyHandler, *, is_batch: bool | None = None
    ) -> None:
        """Have messages of `topic` brought to `handler`: those tagged as in `"new || paid"`, those whose properties
        fulfil an expression, as in `by_sql("price > 5")`, or all by `"*"`.

        The handler gets a message or, if `is_batch`, a sequence of up to `consume_batch_max` messages; without
        `is_batch`, a sequence if that number is above 1. A second parameter without a default gets a `ConsumeContext`.
        A coroutine function runs as a task, any other in a thread. It returns None, a `ConsumeResult`, or the `reply`
        to a request; for a sequence, replies in a list.

        All members of a group must have the same subscriptions. Subscribing again replaces the former one. Raises
        `InvalidNameError`, `ClientError` for an expression that means nothing, `InvalidFilterError` for one in SQL that
        cannot be read, `ClosedError`.
        """
        self._life.check_open()
        self._life.check_if_running()
        check_topic(topic)
        topic_on_wire = self.runtime.with_namespace(topic)
        parse_subscription(topic_on_wire, expression, sub_version=0)  # what is wrong with it, before anything changes
        is_batch = self.options.consume_batch_max > 1 if is_batch is None else is_batch
        self.core.handlers.put(topic, Handler(handler, is_batch=is_batch))
        self.core.topics.put(topic_on_wire, expression)
        if self._life.is_running:
            self.runtime.spawn(self.core.announce(topic_on_wire), name=f"subscribe to {topic_on_wire}")

    def unsubscribe(self, topic: str) -> None:
        """Have no further messages of `topic` brought. Those that failed before may still come again."""
        self._life.check_if_running()
        topic_on_wire = self.runtime.with_namespace(topic)
        self.core.topics.remove(topic_on_wire)
        self.core.stats.forget(topic_on_wire)
        if self._life.is_running:
            self.runtime.wake_rebalance()

    # --- how to consume

    def suspend(self) -> None:
        """Pull no more until `resume`. Messages that are here already are consumed."""
        self._life.check()
        self.core.suspend()

    def resume(self) -> None:
        """Pull again."""
        self._life.check()
        self.core.resume()

    @property
    def consume_threads(self) -> int:
        """How many handlers run at once."""
        return self.core.threads

    def resize(self, consume_threads: int) -> None:
        """Run so many handlers at once from now on. Raises `ConfigError`. Java: updateCorePoolSize."""
        self._life.check()
        PushOptions(consume_threads=consume_threads)  # raises if that is out of range
        self.core.resize(consume_threads)

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Have a message delivered to the group again, later. Raises `ClientError` if that failed.

        Java: sendMessageBack.
        """
        self._life.check()
        seen = message.queue
        queue = on_wire(self.runtime.namespace, seen)
        if not await self.core.send_back.send(message, queue, delay_level):
            raise ClientError(f"message {message.message_id} could not be sent back: the log says why")

    async def reset_to_time(self, time_ms: int) -> None:
        """Go on, in all owned queues, at the first message stored then or later. Takes ten seconds.

        Java: resetOffsetByTimeStamp.
        """
        self._life.check()
        bounds, owned = QueueBounds(self.runtime), list(self.core.rebalancer.queues)
        offsets = {queue: await bounds.search_offset(queue, time_ms) for queue in owned}
        await asyncio.gather(*(self.core.reset_offsets(topic, offsets) for topic in {queue.topic for queue in owned}))

    # --- how it goes

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues that are this consumer's now, those of the retry topic among them. If it pops, -1 for an id stands
        for all queues of a broker."""
        return tuple(as_seen(self.runtime.namespace, queue) for queue in self.core.queues)

    def offsets(self) -> dict[MessageQueue, int]:
        """How far this consumer is in its queues: the next offset of each, as far as it is known here."""
        return {as_seen(self.runtime.namespace, queue): offset for queue, offset in self.core.offsets.offsets().items()}
