"""Reading a span of one queue, and finding the place in a queue that belongs to a time.

`read_span` is the whole work of a pull on the store's side: units in, records out, as bytes that nobody looks into. It
is one call, so that a compiled one can take its place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, TypeAlias

from rocketline.store.filesystem import ReadOnlyMap
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue
from rocketline.store.queues.consume_queue import NO_SIZE, UNIT, UNIT_BYTES, ConsumeQueue
from rocketline.store.queues.queue_table import Queue

_TOTAL_BYTES_MAX: Final = 15 * 1024 * 1024
"""What a frame carries, and room for its header. Apache stops at 128 MiB, which no client would accept."""
_EXT_ADDRESS_MAX: Final = -0x80000001
"""Tags codes down to here are none but addresses in the extension file, which we do not write: such a unit passes."""


class ReadStatus(Enum):
    """How a read ended. The names are Java's, and clients see them as remarks. Java: GetMessageStatus."""

    FOUND = auto()
    NO_MATCHED_MESSAGE = auto()
    MESSAGE_WAS_REMOVING = auto()
    OFFSET_FOUND_NULL = auto()
    OFFSET_OVERFLOW_BADLY = auto()
    OFFSET_OVERFLOW_ONE = auto()
    OFFSET_TOO_SMALL = auto()
    NO_MATCHED_LOGIC_QUEUE = auto()
    NO_MESSAGE_IN_QUEUE = auto()
    OFFSET_RESET = auto()


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much one read may give, of messages likely to be in memory and of older ones."""

    count_in_memory: int
    bytes_in_memory: int
    count_on_disk: int
    bytes_on_disk: int
    memory_bytes: int
    """Records within so many bytes of the log's end count as in memory."""
    filter_units_max: int
    """Units that are looked at when few match."""
    count_always: int = field(init=False)
    """So many messages are within the limits wherever they are, if they are no more than `bytes_always`."""
    bytes_always: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count_always", min(self.count_in_memory, self.count_on_disk))
        object.__setattr__(self, "bytes_always", min(self.bytes_in_memory, self.bytes_on_disk, _TOTAL_BYTES_MAX))


@dataclass(slots=True)
class ReadResult:
    """What a read found. `records` are parts of the log; joined they are the body of a pull's answer."""

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes] = field(default_factory=list)
    message_count: int = 0
    byte_count: int = 0
    last_log_offset: int = -1
    """Of the last message looked at, whether it was wanted or not; -1 if there was none."""


Run: TypeAlias = "tuple[int, int, int, int, list[bytes | memoryview], int]"
"""Messages one after the other in their queue: the queue's bounds, how many, their bytes, their records in the log, and
where in the log the last one begins."""
_VIEWED_BYTES_MIN: Final = 512
"""Records that are longer on average are not copied out of the log's map but looked at, which takes as long for any."""


def read_run(log: CommitLog, queue: ConsumeQueue, offset: int, count: int, bytes_max: int) -> Run | None:
    """At most `count` messages from `offset` on, if all lie in one file of the log and are few bytes enough.

    They nearly always do, so this comes first and takes as few steps as there are. Raises `OSError`.
    """
    low, high = queue.min_offset, queue.max_offset
    if not low <= offset < high:
        return None
    units = queue.units(offset, count)
    count = len(units) // UNIT_BYTES
    if not count:
        return None
    fields = _UNITS[count].unpack(units)
    places, sizes = fields[0::2], fields[1::2]
    first, last, size = places[0], places[-1], sum(sizes)
    segment_bytes = log.segment_bytes
    start = first - first % segment_bytes
    last_end = last + sizes[-1]
    if size > bytes_max or not log.start <= first <= last or last_end > start + segment_bytes or last_end > log.end:
        return None
    if log.damage and log.damage.first_in(first, last_end) is not None:
        return None
    segment: ReadOnlyMap | memoryview = log.map_of(start)
    if size > count * _VIEWED_BYTES_MIN:
        segment = memoryview(segment)
    if last_end - first == size:  # one behind the other: only this queue was written to
        records = [segment[first - start : last_end - start]]
    elif start:
        records = [segment[at - start : at - start + size] for at, size in zip(places, sizes, strict=True)]
    else:
        records = [segment[at : at + size] for at, size in zip(places, sizes, strict=True)]
    return low, high, count, size, records, last


def read_span(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    max_messages: int,
    wanted: frozenset[int] | None,
    limits: ReadLimits,
) -> ReadResult:
    """Messages from `offset` on: at most `max_messages`, at least one if any matches. Java: getMessage.

    `wanted` holds the hashes of tags, None takes every message. Raises `OSError`.
    """
    low, high = queue.min_offset, queue.max_offset
    if not low <= offset < high or not high:
        return outside(offset, low, high)
    if max_messages < 1:
        max_messages = 1
    max_messages = min(max_messages, max(limits.count_in_memory, limits.count_on_disk))
    span = max_messages if wanted is None else max(limits.filter_units_max, max_messages)
    units = queue.units(offset, span)
    if not units:
        return ReadResult(ReadStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset), low, high)
    result = ReadResult(ReadStatus.NO_MATCHED_MESSAGE, offset, low, high)
    _, count_max, bytes_max = transfer_bounds(log, UNIT.unpack_from(units)[0], max_messages, limits)
    run = read_run(log, queue, offset, count_max, bytes_max) if wanted is None else None
    if run is None:
        ends = range(offset + 1, offset + 1 + len(units) // UNIT_BYTES)
        _take_each(log, zip(UNIT.iter_unpack(units), ends, strict=True), wanted, count_max, bytes_max, result)
    else:
        result.status = ReadStatus.FOUND
        _, _, result.message_count, result.byte_count, records, result.last_log_offset = run
        result.records = [b"".join(records)]
        result.next_offset = offset + result.message_count
    return result


def read_batches(
    log: CommitLog,
    queue: BatchConsumeQueue,
    offset: int,
    max_messages: int,
    wanted: frozenset[int] | None,
    limits: ReadLimits,
) -> ReadResult:
    """The same for a queue whose records may hold many messages: at least one record, even if it holds more than asked.

    The first may begin before `offset`; clients drop what they did not ask for. An inner batch has no tag of its own,
    so whoever filters by tags does not get it, as from Apache.
    """
    low, high = queue.min_offset, queue.max_offset
    if not low <= offset < high:
        return outside(offset, low, high)
    units = queue.units(offset, max(limits.filter_units_max, 1))
    if not units:  # its files have lost them
        return ReadResult(ReadStatus.OFFSET_FOUND_NULL, high, low, high)
    result = ReadResult(ReadStatus.NO_MATCHED_MESSAGE, units[0].first, low, high)
    _, count_max, bytes_max = transfer_bounds(log, units[0].log_offset, max_messages, limits)
    _take_each(log, [(unit[:3], unit.end) for unit in units], wanted, count_max, bytes_max, result)
    return result


def transfer_bounds(log: CommitLog, first: int, max_messages: int, limits: ReadLimits) -> tuple[bool, int, int]:
    """Whether records from this log offset on are likely in memory, and how many messages and bytes one read gives."""
    if log.end - first <= limits.memory_bytes:
        return True, min(max_messages, limits.count_in_memory), min(_TOTAL_BYTES_MAX, limits.bytes_in_memory)
    return False, min(max_messages, limits.count_on_disk), min(_TOTAL_BYTES_MAX, limits.bytes_on_disk)


def outside(offset: int, low: int, high: int) -> ReadResult:
    """What a read finds at an offset where no message is."""
    if not high:
        return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if offset < low:
        return ReadResult(ReadStatus.OFFSET_TOO_SMALL, low, low, high)
    if offset == high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
    return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, high, low, high)


class _UnitStructs(dict[int, struct.Struct]):
    """The places and sizes in so many units, read at once. Those of usual spans are kept."""

    def __missing__(self, count: int) -> struct.Struct:
        units = struct.Struct(f">{'qi8x' * count}")
        if count <= _KEPT_UNITS_MAX:
            self[count] = units
        return units


_UNITS: Final = _UnitStructs()
_KEPT_UNITS_MAX: Final = 1024


def _take_each(
    log: CommitLog,
    units: Iterable[tuple[tuple[int, int, int], int]],
    wanted: frozenset[int] | None,
    count_max: int,
    bytes_max: int,
    result: ReadResult,
) -> None:
    """Records of units, each given with the queue offset behind it."""
    offset, removed_before, damage = result.next_offset, -1, log.damage
    for (log_offset, size, tags_code), end in units:
        if size == NO_SIZE or (damage and damage.at(log_offset) is not None):  # there is no such message any more
            offset = end
            continue
        count, found = end - offset, result.message_count
        if found and (found + count > count_max or result.byte_count + size > bytes_max):
            break
        offset, result.last_log_offset = end, log_offset
        if log_offset < removed_before:
            continue
        if wanted is not None and _to_int32(tags_code) not in wanted and tags_code > _EXT_ADDRESS_MAX:
            continue
        record = log.read(log_offset, size)
        if record is None:  # its file is gone, and so are the next ones in it
            removed_before = log_offset - log_offset % log.segment_bytes + log.segment_bytes
            continue
        result.records.append(record)
        result.message_count += count
        result.byte_count += size
    result.next_offset = offset
    if result.message_count:
        result.status = ReadStatus.FOUND
    elif removed_before >= 0:
        result.status = ReadStatus.MESSAGE_WAS_REMOVING


def _to_int32(code: int) -> int:
    return (code & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def first_at_or_after(queue: Queue, store_ms_of: Callable[[int], int], timestamp_ms: int) -> int:
    """The first queue offset stored at `timestamp_ms` or later, the queue's end if there is none."""
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        if store_ms_of(middle) < timestamp_ms:
            low = middle + 1
        else:
            high = middle
    return low
