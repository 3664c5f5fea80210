"""Walking over the log: what counts as a record, what ends the walk, and what is told of each one."""

from __future__ import annotations

import struct

import pytest

from rocketline.model.delay_levels import DelayLevels
from rocketline.model.ids import HostAddress
from rocketline.model.java_hash import tags_code
from rocketline.model.message import StoredMessage
from rocketline.model.names import SCHEDULE_TOPIC
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.record_scan import Record, TagsCodes, is_blank, messages_in, property_of, scan, store_ms_at
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from support.stores.small import BATCHED, LOG_BYTES, die, fill, inner_batch, memory, message, open_store

LEVELS = DelayLevels.parse("1s 5s 10s")


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


@pytest.fixture
def store(files: MemoryFileSystem, clock: FakeClock) -> MessageStore:
    return open_store(files, clock)


def records(log: CommitLog, begin: int = 0, *, check_crc: bool = True, needs_append_crc: bool = False) -> list[Record]:
    return list(scan(log, begin, log.end, check_crc=check_crc, needs_append_crc=needs_append_crc))


def record_of(topic: str, sys_flag: int = 0, store_ms: int = 0, **properties: str) -> Record:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return Record(0, 100, topic.encode(), 0, 0, sys_flag, store_ms, text.encode())


def damage(store: MessageStore, at: int, data: bytes) -> None:
    store.log.segments.file_of(at).write_at(at % LOG_BYTES, data)


# --- walking


def test_every_record_is_told_of_over_the_ends_of_files(store: MessageStore) -> None:
    sent = [*fill(store, 12), store.append(message("U" * 200, b"", queue_id=3, TAGS="A"))]
    found = records(store.log)
    assert store.max_log_offset > 2 * LOG_BYTES
    assert [(one.log_offset, one.queue_offset, one.queue_id) for one in found] == [
        (one.log_offset, one.queue_offset, one.queue_id) for one in sent
    ]
    assert (found[-1].topic, found[-1].properties) == (b"U" * 200, b"TAGS\x01A\x02")
    assert {one.store_ms for one in found} == {sent[0].store_ms}
    assert records(store.log, sent[4].log_offset) == found[4:]


@pytest.mark.parametrize("host", ["127.0.0.1:1", "[2001:db8::1]:2"])
def test_hosts_of_either_length_are_passed_over(store: MessageStore, host: str) -> None:
    sent = message("T", b"body", TAGS="A")
    sent.born_host = HostAddress.parse(host)
    store.append(sent)
    [found] = records(store.log)
    assert (found.topic, found.store_ms, found.properties) == (b"T", sent.store_ms, b"TAGS\x01A\x02")
    assert store_ms_at(store.log, 0) == sent.store_ms


def test_walk_stops_at_the_end_that_is_given(store: MessageStore) -> None:
    sent = fill(store, 5)
    assert len(list(scan(store.log, 0, sent[2].log_offset, check_crc=True))) == 2
    assert list(scan(store.log, store.log.end, store.log.end + 1, check_crc=True)) == []


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (0, struct.pack(">i", 90)),  # smaller than any record
        (0, struct.pack(">i", 1 << 20)),  # larger than its file
        (4, b"\0\0\0\0"),  # no magic
        (28, struct.pack(">q", 7)),  # another place than its own
        (36, struct.pack(">i", 0x30)),  # longer hosts than there is room for
        (84, struct.pack(">i", -1)),  # a body that ends before it begins
        (84, struct.pack(">i", 1 << 30)),
        (88, b"?"),  # another body than the check sum is of
        (148, b"\x7f"),  # a topic that ends behind the record
        (150, b"\x7f\xff"),  # properties that do
    ],
)
def test_walk_ends_before_what_is_no_record(store: MessageStore, at: int, data: bytes) -> None:
    sent = fill(store, 3)
    damage(store, sent[1].log_offset + at, data)
    assert [one.log_offset for one in records(store.log)] == [0]


def test_body_is_not_looked_at_without_the_check_of_its_sum(store: MessageStore) -> None:
    sent = fill(store, 3)
    damage(store, sent[1].log_offset + 88, b"?")
    assert len(records(store.log, check_crc=False)) == 3


def test_check_sum_over_all_is_demanded_if_told(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = open_store(files, clock, enabled_append_prop_crc=True)
    sent = fill(store, 3)
    assert len(records(store.log, needs_append_crc=True)) == 3
    damage(store, sent[1].log_offset + 20, b"\1")
    assert (len(records(store.log)), len(records(store.log, needs_append_crc=True))) == (3, 1)
    die(store)


def test_blank_record_fills_its_file_to_the_end(store: MessageStore) -> None:
    fill(store, 9)
    data = store.log.map_of(0)
    [at] = [at for at in range(LOG_BYTES) if is_blank(data, at)]
    assert data[at + 4 : at + 8].hex() == "cbd43194"
    assert is_blank(data, LOG_BYTES)
    assert not is_blank(data, LOG_BYTES - 4)


def test_time_of_a_record_that_is_not_there_is_unknown(store: MessageStore) -> None:
    fill(store, 1)
    assert store_ms_at(store.log, store.log.end) == -1
    assert store_ms_at(store.log, 1 << 40) == -1


# --- what a record says


def test_property_is_found_by_its_whole_name() -> None:
    properties = b"MY_TAGS\x01no\x02TAGS\x01A\x02KEYS\x01a b\x02last\x01open"
    assert property_of(properties, b"TAGS\x01") == b"A"
    assert property_of(properties, b"KEYS\x01") == b"a b"
    assert property_of(properties, b"last\x01") == b"open"
    assert property_of(properties, b"UNIQ_KEY\x01") == b""
    assert property_of(b"MY_TAGS\x01no\x02", b"TAGS\x01") == b""


def test_tags_code_is_the_hash_of_the_tag_or_the_time_at_which_it_is_due() -> None:
    codes = TagsCodes(LEVELS)
    for tag in ("A", "tag-pay", "A"):
        assert codes.of(record_of("T", TAGS=tag), "T") == tags_code(tag)
    assert codes.of(record_of("T"), "T") == 0
    assert codes.of(record_of("x", store_ms=1000, DELAY="2", TAGS="A"), SCHEDULE_TOPIC) == 6000
    assert codes.of(record_of("x", store_ms=1000, DELAY="99"), SCHEDULE_TOPIC) == 11_000, "the last level"
    assert codes.of(record_of("x", store_ms=1000, DELAY="x", TAGS="A"), SCHEDULE_TOPIC) == tags_code("A")


def test_tags_beyond_bound_are_forgotten_and_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketline.store.log.record_scan._TAGS_KEPT_MAX", 3)
    codes = TagsCodes(LEVELS)
    for number in range(20):
        assert codes.of(record_of("T", TAGS=f"t{number}"), "T") == tags_code(f"t{number}")
        assert len(codes._by_tag) <= 5


@pytest.mark.parametrize(
    ("sys_flag", "number", "expected"),
    [
        (0xC0, "3", 3),
        (0xC0, "0", 1),
        (0xC0, "x", 1),
        (0xC0, "40000", 32_767),
        (0xC0, "9" * 30, 1),
        (0, "3", 1),
        (0x80, "3", 1),
    ],
)
def test_messages_in_a_record_are_counted_if_it_is_an_inner_batch(sys_flag: int, number: str, expected: int) -> None:
    assert messages_in(record_of("T", sys_flag, INNER_NUM=number)) == expected


def test_inner_batch_is_one_record(store: MessageStore) -> None:
    sent: StoredMessage = store.append(inner_batch(3))
    [found] = records(store.log)
    assert (found.topic, messages_in(found), found.queue_offset) == (BATCHED.encode(), 3, sent.queue_offset)
