"""Walking over a part of a log, record after record, and noticing where it breaks off.

A record says how long it is and where it lies; the next one begins where it ends. A blank record fills the rest of a
file, and zeros are what was never written.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np

from rocketline.errors import RemoteProtocolError
from rocketline.spark.decoding.record_columns import wrong_bodies
from rocketline.spark.decoding.record_spans import Flags, Ints, RecordSpans, record_spans
from rocketline.store.log.record_scan import SECTOR_BYTES, are_torn
from rocketline.wire.message_codec import (
    BLANK_BYTES_MIN,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    decode_record,
)
from rocketline.wire.record_layout import struct_of

CHUNK_BYTES: Final = 4 * 2**20
"""What is read and decoded at once: about 10,000 small messages, or a large one."""
_SIZE: Final = struct.Struct(">i")
_PREFIX: Final = struct_of("size", "magic")
_HEAD: Final = struct_of("size", "magic", "log_offset")


class Stop(Enum):
    """Why a chunk ends where it does."""

    MORE = auto()
    """The next record begins there, and is whole in the next chunk."""
    END = auto()
    """As far as was asked for."""
    BLANK = auto()
    """The rest of the file is blank."""
    NOTHING = auto()
    """Zeros follow."""
    BROKEN = auto()
    """What follows is no record."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Records that follow each other, and the position in the log after the last of them."""

    position: int
    spans: RecordSpans
    end: int
    stop: Stop


def chunks(handle: int, file_start: int, file_end: int, start: int, end: int) -> Iterator[LogChunk]:
    """The records from position `start`, where one begins, to before `end`, in pieces; the last one says how it ended.

    Raises `OSError`.
    """
    position, room = start, CHUNK_BYTES
    while True:
        data = os.pread(handle, min(room, end - position), position - file_start)
        chunk = _chunk(data, position, file_end, end)
        if chunk.stop is not Stop.MORE:
            yield chunk
            return
        if len(chunk.spans):
            yield chunk
            position, room = chunk.end, CHUNK_BYTES
        elif len(data) < room and position + len(data) < end:
            yield LogChunk(position, chunk.spans, position, Stop.BROKEN)  # the file is shorter than it was
            return
        else:
            room = _SIZE.unpack_from(data)[0]  # one record alone is more than usual


def _chunk(data: bytes, position: int, file_end: int, end: int) -> LogChunk:
    starts: Ints = np.array(_starts(data), np.int64)
    spans = record_spans(data, starts)
    magic = spans.fixed["magic"]
    wrong = np.flatnonzero(
        ((magic != MAGIC_V1) & (magic != MAGIC_V2)) | (spans.fixed["log_offset"] != starts + position)
    )
    if len(wrong):
        spans = spans.take(np.arange(wrong[0]))
    at = int(spans.end[-1]) if len(spans) else 0
    return LogChunk(position, spans, position + at, _stop(data, at, position + at, file_end, end))


def _starts(data: bytes) -> list[int]:
    """Where records begin, by the length words alone."""
    starts: list[int] = []
    append, unpack, at, last = starts.append, _SIZE.unpack_from, 0, len(data) - RECORD_BYTES_MIN
    while at <= last:
        (size,) = unpack(data, at)
        if size < RECORD_BYTES_MIN or at + size > len(data):
            break
        append(at)
        at += size
    return starts


def _stop(data: bytes, at: int, position: int, file_end: int, end: int) -> Stop:
    """Why no record could be read at `position`, byte `at` of `data`."""
    left, asked = len(data) - at, end - position
    if asked == 0:
        return Stop.END
    if left < BLANK_BYTES_MIN:
        return Stop.MORE if 0 < left < asked or (left == 0 and at) else Stop.BROKEN
    size, magic = _PREFIX.unpack_from(data, at)
    if magic == MAGIC_BLANK and size == file_end - position:
        return Stop.BLANK
    if size == 0 and magic == 0:
        return Stop.NOTHING
    if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_BYTES_MIN <= size <= asked or size <= left:
        return Stop.BROKEN
    is_here = left < _HEAD.size or _HEAD.unpack_from(data, at)[2] == position
    return Stop.MORE if is_here else Stop.BROKEN


def are_whole(spans: RecordSpans, at: int) -> Flags:
    """Which records fit together, and are what was stored, if that can be told. Their bytes lie at `at` of the file."""
    whole = spans.sound.copy()
    whole[wrong_bodies(spans)] = False
    whole[torn_properties(spans, at)] = False
    for number in np.flatnonzero(~spans.sound).tolist():
        try:
            decode_record(spans.record(number), check_crc=True)
        except RemoteProtocolError:
            continue
        whole[number] = True
    return whole


def torn_properties(spans: RecordSpans, at: int) -> list[int]:
    """The numbers of the sound records that lost properties to a cut of power. Bytes lie at `at` of their file."""
    numbers = np.flatnonzero(spans.sound & (spans.end > spans.properties_at))
    begin, end = spans.properties_at[numbers], spans.end[numbers]
    may_be = np.flatnonzero((spans.data[end - 1] == 0) | (end - begin >= SECTOR_BYTES))
    return [
        int(number)
        for number, first, last in zip(numbers[may_be], begin[may_be], end[may_be], strict=True)
        if are_torn(spans.data[first:last].tobytes(), at + int(first))
    ]
