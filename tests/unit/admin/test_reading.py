"""Reading a topic from its end, where nearly nothing is wanted."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from rocketline.admin.reading import TopicReading
from rocketline.client.consumer.pulls import PullResult, PullStatus
from rocketline.model.queue import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)


@dataclass(eq=False)
class Message:
    queue_offset: int
    store_ms: int = 0


class Reading(TopicReading):
    """Of a queue whose messages before offset `old` are wanted, and none after that."""

    def __init__(self, old: int, end: int) -> None:
        self.old, self.end = old, end
        self.alive: weakref.WeakSet[Message] = weakref.WeakSet()
        self.alive_max = 0

    async def pull(
        self, queue: MessageQueue, offset: int, *, count_max: int = 32, suspend_s: float | None = None
    ) -> PullResult:
        until = min(offset + count_max, self.end)
        found: list[Any] = [Message(each) for each in range(offset, min(until, self.old))]
        self.alive.update(found)
        self.alive_max = max(self.alive_max, len(self.alive))
        status = PullStatus.FOUND if found else PullStatus.NO_MATCHED_MESSAGE
        return PullResult(status, until, 0, self.end, found)


async def offsets(reading: Reading, count: int) -> list[int]:
    return [message.queue_offset for message in await reading.last(QUEUE, count, 0, reading.end)]


async def test_the_newest_are_found_however_far_back_they_are() -> None:
    for old in (0, 1, 9, 10, 11, 500, 2990, 3000):
        assert await offsets(Reading(old, 3000), 10) == list(range(max(0, old - 10), old))
    assert await offsets(Reading(3000, 3000), 0) == []


async def test_of_all_that_a_long_step_brings_no_more_is_kept_than_is_asked_for() -> None:
    """A rare tag, and before it a time when all messages had it: all of those were kept in memory at once."""
    reading = Reading(5_000, 10_000)
    assert await offsets(reading, 10) == list(range(4_990, 5_000))
    assert reading.alive_max < 100
