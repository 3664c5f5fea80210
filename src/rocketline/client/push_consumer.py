"""The asyncio push consumer. Java: DefaultMQPushConsumer.

"Push" is pulling that the client does by itself: a rebalance finds the queues, a pull loop for each brings messages,
and a way of consuming calls handlers with them. All that is in `push_member`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self, TypeAlias, Unpack

from rocketline.client.handling import AsyncBatchHandler, AsyncMessageHandler, BatchHandler, Handler, MessageHandler
from rocketline.client.lifecycle import Lifecycle, Living
from rocketline.client.options import make_options
from rocketline.client.push_member import PushMember
from rocketline.client.push_options import PushKeywords, PushOptions
from rocketline.client.queue_bounds import QueueBounds
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime import ClientRuntime
from rocketline.client.subscriptions import MessageSelector, parse_subscription
from rocketline.client.validation import check_group, check_topic
from rocketline.clock import Clock
from rocketline.errors import ClientError, ClosedError
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel

AnyHandler: TypeAlias = MessageHandler | BatchHandler | AsyncMessageHandler | AsyncBatchHandler


class PushConsumer(Living):
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
        """Nothing is opened or sent yet. Raises `InvalidNameError`, `ConfigError` or `TypeError`.

        Clients that are given the same `runtime` share its connections; its options count for what they share.
        """
        check_group(group)
        self.group = group
        self.options = make_options(PushOptions, name_servers, options)
        # A broadcasting consumer finds its offsets again by its name, which must not change with every start.
        is_name_stable = self.options.message_model is MessageModel.BROADCASTING
        self.runtime = runtime or ClientRuntime(self.options, clock=clock, is_name_stable=is_name_stable)
        self._member = PushMember(self.runtime, self.runtime.with_namespace(group), self.options)
        self._life = Lifecycle(f"<PushConsumer {group!r}>", self.runtime.check)
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<PushConsumer {self.group!r}, {self._life}>"

    @property
    def client_id(self) -> str:
        return self.runtime.client_id

    # --- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Join the group and begin to consume. A topic that does not exist yet is waited for.

        Raises `GroupInUseError`, `TransportError` if no name server can be reached, and `ClosedError` if it was closed
        meanwhile; then nothing is left running.
        """
        self._life.check_new()
        await self.runtime.lease()
        try:
            await self._member.join()
        except BaseException:
            await self.runtime.release()
            raise
        try:
            self._life.start()
        except ClosedError:  # while we waited
            await self._close()
            raise
        try:
            await self._member.begin()
        except BaseException:
            await self.close()
            raise
        self._life.check_open()

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
            self._closing = asyncio.get_running_loop().create_task(self._close(), name=f"close {self!r}")
        return self._closing

    async def _close(self) -> None:
        try:
            await self._member.end()
        finally:
            await self.runtime.release()
            self._member.over.set()

    async def run(self) -> None:
        """Wait until the consumer, or the runtime that it shares, is closed, by a handler say."""
        if self._closing is None:
            self._life.check()
        await self._member.over.wait()

    @property
    def is_over(self) -> bool:
        """Closing has ended, of the consumer or of the runtime under it."""
        return self._member.over.is_set()

    def is_inside_handler(self) -> bool:
        """The caller is a handler of this consumer, in its thread or task, or its listener in its task."""
        return self._member.is_inside_handler()

    # --- what to consume

    def subscribe(
        self, topic: str, expression: str | MessageSelector, handler: AnyHandler, *, is_batch: bool | None = None
    ) -> None:
        """Have messages of `topic` brought to `handler`: those tagged as in `"new || paid"`, or all by `"*"`.

        The handler gets a message or, if `is_batch`, a sequence of up to `consume_batch_max` messages; without
        `is_batch`, a sequence if that number is above 1. A second parameter without a default gets a `ConsumeContext`.
        A coroutine function runs as a task, any other in a thread. It returns None or a `ConsumeResult`.

        All members of a group must have the same subscriptions. Subscribing again replaces the former one. Raises
        `InvalidNameError`, `ClientError` for an expression that means nothing, `ClosedError`.
        """
        self._life.check_open()
        self._life.check_if_running()
        check_topic(topic)
        on_wire = self.runtime.with_namespace(topic)
        parse_subscription(on_wire, expression, sub_version=0)  # what is wrong with it, before anything changes
        is_batch = self.options.consume_batch_max > 1 if is_batch is None else is_batch
        self._member.handlers.put(topic, Handler(handler, is_batch=is_batch))
        self._member.topics.put(on_wire, expression)
        if self._life.is_running:
            self.runtime.spawn(self._member.announce(on_wire), name=f"subscribe to {on_wire}")

    def unsubscribe(self, topic: str) -> None:
        """Have no further messages of `topic` brought. Those that failed before may still come again."""
        self._life.check_if_running()
        on_wire = self.runtime.with_namespace(topic)
        self._member.topics.remove(on_wire)
        self._member.stats.forget(on_wire)
        if self._life.is_running:
            self.runtime.wake_rebalance()

    # --- how to consume

    def suspend(self) -> None:
        """Pull no more until `resume`. Messages that are here already are consumed."""
        self._life.check()
        self._member.suspend()

    def resume(self) -> None:
        """Pull again."""
        self._life.check()
        self._member.resume()

    @property
    def consume_threads(self) -> int:
        """How many handlers run at once."""
        return self._member.threads

    def resize(self, consume_threads: int) -> None:
        """Run so many handlers at once from now on. Raises `ConfigError`. Java: updateCorePoolSize."""
        self._life.check()
        PushOptions(consume_threads=consume_threads)  # raises if that is out of range
        self._member.resize(consume_threads)

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Have a message delivered to the group again, later. Raises `ClientError` if that failed.

        Java: sendMessageBack.
        """
        self._life.check()
        seen = message.queue
        queue = MessageQueue(self.runtime.with_namespace(seen.topic), seen.broker_name, seen.queue_id)
        if not await self._member.send_back.send(message, queue, delay_level):
            raise ClientError(f"message {message.message_id} could not be sent back: the log says why")

    async def reset_to_time(self, time_ms: int) -> None:
        """Go on, in all owned queues, at the first message stored then or later. Takes ten seconds.

        Java: resetOffsetByTimeStamp.
        """
        self._life.check()
        bounds, owned = QueueBounds(self.runtime), list(self._member.rebalancer.queues)
        offsets = {queue: await bounds.search_offset(queue, time_ms) for queue in owned}
        await asyncio.gather(
            *(self._member.reset_offsets(topic, offsets) for topic in {queue.topic for queue in owned})
        )

    # --- how it goes

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues that are this consumer's now, those of the retry topic among them."""
        return tuple(map(self._member.as_seen, self._member.rebalancer.queues))

    def offsets(self) -> dict[MessageQueue, int]:
        """How far this consumer is in its queues: the next offset of each, as far as it is known here."""
        return {self._member.as_seen(queue): offset for queue, offset in self._member.offsets.offsets().items()}
