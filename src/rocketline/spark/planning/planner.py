"""Which offsets a micro-batch takes, and how a read is cut into tasks. Pure: the same questions, the same answers.

A replayed micro-batch must have the very tasks of its first run, so a plan depends on nothing but what is handed in.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from pyspark.sql.datasource import InputPartition

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The messages of one queue from offset `start` to before `end`. The topic is as users name it."""

    topic: str
    broker: str
    queue_id: int
    start: int
    end: int
    mark_ms: int | None = None
    """When the message just before `start` was stored, if that is known. If another one is there now, the topic was
    deleted and made anew, and these offsets mean other messages than they did."""

    @property
    def size(self) -> int:
        """How many offsets these are; there may be fewer messages."""
        return self.end - self.start

    def __str__(self) -> str:
        where = f"queue {self.queue_id} of topic {self.topic!r} on broker {self.broker!r}"
        return f"{where}, offsets {self.start} to {self.end}"


@dataclass
class QueueRanges(InputPartition):
    """What one task reads, one range after another."""

    ranges: tuple[QueueRange, ...]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.ranges)


def plan(
    ranges: Iterable[QueueRange],
    *,
    min_partitions: int | None = None,
    records_max: int | None = None,
    records_min: int = 0,
) -> list[QueueRanges]:
    """The tasks of a read.

    Empty ranges are dropped. Ranges of more than `records_max` offsets are cut into even parts. If there are fewer than
    `min_partitions`, the largest are cut further. Ranges of less than `records_min` are put together, up to that many
    offsets in a task but not above `records_max`, as long as `min_partitions` remain: a task costs some 30 ms, whatever
    it reads.
    """
    parts = [part for each in ranges if each.size > 0 for part in _cut(each, _pieces(each.size, records_max))]
    if min_partitions is not None and 0 < len(parts) < min_partitions:
        parts = _cut_largest(parts, min_partitions)
    return _pack(parts, records_min if records_max is None else min(records_min, records_max), min_partitions or 1)


def _pieces(size: int, most: int | None) -> int:
    return 1 if most is None else -(-size // most)


def _cut(whole: QueueRange, count: int) -> list[QueueRange]:
    """Even parts, in order. Only the first begins where the mark is about."""
    cuts = [whole.start + whole.size * index // count for index in range(count + 1)]
    parts = [replace(whole, start=low, end=high, mark_ms=None) for low, high in pairwise(cuts) if low < high]
    return [replace(parts[0], mark_ms=whole.mark_ms), *parts[1:]]


def _cut_largest(ranges: Sequence[QueueRange], count: int) -> list[QueueRange]:
    """So many parts that there are `count`, each further cut where the parts are largest."""
    pieces = [1] * len(ranges)
    heap = [(-each.size, index) for index, each in enumerate(ranges)]
    heapq.heapify(heap)
    for _ in range(count - len(ranges)):
        largest, index = heap[0]
        if largest >= -1:  # single messages cannot be cut
            break
        pieces[index] += 1
        heapq.heapreplace(heap, (-ranges[index].size // pieces[index], index))  # the largest part, rounded up
    return [part for each, number in zip(ranges, pieces, strict=True) for part in _cut(each, number)]


def _pack(parts: Sequence[QueueRange], capacity: int, tasks_min: int) -> list[QueueRanges]:
    """Tasks of one part, or of several small ones that have no more than `capacity` offsets together."""
    tasks: list[list[QueueRange]] = []
    spare = len(parts) - tasks_min
    shared: list[QueueRange] | None = None
    room = 0
    for part in parts:
        if part.size >= capacity:
            tasks.append([part])
        elif shared is not None and part.size <= room and spare > 0:
            shared.append(part)
            room -= part.size
            spare -= 1
        else:
            shared, room = [part], capacity - part.size
            tasks.append(shared)
    return [QueueRanges(tuple(task)) for task in tasks]


def share(backlogs: Mapping[Key, int], limit: int, turn: int = 0) -> dict[Key, int]:
    """How much of each backlog to take so that it is `limit` in all: in proportion, but something of each.

    If `limit` is less than the number of backlogs, so many of them get one, beginning with number `turn`: whoever
    counts `turn` up by what was taken lets each have its turn.

    >>> share({"a": 300, "b": 100, "c": 0}, 100)
    {'a': 75, 'b': 25, 'c': 0}
    >>> share({"a": 1_000_000, "b": 5}, 10)
    {'a': 9, 'b': 1}
    >>> share({"a": 9, "b": 9, "c": 9}, 2, turn=2)
    {'a': 1, 'b': 0, 'c': 1}
    """
    total = sum(backlogs.values())
    if total <= limit:
        return dict(backlogs)
    shares = dict.fromkeys(backlogs, 0)
    waiting = [key for key, backlog in backlogs.items() if backlog > 0]
    if limit < len(waiting):
        for index in range(limit):
            shares[waiting[(turn + index) % len(waiting)]] = 1
        return shares
    # One for each, or a small queue would wait until the large ones are done; the rest in proportion.
    rest, left = limit - len(waiting), total - len(waiting)
    wanted = {key: (backlogs[key] - 1) * rest for key in waiting}
    for key in waiting:
        shares[key] = 1 + wanted[key] // left
    by_remainder = sorted(waiting, key=lambda key: wanted[key] % left, reverse=True)
    for key in by_remainder[: limit - sum(shares.values())]:
        shares[key] += 1
    return shares
