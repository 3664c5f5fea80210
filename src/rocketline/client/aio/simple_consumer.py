"""The asyncio simple consumer: a worker asks for messages, works, and says what became of each.

No queue is anybody's: brokers hand out messages, to as many workers as there are, and hide each from all others for a
time. It is no member of its group, so there is nothing to rebalance. Brokers need RocketMQ 5. Java: SimpleConsumer,
which speaks gRPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from rocketline.client.aio.shell import AsyncClient
from rocketline.client.consumer.hooks import ConsumeHookContext
from rocketline.client.consumer.subscriptions import MessageSelector
from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.client.pop.pops import COUNT_MAX
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.simple.core import SimpleCore
from rocketline.client.simple.options import SimpleKeywords, SimpleOptions
from rocketline.clock import Clock


class Attempt:
    """A message to work on: `async with attempt as message:`.

    While the block runs nobody else is given the message. When it ends the message is acknowledged; when it raises the
    message is given back, to come again after 10 s, then 30 s, a minute, and so on, or at once if the block was
    cancelled. If the broker cannot be told that is logged, and the message comes again.
    """

    def __init__(self, core: SimpleCore, message: PoppedMessage) -> None:
        self._core, self._message = core, message
        self._call: ConsumeHookContext | None = None

    async def __aenter__(self) -> PoppedMessage:
        self._core.hold(self._message, asyncio.current_task())
        self._call = self._core.begin_call(self._message)
        return self._message

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._core.end_call(self._call, error)
        await self._core.end_work(self._message, error)


class SimpleConsumer(AsyncClient[SimpleOptions]):
    """Receives when told. Use it as `async with`, or between `start` and `close`, on one event loop.

    >>> async def main(address: str) -> None:
    ...     async with Producer(address, group="shop") as producer:
    ...         await producer.send(Message("jobs", b"42"))
    ...     async with SimpleConsumer(address, group="workers") as consumer:
    ...         consumer.subscribe("jobs")
    ...         async for attempt in consumer:
    ...             async with attempt as message:
    ...                 print(message.body, message.attempt)
    ...             break  # here after one; elsewhere until `close`
    >>> from rocketline.aio import Message, Producer
    >>> from rocketline.testing import Server
    >>> with Server() as server:
    ...     asyncio.run(main(server.address))
    b'42' 1
    """

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        group: str,
        runtime: ClientRuntime | None = None,
        clock: Clock | None = None,
        **options: Unpack[SimpleKeywords],
    ) -> None:
        super().__init__(SimpleOptions, name_servers, options, group, runtime, clock)
        self.core = SimpleCore(self.runtime, group, self.options)
        self._closer: object = None

    # --- life

    async def start(self) -> None:
        """Join the runtime. Raises `ClientError` if started, and `TransportError` or `NoNameServerError` if topics are
        subscribed and no name server answers: then it is closed."""
        await super().start()

    async def close(self) -> None:
        """Receive no more, wait for `with` blocks of others (`close_wait_s`), and leave the runtime. What was received
        and not acknowledged comes again. Iterations end. Again: does nothing."""
        await self.close_for(asyncio.current_task())

    async def close_for(self, owner: object) -> None:
        """The same, not waiting for the blocks of `owner`, who waits for this."""
        self._closer = owner
        await super().close()

    async def _begin(self) -> None:
        await self.core.begin()

    async def _leave(self) -> None:
        try:
            await self.core.end(self._closer)
        finally:
            await super()._leave()

    # --- what to receive

    def subscribe(self, topic: str, selector: MessageSelector | str | None = None) -> None:
        """Receive the topic's messages, before or after the start; other workers of the group should do the same.

        `selector` chooses among them: tags as in `"new || paid"`, or `by_sql(…)`; none takes all. Those that it leaves
        out count as done with. Subscribing again replaces it. Raises `InvalidNameError`, `ClientError`.
        """
        self._life.check_if_running()
        self.core.subscribe(topic, selector)

    def unsubscribe(self, topic: str) -> None:
        """Receive no more of the topic."""
        self._life.check_if_running()
        self.core.unsubscribe(topic)

    # --- receiving

    async def receive(
        self, count_max: int = COUNT_MAX, invisible_s: float | None = None, *, wait_s: float | None = None
    ) -> list[PoppedMessage]:
        """Messages of one broker, as soon as there are any, at most `count_max`; none if none come within `wait_s`.

        Nobody else is given them for `invisible_s` (both are options, too). Those that were handed out `max_attempts`
        times go to the dead letters instead. Raises `ValueError` for a count above 32 or a time that cannot be,
        `TopicNotFoundError`, `NoPopError` for a broker before RocketMQ 5, `ResponseError`, `TransportError`.
        """
        self._life.check()
        return await self.core.receive(count_max, invisible_s, wait_s)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Attempt:
        """The next message, whenever it comes, to work on in an `async with` block. Ends when the consumer is closed.
        What fails and may pass is logged, and tried again. Raises `NoPopError`, `ClientError` if nothing is subscribed
        to, and `ClosedError` if the runtime is closed under it."""
        if self._life.is_new:
            self._life.check_running()
        self._life.check_if_running()
        message = await self.core.next()
        if message is None:
            raise StopAsyncIteration
        return Attempt(self.core, message)

    # --- what became of messages

    async def ack(self, messages: ReceivedMessage | Sequence[ReceivedMessage]) -> None:
        """Say that a message, or several, is done with: it does not come again.

        Raises `HandleError` if this group has no right to it, was done with it or is too late (`HandleExpiredError`),
        `ResponseError`, `TransportError`. For several `UnsettledError` tells which failed; the others are done with.
        """
        self._life.check()
        await self.core.ack(messages)

    async def extend(
        self, messages: ReceivedMessage | Sequence[ReceivedMessage], invisible_s: float | None = None
    ) -> None:
        """Keep it from others for `invisible_s` from now on. Raises like `ack`, and `ValueError`.

        Java: changeInvisibleDuration.
        """
        self._life.check()
        await self.core.extend(messages, invisible_s)

    async def nack(self, messages: ReceivedMessage | Sequence[ReceivedMessage], delay_s: float | None = None) -> None:
        """Give it back: somebody is given it again after `delay_s`, or else after 10 s, the second time 30 s, and so
        on up to two hours. Raises like `extend`."""
        self._life.check()
        await self.core.nack(messages, delay_s)
