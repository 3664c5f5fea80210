"""A broker's saved tables on a disk that can fail, and a store that knows only where its queues begin and end."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from broker_clients import broker_settings
from rocketline.broker.groups import GroupTable
from rocketline.broker.offsets import ConsumerOffsets
from rocketline.broker.topics import TopicTable
from rocketline.clock import Clock
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem
from rocketline.wire.headers import BoundaryType

CONFIG = Path("/store/config")


class SavedTables:
    """Topics, groups and offsets of the broker B in the cluster C. `settings` are Apache's keys."""

    def __init__(self, clock: Clock | None = None, files: FaultyFileSystem | None = None, **settings: str) -> None:
        self.clock = clock or FakeClock()
        self.files = files or FaultyFileSystem(self.clock)
        self.settings = broker_settings(**{"brokerName": "B", "brokerClusterName": "C", **settings})
        self.topics = TopicTable.load(self.files, CONFIG / "topics.json", self.settings, self.clock)
        self.groups = GroupTable.load(self.files, CONFIG / "subscriptionGroup.json", self.settings, self.clock)
        self.offsets = ConsumerOffsets.load(self.files, CONFIG / "consumerOffset.json", self.settings, self.clock)

    def restarted(self) -> SavedTables:
        """The same files, read by another broker."""
        return SavedTables(self.clock, self.files)

    def with_topic(self, name: str = "T", queues: int = 4) -> SavedTables:
        self.topics.update(TopicConfig(name, queues, queues))
        return self


@dataclass
class BoundsStore:
    """Queues by topic and id: the first offset and the next to be written. One message was stored every second."""

    queues: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    is_all_in_memory: bool = True

    def min_offset(self, topic: str, queue_id: int) -> int:
        return self.queues.get((topic, queue_id), (0, 0))[0]

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self.queues.get((topic, queue_id), (0, 0))[1]

    def earliest_store_ms(self, topic: str, queue_id: int) -> int:
        first, end = self.queues.get((topic, queue_id), (0, 0))
        return first * 1000 if first < end else -1

    def offset_at_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: BoundaryType) -> int:
        first, end = self.queues.get((topic, queue_id), (0, 0))
        offset = timestamp_ms // 1000 if boundary is BoundaryType.UPPER else -(-timestamp_ms // 1000)
        return max(first, min(end, offset))

    def is_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        first, end = self.queues.get((topic, queue_id), (0, 0))
        return self.is_all_in_memory and first <= queue_offset < end

    def delete_topics(self, topics: Collection[str]) -> None:
        self.deleted += topics
