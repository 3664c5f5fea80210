"""The two producers behind one face, so that one test tries both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from rocketline import Producer as BlockingProducer
from rocketline.aio import Producer as AsyncProducer
from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.replies import ReceivedReply
from rocketline.client.runtime.pending_requests import ReplyCounts
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue


class Sender(Protocol):
    """A producer of either flavour, as a test on a loop calls it."""

    async def send(self, message: Message | Sequence[Message], **how: Any) -> SendReceipt: ...

    def send_soon(self, message: Message | Sequence[Message], **how: Any) -> asyncio.Future[SendReceipt]:
        """Without waiting for it."""
        ...

    async def send_oneway(self, message: Message, **how: Any) -> None: ...

    async def request(self, message: Message, **how: Any) -> ReceivedReply: ...

    @property
    def reply_counts(self) -> ReplyCounts: ...

    async def queues(self, topic: str) -> list[MessageQueue]: ...

    async def recall(self, topic: str, handle: str) -> str: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class BlockingSender:
    """The blocking producer, each call in a thread."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.producer = BlockingProducer(*arguments, **options)

    async def send(self, message: Message | Sequence[Message], **how: Any) -> SendReceipt:
        return await asyncio.to_thread(self.producer.send, message, **how)

    def send_soon(self, message: Message | Sequence[Message], **how: Any) -> asyncio.Future[SendReceipt]:
        return asyncio.wrap_future(self.producer.send_soon(message, **how))

    async def send_oneway(self, message: Message, **how: Any) -> None:
        await asyncio.to_thread(self.producer.send_oneway, message, **how)

    async def request(self, message: Message, **how: Any) -> ReceivedReply:
        return await asyncio.to_thread(self.producer.request, message, **how)

    @property
    def reply_counts(self) -> ReplyCounts:
        return self.producer.reply_counts

    async def queues(self, topic: str) -> list[MessageQueue]:
        return await asyncio.to_thread(self.producer.queues, topic)

    async def recall(self, topic: str, handle: str) -> str:
        return await asyncio.to_thread(self.producer.recall, topic, handle)

    async def start(self) -> None:
        await asyncio.to_thread(self.producer.start)

    async def close(self) -> None:
        await asyncio.to_thread(self.producer.close)


FLAVOURS: dict[str, Callable[..., Any]] = {"asyncio": AsyncProducer, "blocking": BlockingSender}

MakeProducer = Callable[..., AbstractAsyncContextManager[Sender]]


def maker(flavour: str) -> MakeProducer:
    """What starts producers of one flavour, each for the time of an `async with`."""

    @asynccontextmanager
    async def producing(name_servers: str | None = None, *, group: str = "P", **options: Any) -> AsyncIterator[Sender]:
        sender = FLAVOURS[flavour](name_servers, group=group, **options)
        await sender.start()
        try:
            yield sender
        finally:
            await sender.close()

    return producing


async def error_of(sending: Any) -> Any:
    """What an awaitable raises."""
    try:
        outcome = await sending
    except Exception as error:  # noqa: BLE001  # the test says which one it expects
        return error
    raise AssertionError(f"no error, but {outcome!r}")
