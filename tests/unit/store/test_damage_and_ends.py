"""Damage of the log and ends of queues together: what the one hides, the other has to know."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rocketline.model.message import StoredMessage
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from support.stores.small import (
    BATCHED,
    LOG_BYTES,
    ROOT,
    contents,
    die,
    fill,
    flush,
    flush_queues,
    inner_batch,
    memory,
    message,
    open_store,
)

BIG = {"mapped_file_size_commit_log": 1 << 16}
BODY_AT = 95
QUEUE_OFFSET_AT = 20
FIRST = ROOT / "commitlog" / f"{0:020}"


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


def hurt_body(files: MemoryFileSystem, at: int, path: Path = FIRST) -> None:
    file = files.open(path)
    file.write_at(at + BODY_AT, bytes([file.read_at(at + BODY_AT, 1)[0] ^ 1]))


def set_offset(files: MemoryFileSystem, at: int, offset: int, path: Path = FIRST) -> None:
    """The check sum does not cover it."""
    files.open(path).write_at(at + QUEUE_OFFSET_AT, offset.to_bytes(8, "big"))


@pytest.mark.parametrize("jumped", [3, 5])
@pytest.mark.parametrize("found", [0, 4 ^ 64])
def test_a_damaged_record_beside_one_whose_queue_offset_has_jumped_hides_no_message(
    files: MemoryFileSystem, clock: FakeClock, jumped: int, found: int
) -> None:
    store = open_store(files, clock, **BIG)
    sent = fill(store, 9)
    flush(store)
    die(store)
    hurt_body(files, sent[4].log_offset)
    set_offset(files, sent[jumped].log_offset, found)
    store = open_store(files, clock, **BIG)
    assert [place for place, _, _ in store.units("T", 0, 0, 10)] == [one.log_offset for one in sent]
    assert fill(store, 1)[0].queue_offset == 9
    store.close()


def test_what_was_not_on_disk_when_queues_were_mended_is_no_damage(files: MemoryFileSystem, clock: FakeClock) -> None:
    """The ends that are noted before know of messages that the log loses with the power."""
    store = open_store(files, clock, **BIG)
    fill(store, 3, topic="A")
    fill(store, 3)
    store.close()
    store = open_store(files, clock, **BIG)
    unsynced = fill(store, 2)[0].log_offset
    files.remove_tree(ROOT / "consumequeue" / "A")
    assert store.max_offset("A", 0) == 3
    die(store)
    files.open(FIRST).write_at(unsynced, bytes(1000))
    store = open_store(files, clock, **BIG)
    assert store.log.end == unsynced
    assert not store.log.damage
    assert len(contents(store, "A")) == 3
    assert store.read("T", 0, 0, 10, None).message_count == 3
    assert fill(store, 1)[0].queue_offset == 5
    store.close()


def with_a_damaged_last(
    files: MemoryFileSystem, clock: FakeClock, append: Callable[[MessageStore], StoredMessage], found: int
) -> MessageStore:
    """Where a recovery reads the log, it has nothing of a queue but a damaged record that has another queue offset; and
    nobody knows where the queue ended."""
    store = open_store(files, clock)
    for _ in range(5):
        append(store)
    while store.log.end < 3 * LOG_BYTES:
        clock.advance(10)
        fill(store, 1)
    flush(store)
    flush_queues(store)
    clock.advance(10)
    last = append(store)
    fill(store, 1)
    flush(store)
    flush_queues(store)
    die(store)
    files.remove(ROOT / "queue_ends.json")
    path = ROOT / "commitlog" / f"{last.log_offset // LOG_BYTES * LOG_BYTES:020}"
    hurt_body(files, last.log_offset % LOG_BYTES, path)
    set_offset(files, last.log_offset % LOG_BYTES, found, path)
    return open_store(files, clock)


@pytest.mark.parametrize("found", [0, 2, 5, 9])
def test_a_damaged_record_with_another_offset_cuts_nothing_from_its_queue(
    files: MemoryFileSystem, clock: FakeClock, found: int
) -> None:
    store = with_a_damaged_last(files, clock, lambda store: fill(store, 1, topic="A")[0], found)
    assert len(contents(store, "A")) == 5
    assert fill(store, 1, topic="A")[0].queue_offset == 6
    store.close()


@pytest.mark.parametrize("found", [0, 8, 20, 36])
def test_a_damaged_batch_with_another_offset_cuts_nothing_from_its_queue(
    files: MemoryFileSystem, clock: FakeClock, found: int
) -> None:
    store = with_a_damaged_last(files, clock, lambda store: store.append(inner_batch(4)), found)
    assert [one.queue_offset for one in contents(store, BATCHED)] == [0, 4, 8, 12, 16]
    assert store.append(inner_batch(4)).queue_offset == 24
    store.close()


@pytest.mark.parametrize("is_batched", [True, False])
@pytest.mark.parametrize("is_idle", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("lost", [1, 3])
def test_last_records_of_which_nothing_can_be_read_keep_their_offsets(
    files: MemoryFileSystem,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    is_batched: bool,
    is_idle: bool,
    is_known: bool,
    lost: int,
) -> None:
    """After a death. The log ends with them, and nothing but their units tells of them."""
    append = partial(inner_batch, 4, "B") if is_batched else partial(message, "A", b"." * 60, queue_id=0)
    store = open_store(files, clock)
    for _ in range(5):
        store.append(append())
    while store.log.end < 3 * LOG_BYTES:
        clock.advance(10)
        fill(store, 1)
    for _ in range(2):
        flush(store)
        flush_queues(store)
    clock.advance(10)
    for _ in range(0 if is_idle else 2):
        fill(store, 1)
        store.append(append())
    last = [store.append(append()) for _ in range(lost)]
    store.write_behind()
    end = store.log.end
    die(store)
    if not is_known:
        files.remove(ROOT / "queue_ends.json")
    place = int(last[0].log_offset)
    while place < end:
        file = files.open(ROOT / "commitlog" / f"{place // LOG_BYTES * LOG_BYTES:020}")
        size = min(LOG_BYTES - place % LOG_BYTES, end - place)
        file.write_at(place % LOG_BYTES, b"?" * size)
        place += size
    store = open_store(files, clock)
    step = 4 if is_batched else 1
    following = store.append(append()).queue_offset
    assert following == last[-1].queue_offset + step
    assert "messages are damaged" in caplog.text
    whole = [one.queue_offset for one in contents(store, last[0].topic)]
    assert whole == [*range(0, last[0].queue_offset, step), following]
    store.close()
    store = open_store(files, clock)
    assert store.append(append()).queue_offset == following + step
    store.close()
