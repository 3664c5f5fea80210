"""A broker's store and tables in memory, without a socket: what handlers work on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.metadata.consumer_filters import ConsumerFilters
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.stats.counters import BrokerStats
from rocketline.logs import Throttle
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import Channel
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from support.brokers import connections as broker_clients

ROOT = Path("/store")
HOST = HostAddress.parse("127.0.0.1:10911")
SMALL = {"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "64", "maxIndexNum": "4096"}


class Tables:
    """The topic T with two queues, and all that is needed to serve it."""

    def __init__(self, clock: FakeClock, files: FileSystem, **settings: str) -> None:
        self.clock, self.files = clock, files
        self.settings = broker_clients.broker_settings(storePathRootDir=str(ROOT), **SMALL | settings)
        config = ROOT / "config"
        self.topics = TopicTable.load(files, config / "topics.json", self.settings, clock)
        self.store = MessageStore.open(
            lambda: self.settings.value.store, files, clock, HOST, 2**30, lambda: self.topics.is_batched
        )
        self.log = Throttle(clock)
        self.groups = GroupTable.load(files, config / "subscriptionGroup.json", self.settings, clock, self.log)
        self.offsets = ConsumerOffsets.load(files, config / "consumerOffset.json", self.settings, clock)
        self.filters = ConsumerFilters.load(files, config / "consumerFilter.json", self.settings, clock)
        self.consumers = ConsumerRegistry()
        self.consumers.on_empty = self.filters.unregister
        self.stats = BrokerStats(self.settings, clock)
        self.topics.update(TopicConfig("T", 2, 2))

    def append(self, body: bytes = b"x", *, topic: str = "T", queue_id: int = 0, **properties: str) -> StoredMessage:
        return self.store.append(message(topic, body, queue_id=queue_id, **properties))

    def subscribe(self, channel: Channel, group: str, *topics: str) -> None:
        """A consumer's heartbeat."""
        client = broker_clients.client_on(channel, self.clock)
        self.consumers.register(broker_clients.consumer(group, *topics), client)


@contextmanager
def tables(clock: FakeClock, files: FileSystem | None = None, **settings: str) -> Iterator[Tables]:
    """`settings` are Apache's keys. Entered again with the same `files` it is the broker's next start."""
    made = Tables(clock, files or MemoryFileSystem(clock, capacity=2**30), **settings)
    try:
        yield made
    finally:
        made.store.close()


def message(topic: str, body: bytes = b"x", *, queue_id: int = 0, **properties: str) -> StoredMessage:
    """A message that is not stored yet. `TAGS` and other properties by their names."""
    return StoredMessage(
        topic=topic,
        body=body,
        properties=dict(properties),
        flag=0,
        queue_id=queue_id,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(0),
        sys_flag=0,
        born_ms=1_700_000_000_000,
        born_host=HostAddress.parse("10.0.0.7:50000"),
        store_ms=0,
        store_host=HOST,
    )
