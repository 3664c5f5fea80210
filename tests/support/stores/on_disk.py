"""Store directories for tests of the store reader: written by our store, on a real disk, and then hurt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocketline.model.message import StoredMessage
from rocketline.store.config import StoreConfig
from rocketline.store.filesystem import DiskFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from support.brokers.tables import HOST
from support.stores.small import BATCHED, flush, flush_queues, message

LOG_BYTES = 64 * 1024
"""Of one file of the log: some hundred messages."""


@contextmanager
def store_at(root: Path, clock: FakeClock, *, dies: bool = False, **changes: Any) -> Iterator[MessageStore]:
    """A store that is open; `dies` leaves it as a killed broker would."""
    config = StoreConfig(
        store_path_root_dir=root,
        mapped_file_size_commit_log=LOG_BYTES,
        mapped_file_size_consume_queue=50 * 20,
        mapper_file_size_batch_consume_queue=50 * 46,
        max_hash_slot_num=10,
        max_index_num=100,
        **changes,
    )
    store = MessageStore.open(lambda: config, DiskFileSystem(), clock, HOST, 1 << 30, lambda: BATCHED.__eq__)
    try:
        yield store
        flush(store)
        flush_queues(store)
    finally:
        if not dies:
            store.close()
        else:
            assert store._lock is not None
            store._lock.release()


def put(
    store: MessageStore, clock: FakeClock, count: int, *, topic: str = "T", queues: int = 2, body_bytes: int = 60
) -> list[StoredMessage]:
    """Numbered messages, one each millisecond, dealt to the queues in turn."""
    stored = []
    for number in range(count):
        body = b"%d" % number
        stored.append(
            store.append(
                message(
                    topic,
                    body.ljust(body_bytes, b"."),
                    queue_id=number % queues,
                    KEYS=f"k{number}",
                    TAGS=f"t{number % 3}",
                )
            )
        )
        clock.advance(0.001)
    return stored


def log_paths(root: Path) -> Sequence[Path]:
    return sorted((root / "commitlog").iterdir())


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
