"""Records as the log gets them: Java's bytes, files that end, and what is left of a batch that fails."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rocketline.errors import IllegalMessageError, StoreFullError
from rocketline.model.java_hash import tags_code
from rocketline.store.files.segments import OpenFiles
from rocketline.store.filesystem import FileSystem
from rocketline.store.index.index_keys import index_keys, keys_in
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log_writer import LogWriter
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem
from rocketline.wire.append_crc import has_valid_append_crc
from rocketline.wire.message_codec import decode_record, is_blank_record
from rocketline.wire.properties import encode_properties
from support.golden import read_lines

BORN_HOST = bytes([127, 0, 0, 1]) + (54321).to_bytes(4, "big")
STORE_HOST = bytes([192, 168, 1, 10]) + (10911).to_bytes(4, "big")
STORE_HOST_6 = bytes.fromhex("20010db8000000000000000000000001") + (10911).to_bytes(4, "big")
BORN_MS, STORED_MS = 1_700_000_000_000, 1_700_000_000_123
PROPERTIES_A = {"KEYS": "order-1 order-2", "TAGS": "TagA", "UNIQ_KEY": "7F000001162E0102030400A1B2C30000"}
RECORD_A = bytes.fromhex(
    "000000bbdaa320a769c865ed0000000100000000000000000000000500000000"
    "00000000000000000000018bcfe568007f0000010000d4310000018bcfe5687b"
    "c0a8010a00002a9f0000000000000000000000000000000e48656c6c6f20526f"
    "636b65744d5109546f7069635465737400494b455953016f726465722d31206f"
    "726465722d320254414753015461674102554e49515f4b455901374630303030"
    "303131363245303130323033303430304131423243333030303002"
)
RECORD_A_CRC = bytes.fromhex(
    "000000cfdaa320a769c865ed0000000100000000000000000000000500000000"
    "00000000000000000000018bcfe568007f0000010000d4310000018bcfe5687b"
    "c0a8010a00002a9f0000000000000000000000000000000e48656c6c6f20526f"
    "636b65744d5109546f70696354657374005d4b455953016f726465722d31206f"
    "726465722d320254414753015461674102554e49515f4b455901374630303030"
    "3031313632453031303230333034303041314232433330303030025f5f435243"
    "333223013938373537333736373002"
)
RECORD_B = bytes.fromhex(
    "0000007bdaa320a70cdc16830000000100000000000000000000000600000000"
    "000000bb000000280000018bcfe568007f0000010000d4310000018bcfe5687b"
    "20010db800000000000000000000000100002a9f000000000000000000001000"
    "000000017809546f70696354657374000a54414753015461674202"
)
SIZE = 1024
GOLDEN = [
    line for line in read_lines("store-5.5.0.jsonl") if line["file"] == "commitlog" and "blank" not in line["what"]
]


class Writing:
    """A log, a queue whose next offset is 5, and writers."""

    def __init__(self, files: FileSystem, topic: str = "TopicTest") -> None:
        self.log = CommitLog(files, Path("/log"), SIZE)
        self.queue = ConsumeQueue(OpenFiles(files), Path("/queue"), 6000, topic, 1)
        self.queue.next_offset = 5
        self.writer = self.writing()

    def writing(self, *, host: bytes = STORE_HOST, has_crc: bool = False) -> LogWriter:
        self.writer = LogWriter(self.log, host, now_ms=lambda: STORED_MS, has_crc=has_crc)
        self.writer.begin()
        return self.writer

    def add(self, body: bytes = b"x", properties: dict[str, str] | None = None, **numbers: int) -> int:
        properties = properties or {}
        tag, keys = tags_code(properties.get("TAGS", "")), index_keys(properties)
        encoded = encode_properties(properties)
        return self.writer.add(
            self.queue, body, encoded, tag, keys, BORN_HOST, numbers.pop("sys_flag", 0), BORN_MS, **numbers
        )

    def record(self, position: int) -> bytes:
        record = self.log.read(position, self.log.record_bytes_at(position))
        assert record is not None
        return record


@pytest.fixture
def writing(clock: FakeClock) -> Writing:
    return Writing(MemoryFileSystem(clock, capacity=1 << 20))


def test_a_plain_record_has_the_bytes_that_java_writes(writing: Writing) -> None:
    assert writing.add(b"Hello RocketMQ", PROPERTIES_A) == 0
    writing.writer.write()
    assert writing.record(0) == RECORD_A
    [(queue, log_offset, size, code, store_ms, keys, count)] = writing.writer.take_written()
    assert (queue, log_offset, size, code, store_ms, count) == (writing.queue, 0, 187, 2598919, STORED_MS, 1)
    assert keys == ("7F000001162E0102030400A1B2C30000", "order-1 order-2", "TagA")
    assert writing.writer.take_written() == []


def test_a_record_with_a_checksum_over_all_has_the_bytes_that_java_writes(writing: Writing) -> None:
    writing.writing(has_crc=True)
    writing.add(b"Hello RocketMQ", PROPERTIES_A)
    writing.writer.write()
    assert writing.record(0) == RECORD_A_CRC
    assert has_valid_append_crc(writing.record(0))


def test_a_committed_transaction_stored_by_an_ipv6_host_has_the_bytes_that_java_writes(writing: Writing) -> None:
    writing.add(b"Hello RocketMQ", PROPERTIES_A)
    writing.writer.write()
    writing.writing(host=STORE_HOST_6)
    assert writing.add(sys_flag=0x8, properties={"TAGS": "TagB"}, prepared_log_offset=4096) == 187
    writing.writer.write()
    assert writing.record(187) == RECORD_B


def test_a_long_topic_makes_a_record_of_version_two(clock: FakeClock) -> None:
    topic = "%RETRY%" + "g" * 120 + "_" + "t" * 20
    writing = Writing(MemoryFileSystem(clock, capacity=1 << 20), topic)
    writing.add(b"")
    writing.writer.write()
    record = writing.record(0)
    assert len(record) == 240
    assert record.startswith(bytes.fromhex("000000f0daa320ab00000000"))
    assert record[84:92] == bytes.fromhex("0000000000942552")
    assert record.endswith(b"tt\0\0")


def test_flags_that_tell_of_hosts_are_the_brokers_own(writing: Writing) -> None:
    """A client that claims to have an IPv6 address would make the record unreadable."""
    writing.add(sys_flag=0x31)
    writing.writer.write()
    assert decode_record(writing.record(0)).sys_flag == 0x1


@pytest.mark.parametrize("line", GOLDEN, ids=lambda line: line["what"])
def test_records_of_a_real_broker_are_written_again_byte_for_byte(line: dict[str, str], clock: FakeClock) -> None:
    data = bytes.fromhex(line["hex"])
    message = decode_record(data)
    log = CommitLog(MemoryFileSystem(clock, capacity=1 << 30), Path("/log"), 1 << 24)
    log.segments.add(0)
    log.end = log.flushed = message.log_offset
    queue = ConsumeQueue(
        OpenFiles(MemoryFileSystem(clock, capacity=1)), Path("/q"), 6000, message.topic, message.queue_id
    )
    queue.next_offset = message.queue_offset
    has_crc = b"__CRC32#" in data
    properties = data[len(data) - int.from_bytes(data[_properties_at(data) : _properties_at(data) + 2], "big") :]
    store_host = message.store_host.ip + message.store_host.port.to_bytes(4, "big")
    writer = LogWriter(log, store_host, now_ms=lambda: message.store_ms, has_crc=has_crc)
    writer.begin()
    writer.add(
        queue,
        message.body,
        properties[:-20] if has_crc else properties,
        0,
        (None, None, None),
        message.born_host.ip + message.born_host.port.to_bytes(4, "big"),
        message.sys_flag,
        message.born_ms,
        message.flag,
        message.reconsume_times,
        message.prepared_log_offset,
    )
    writer.write()
    assert log.read(message.log_offset, len(data)) == data


def _properties_at(data: bytes) -> int:
    """Where the length of a record's properties is."""
    message = decode_record(data)
    topic = len(message.topic.encode()) + (1 if message.version == 1 else 2)
    hosts = sum(20 if host.is_ipv6 else 8 for host in (message.born_host, message.store_host))
    return 48 + hosts + 8 + 4 + 8 + 4 + len(message.body) + topic


def test_a_record_that_does_not_fit_goes_to_the_next_file_and_a_blank_one_fills_the_rest(writing: Writing) -> None:
    first = writing.add(b"a" * 800)
    second = writing.add(b"b" * 800)
    writing.writer.write()
    assert (first, second) == (0, SIZE)
    left = SIZE - len(writing.record(0))
    blank = writing.log.read(SIZE - left, 8)
    assert blank == left.to_bytes(4, "big") + bytes.fromhex("cbd43194")
    assert is_blank_record(blank)
    assert decode_record(writing.record(SIZE)).queue_offset == 6
    assert [entry[1] for entry in writing.writer.take_written()] == [0, SIZE]


def test_eight_bytes_are_kept_for_the_blank_record(writing: Writing) -> None:
    """A record that would leave seven bytes goes to the next file, one that leaves eight does not."""
    fixed = 91 + len("TopicTest")
    writing.add(b"a" * (SIZE - 8 - fixed))
    writing.writer.write()
    assert writing.log.end == SIZE - 8
    writing.writing()
    assert writing.add(b"b" * (SIZE - 7 - 8 - fixed)) == SIZE
    writing.writer.write()
    assert writing.log.read(SIZE - 8, 8) == bytes.fromhex("00000008cbd43194")
    writing.writing()
    assert writing.add(b"c" * (SIZE - 8 - fixed)) == 2 * SIZE


def test_a_record_that_no_file_can_hold_is_refused_and_nothing_is_written(writing: Writing) -> None:
    with pytest.raises(IllegalMessageError, match="mappedFileSizeCommitLog"):
        writing.add(b"a" * SIZE)
    assert writing.log.end == 0
    assert writing.queue.next_offset == 5


def test_properties_that_have_no_room_for_the_checksum_are_refused(writing: Writing) -> None:
    writing.writing(has_crc=True)
    with pytest.raises(IllegalMessageError, match="32768 bytes, the checksum included"):
        writing.add(properties={"a": "b" * (32748 - 3)})
    assert writing.queue.next_offset == 5


def test_a_batch_stays_together_in_one_file(writing: Writing) -> None:
    writing.add(b"a" * 500)
    writing.writer.make_room(3 * 200)
    places = [writing.add(b"b" * 90) for _ in range(3)]
    writing.writer.write()
    assert places == [SIZE, SIZE + 190, SIZE + 380]


def test_the_store_time_never_goes_back(writing: Writing) -> None:
    times = iter([200, 100, 300])
    writer = LogWriter(writing.log, STORE_HOST, now_ms=lambda: next(times), has_crc=False)
    seen = []
    for _ in range(3):
        writer.begin()
        seen.append(writer.store_ms)
    assert seen == [200, 200, 300]


def test_no_space_for_a_batch_gives_its_queue_offsets_back(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    writing = Writing(disk)
    disk.fail(at=1, calls=["allocate"], error=errno.ENOSPC)
    writing.add()
    writing.add()
    with pytest.raises(StoreFullError, match="No space left"):
        writing.writer.write()
    assert writing.queue.next_offset == 5
    assert writing.log.end == 0
    writing.writing()
    assert writing.add() == 0
    writing.writer.write()
    assert decode_record(writing.record(0)).queue_offset == 5


def test_what_was_written_before_a_failure_must_be_dispatched(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    writing = Writing(disk)
    writing.add(b"a" * 800)
    writing.add(b"b" * 800)  # this one wrote the first
    disk.fail(at=1, calls=["write"], torn=True)
    with pytest.raises(OSError, match="Input/output"):
        writing.writer.write()
    assert [entry[1] for entry in writing.writer.take_written()] == [0]
    assert writing.queue.next_offset == 6
    assert writing.log.end == SIZE


@pytest.mark.parametrize("has_crc", [False, True])
@pytest.mark.parametrize("host", [STORE_HOST, STORE_HOST_6])
@pytest.mark.parametrize("born_host", [BORN_HOST, STORE_HOST_6])
def test_messages_of_a_batch_are_the_records_that_they_would_be_alone(
    clock: FakeClock, host: bytes, born_host: bytes, has_crc: bool
) -> None:
    members = [
        (7, b"one", encode_properties(PROPERTIES_A)),
        (0, b"two", b""),
        (0, b"three", encode_properties({"MY_TAGS": "no", "TAGS": "TagB", "größe": "XL"})),
        (0, b"four", b"TAGS\x01never ended"),
        (0, b"five", b"KEYS\x01\xff\xfe\x02"),
    ]
    alone, together = (Writing(MemoryFileSystem(clock, capacity=1 << 20)) for _ in range(2))
    for writing in (alone, together):
        writing.writing(host=host, has_crc=has_crc).make_room(1000)
    origin = born_host, 1, BORN_MS
    places = []
    for flag, body, properties in members:
        code = tags_code(keys_in(properties)[2])
        places.append(alone.writer.add(alone.queue, body, properties, code, properties, *origin, flag, 2))
    assert together.writer.add_members(together.queue, members, *origin, 2) == places
    for writing in (alone, together):
        writing.writer.write()
    assert [together.record(place) for place in places] == [alone.record(place) for place in places]
    assert together.log.end == alone.log.end == together.writer.position
    assert together.queue.next_offset == alone.queue.next_offset == 10
    entries = [[entry[1:] for entry in writing.writer.take_written()] for writing in (together, alone)]
    assert entries[0] == entries[1]


def test_keys_are_found_by_their_whole_names() -> None:
    assert keys_in(b"MY_KEYS\x01no\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01u\x02") == ("u", "k1 k2", "")
    assert keys_in(b"XTAGS\x01no\x02TAGS\x01t") == ("", "", "t")
    assert keys_in(b"") == ("", "", "")
