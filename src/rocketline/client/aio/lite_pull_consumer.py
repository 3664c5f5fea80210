"""The asyncio lite pull consumer: the application asks for messages. Java: DefaultLitePullConsumer.

With `auto_commit`, the default, asking for more commits what was handed on before: a message counts as consumed when
the next one is asked for. So finish with one before that, or commit by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Self, Unpack

from rocketline.client.aio.shell import AsyncClient
from rocketline.client.consumer.subscriptions import MessageSelector
from rocketline.client.lite_pull.assigned_queues import AssignedQueues
from rocketline.client.lite_pull.core import LitePullCore
from rocketline.client.lite_pull.options import LitePullKeywords, LitePullOptions
from rocketline.client.lite_pull.polling import Polling
from rocketline.client.options import parse_name_servers
from rocketline.client.rebalance.topic_watch import TopicListener
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.clock import Clock
from rocketline.errors import GroupInUseError
from rocketline.model.queue import MessageQueue


class LitePullConsumer(AsyncClient[LitePullOptions]):
    """Hands messages on when asked. Use it as `async with`, or between `start` and `close`, on one event loop.

    Choose queues by `subscribe` or by `assign`, before or after the start; one consumer cannot do both.

    >>> async def main(address: str) -> None:
    ...     async with Producer(address, group="shop") as producer:
    ...         await producer.send(Message("orders", b"42"))
    ...     async with LitePullConsumer(address, group="audit") as consumer:
    ...         consumer.subscribe("orders")
    ...         async for message in consumer:
    ...             print(message.body, message.queue_offset)
    ...             break  # here after one; elsewhere until `close`
    >>> from rocketline.aio import Message, Producer
    >>> from rocketline.testing import Server
    >>> with Server() as server:
    ...     asyncio.run(main(server.address))
    b'42' 0
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        group: str,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[LitePullKeywords],
    ) -> None:
        super().__init__(LitePullOptions, name_servers, options, group, runtime, clock)
        self._arrived = asyncio.Event()
        queues = AssignedQueues(self.options.limits(), on_arrival=self._arrived.set)
        self.core = LitePullCore(self.runtime, group, self.options, queues)
        self._polling = Polling(
            queues,
            self.options,
            self.runtime.clock,
            group=group,
            namespace=self.runtime.namespace,
            commit=self.core.commit_positions,
        )

    # --- life

    async def start(self) -> None:
        """Join the group. Raises `ClientError` if started, `GroupInUseError`, and `TransportError` or
        `NoNameServerError` if topics are subscribed and no name server answers: then it is closed."""
        try:
            await super().start()
        except GroupInUseError:  # before anything began; it may be our own other start that has the place
            raise
        except BaseException:
            self._life.close_if_new()
            raise

    async def close(self) -> None:
        """Save what was committed and leave the group. What was handed on and not committed comes again. Iterations
        and `poll` end. Again: does nothing."""
        await super().close()

    async def _join(self) -> None:
        await self.core.join()

    async def _begin(self) -> None:
        await self.core.begin()

    async def _leave(self) -> None:
        try:
            await self.core.end()
        finally:
            await super()._leave()

    # --- choosing queues

    def subscribe(self, topic: str, selector: MessageSelector | str | None = None) -> None:
        """Share the topic's queues with the other members of the group, who must subscribe to the same.

        `selector` chooses among its messages: tags as in `"new || paid"`, or `by_sql(…)`; none takes all. Subscribing
        again replaces it. Raises `ClientError` after `assign`, `InvalidNameError`.
        """
        self._life.check_if_running()
        self.core.subscribe(topic, selector)

    def unsubscribe(self, topic: str) -> None:
        """Give the topic's queues up. What was pulled of them is forgotten."""
        self._life.check_if_running()
        self.core.unsubscribe(topic)

    def assign(self, queues: Collection[MessageQueue], selector: MessageSelector | str | None = None) -> None:
        """Read exactly these queues, whatever other members of the group read; again: these instead.

        A queue that stays goes on where it was. Raises `ClientError` after `subscribe`.
        """
        self._life.check_if_running()
        self.core.assign(queues, selector)

    def assignment(self) -> set[MessageQueue]:
        """The queues that are read now."""
        return self.core.assignment()

    async def queues(self, topic: str) -> set[MessageQueue]:
        """All queues of a topic, by its newest route. Raises `TopicNotFoundError`. Java: fetchMessageQueues."""
        self._life.check()
        return await self.core.topic_queues(topic)

    def watch_queues(self, topic: str, listener: TopicListener) -> None:
        """Call `listener(topic, queues)`, or await it, whenever the topic has other queues than before; looked at
        every 30 s (`topic_check_period_s`). Java: registerTopicMessageQueueChangeListener."""
        self._life.check_if_running()
        self.core.watch(topic, listener)

    # --- messages

    async def poll(self, timeout_s: float | None = None) -> list[ReceivedMessage]:
        """Messages of one queue, in order, at most `pull_batch_max`; none if none come in time (`poll_timeout_s`).

        With `auto_commit`, what earlier calls returned is committed first, every five seconds. Raises `ValueError`
        for a time below zero, `NotStartedError` and `ClosedError`.
        """
        self._life.check()
        deadline_s = self.runtime.clock.monotonic() + self.core.checked_timeout_s(timeout_s)
        while not (messages := self._polling.take()):
            left_s = deadline_s - self.runtime.clock.monotonic()
            if left_s <= 0 or not await self._wait(left_s):
                break
        return messages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message of any queue, whenever it comes. Ends when the consumer is closed; raises `ClosedError` if
        the runtime is closed under it."""
        if self._life.is_new:
            self._life.check_running()
        self._life.check_if_running()  # once it is closed, here or meanwhile, the iteration just ends
        while (message := self._polling.take_one()) is None:
            if not await self._wait(None):
                raise StopAsyncIteration
        return message

    async def _wait(self, timeout_s: float | None) -> bool:
        """Until there may be something to take; False once it is closed. Raises `ClosedError` if its runtime is."""
        if self._life.is_running:
            self._arrived.clear()
            if timeout_s is None:
                await self._arrived.wait()
            else:
                await self.runtime.wait_for(self._arrived, timeout_s)
        self._life.check_if_running()
        return self._life.is_running

    # --- going elsewhere

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """The next message of the queue is the one at `offset`; what was pulled of it is forgotten.

        Raises `ClientError` if the queue is not assigned, `InvalidOffsetError` if it has no such offset.
        """
        self._life.check()
        await self.core.seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go to the first message that is still there."""
        self._life.check()
        await self.core.seek_to_begin(queue)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Pass over everything that is there."""
        self._life.check()
        await self.core.seek_to_end(queue)

    async def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        """Go to the first message that was stored at this time, in ms since 1970, or later."""
        self._life.check()
        await self.core.seek_to_time(queue, time_ms)

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Pull no more of these queues; what was pulled is still handed on."""
        self._life.check_if_running()
        self.core.set_paused(queues, True)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Go on where `pause` stopped, within a second."""
        self._life.check_if_running()
        self.core.set_paused(queues, False)

    # --- offsets

    async def commit(
        self, what: Collection[MessageQueue] | Mapping[MessageQueue, int] | None = None, *, is_persisted: bool = False
    ) -> None:
        """Commit what was handed on: of all queues or of those given; or, if offsets are given with them, these.

        Brokers hear of it within 5 s (`offset_persist_period_s`) and at `close`; with `is_persisted`, now. Queues that
        are not assigned are passed over.
        """
        self._life.check()
        await self.core.commit(what, is_persisted=is_persisted)

    async def committed(self, queue: MessageQueue) -> int:
        """The offset that the group goes on at, -1 if it has none. Raises `ResponseError`, `TransportError`."""
        self._life.check()
        return await self.core.committed(queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        self._life.check()
        return await self.core.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        self._life.check()
        return await self.core.max_offset(queue)

    async def offset_for_time(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message that was stored at this time, in ms since 1970, or later.

        Java: offsetForTimestamp.
        """
        self._life.check()
        return await self.core.search_offset(queue, time_ms)

    async def replace_name_servers(self, name_servers: str | Sequence[str]) -> None:
        """Ask these from now on. Java: updateNameServerAddress."""
        self._life.check()
        await self.runtime.replace_name_servers(parse_name_servers(name_servers))
