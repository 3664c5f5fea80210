"""What the driver can learn of a cluster, as whoever decides positions sees it: values, and the questions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from rocketline.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueExtent:
    """What a queue holds: from the first message that is still there to where the next one will be."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Look:
    """The queues of a read, now."""

    bounds: Mapping[MessageQueue, QueueExtent]
    gone: frozenset[MessageQueue] = frozenset()
    """Queues that were known, are still meant to be read, and are no more."""


class ClusterView(Protocol):
    """The questions. Topics are as users name them. They raise `TransportError`, `RouteError` and `ResponseError`."""

    def look(self, known: Collection[MessageQueue] = ()) -> Look:
        """The queues that the options mean, and what they hold; `known` are those that have been read before.

        Raises `TopicNotFoundError` for a topic, and `ConfigError` for a queue, that is named, not there, and was not
        known.
        """
        ...

    def offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first message of each queue that was stored at its time or later; the queue's end if none was."""
        ...

    def committed(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Where the consumer group is in each; None if it has no offset there."""
        ...

    def store_times(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """When the message at each queue's offset was stored; queues without such a message are left out."""
        ...

    def check_reading(self, bounds: Mapping[MessageQueue, QueueExtent]) -> None:
        """Have each broker give a message of each topic, as tasks will. Raises `ConfigError` if it cannot do what `sql`
        asks, and `NoPermissionError` if the group may not read."""
        ...

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Have brokers keep how far the consumer group is. Asked once: the next ones follow."""
        ...
