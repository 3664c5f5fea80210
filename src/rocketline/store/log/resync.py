"""Finding the next record behind damaged bytes of the log.

A record knows its own place: where the bytes of a magic stand, the position in the log must follow at its place, and
only few pretenders need a closer look. Nothing is read twice, and holes of a sparse file are not read at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rocketline.store.filesystem import File
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.damage import DamagedSpan
from rocketline.store.log.record_scan import Record, scan, stop_of
from rocketline.wire.message_codec import MAGIC_V1, MAGIC_V2

_MAGIC_AT: Final = 4
_PLACE_AT: Final = 28
_PLACE_END: Final = _PLACE_AT + 8
_MAGIC_BEGIN: Final = MAGIC_V1.to_bytes(4, "big")[:3]
"""What both magics begin with."""
assert MAGIC_V2.to_bytes(4, "big").startswith(_MAGIC_BEGIN)
_CHUNK_BYTES: Final = 1 << 20


def next_record(
    log: CommitLog,
    position: int,
    end: int,
    *,
    check_crc: bool,
    after: Record | None = None,
    needs_append_crc: bool = False,
) -> int | None:
    """Where the first valid record behind the damage at `position` begins, before `end`; None if there is none.

    Valid is what `scan` takes for a record: a magic, its own place, a size that its parts add up to, and with
    `check_crc` the right check sum. A record stored before `after`, the last good one in front of the damage, is a
    remnant of a former life of these bytes and passed over; whether the queue offset of the one found goes on from
    those before is for the caller to see.

    If the damaged record's own lengths still agree with each other, its end is known, and the search begins there:
    whatever its body holds is never taken for a record. Else every byte behind `position` is looked at. Files from
    which nothing can be read are passed over with the damage. Raises `OSError`.
    """
    begin = position + 1
    for damaged in scan(log, position, begin, check_crc=False):
        begin = position + damaged.size
    segments = log.segments
    while begin < end and segments.has(begin):
        start = segments.start_of(begin)
        for place in _places(segments.file_of(begin), start, begin, end):
            for found in scan(log, place, place + 1, check_crc=check_crc, needs_append_crc=needs_append_crc):
                if after is None or found.store_ms >= after.store_ms:
                    return place
        begin = start + log.segment_bytes
    return None


def still_damaged(log: CommitLog, span: DamagedSpan, *, needs_append_crc: bool = False) -> DamagedSpan | None:
    """What is left of damage that was found earlier, of which `log` must not know; None if it is damage no more.

    Somebody may have put a good copy of a file back. Or another broker has ended the log at the damage and written new
    records there: then nothing behind these is as it was. Raises `OSError`.
    """
    end = min(span.end, log.segments.end)
    begin, last = _end_of_records(log, span.begin, end, needs_append_crc)
    if begin >= end:
        return None
    if last is not None:
        following = next(scan(log, end, end + 1, check_crc=True), None)
        if following is None or following.store_ms < last.store_ms:
            return None
    for start in log.segments.starts:  # files that are whole again up to the end
        if begin < start < end and _end_of_records(log, start, end, needs_append_crc)[0] >= end:
            return DamagedSpan(begin, start)
    return DamagedSpan(begin, end)


def _end_of_records(log: CommitLog, begin: int, end: int, needs_append_crc: bool) -> tuple[int, Record | None]:
    """Where whole records end that follow on each other from `begin` on, and the last of them."""
    position, last = begin, None
    for last in scan(log, begin, end, check_crc=True, needs_append_crc=needs_append_crc):
        position = last.log_offset + last.size
    return stop_of(log, position), last


def _places(file: File, start: int, begin: int, end: int) -> Iterator[int]:
    """Log offsets from `begin` to `end` where, by magic and own place, a record may begin in the file at `start`."""
    at, end = begin - start, min(end - start, file.size)
    while at < end:
        # The first bytes of a record's size are zero: they may lie in the hole.
        at = max(at, file.next_data(at) - _MAGIC_AT)
        data = file.read_at(at, min(_CHUNK_BYTES, end - at) + _PLACE_END - 1)
        found = data.find(_MAGIC_BEGIN, _MAGIC_AT)
        while 0 <= found < min(_CHUNK_BYTES, end - at) + _MAGIC_AT:
            place = start + at + found - _MAGIC_AT
            place_at = found - _MAGIC_AT + _PLACE_AT
            if data[place_at : place_at + 8] == place.to_bytes(8, "big"):
                yield place
            found = data.find(_MAGIC_BEGIN, found + 1)
        at += _CHUNK_BYTES
