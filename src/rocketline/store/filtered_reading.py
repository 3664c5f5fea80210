"""Reading the messages of a queue whose properties fulfil an expression.

Units do not know properties, so each record is looked at: where its properties lie is in three of its fields, and they
alone are taken out of the log's map. One read does a bounded amount of work, counted in bytes of properties and
comparisons, and says how far it came: whoever asks goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import error as StructError  # noqa: N812
from typing import Final

from rocketline.filter import SqlFilter
from rocketline.store.filesystem import ReadOnlyMap
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue
from rocketline.store.queues.consume_queue import NO_SIZE, UNIT, UNIT_BYTES
from rocketline.store.queues.queue_table import Queue
from rocketline.store.reading import ReadLimits, ReadResult, ReadStatus, outside, transfer_bounds
from rocketline.wire.message_codec import MAGIC_V1
from rocketline.wire.record_layout import HOSTS, fixed_bytes, struct_of

_LOOKED_AT_MAX: Final = 4096
"""Units in one read. Apache's broker looks at `maxFilterMessageSize` / 20, which are 800."""
_ON_DISK_MAX: Final = 100
"""Units in one read if their records are likely not in memory: each may be a read of the disk."""
_LOOK_WORK: Final = 256
"""What a message costs besides its properties, and they cost their length, for each comparison."""

_FIXED: Final = [struct_of("magic", "sys_flag", "body_bytes", hosts=hosts) for hosts in HOSTS]
_BODY: Final = [fixed_bytes(hosts) for hosts in HOSTS]
_HOSTS_SHIFT: Final = 4


def read_matching(
    log: CommitLog,
    queue: Queue,
    offset: int,
    max_messages: int,
    wanted: SqlFilter,
    limits: ReadLimits,
    work_max: int,
) -> tuple[ReadResult, int]:
    """Messages from `offset` on that fulfil the expression, and the work that was done for it. Raises `OSError`.

    At least one message is looked at, and none once `work_max` is reached.
    """
    low, high = queue.min_offset, queue.max_offset
    if not low <= offset < high:
        return outside(offset, low, high), 0
    first, units = _units(queue, offset, _units_max(log, queue, offset, limits))
    if units is None:
        return ReadResult(ReadStatus.OFFSET_FOUND_NULL, first, low, high), 0
    result = ReadResult(ReadStatus.NO_MATCHED_MESSAGE, first, low, high)
    return result, _take_matching(log, units, wanted, max_messages, limits, work_max, result)


_Units = Iterable[tuple[tuple[int, int, int], int]]
"""Log offset, size and tags code of records, each with the queue offset behind it."""


def _units_max(log: CommitLog, queue: Queue, offset: int, limits: ReadLimits) -> int:
    """How many units to read: to compare those of an earlier life with the log may be a read of the disk for each."""
    unit = queue.unit(offset)
    is_in_memory = unit is not None and log.end - unit[0] <= limits.memory_bytes
    return _LOOKED_AT_MAX if is_in_memory else _ON_DISK_MAX


def _units(queue: Queue, offset: int, count: int) -> tuple[int, _Units | None]:
    """Where they begin, and the units; or where to go on if there are none."""
    if isinstance(queue, BatchConsumeQueue):
        batches = queue.units(offset, count)
        if not batches:
            return queue.max_offset, None
        return batches[0].first, [(unit[:3], unit.end) for unit in batches]
    units = queue.units(offset, count)
    if not units:
        return queue.next_file_offset(offset), None
    ends = range(offset + 1, offset + 1 + len(units) // UNIT_BYTES)
    return offset, zip(UNIT.iter_unpack(units), ends, strict=True)


def _take_matching(
    log: CommitLog,
    units: _Units,
    wanted: SqlFilter,
    max_messages: int,
    limits: ReadLimits,
    work_max: int,
    result: ReadResult,
) -> int:
    """Take what matches into `result`; the work that it took.

    All branches are in one loop: a call more for each message is felt when thousands are looked at that do not match.
    """
    offset, removed_before, work, left = result.next_offset, -1, 0, -1
    matches, effort, segment_bytes, damage = wanted.matches, wanted.effort, log.segment_bytes, log.damage
    log_start, log_end = log.start, log.end
    segment: ReadOnlyMap | None = None
    start = -1
    count_max = bytes_max = 0
    for (log_offset, size, _), end in units:
        if size == NO_SIZE or (damage and damage.at(log_offset) is not None):  # there is no such message any more
            offset = end
            continue
        if left < 0:  # the first one says whether they are in memory
            is_in_memory, count_max, bytes_max = transfer_bounds(log, log_offset, max_messages, limits)
            left = _LOOKED_AT_MAX if is_in_memory else _ON_DISK_MAX
        if not left or work >= work_max:
            break
        at = log_offset % segment_bytes
        is_there = log_start <= log_offset <= log_end - size and at + size <= segment_bytes
        if log_offset < removed_before or not is_there:
            removed_before = log_offset - at + segment_bytes  # its file is gone, and so are the next ones in it
            offset, result.last_log_offset = end, log_offset
            continue
        if segment is None or log_offset - at != start:
            start = log_offset - at
            segment = log.map_of(start)
        properties = _properties(segment, at, at + size)
        left -= 1
        work += (len(properties) + _LOOK_WORK) * effort
        if matches(properties):
            count, found = end - offset, result.message_count
            if found and (found + count > count_max or result.byte_count + size > bytes_max):
                break
            result.records.append(segment[at : at + size])
            result.message_count += count
            result.byte_count += size
        offset, result.last_log_offset = end, log_offset
        if result.message_count >= count_max:
            break
    result.next_offset = offset
    if result.message_count:
        result.status = ReadStatus.FOUND
    elif removed_before >= 0:
        result.status = ReadStatus.MESSAGE_WAS_REMOVING
    return work


def _properties(segment: ReadOnlyMap, at: int, end: int) -> bytes:
    """Of the record there. One whose lengths do not fit together has none."""
    try:
        magic, sys_flag, body_bytes = _FIXED[0].unpack_from(segment, at)
        hosts = sys_flag >> _HOSTS_SHIFT & 3
        if hosts:
            magic, sys_flag, body_bytes = _FIXED[hosts].unpack_from(segment, at)
        topic_at = at + _BODY[hosts] + body_bytes
        if magic == MAGIC_V1:
            topic_at += 3 + segment[topic_at]
        else:
            topic_at += 4 + int.from_bytes(segment[topic_at : topic_at + 2], "big")
        found: bytes = segment[topic_at:end]
    except (IndexError, StructError):
        return b""
    return found
