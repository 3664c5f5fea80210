"""The asyncio pull consumer: queues, offsets and pulls are the application's business. Java: DefaultMQPullConsumer.

It is no member of its group: others do not make room for it. The group's name is where its offsets are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from rocketline.client.aio.shell import AsyncClient
from rocketline.client.consumer.offset_store import NO_OFFSET, BrokerOffsets
from rocketline.client.consumer.pull_core import COUNT_MAX, PullCore
from rocketline.client.consumer.pull_options import PullKeywords, PullOptions
from rocketline.client.consumer.pulls import PullResult, Pulls, RawPull
from rocketline.client.consumer.queue_bounds import QueueBounds
from rocketline.client.consumer.subscriptions import MessageSelector
from rocketline.client.runtime.namespaced import find_queues, on_wire
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.clock import Clock
from rocketline.model.queue import MessageQueue


class PullConsumer(AsyncClient[PullOptions]):
    """Pulls when told. Use it as `async with`, or between `start` and `close`, on one event loop.

    Any number of pulls may be under way at once; those to one broker share a connection.

    >>> async def main(address: str) -> None:
    ...     async with Producer(address, group="shop") as producer:
    ...         await producer.send(Message("orders", b"42"))
    ...     async with PullConsumer(address, group="copy") as consumer:
    ...         for queue in await consumer.queues("orders"):
    ...             offset = max(await consumer.fetch_offset(queue), await consumer.min_offset(queue))
    ...             result = await consumer.pull(queue, offset)
    ...             for message in result.messages:
    ...                 print(message.body, message.queue_offset)
    ...             await consumer.update_offset(queue, result.next_offset)
    >>> import asyncio
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
        **options: Unpack[PullKeywords],
    ) -> None:
        super().__init__(PullOptions, name_servers, options, group, runtime, clock)
        self.core = PullCore(
            group,
            self.options,
            namespace=self.runtime.namespace,
            routes=self.runtime.routes,
            clock=self.runtime.clock,
        )
        self.pulls = Pulls(self.runtime, self.core.plan)
        self._offsets = BrokerOffsets(self.runtime, self.core.group)
        self._bounds = QueueBounds(self.runtime)

    # --- life

    async def start(self) -> None:
        """Join the runtime. No server needs to be up for it. Raises `ClientError` if started already."""
        await super().start()

    async def close(self) -> None:
        """Leave the runtime; pulls under way fail if nobody else uses it. Again: does nothing."""
        await super().close()

    # --- pulling

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = COUNT_MAX,
        selector: MessageSelector | str | None = None,
        *,
        waits: bool = False,
        timeout_s: float | None = None,
    ) -> PullResult:
        """Messages of the queue from `offset` on. Go on at the result's `next_offset`, also if there is none.

        `selector` chooses among them: tags as in `"new || paid"`, or `by_sql(…)`. With `waits` the broker holds the
        pull back at the end of the queue until a message comes, for 20 s (`suspend_s`). Raises `ValueError` for an
        offset or a count that cannot be, `ResponseError`, `TransportError`, `BrokerNotFoundError`, and
        `CallTimeoutError` if the time was over before anybody knew whom to ask.
        """
        self._life.check()
        query = self.core.query(queue, offset, count_max, selector, waits=waits)
        return await self.pulls.pull(query, self.core.timeout_s(timeout_s, waits=waits))

    async def pull_raw(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = COUNT_MAX,
        selector: MessageSelector | str | None = None,
        *,
        waits: bool = False,
        timeout_s: float | None = None,
    ) -> RawPull:
        """The same, with the messages as the bytes of their records; tags are filtered by their hashes alone."""
        self._life.check()
        query = self.core.query(queue, offset, count_max, selector, waits=waits)
        return await self.pulls.pull_raw(query, self.core.timeout_s(timeout_s, waits=waits))

    # --- offsets

    async def fetch_offset(self, queue: MessageQueue) -> int:
        """The offset that the group goes on at, as the broker has it; -1 if there is none. Java: fetchConsumeOffset."""
        self._life.check()
        found = await self._offsets.fetch(on_wire(self.runtime.namespace, queue))
        return NO_OFFSET if found is None else found

    async def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Have the broker keep it, and wait until it has. Java: updateConsumeOffset, which waits for a timer."""
        self._life.check()
        if offset < 0:
            raise ValueError(f"offset {offset} of {queue}: at least 0 is wanted")
        await self._offsets.save_one(on_wire(self.runtime.namespace, queue), offset, is_oneway=False)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        self._life.check()
        return await self._bounds.min_offset(on_wire(self.runtime.namespace, queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        self._life.check()
        return await self._bounds.max_offset(on_wire(self.runtime.namespace, queue))

    async def offset_for_time(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message that was stored at this time, in ms since 1970, or later.

        Java: searchOffset.
        """
        self._life.check()
        return await self._bounds.search_offset(on_wire(self.runtime.namespace, queue), time_ms)

    async def earliest_store_ms(self, queue: MessageQueue) -> int:
        """When the first message that is still there was stored. Java: earliestMsgStoreTime."""
        self._life.check()
        return await self._bounds.earliest_store_ms(on_wire(self.runtime.namespace, queue))

    async def queues(self, topic: str) -> set[MessageQueue]:
        """All queues of a topic, by its newest route. Raises `TopicNotFoundError`.

        Java: fetchSubscribeMessageQueues.
        """
        self._life.check()
        return await find_queues(self.runtime, topic)
