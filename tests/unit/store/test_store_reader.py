"""The store's read side beyond spans of queues: bounds, single records, times and keys, of both kinds of queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketline.model.ids import LogOffset
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.headers import BoundaryType
from rocketline.wire.message_codec import decode_record
from support.stores.small import (
    BATCHED,
    SYNC,
    contents,
    die,
    fill,
    find_keys,
    flush,
    inner_batch,
    memory,
    message,
    open_store,
)


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MessageStore]:
    store = open_store(memory(clock), clock)
    yield store
    store.close()


# --- queues


def test_queue_that_is_not_there_begins_and_ends_at_0(store: MessageStore) -> None:
    assert (store.queue("T", 0), store.queues_of("T")) == (None, {})
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 0)
    assert store.units("T", 0, 0, 9) == []
    assert (store.store_ms_at("T", 0, 0), store.earliest_store_ms("T", 0), store.earliest_log_ms) == (-1, -1, -1)
    assert (store.offset_at_time("T", 0, 5), store.is_in_memory("T", 0, 0)) == (0, False)


def test_units_are_given_over_the_ends_of_files(store: MessageStore) -> None:
    sent = fill(store, 12)
    store.write_behind()
    assert [unit[0] for unit in store.units("T", 0, 3, 100)] == [one.log_offset for one in sent[3:]]
    assert len(store.units("T", 0, 3, 4)) == 4
    assert store.units("T", 0, -1, 4) == []


def test_units_of_a_batch_queue_are_its_records(store: MessageStore) -> None:
    sent = [store.append(inner_batch(3)) for _ in range(12)]
    store.write_behind()
    assert [unit[0] for unit in store.units(BATCHED, 0, 4, 100)] == [one.log_offset for one in sent[1:]]
    assert len(store.units(BATCHED, 0, 4, 2)) == 2
    assert store.units(BATCHED, 0, 36, 2) == []


@pytest.mark.parametrize("max_messages", [0, 1, 4, 7, 100])
def test_read_of_a_batch_queue_gives_whole_records(store: MessageStore, max_messages: int) -> None:
    for count in (3, 1, 3, 3):
        store.append(inner_batch(count))
    result = store.read(BATCHED, 0, 1, max_messages, None)
    expected = {0: 3, 1: 3, 4: 4, 7: 7, 100: 10}[max_messages]
    assert (result.status.name, result.message_count, result.next_offset) == ("FOUND", expected, expected)
    assert store.read_run(BATCHED, 0, 0, 5) is None, "the short way knows plain queues only"


def test_read_of_a_batch_queue_passes_over_what_has_another_tag(store: MessageStore) -> None:
    store.append(inner_batch(3))
    tagged = store.append(message(BATCHED, b"x", TAGS="A"))
    store.append(inner_batch(2, TAGS="B"))
    result = store.read(BATCHED, 0, 0, 32, frozenset({65}))
    assert (result.message_count, result.last_log_offset > tagged.log_offset, result.next_offset) == (1, True, 6)
    nothing = store.read(BATCHED, 0, 0, 32, frozenset({1}))
    assert (nothing.status.name, nothing.next_offset) == ("NO_MATCHED_MESSAGE", 6)


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [(6, "OFFSET_OVERFLOW_ONE", 6), (9, "OFFSET_OVERFLOW_BADLY", 6), (-1, "OFFSET_TOO_SMALL", 0)],
)
def test_offset_outside_of_a_batch_queue(store: MessageStore, offset: int, status: str, next_offset: int) -> None:
    assert store.read(BATCHED, 0, 0, 32, None).status.name == "NO_MESSAGE_IN_QUEUE"
    store.append(inner_batch(6))
    result = store.read(BATCHED, 0, offset, 32, None)
    assert (result.status.name, result.next_offset) == (status, next_offset)


# --- time


def test_times_of_a_batch_queue_lead_to_its_batches(store: MessageStore, clock: FakeClock) -> None:
    """With three messages in a record."""
    times = []
    for _ in range(4):
        times.append(store.append(inner_batch(3)).store_ms)
        clock.advance(1)
    asked = [times[0] - 5, times[0], times[1] + 999, times[2], times[3] + 1]
    assert [store.offset_at_time(BATCHED, 0, at) for at in asked] == [0, 0, 6, 6, 12]
    assert [store.offset_at_time(BATCHED, 0, at, BoundaryType.UPPER) for at in asked] == [0, 2, 5, 8, 11]
    assert store.store_ms_at(BATCHED, 0, 7) == times[2]


def test_earliest_times_are_those_of_what_is_kept(store: MessageStore, clock: FakeClock) -> None:
    [first] = fill(store, 1)
    clock.advance(5)
    fill(store, 1, topic="U")
    assert (store.earliest_store_ms("T", 0), store.earliest_log_ms) == (first.store_ms, first.store_ms)
    assert store.earliest_store_ms("U", 0) == first.store_ms + 5000


def test_message_near_the_end_of_the_log_is_in_memory(clock: FakeClock) -> None:
    store = open_store(memory(clock), clock, access_message_in_memory_max_ratio=0)
    fill(store, 2)
    assert not store.is_in_memory("T", 0, 0)
    assert not store.is_in_memory("T", 0, 2)
    store.close()
    store = open_store(memory(clock), clock)
    fill(store, 2)
    assert (store.is_in_memory("T", 0, 1), store.is_in_memory("T", 0, -1)) == (True, False)
    store.close()


# --- single records


def test_record_is_given_where_one_begins_and_nowhere_else(store: MessageStore) -> None:
    sent = fill(store, 3)
    record = store.record_at(sent[1].log_offset)
    assert record is not None
    assert decode_record(record) == store.message_at(sent[1].log_offset) == contents(store)[1]
    for place in (-1, 1, sent[1].log_offset + 8, store.max_log_offset, 1 << 50):
        assert (store.record_at(place), store.message_at(place)) == (None, None), place


def test_place_inside_of_a_body_that_looks_like_a_record_is_none(store: MessageStore) -> None:
    """A record knows its place: nobody reads another's message by guessing offsets."""
    inner = store.record_at(fill(store, 1)[0].log_offset)
    assert inner is not None
    outer = store.append(message("T", inner))
    assert store.record_at(LogOffset(outer.log_offset + 88)) is None


def test_record_is_not_given_before_it_is_flushed(clock: FakeClock) -> None:
    store = open_store(memory(clock), clock, flush_disk_type=SYNC)
    [sent] = fill(store, 1)
    assert store.record_at(sent.log_offset) is None
    flush(store)
    assert store.record_at(sent.log_offset) is not None
    store.close()


# --- keys


def test_query_gives_records_in_the_order_of_the_log_and_at_most_as_many_as_asked(store: MessageStore) -> None:
    sent = [store.append(message("T", b"x", KEYS="same")) for _ in range(6)]
    assert find_keys(store, "same") == [one.log_offset for one in sent]
    assert len(store.query("T", "same", 2, 0, 1 << 60)) == 2
    assert store.query("T", "other", 9, 0, 1 << 60) == []
    assert store.query("U", "same", 9, 0, 1 << 60) == []


def test_query_does_without_records_that_are_gone(clock: FakeClock) -> None:
    files = memory(clock)
    store = open_store(files, clock)
    sent = [store.append(message("T", b"x" * 300, KEYS="same")) for _ in range(6)]
    flush(store)
    store.unlink([store.log.drop_first()])
    assert find_keys(store, "same") == [one.log_offset for one in sent if one.log_offset >= store.log.start]
    die(store)
