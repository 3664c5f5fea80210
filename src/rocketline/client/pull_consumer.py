"""The asyncio pull consumer: queues, offsets and pulls are the application's business. Java: DefaultMQPullConsumer.

It is no member of its group: others do not make room for it. The group's name is where its offsets are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Self, Unpack

from rocketline.client.lifecycle import Lifecycle, Living
from rocketline.client.offset_store import NO_OFFSET, BrokerOffsets
from rocketline.client.options import make_options
from rocketline.client.pull_options import PullKeywords, PullOptions
from rocketline.client.pull_request import PullQuery
from rocketline.client.pulling import PullPlan, PullResult, Pulls, RawPull
from rocketline.client.queue_bounds import QueueBounds
from rocketline.client.queue_names import find_queues, on_wire
from rocketline.client.runtime import ClientRuntime
from rocketline.client.subscriptions import MessageSelector, parse_subscription
from rocketline.client.validation import check_group
from rocketline.clock import Clock
from rocketline.errors import RocketlineError
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData

COUNT_MAX: Final = 32
"""What Apache's brokers give at most, by default."""
_SUBSCRIPTIONS_MAX: Final = 256
"""So many expressions are remembered: the same one in the next pull need not be parsed, and keeps its version."""


class PullConsumer(Living):
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
        """Nothing is opened or sent yet. Raises `InvalidNameError`, `ConfigError` or `TypeError`.

        Clients that are given the same `runtime` share its connections; its options count for what they share.
        """
        check_group(group)
        self.group = group
        self.options = make_options(PullOptions, name_servers, options)
        self.runtime = runtime or ClientRuntime(self.options, clock=clock)
        name = self.runtime.with_namespace(group)
        plan = PullPlan(
            self.runtime.routes,
            name,
            filter_hooks=self.options.filter_hooks,
            namespace=self.runtime.namespace,
            unit_mode=self.options.unit_mode,
        )
        self.pulls = Pulls(self.runtime, plan)
        self._offsets = BrokerOffsets(self.runtime, name)
        self._bounds = QueueBounds(self.runtime)
        self._subscription = lru_cache(_SUBSCRIPTIONS_MAX)(self._parse)
        self._life = Lifecycle(repr(self), self.runtime.check)

    def __repr__(self) -> str:
        return f"<PullConsumer {self.group!r}>"

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
        """Join the runtime. No server needs to be up for it. Raises `ClientError` if started already."""
        self._life.check_new()
        await self.runtime.lease()
        try:
            self._life.start()
        except RocketlineError:  # closed, or started by somebody else, while we waited
            await self.runtime.release()
            raise

    async def close(self) -> None:
        """Leave the runtime; pulls under way fail if nobody else uses it. Again: does nothing."""
        if self._life.close():
            await self.runtime.release()

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
        query = self.query(queue, offset, count_max, selector, waits=waits)
        return await self.pulls.pull(query, self.timeout_s(timeout_s, waits=waits))

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
        query = self.query(queue, offset, count_max, selector, waits=waits)
        return await self.pulls.pull_raw(query, self.timeout_s(timeout_s, waits=waits))

    def query(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int,
        selector: MessageSelector | str | None,
        *,
        waits: bool,
    ) -> PullQuery:
        """What a pull asks. From any thread, for the blocking consumer, which has connections of its own."""
        if offset < 0 or count_max <= 0:
            raise ValueError(f"pull of {count_max} messages at offset {offset}: at least one, at 0 or above")
        wanted = on_wire(self.runtime, queue)
        return PullQuery(
            wanted,
            offset,
            self._subscription(wanted.topic, selector),
            count_max,
            suspend_s=self.options.suspend_s if waits else None,
            with_subscription=True,
        )

    def _parse(self, topic: str, selector: MessageSelector | str | None) -> SubscriptionData:
        return parse_subscription(topic, selector, sub_version=self.runtime.clock.wall_ms())

    def timeout_s(self, given_s: float | None, *, waits: bool) -> float:
        """How long a pull may take."""
        if given_s is not None:
            return given_s
        return self.options.suspend_timeout_s if waits else self.options.pull_timeout_s

    # --- offsets

    async def fetch_offset(self, queue: MessageQueue) -> int:
        """The offset that the group goes on at, as the broker has it; -1 if there is none. Java: fetchConsumeOffset."""
        self._life.check()
        found = await self._offsets.fetch(on_wire(self.runtime, queue))
        return NO_OFFSET if found is None else found

    async def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Have the broker keep it, and wait until it has. Java: updateConsumeOffset, which waits for a timer."""
        self._life.check()
        if offset < 0:
            raise ValueError(f"offset {offset} of {queue}: at least 0 is wanted")
        await self._offsets.save_one(on_wire(self.runtime, queue), offset, is_oneway=False)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        self._life.check()
        return await self._bounds.min_offset(on_wire(self.runtime, queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        self._life.check()
        return await self._bounds.max_offset(on_wire(self.runtime, queue))

    async def offset_for_time(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message that was stored at this time, in ms since 1970, or later.

        Java: searchOffset.
        """
        self._life.check()
        return await self._bounds.search_offset(on_wire(self.runtime, queue), time_ms)

    async def earliest_store_ms(self, queue: MessageQueue) -> int:
        """When the first message that is still there was stored. Java: earliestMsgStoreTime."""
        self._life.check()
        return await self._bounds.earliest_store_ms(on_wire(self.runtime, queue))

    async def queues(self, topic: str) -> set[MessageQueue]:
        """All queues of a topic, by its newest route. Raises `TopicNotFoundError`.

        Java: fetchSubscribeMessageQueues.
        """
        self._life.check()
        return await find_queues(self.runtime, topic)
