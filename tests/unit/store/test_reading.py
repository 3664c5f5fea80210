"""Reading a queue: every status, the limits of one read, filters, and places by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rocketline.filter import compile_sql
from rocketline.model.java_hash import tags_code
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.store.reading import ReadResult, ReadStatus
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.headers import BoundaryType
from rocketline.wire.message_codec import decode_records
from support.stores.small import fill, flush, flush_queues, memory, message, open_store, plain_queue

LOWER, UPPER = BoundaryType.LOWER, BoundaryType.UPPER


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MessageStore]:
    """Five messages, a second apart."""
    store = open_store(memory(clock), clock, mapped_file_size_consume_queue=6000)
    for _ in range(5):
        fill(store, 1)
        clock.advance(1)
    yield store
    store.close()


def opened(clock: FakeClock, **changes: Any) -> MessageStore:
    return open_store(memory(clock), clock, **{"mapped_file_size_consume_queue": 6000} | changes)


def read(store: MessageStore, offset: int, count: int = 32, *tags: str, queue_id: int = 0) -> ReadResult:
    wanted = frozenset(tags_code(tag) for tag in tags) if tags else None
    return store.read("T", queue_id, offset, count, wanted)


def offsets(result: ReadResult) -> list[int]:
    return [found.queue_offset for found in decode_records(b"".join(result.records))]


@pytest.mark.parametrize(
    ("queue_id", "offset", "status", "next_offset"),
    [
        (0, 0, "FOUND", 5),
        (0, 4, "FOUND", 5),
        (0, 5, "OFFSET_OVERFLOW_ONE", 5),
        (0, 9, "OFFSET_OVERFLOW_BADLY", 5),
        (0, -1, "OFFSET_TOO_SMALL", 0),
        (7, 0, "NO_MESSAGE_IN_QUEUE", 0),
        (7, 3, "NO_MESSAGE_IN_QUEUE", 0),
    ],
)
def test_offsets_inside_and_outside_the_queue(
    store: MessageStore, queue_id: int, offset: int, status: str, next_offset: int
) -> None:
    result = read(store, offset, queue_id=queue_id)
    assert (result.status.name, result.next_offset) == (status, next_offset)


def test_an_offset_before_the_first_message_is_too_small(clock: FakeClock) -> None:
    """S111: a queue that begins at 3."""
    store = opened(clock)
    for offset in (3, 4, 5):
        plain_queue(store).derive(offset, offset * 100, 100, 0)
    result = read(store, 0)
    assert (result.status, result.next_offset, result.min_offset) == (ReadStatus.OFFSET_TOO_SMALL, 3, 3)
    store.close()


def test_a_read_tells_how_much_it_found_and_where(store: MessageStore) -> None:
    result = read(store, 1, 3)
    assert offsets(result) == [1, 2, 3]
    assert (result.message_count, result.next_offset, result.max_offset) == (3, 4, 5)
    units = store.units("T", 0, 1, 3)
    assert result.byte_count == sum(unit[1] for unit in units)
    assert result.last_log_offset == units[2][0]


def test_records_of_several_queues_and_files_are_gathered(clock: FakeClock) -> None:
    store = opened(clock)
    for _ in range(20):
        fill(store, 1)
        fill(store, 1, queue_id=1)
    assert store.max_log_offset > 3 * 1024
    found: list[int] = []
    while (result := read(store, len(found))).status is ReadStatus.FOUND:
        found += offsets(result)
    assert found == list(range(20))
    store.close()


def test_no_more_messages_are_given_than_asked_for_and_at_least_one(store: MessageStore) -> None:
    assert offsets(read(store, 0, 2)) == [0, 1]
    assert offsets(read(store, 0, 0)) == [0]
    assert offsets(read(store, 0, -5)) == [0]


@pytest.mark.parametrize(("place", "memory_percent"), [("memory", 40), ("disk", 0)])
def test_limits_differ_for_messages_in_memory_and_on_disk(clock: FakeClock, place: str, memory_percent: int) -> None:
    changes: dict[str, Any] = {
        f"max_transfer_count_on_message_in_{place}": 3,
        f"max_transfer_bytes_on_message_in_{place}": 100_000,
        "access_message_in_memory_max_ratio": memory_percent,
    }
    store = opened(clock, **changes)
    fill(store, 10)
    assert offsets(read(store, 0)) == [0, 1, 2]
    assert store.is_in_memory("T", 0, 0) == (place == "memory")
    store.close()


def test_bytes_are_limited_but_the_first_message_always_comes(clock: FakeClock) -> None:
    store = opened(clock, max_transfer_bytes_on_message_in_memory=400)
    fill(store, 5, size=60)
    fill(store, 2, size=500)
    size = store.units("T", 0, 0, 1)[0][1]
    assert 2 * size <= 400 < 3 * size
    assert offsets(read(store, 0)) == [0, 1]
    assert offsets(read(store, 4)) == [4]
    assert offsets(read(store, 5)) == [5]
    store.close()


def test_only_messages_with_a_wanted_tag_are_given(clock: FakeClock) -> None:
    store = opened(clock)
    for tag in ("A", "B", "", "A", "C"):
        store.append(message("T", TAGS=tag) if tag else message("T"))
    assert offsets(read(store, 0, 32, "A")) == [0, 3]
    assert read(store, 0, 32, "A").next_offset == 5
    assert offsets(read(store, 0, 1, "A", "C")) == [0]
    assert read(store, 0, 1, "A").next_offset == 1
    nothing = read(store, 0, 32, "X")
    assert (nothing.status, nothing.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 5)
    store.close()


def test_a_filter_looks_at_so_many_units_and_no_more(clock: FakeClock) -> None:
    store = opened(clock, max_filter_message_size=20 * 6)
    fill(store, 10)
    store.append(message("T", TAGS="A"))
    result = read(store, 0, 3, "A")
    assert (result.status, result.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 6)
    assert offsets(read(store, 6, 3, "A")) == [10]
    store.close()


def test_units_with_an_address_for_a_tags_code_pass_every_filter(clock: FakeClock) -> None:
    """The client filters those itself."""
    store = opened(clock)
    stored = store.append(message("T"))
    [unit] = store.units("T", 0, 0, 1)
    plain_queue(store).derive(0, stored.log_offset, unit[1], -(1 << 63))
    assert offsets(read(store, 0, 32, "A")) == [0]
    store.close()


def test_records_deleted_from_the_log_are_passed_over(clock: FakeClock) -> None:
    store = opened(clock)
    fill(store, 20)
    flush(store)
    store.log.drop_first()
    result = read(store, 0, 3)
    assert (result.status, result.next_offset) == (ReadStatus.MESSAGE_WAS_REMOVING, 3)
    first = next(n for n, unit in enumerate(store.units("T", 0, 0, 20)) if unit[0] >= store.min_log_offset)
    assert offsets(read(store, 0, 20)) == list(range(first, 20))
    store.close()


def test_a_missing_queue_file_leads_to_the_next_one(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketline.store.queues.consume_queue._KEPT_BYTES", 0)
    store = opened(clock, mapped_file_size_consume_queue=100)
    fill(store, 12)
    flush_queues(store)
    store.queues.make("T", 0)._segments.remove_first()
    result = read(store, 2)
    assert (result.status, result.next_offset) == (ReadStatus.OFFSET_FOUND_NULL, 5)
    store.close()


@pytest.mark.parametrize(
    ("after_ms", "lower", "upper"),
    [(-5, 0, 0), (0, 0, 0), (1999, 2, 1), (2000, 2, 2), (2001, 3, 2), (4000, 4, 4), (4001, 5, 4), (1 << 50, 5, 4)],
)
def test_places_by_time(store: MessageStore, after_ms: int, lower: int, upper: int) -> None:
    timestamp_ms = 1_700_000_000_000 + after_ms
    assert store.offset_at_time("T", 0, timestamp_ms, LOWER) == lower
    assert store.offset_at_time("T", 0, timestamp_ms, UPPER) == upper


def test_of_messages_of_one_time_the_first_or_the_last_counts(clock: FakeClock) -> None:
    store = opened(clock)
    for count in (2, 3, 1):
        fill(store, count)
        clock.advance(1)
    assert store.offset_at_time("T", 0, 1_700_000_001_000, LOWER) == 2
    assert store.offset_at_time("T", 0, 1_700_000_001_000, UPPER) == 4
    store.close()


def test_places_by_time_stay_within_the_queue(clock: FakeClock) -> None:
    store = opened(clock)
    assert store.offset_at_time("T", 0, 0) == 0
    fill(store, 20)
    flush(store)
    store.log.drop_first()
    store.clean_queues()
    assert store.min_offset("T", 0) > 0
    for boundary in BoundaryType:
        assert store.offset_at_time("T", 0, 0, boundary) == store.min_offset("T", 0)
    store.close()


def test_bounds_and_times_of_queues_that_exist_and_do_not(store: MessageStore) -> None:
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 5)
    assert (store.min_offset("T", 9), store.max_offset("T", 9)) == (0, 0)
    assert store.store_ms_at("T", 0, 3) == 1_700_000_003_000
    assert store.earliest_store_ms("T", 0) == store.earliest_log_ms == 1_700_000_000_000
    assert store.earliest_store_ms("U", 0) == store.store_ms_at("T", 0, 5) == store.store_ms_at("T", 0, -1) == -1
    assert store.is_in_memory("T", 0, 4)
    assert not store.is_in_memory("T", 0, 5)
    assert not store.is_in_memory("U", 0, 0)


def test_single_records_are_found_only_where_they_begin(store: MessageStore) -> None:
    [(log_offset, size, _)] = store.units("T", 0, 2, 1)
    record = store.record_at(log_offset)
    assert record is not None
    assert len(record) == size
    found = store.message_at(log_offset)
    assert found is not None
    assert found.queue_offset == 2
    for wrong in (log_offset + 1, log_offset + 4, -1, store.max_log_offset, 1 << 60):
        assert store.record_at(wrong) is None
        assert store.message_at(wrong) is None


def test_messages_are_found_by_key_unique_key_and_tag(clock: FakeClock) -> None:
    store = opened(clock)
    for number in range(4):
        store.append(message("T", f"{number}".encode(), UNIQ_KEY=f"u{number}", KEYS=f"a k{number % 2}", TAGS="B"))
        clock.advance(10)
    assert [found.body for found in decode_records(b"".join(store.query("T", "k1", 9, 0, 1 << 60)))] == [
        b"1",
        b"3",
    ]
    assert len(store.query("T", "u2", 9, 0, 1 << 60)) == 1
    assert len(store.query("T", "a", 2, 0, 1 << 60)) == 2
    assert len(store.query("T", "B", 9, 0, 1 << 60, "T")) == 4
    assert store.query("T", "B", 9, 0, 1 << 60) == []
    assert store.query("U", "k1", 9, 0, 1 << 60) == []
    assert len(store.query("T", "a", 9, 1_700_000_010_000, 1_700_000_020_000)) == 2
    store.close()


def test_a_key_whose_records_are_gone_is_not_found(clock: FakeClock) -> None:
    store = opened(clock)
    fill(store, 20)
    flush(store)
    store.log.drop_first()
    assert store.query("T", "k0", 9, 0, 1 << 60) == []
    assert len(store.query("T", "k19", 9, 0, 1 << 60)) == 1
    store.close()


@pytest.mark.parametrize(("memory_percent", "looked_at", "compared_max"), [(40, 3000, 3000), (0, 100, 200)])
def test_a_filter_in_sql_compares_few_units_whose_records_are_not_in_memory(
    clock: FakeClock, memory_percent: int, looked_at: int, compared_max: int
) -> None:
    """Each may be a read of the disk, before the first message is looked at."""
    files = memory(clock)
    sizes = {"mapped_file_size_consume_queue": 20 * 10_000, "mapped_file_size_commit_log": 1 << 20}
    store = open_store(files, clock, **sizes)
    fill(store, 3000)
    flush(store)
    store.close()
    store = open_store(files, clock, **sizes, access_message_in_memory_max_ratio=memory_percent)
    compared: list[int] = []
    queue, check_units = plain_queue(store), store.queues.looks.doctor.check_units

    def check(queue: ConsumeQueue, offset: int, units: bytes) -> bytes:
        compared.append(len(units) // 20)
        return check_units(queue, offset, units)

    queue.check_with(check)
    result, _ = store.read_matching("T", 0, 0, 32, compile_sql("missing = 'x'"), 1 << 30)
    assert (result.next_offset, max(compared)) == (looked_at, compared_max)
    store.close()
