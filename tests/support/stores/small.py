"""Small stores for tests: files so short that a few messages roll all of them, and every way of ending one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rocketline.model.ids import LogOffset, QueueOffset
from rocketline.model.message import Message, StoredMessage
from rocketline.model.sys_flags import INNER_BATCH, NEED_UNWRAP
from rocketline.store.config import FlushDiskType, StoreConfig
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.batch import encode_batch
from rocketline.wire.properties import encode_properties
from support.brokers.tables import HOST, message

ROOT = Path("/store")
LOG_BYTES = 1024
"""Of one file of the log: half a dozen messages."""
UNITS = 5
"""In one file of a queue."""
MEMORY_BYTES = 1 << 30

__all__ = ["BATCHED", "HOST", "LOG_BYTES", "ROOT", "SYNC", "UNITS", "message"]

SYNC = FlushDiskType.SYNC_FLUSH


def store_config(**changes: Any) -> StoreConfig:
    small: dict[str, Any] = {
        "store_path_root_dir": ROOT,
        "mapped_file_size_commit_log": LOG_BYTES,
        "mapped_file_size_consume_queue": UNITS * 20,
        "mapper_file_size_batch_consume_queue": UNITS * 46,
        "max_hash_slot_num": 10,
        "max_index_num": 12,
    }
    return StoreConfig(**small | changes)


def memory(clock: FakeClock) -> MemoryFileSystem:
    return MemoryFileSystem(clock, capacity=1 << 30)


BATCHED = "B"
"""The topic that keeps batches as one record."""


def open_store(files: FileSystem, clock: FakeClock, **changes: Any) -> MessageStore:
    """`changes` are fields of the configuration."""
    config = store_config(**changes)
    return MessageStore.open(lambda: config, files, clock, HOST, MEMORY_BYTES, lambda: BATCHED.__eq__)


def die(store: MessageStore) -> None:
    """The process is gone; what it wrote is in the system's cache, and its locks are free."""
    assert store._lock is not None
    store._lock.release()


def flush(store: MessageStore) -> None:
    """Sync the log as the broker does, in one step."""
    if (job := store.begin_flush()) is not None:
        error = None
        try:
            job.run()
        except OSError as failure:
            error = failure
        store.finish_flush(job, error)


def flush_queues(store: MessageStore, *, is_thorough: bool = True) -> None:
    """Write and sync what is derived from the log, and save the checkpoint of the time before."""
    store.write_behind()
    job = store.begin_queue_flush(is_thorough=is_thorough)
    error = None
    try:
        job.run()
    except OSError as failure:
        error = failure
    store.finish_queue_flush(job, error)


def reserve_ahead(store: MessageStore) -> None:
    """Make space for the log as the broker does elsewhere, as long as some is due."""
    while (job := store.begin_space()) is not None:
        error = None
        try:
            job.run()
        except OSError as failure:
            error = failure
        store.finish_space(job, error)


def append_batch(store: MessageStore, messages: Sequence[StoredMessage]) -> None:
    """As a producer's batch: what they share is the first one's."""
    members = [(one.flag, one.body, encode_properties(one.properties)) for one in messages]
    places, _ = store.append_members(batch := messages[0], members)
    first = batch.queue_offset
    for number, (one, place) in enumerate(zip(messages, places, strict=True)):
        one.log_offset, one.store_ms, one.store_host = place, batch.store_ms, batch.store_host
        one.queue_offset = QueueOffset(first + number)


def plain_queue(store: MessageStore, topic: str = "T", queue_id: int = 0) -> ConsumeQueue:
    """A queue with a unit for each message."""
    queue = store.queues.make(topic, queue_id)
    assert isinstance(queue, ConsumeQueue)
    return queue


def fill(
    store: MessageStore, count: int, *, topic: str = "T", queue_id: int = 0, size: int = 60
) -> list[StoredMessage]:
    """Append numbered messages, whose keys are their numbers in the queue."""
    first = store.queues.make(topic, queue_id).next_offset
    return [
        store.append(message(topic, f"{number}".encode().ljust(size, b"."), queue_id=queue_id, KEYS=f"k{number}"))
        for number in range(first, first + count)
    ]


def inner_batch(count: int, topic: str = BATCHED, **properties: str) -> StoredMessage:
    """So many messages in one that is not stored yet."""
    members = [Message.of(topic, f"{number}".encode()) for number in range(count)]
    batch = message(topic, encode_batch(members), queue_id=0, INNER_NUM=str(count), **properties)
    batch.sys_flag = NEED_UNWRAP | INNER_BATCH
    return batch


def contents(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
    """What a consumer gets who reads the queue from its first message to its end."""
    return list(_read_all(store, topic, queue_id))


def _read_all(store: MessageStore, topic: str, queue_id: int) -> Iterator[StoredMessage]:
    offset = store.min_offset(topic, queue_id)
    for log_offset, size, _ in store.units(topic, queue_id, offset, 1 << 20):
        if store.log.damage.at(log_offset) is not None:  # which pulls pass over
            offset += 1
            continue
        record = store.record_at(log_offset)
        found = store.message_at(LogOffset(log_offset))
        assert record is not None
        assert found is not None
        assert len(record) == size
        if topic == BATCHED and store.log.damage:  # batches that were lost there have no units
            offset = max(offset, found.queue_offset)
        assert (found.topic, found.queue_id, found.queue_offset) == (topic, queue_id, offset)
        offset += int(found.properties.get("INNER_NUM", "1"))
        yield found


def find_keys(store: MessageStore, key: str, topic: str = "T") -> list[int]:
    """Log offsets of the messages found by a key."""
    return [int.from_bytes(record[28:36], "big") for record in store.query(topic, key, 64, 0, 1 << 60)]


def catch_up(store: MessageStore) -> None:
    while store.catch_up(3):
        pass
