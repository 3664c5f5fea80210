"""Where the queues of a store are: open, asleep, derived, or broken."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.store.queues.queue_ends import KnownQueue

Queue: TypeAlias = ConsumeQueue | BatchConsumeQueue
QueueName: TypeAlias = tuple[str, int]
"""Topic and queue id."""


class QueueReach(Protocol):
    """Where a queue begins and ends, be it open or not."""

    @property
    def min_offset(self) -> int: ...

    @property
    def max_offset(self) -> int: ...

    @property
    def max_log_offset(self) -> int: ...


class BrokenQueue(NamedTuple):
    """A queue that does not agree with the log and is not yet derived anew. Nobody gets it before it is."""

    queue: Queue
    problem: str
    known: KnownQueue


def ends_of(queue: Queue) -> KnownQueue:
    return KnownQueue(queue.is_batched, queue.min_offset, queue.max_offset, queue.max_log_offset)


class QueuePlaces:
    """Each queue is in one of four tables, by its topic: there may be a hundred thousand, and nobody should go through
    all for one.

    | table     | its queues                                                          | leave it when       |
    |-----------|---------------------------------------------------------------------|---------------------|
    | awake     | are open, and agreed with the log                                   | their topic goes    |
    | sleeping  | exist, and nobody has asked for them                                | they are asked for  |
    | unsettled | got units from a recovery, and were not compared with their files   | they are asked for  |
    | broken    | do not agree with the log                                           | they are derived    |
    """

    def __init__(self) -> None:
        self.awake: dict[str, dict[int, Queue]] = {}
        self.sleeping: dict[str, dict[int, KnownQueue]] = {}
        self.unsettled: dict[str, dict[int, ConsumeQueue]] = {}
        self.broken: dict[str, dict[int, BrokenQueue]] = {}
        self.behind: dict[Queue, None] = {}
        """Queues with units that are in no file yet."""

    @property
    def tables(self) -> tuple[dict[str, Any], ...]:
        return self.awake, self.sleeping, self.unsettled, self.broken

    @property
    def topics(self) -> Collection[str]:
        return self.awake.keys() | self.sleeping.keys() | self.unsettled.keys() | self.broken.keys()

    def unawake(self) -> list[QueueName]:
        return [
            (topic, queue_id)
            for table in (self.unsettled, self.sleeping, self.broken)
            for topic, queues in table.items()
            for queue_id in queues
        ]

    def unawake_of(self, topic: str) -> list[int]:
        return [queue_id for table in (self.sleeping, self.unsettled, self.broken) for queue_id in table.get(topic, ())]

    def is_unawake(self, topic: str, queue_id: int) -> bool:
        return any(queue_id in table.get(topic, ()) for table in (self.sleeping, self.unsettled, self.broken))

    def is_awake(self, queue: Queue) -> bool:
        """It is open, and its topic was not deleted since."""
        return self.awake.get(queue.topic, {}).get(queue.queue_id) is queue

    def is_broken(self, topic: str, queue_id: int) -> bool:
        return queue_id in self.broken.get(topic, ())

    def is_here(self, queue: Queue) -> bool:
        """Its topic was not deleted meanwhile."""
        broken = self.broken.get(queue.topic, {}).get(queue.queue_id)
        return broken.queue is queue if broken is not None else self.is_awake(queue)

    def opened_of(self, topic: str) -> list[Queue]:
        """Those of a topic that were opened, broken ones too."""
        return [*self.awake.get(topic, {}).values(), *(one.queue for one in self.broken.get(topic, {}).values())]

    def forget(self, topic: str, queue_id: int) -> None:
        """It sleeps no more."""
        table: dict[str, dict[int, Any]]
        for table in (self.sleeping, self.unsettled, self.broken):
            queues = table.get(topic)
            if queues is not None:
                queues.pop(queue_id, None)
                if not queues:
                    del table[topic]

    def known(self) -> dict[str, dict[int, KnownQueue]]:
        """What is known of all queues, for the next start."""
        found = {topic: dict(queues) for topic, queues in self.sleeping.items()}
        table: Mapping[str, Mapping[int, Queue]]
        for table in (self.awake, self.unsettled):
            for topic, queues in table.items():
                ends = {queue_id: ends_of(queue) for queue_id, queue in queues.items() if queue.max_offset}
                found.setdefault(topic, {}).update(ends)
        for topic, broken in self.broken.items():
            found.setdefault(topic, {}).update({queue_id: one.known for queue_id, one in broken.items()})
        return found
