"""Walking over the log record by record: what recovery and the rebuilding of the index do.

Millions of records pass here after a crash, so a record is a tuple and its properties stay bytes; nothing is decoded
that nobody asked for.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from rocketline.model import property_names
from rocketline.model.delay_levels import DelayLevels
from rocketline.model.java_hash import tags_code
from rocketline.model.names import SCHEDULE_TOPIC
from rocketline.model.sys_flags import is_inner_batch
from rocketline.store.filesystem import ReadOnlyMap
from rocketline.store.log.commit_log import CommitLog
from rocketline.wire.append_crc import has_valid_append_crc
from rocketline.wire.message_codec import BLANK_BYTES_MIN, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN
from rocketline.wire.properties import stored_value
from rocketline.wire.record_layout import HOSTS, fixed_bytes, place_of, struct_of

_FIXED = struct_of(
    "size", "magic", "body_crc", "queue_id", "queue_offset", "log_offset", "sys_flag", "store_ms", "body_bytes"
)
"""Of a record whose hosts are both IPv4."""
_PREFIX = struct_of("size", "magic")
_INT, _SHORT, _LONG = struct.Struct(">i"), struct.Struct(">h"), struct.Struct(">q")
_unpack_fixed, _unpack_short, _FIXED_BYTES = _FIXED.unpack_from, _SHORT.unpack_from, _FIXED.size
_SYS_FLAG_AT: Final = place_of("sys_flag")
_PLACES: Final = tuple((place_of("store_ms", hosts), fixed_bytes(hosts)) for hosts in HOSTS)
"""Of store time and body, by the lengths of the hosts."""
_NO_NAME: Final = re.compile(rb"[/\0]|^\.{0,2}\Z")
"""What no topic has as its name: its queues would lie elsewhere than in their folder. No check sum covers it."""
SECTOR_BYTES: Final = 512
"""What a disk writes as a whole."""


class Record(NamedTuple):
    """What the log tells of one message without a look at its body."""

    log_offset: int
    size: int
    topic: bytes
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_ms: int
    properties: bytes


_new = tuple.__new__  # without the names, which take longer than the tuple


def scan(
    log: CommitLog, position: int, end: int, *, check_crc: bool, needs_append_crc: bool = False
) -> Iterator[Record]:
    """The records from `position` on, up to the first that is none or to `end`. Raises `OSError`.

    Blank records lead to the next file, and known damage to its end. Where it stopped is the end of the last record
    given, or of what was passed over behind it: see `stop_of`.
    """
    segment_bytes, damage = log.segment_bytes, log.damage
    while position < end and log.segments.has(position):
        if (span := damage.at(position)) is not None:
            position = span.end
            continue
        start = position - position % segment_bytes
        limit = min(end, damage.next_begin(position))
        data = log.map_of(start)
        until = log.mapped_until(position)
        view = memoryview(data)[: until - start]
        while position < limit:
            record = _record_at(data, view, position - start, position, check_crc)
            if record is None:
                break
            if needs_append_crc and not has_valid_append_crc(data[position - start : position - start + record.size]):
                break
            yield record
            position += record.size
        else:
            continue
        if until < min(position + BLANK_BYTES_MIN, start + segment_bytes) or not is_blank(data, position - start):
            return
        position = start + segment_bytes


def stop_of(log: CommitLog, position: int) -> int:
    """Where `scan` stopped, whose last record ended at `position`: behind a blank record or known damage, or there."""
    while True:
        in_file, span = position % log.segment_bytes, log.damage.at(position)
        if span is not None:
            position = span.end
        elif in_file and log.segments.has(position) and is_blank_at(log, position):
            position += log.segment_bytes - in_file
        else:
            return position


def is_blank(data: ReadOnlyMap, at: int) -> bool:
    """A blank record fills the file from `at` on."""
    if at + 8 > len(data):
        return at == len(data)
    size, magic = _PREFIX.unpack_from(data, at)
    return bool(magic == MAGIC_BLANK and size == len(data) - at)


def is_blank_at(log: CommitLog, position: int) -> bool:
    """The same of a position in the log which is in one of its files."""
    start = log.segments.start_of(position)
    return log.mapped_until(position) >= position + BLANK_BYTES_MIN and is_blank(log.map_of(start), position - start)


def _record_at(data: ReadOnlyMap | bytes, view: memoryview, at: int, position: int, check_crc: bool) -> Record | None:
    """The record there, None if its fields do not fit together. A record knows its own place in the log.

    `view` is of the same bytes: what is long need not be copied to be looked at.

    From the front to the back: the fields before the body, where the body is (further on if a host is IPv6), the tail
    behind it, and at last what check sums say. Each step looks only where the one before has found that there is
    something. It is one function, because a call more for each record is felt when millions are read.
    """
    left = len(view) - at
    if left < RECORD_BYTES_MIN:
        return None
    size, magic, crc, queue_id, queue_offset, log_offset, sys_flag, store_ms, body_bytes = _unpack_fixed(view, at)
    if (magic != MAGIC_V1 and magic != MAGIC_V2) or log_offset != position or not RECORD_BYTES_MIN <= size <= left:
        return None
    body_at, end = at + _FIXED_BYTES, at + size
    if sys_flag & 0x30:
        store_time_at, body_at = (at + place for place in _PLACES[sys_flag >> 4 & 3])
        if body_at > end:
            return None
        store_ms, body_bytes = _LONG.unpack_from(data, store_time_at)[0], _INT.unpack_from(data, body_at - 4)[0]
    topic_at = body_at + body_bytes
    if not body_at <= topic_at <= end - 3:
        return None
    tail = data[topic_at:end]
    name_at, name_bytes = (1, tail[0]) if magic == MAGIC_V1 else (2, _SHORT.unpack_from(tail)[0])
    name_end = name_at + name_bytes
    properties_at = name_end + 2
    if name_bytes < 0 or properties_at > len(tail) or properties_at + _unpack_short(tail, name_end)[0] != len(tail):
        return None
    properties = tail[properties_at:]
    if check_crc and (
        crc32(view[body_at:topic_at]) & 0x7FFFFFFF != crc
        or (
            (properties[-1:] == b"\0" or len(properties) >= SECTOR_BYTES)
            and are_torn(properties, end - len(properties))
        )
    ):
        return None
    topic = tail[name_at:name_end]
    if not topic.isalnum() and _NO_NAME.search(topic):  # nearly every one is seen at once to be none of these
        return None
    return _new(Record, (position, size, topic, queue_id, queue_offset, sys_flag, store_ms, properties))


def are_torn(properties: bytes, at: int) -> bool:
    """The end of a record's properties, which lie at `at` of their file, or a sector of them never reached the disk.

    The record's check sum covers the body alone, so Java takes a message that has lost its properties for a good one.
    No message of ours has a sector of zeros there, nor a zero at its end: `LogWriter` refuses it.
    """
    if properties[-1:] == b"\0":
        return True
    sectors = range(-at % SECTOR_BYTES, len(properties) - SECTOR_BYTES + 1, SECTOR_BYTES)
    return any(not any(properties[at : at + SECTOR_BYTES]) for at in sectors)


def record_at(log: CommitLog, position: int) -> Record | None:
    """The record that begins there, whatever its check sum says; None if its fields do not fit together.

    It is read and not looked at in a map: nobody knows whether anything was ever written there.
    """
    if not log.start <= position < log.end:
        return None
    file, in_file = log.segments.file_of(position), position % log.segment_bytes
    size = int.from_bytes(file.read_at(in_file, 4), "big", signed=True)
    if not RECORD_BYTES_MIN <= size <= log.segment_bytes - in_file:
        return None
    data = file.read_at(in_file, size)
    return _record_at(data, memoryview(data), 0, position, check_crc=False)


def whole_record(data: bytes, position: int) -> Record | None:
    """The record whose bytes these are, from `position` of the log; None if they do not fit together, or their check
    sum is wrong."""
    return _record_at(data, memoryview(data), 0, position, check_crc=True)


def store_ms_at(log: CommitLog, position: int) -> int:
    """When the record at `position` was stored, -1 if there is none; behind damage, when the next one was."""
    if log.damage and (span := log.damage.at(position)) is not None:
        position = span.end
    flags = log.read(position + _SYS_FLAG_AT, _INT.size)
    if flags is None:
        return -1
    time = log.read(position + _PLACES[_INT.unpack(flags)[0] >> 4 & 3][0], _LONG.size)
    return int.from_bytes(time, "big", signed=True) if time is not None else -1


def property_of(properties: bytes, name: bytes) -> bytes:
    """The value of one property, b"" if it is missing. `name` ends with the mark that parts it from its value."""
    return stored_value(properties, name, b"\x02")


def messages_in(record: Record) -> int:
    """How many messages a record holds: more than one if it is an inner batch."""
    if not is_inner_batch(record.sys_flag):
        return 1
    count = property_of(record.properties, _INNER_NUM)
    return min(max(int(count), 1), _MESSAGES_MAX) if count.isdigit() and len(count) < _DIGITS_MAX else 1


_INNER_NUM = f"{property_names.INNER_NUM}\x01".encode()
_MESSAGES_MAX: Final = 0x7FFF
_DIGITS_MAX: Final = 10
_TAGS = f"{property_names.TAGS}\x01".encode()
_DELAY = f"{property_names.DELAY}\x01".encode()
_TAGS_KEPT_MAX: Final = 10_000


class TagsCodes:
    """The tags code that a record has in its queue: the hash of its tag, or the time at which a delayed one is due."""

    def __init__(self, levels: DelayLevels) -> None:
        self._levels = levels
        self._by_tag: dict[bytes, int] = {b"": 0}

    def of(self, record: Record, topic: str) -> int:
        properties = record.properties
        if topic == SCHEDULE_TOPIC and (delay := property_of(properties, _DELAY)).isdigit() and int(delay) > 0:
            return record.store_ms + self._levels.delay_ms(self._levels.capped(int(delay)))
        if _TAGS not in properties:
            return 0
        tag = property_of(properties, _TAGS)
        code = self._by_tag.get(tag)
        if code is None:
            if len(self._by_tag) > _TAGS_KEPT_MAX:
                self._by_tag.clear()
                self._by_tag[b""] = 0
            code = self._by_tag[tag] = tags_code(tag.decode("utf-8", "replace"))
        return code
