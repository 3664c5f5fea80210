from __future__ import annotations

import pytest

from rocketline.client.rebalance.start_offset import StartOffsets, choose_start
from rocketline.errors import ClientError, RequestTimeoutError
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere

LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
TIME = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
QUEUE = MessageQueue("T", "b", 0)
RETRY = MessageQueue("%RETRY%g", "b", 0)


class FixedBounds:
    def __init__(self, max_offset: int = 900) -> None:
        self._max_offset = max_offset

    async def max_offset(self, queue: MessageQueue) -> int:
        return self._max_offset

    async def search_offset(self, queue: MessageQueue, time_ms: int) -> int:
        return time_ms // 10


async def start_of(queue: MessageQueue, where: ConsumeFromWhere, stored: int, bounds: FixedBounds | None = None) -> int:
    async def read(asked: MessageQueue) -> int:
        assert asked == queue
        return stored

    return await StartOffsets(read, bounds or FixedBounds(), where, timestamp_ms=4560)(queue)


@pytest.mark.parametrize("where", list(ConsumeFromWhere))
@pytest.mark.parametrize("queue", [QUEUE, RETRY], ids=["topic", "retry"])
async def test_stored_offset_counts_whatever_the_options_say(where: ConsumeFromWhere, queue: MessageQueue) -> None:
    """C150."""
    assert await start_of(queue, where, 100) == 100
    assert await start_of(queue, where, 0) == 0


@pytest.mark.parametrize(
    ("queue", "where", "offset"),
    [
        (QUEUE, LAST, 900),
        (QUEUE, FIRST, 0),
        (QUEUE, TIME, 456),
        (RETRY, LAST, 0),
        (RETRY, FIRST, 0),
        (RETRY, TIME, 900),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
async def test_without_an_offset_the_options_say_where_to_begin(
    queue: MessageQueue, where: ConsumeFromWhere, offset: int
) -> None:
    """C151."""
    assert await start_of(queue, where, -1) == offset


@pytest.mark.parametrize(
    "where", [where for where in ConsumeFromWhere if where not in (LAST, FIRST, TIME)], ids=lambda where: where.name
)
def test_deprecated_choices_mean_the_last_offset(where: ConsumeFromWhere) -> None:
    for topic in ("T", "%RETRY%g"):
        assert choose_start(where, topic) is choose_start(LAST, topic)


async def test_offset_that_cannot_be_read_is_not_guessed() -> None:
    """C152."""

    async def read(queue: MessageQueue) -> int:
        raise RequestTimeoutError("127.0.0.1:20911", "no answer")

    with pytest.raises(RequestTimeoutError):
        await StartOffsets(read, FixedBounds(), FIRST, 0)(QUEUE)


async def test_broker_that_does_not_know_the_queue_gives_no_start() -> None:
    with pytest.raises(ClientError, match="does not know the queue"):
        await start_of(QUEUE, LAST, -1, FixedBounds(max_offset=-1))
