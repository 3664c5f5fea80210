"""Reading topics as nobody in particular: no group of one's own, no offsets kept, nothing changed by it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final

from rocketline.client.consumer.pull_request import PullQuery
from rocketline.client.consumer.pulls import PullPlan, PullResult, Pulls, PullStatus
from rocketline.client.consumer.subscriptions import MessageSelector, parse_subscription
from rocketline.errors import ResponseError, RocketlineError, TransportError
from rocketline.model.queue import MessageQueue

if TYPE_CHECKING:
    from rocketline.client.received_message import ReceivedMessage
    from rocketline.client.runtime.runtime import ClientRuntime

GROUP: Final = "TOOLS_CONSUMER"
"""A group that every broker has, for tools that read. Java: MixAll.TOOLS_CONSUMER_GROUP."""
END_OF_TIME_MS: Final = 2**63 - 1
_PULL_COUNT: Final = 32
_SUSPEND_S: Final = 15.0
_LOOK_S: Final = 30.0
"""How often a follower looks for new queues."""
_PAUSE_S: Final = 1.0
"""Pause after a pull that failed."""


class TopicReading:
    """The messages of one topic that an expression chooses, by queue and offset."""

    def __init__(self, runtime: ClientRuntime, topic: str, selector: MessageSelector | str | None = None) -> None:
        """Raises `ClientError` for an expression that can choose nothing."""
        self.topic, self._runtime = topic, runtime
        self._subscription = parse_subscription(topic, selector, sub_version=runtime.clock.wall_ms())
        self._pulls = Pulls(runtime, PullPlan(runtime.routes, GROUP))

    async def pull(
        self, queue: MessageQueue, offset: int, *, count_max: int = _PULL_COUNT, suspend_s: float | None = None
    ) -> PullResult:
        """What one request brings; with `suspend_s`, the broker waits that long for the first new message."""
        query = PullQuery(
            queue, offset, self._subscription, count_max=count_max, suspend_s=suspend_s, with_subscription=True
        )
        return await self._pulls.pull(query)

    async def span(
        self,
        queue: MessageQueue,
        first: int,
        end: int,
        *,
        end_ms: int = END_OF_TIME_MS,
        count_max: int | None = None,
        newest_max: int | None = None,
    ) -> list[ReceivedMessage]:
        """The messages from offset `first` to before `end` that were stored before `end_ms`; the first `count_max`.

        Of all of them only the last `newest_max` are kept.
        """
        found: deque[ReceivedMessage] = deque(maxlen=newest_max)
        async with aclosing(self.parts(queue, first, end)) as parts:
            async for messages in parts:
                for message in messages:
                    if message.store_ms >= end_ms:
                        return list(found)
                    found.append(message)
                if count_max is not None and len(found) >= count_max:
                    break
        return list(found)

    async def parts(self, queue: MessageQueue, first: int, end: int) -> AsyncGenerator[list[ReceivedMessage], None]:
        """The messages from offset `first` to before `end`, as many at a time as an answer brings: for those who keep
        none of them."""
        while first < end:
            result = await self.pull(queue, first, count_max=min(_PULL_COUNT, end - first))
            within = [message for message in result.messages if message.queue_offset < end]
            yield within
            if len(within) < len(result.messages):
                return
            if result.status is PullStatus.NO_NEW_MESSAGE or result.next_offset <= first:
                return
            first = result.next_offset

    async def last(self, queue: MessageQueue, count: int, low: int, high: int) -> list[ReceivedMessage]:
        """The newest `count` messages between two offsets, oldest first: read backwards in ever longer steps.

        A step that is long, since there was little in those before, may bring very many.
        """
        found: list[ReceivedMessage] = []
        step = count
        while high > low and len(found) < count:
            start = max(low, high - step)
            found = [*await self.span(queue, start, high, newest_max=count - len(found)), *found]
            high, step = start, step * 2
        return found


class Follower:
    """Shows what comes to a topic from given offsets on, until it is cancelled. All queues are waited for at once."""

    def __init__(
        self,
        reading: TopicReading,
        runtime: ClientRuntime,
        show: Callable[[list[ReceivedMessage]], None],
        complain: Callable[[MessageQueue, RocketlineError], None],
    ) -> None:
        """`complain` hears of each pull that failed; it is made again a second later."""
        self._reading, self._runtime, self._show, self._complain = reading, runtime, show, complain

    async def run(
        self, positions: Mapping[MessageQueue, int], look: Callable[[], Awaitable[list[MessageQueue]]]
    ) -> None:
        """`look` tells the topic's queues; those that are new are followed from their beginning on."""
        known: set[MessageQueue] = set()

        def follow(queue: MessageQueue, offset: int) -> None:
            known.add(queue)
            group.create_task(self._follow(queue, offset), name=f"follow {queue}")

        try:
            async with asyncio.TaskGroup() as group:
                for queue, offset in positions.items():
                    follow(queue, offset)
                while True:
                    await self._runtime.sleep(_LOOK_S)
                    with suppress(RocketlineError):  # a name server that is away will be back
                        for queue in set(await look()) - known:
                            follow(queue, 0)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None  # what `show` raised

    async def _follow(self, queue: MessageQueue, offset: int) -> None:
        while True:
            try:
                result = await self._reading.pull(queue, offset, suspend_s=_SUSPEND_S)
            except (TransportError, ResponseError) as error:
                self._complain(queue, error)
                await self._runtime.sleep(_PAUSE_S)
                continue
            offset = result.next_offset
            if result.messages:
                self._show(result.messages)


def merged(spans: Iterable[Iterable[ReceivedMessage]]) -> list[ReceivedMessage]:
    """The messages of several queues in the order in which they were stored."""
    return sorted((message for span in spans for message in span), key=lambda message: message.store_ms)
