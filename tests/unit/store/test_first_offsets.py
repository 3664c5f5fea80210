"""A flipped bit in the header of a record, where no check sum covers it, costs no other message its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketline.model.message import StoredMessage
from rocketline.store.filesystem import DiskFileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from support.stores.damage import walk
from support.stores.small import (
    BATCHED,
    HOST,
    LOG_BYTES,
    MEMORY_BYTES,
    ROOT,
    die,
    fill,
    flush,
    flush_queues,
    inner_batch,
    memory,
    open_store,
    store_config,
)

OFFSET_AT = 20
BODY_BYTES_AT = 84
Sent = list[tuple[StoredMessage, bytes]]
"""Messages and their records."""


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


def append(store: MessageStore, topic: str) -> StoredMessage:
    return store.append(inner_batch(3)) if topic == BATCHED else fill(store, 1, topic=topic)[0]


def sent(store: MessageStore, clock: FakeClock, topic: str, *, others: int, is_late: bool) -> Sent:
    """Messages of a topic, with others of another in front of them and behind each. If late, a recovery reads the log
    from behind the first few on."""
    found: Sent = []
    for number in range(14):
        clock.advance(10)
        fill(store, others, topic="X")
        one = append(store, topic)
        record = store.record_at(one.log_offset)
        assert record is not None
        found.append((one, record))
        if is_late and number == 8:
            flush(store)
            flush_queues(store)
            flush_queues(store)
    flush(store)
    return found


def flip(files: MemoryFileSystem, position: int, bit: int) -> None:
    file = files.open(ROOT / "commitlog" / f"{position - position % LOG_BYTES:020}")
    in_file = position % LOG_BYTES
    file.write_at(in_file, bytes([file.read_at(in_file, 1)[0] ^ 1 << bit]))
    file.close()


def check_others(store: MessageStore, messages: Sent, damaged: StoredMessage) -> None:
    for one, record in messages:
        if one is not damaged:
            found = store.read(one.topic, one.queue_id, one.queue_offset, 1, None)
            assert b"".join(found.records).startswith(record), one.queue_offset


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("topic", ["T", BATCHED])
def test_a_flipped_bit_of_a_queue_offset_hides_no_other_message(
    files: MemoryFileSystem, clock: FakeClock, topic: str, others: int, is_late: bool, is_written: bool
) -> None:
    store = open_store(files, clock)
    messages = sent(store, clock, topic, others=others, is_late=is_late)
    if is_written:
        store.queues.write_behind()
    die(store)
    before = {path: files.read_file(path) or b"" for path in walk(files, ROOT)}
    for damaged, _ in messages:
        for bit in range(0, 32, 1 if damaged.queue_offset < 2 else 3):
            disk = memory(clock)
            for path, data in before.items():
                disk.make_folder(path.parent)
                disk.write_file(path, data)
            flip(disk, damaged.log_offset + OFFSET_AT + 7 - bit // 8, bit % 8)
            store = open_store(disk, clock)
            check_others(store, messages, damaged)
            assert append(store, topic).queue_offset > messages[-1][0].queue_offset
            die(store)


@pytest.mark.parametrize("count", [2, 3])
def test_the_first_of_few_records_is_the_damaged_one_if_it_leaves_no_room(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    store = open_store(files, clock)
    messages = [(one, store.record_at(one.log_offset) or b"") for one in fill(store, count)]
    flush(store)
    die(store)
    flip(files, messages[0][0].log_offset + OFFSET_AT + 5, 1)
    store = open_store(files, clock)
    check_others(store, messages, messages[0][0])
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, count)
    assert f"queue offset is damaged topic=T queue=0 found={1 << 17} log_offset=0" in caplog.text
    die(store)


def damaged_topic(files: MemoryFileSystem, clock: FakeClock, change: Callable[[bytes], bytes]) -> Sent:
    store = open_store(files, clock)
    messages = [(one, store.record_at(one.log_offset) or b"") for one in fill(store, 4, topic="orders")]
    flush(store)
    die(store)
    one, record = messages[1]
    at = record.index(b"orders")
    path = ROOT / "commitlog" / f"{0:020}"
    file = files.open(path)
    file.write_at(one.log_offset + at, change(b"orders"))
    file.close()
    return messages


@pytest.mark.parametrize("found", [b"/rders", b"or/ers", b"ord\0\0\0"])
def test_a_record_whose_topic_is_none_is_damaged(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture, found: bytes
) -> None:
    messages = damaged_topic(files, clock, lambda topic: found)
    store = open_store(files, clock)
    check_others(store, messages, messages[1][0])
    assert list(store.queues.topics) == ["orders"]
    assert "messages are damaged topic=orders queue=0 first_offset=1 count=1" in caplog.text
    die(store)
    assert all(path.is_relative_to(ROOT) for path in walk(files, Path("/")))


def test_a_damaged_topic_makes_no_folder_elsewhere(tmp_path: Path, files: MemoryFileSystem, clock: FakeClock) -> None:
    """On a real disk, where a path with a zero in it is no error of the system's."""
    damaged_topic(files, clock, lambda topic: b"\0" * len(topic))
    root = tmp_path / "store"
    for path in walk(files, ROOT):
        copy = root / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(files.read_file(path) or b"")
    config = store_config(store_path_root_dir=root)
    store = MessageStore.open(lambda: config, DiskFileSystem(), clock, HOST, MEMORY_BYTES)
    assert store.read("orders", 0, 0, 10, None).message_count == 3
    store.close()
