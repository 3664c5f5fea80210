"""A broker's saved tables, on a disk that can fail."""

from __future__ import annotations

from pathlib import Path

from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.metadata.topics import TopicTable
from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem
from support.brokers.connections import broker_settings

CONFIG = Path("/store/config")


class SavedTables:
    """Topics, groups and offsets of the broker B in the cluster C. `settings` are Apache's keys."""

    def __init__(self, clock: Clock | None = None, files: FaultyFileSystem | None = None, **settings: str) -> None:
        self.clock = clock or FakeClock()
        self.files = files or FaultyFileSystem(self.clock)
        self.settings = broker_settings(**{"brokerName": "B", "brokerClusterName": "C", **settings})
        self.topics = TopicTable.load(self.files, CONFIG / "topics.json", self.settings, self.clock)
        self.groups = GroupTable.load(
            self.files, CONFIG / "subscriptionGroup.json", self.settings, self.clock, Throttle(self.clock)
        )
        self.offsets = ConsumerOffsets.load(self.files, CONFIG / "consumerOffset.json", self.settings, self.clock)

    def restarted(self) -> SavedTables:
        """The same files, read by another broker."""
        return SavedTables(self.clock, self.files)

    def with_topic(self, name: str = "T", queues: int = 4) -> SavedTables:
        self.topics.update(TopicConfig(name, queues, queues))
        return self
