"""Where the reading of a queue begins: at the group's offset or, if it has none, where the consumer's options say.

Java: computePullFromWhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Protocol

from rocketline.errors import ClientError
from rocketline.model.names import is_retry_topic
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere


class StartAt(Enum):
    """Where a group begins that has no offset."""

    ZERO = "zero"
    """Not the first message that is still there: the pull finds that out, and begins anew."""
    END = "end"
    TIME = "time"


def choose_start(where: ConsumeFromWhere, topic: str) -> StartAt:
    """Where to begin reading `topic` without an offset.

    A retry topic holds what the group failed to consume, so there the beginning is everything; only who asked for a
    time begins at the end, because what was retried before is older.

    >>> choose_start(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, "%RETRY%g")
    <StartAt.ZERO: 'zero'>
    """
    is_retry = is_retry_topic(topic)
    match where:
        case ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return StartAt.ZERO
        case ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            return StartAt.END if is_retry else StartAt.TIME
        case _:  # the deprecated ones mean the last offset
            return StartAt.ZERO if is_retry else StartAt.END


class EndOffsets(Protocol):
    """`queue_bounds.BoundedQueues`, as far as it is needed here."""

    async def max_offset(self, queue: MessageQueue) -> int: ...

    async def search_offset(self, queue: MessageQueue, time_ms: int) -> int: ...


class StartOffsets:
    """Where queues of one consumer begin.

    `read` gives the group's offset, or -1: of the store for push consumers, of memory first for lite pull.

        read = functools.partial(offsets.read, source=ReadFrom.STORE)
        start = StartOffsets(read, QueueBounds(runtime), where, timestamp_ms)
        offset = await start(queue)
    """

    def __init__(
        self,
        read: Callable[[MessageQueue], Awaitable[int]],
        bounds: EndOffsets,
        where: ConsumeFromWhere,
        timestamp_ms: int,
    ) -> None:
        self._read, self._bounds, self._where, self._timestamp_ms = read, bounds, where, timestamp_ms

    async def __call__(self, queue: MessageQueue) -> int:
        """The first offset to pull. Raises what the store or the broker raises: who does not know must not begin."""
        stored = await self._read(queue)
        if stored >= 0:
            return stored
        match choose_start(self._where, queue.topic):
            case StartAt.ZERO:
                return 0
            case StartAt.END:
                offset = await self._bounds.max_offset(queue)
            case StartAt.TIME:
                offset = await self._bounds.search_offset(queue, self._timestamp_ms)
        if offset < 0:
            raise ClientError(f"{queue} cannot begin at {offset}: its broker does not know the queue")
        return offset
