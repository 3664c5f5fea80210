"""Units that are read from files are compared with the log: each must point at its own record, whole and in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketline.errors import QueueNotReadyError
from rocketline.store.config import FlushDiskType
from rocketline.store.inspection.check import check_store
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.consume_queue import PRE_BLANK, UNIT, UNIT_BYTES
from rocketline.store.store_hooks import StoreHooks
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.message_codec import decode_records
from support.stores.small import (
    BATCHED,
    ROOT,
    contents,
    die,
    fill,
    flush,
    flush_queues,
    inner_batch,
    memory,
    plain_queue,
    store_config,
)
from support.stores.small import open_store as opened

LARGE = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 1000 * UNIT_BYTES}
"""A queue has all its units in one file, and more than are read at once."""


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


def file_of(topic: str) -> Path:
    return ROOT / "consumequeue" / topic / "0" / f"{0:020}"


Damage = Callable[[MemoryFileSystem, int], None]


def size_flipped(files: MemoryFileSystem, at: int) -> None:
    file = files.open(file_of("T"))
    place = at * UNIT_BYTES + 11
    file.write_at(place, bytes([file.read_at(place, 1)[0] ^ 1]))


def sector_of_another_topic(files: MemoryFileSystem, at: int) -> None:
    theirs = files.open(file_of("U")).read_at(at * UNIT_BYTES, 200)
    files.open(file_of("T")).write_at(at * UNIT_BYTES, theirs)


def units_swapped(files: MemoryFileSystem, at: int) -> None:
    file = files.open(file_of("T"))
    first, second = (file.read_at(number * UNIT_BYTES, UNIT_BYTES) for number in (at, at + 10))
    file.write_at(at * UNIT_BYTES, second)
    file.write_at((at + 10) * UNIT_BYTES, first)


def garbage(files: MemoryFileSystem, at: int) -> None:
    files.open(file_of("T")).write_at(at * UNIT_BYTES, UNIT.pack(77, 160, 5))


def zeros(files: MemoryFileSystem, at: int) -> None:
    files.open(file_of("T")).write_at(at * UNIT_BYTES, bytes(20 * UNIT_BYTES))


@pytest.mark.parametrize("damage", [size_flipped, sector_of_another_topic, units_swapped, garbage, zeros])
@pytest.mark.parametrize(("count", "offset"), [(60, 0), (500, 300)])
def test_a_reader_gets_the_records_of_his_queue_and_no_others(
    files: MemoryFileSystem, clock: FakeClock, damage: Damage, count: int, offset: int
) -> None:
    """Also of a queue so short that all of it was read when it was opened."""
    store = opened(files, clock, **LARGE)
    for _ in range(count):
        fill(store, 1, size=10)
        fill(store, 1, topic="U", size=10)
    store.close()
    before = files.read_file(file_of("T"))
    damage(files, offset + 10)
    store = opened(files, clock, **LARGE)
    result = store.read("T", 0, offset, 32, None)
    records = b"".join(result.records)
    wanted = [store.record_at(one.log_offset) for one in contents(store)[offset : offset + 32]]
    assert records == b"".join(record or b"" for record in wanted)
    assert result.next_offset == offset + 32
    store.close()
    assert files.read_file(file_of("T")) == before


def test_long_addresses_and_topics_are_compared_as_well(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    topic = "t" * 130
    store = opened(files, clock, **LARGE)
    fill(store, 30, topic=topic)
    store.close()
    store = opened(files, clock, **LARGE)
    assert len(contents(store, topic)) == 30
    assert "derived anew" not in caplog.text
    store.close()


# --- pre-blank units


def with_blank_unit(files: MemoryFileSystem, clock: FakeClock, at: int, *, units: int = 1000) -> MessageStore:
    """A store that lacks one of forty messages, and knows it."""
    sizes = {"mapped_file_size_consume_queue": units * UNIT_BYTES}
    store = opened(files, clock, **sizes)
    fill(store, 40)
    flush(store)
    flush_queues(store)
    queue = plain_queue(store)
    queue.drop_kept()
    queue.replace(at, PRE_BLANK)
    return store


def expire(store: MessageStore, files: MemoryFileSystem, count: int) -> None:
    for _ in range(count):
        files.remove(store.log.drop_first())
    store.clean_queues()


@pytest.mark.parametrize("at", [5, 6, 7, 20, 22, 39])
def test_a_pre_blank_unit_hides_no_message_before_it(files: MemoryFileSystem, clock: FakeClock, at: int) -> None:
    store = with_blank_unit(files, clock, at)
    expire(store, files, 1)
    assert store.min_offset("T", 0) == (7 if at == 6 else 6)
    die(store)


def test_a_file_whose_last_unit_is_pre_blank_stays_as_long_as_it_has_messages(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = with_blank_unit(files, clock, 9, units=10)
    expire(store, files, 1)
    assert store.min_offset("T", 0) == 6
    assert len(store.units("T", 0, 6, 3)) == 3
    expire(store, files, 1)
    assert store.min_offset("T", 0) > 10
    assert not files.exists(file_of("T"))
    die(store)


def test_what_follows_the_end_of_the_log_goes_also_in_front_of_a_pre_blank_unit(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = with_blank_unit(files, clock, 25)
    queue = plain_queue(store)
    place = store.units("T", 0, 20, 1)[0][0]
    queue.truncate(place)
    assert queue.max_offset == 20
    die(store)


# --- units that prove too much


def test_a_unit_that_points_behind_all_files_of_the_log_proves_nothing(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = opened(files, clock)
    fill(store, 12)
    flush(store)
    flush_queues(store)
    end = store.log.end
    die(store)
    files.open(ROOT / "commitlog" / f"{end - end % 1024:020}").write_at(end % 1024, b"torn")
    queue_file = ROOT / "consumequeue" / "T" / "0" / f"{200:020}"
    files.open(queue_file).write_at(2 * UNIT_BYTES, UNIT.pack(1 << 40, 160, 0))
    store = opened(files, clock)
    assert store.log.end == end
    assert fill(store, 1)[0].queue_offset == 12
    store.close()


# --- batch queues

BATCH_FILE = ROOT / "batchconsumequeue" / BATCHED / "0" / f"{0:020}"
BATCH_LARGE = LARGE | {"mapper_file_size_batch_consume_queue": 1000 * 46}


def hurt_batch(files: MemoryFileSystem, at: int, begin: int, data: bytes) -> None:
    files.open(BATCH_FILE).write_at(at * 46 + begin, data)


BATCH_DAMAGES = {
    "place": (0, (77).to_bytes(8, "big")),
    "size": (8, (160).to_bytes(4, "big")),
    "far first": (28, (5).to_bytes(1, "big")),
    "low first": (28, bytes(8)),
    "messages": (36, b"\0\1"),
    "many messages": (36, b"\7\1"),
    "strange": (0, b"\1" * 42),
}


@pytest.mark.parametrize("damage", BATCH_DAMAGES)
@pytest.mark.parametrize("at", [3, 49, 74])
@pytest.mark.parametrize("offset", [0, 147, 297])
def test_a_reader_of_a_batch_queue_gets_its_records_and_no_others(
    files: MemoryFileSystem, clock: FakeClock, damage: str, at: int, offset: int
) -> None:
    """A damaged unit made it give away any bytes of the log as messages, or hid those that halving missed for it."""
    store = opened(files, clock, **BATCH_LARGE)
    for _ in range(100):
        store.append(inner_batch(3))
        fill(store, 1, size=20)
    store.close()
    hurt_batch(files, at, *BATCH_DAMAGES[damage])
    store = opened(files, clock, **BATCH_LARGE)
    end, found = store.max_offset(BATCHED, 0), b""
    begin = offset
    while begin < end:
        result = store.read(BATCHED, 0, begin, 32, None)
        found += b"".join(result.records)
        assert result.next_offset > begin
        begin = result.next_offset
    messages = decode_records(found)
    assert [one.queue_offset for one in messages] == list(range(offset - offset % 3, 300, 3))
    assert all(int(one.properties["INNER_NUM"]) == 3 for one in messages)
    assert store.append(inner_batch(3)).queue_offset == 300
    assert len(contents(store, BATCHED)) == 101
    store.close()


@pytest.mark.parametrize("field", ["queue offset", "messages"])
def test_units_are_right_where_a_record_contradicts_them_and_their_neighbours_do_not(
    files: MemoryFileSystem, clock: FakeClock, field: str
) -> None:
    """Neither has a check sum in the record; deriving them anew would give all that follow other offsets."""
    store = opened(files, clock, **BATCH_LARGE)
    places = [store.append(inner_batch(3)).log_offset for _ in range(100)]
    store.close()
    log = files.open(ROOT / "commitlog" / f"{0:020}")
    at = places[50] + 27
    if field == "messages":
        record = log.read_at(places[50], places[51] - places[50])
        at = places[50] + record.index(b"INNER_NUM") + len("INNER_NUM") + 1
    log.write_at(at, bytes([log.read_at(at, 1)[0] ^ 4]))
    store = opened(files, clock, **BATCH_LARGE)
    assert [unit[0] for unit in store.units(BATCHED, 0, 0, 100)] == places
    assert not store.queues.looks.mend_count
    store.close()


def test_damaged_batch_queue_is_derived_anew_behind_the_server(files: MemoryFileSystem, clock: FakeClock) -> None:
    """Meanwhile nobody gets it, and what waits for its flush keeps its place."""
    store = opened(files, clock, **BATCH_LARGE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    for _ in range(100):
        store.append(inner_batch(3))
    flush(store)
    store.close()
    hurt_batch(files, 50, *BATCH_DAMAGES["place"])
    store = opened(files, clock, **BATCH_LARGE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    told: list[str] = []
    store.connect(StoreHooks(on_broken=lambda: told.append("broken")))
    assert store.append(inner_batch(3)).queue_offset == 300
    with pytest.raises(OSError, match="as soon as nobody writes"):
        store.read(BATCHED, 0, 140, 32, None)
    flush(store)
    with pytest.raises(QueueNotReadyError):
        store.read(BATCHED, 0, 140, 32, None)
    with pytest.raises(QueueNotReadyError):
        store.append(inner_batch(3))
    assert told
    while store.look_on(1):
        pass
    assert store.append(inner_batch(3)).queue_offset == 303
    flush(store)
    assert [one.queue_offset for one in contents(store, BATCHED)] == list(range(0, 306, 3))
    store.close()
    assert check_store(files, clock, store_config(**BATCH_LARGE)).findings.is_clean
