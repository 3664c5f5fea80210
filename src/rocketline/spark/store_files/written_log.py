"""The log of a store as far as it is written: where it ends, and where it can be cut.

Every unit of a queue was written after its record, so all records up to the last unit are whole. Those after it, which
a broker may be about to put into queues, are looked at one by one, with their check sums. Where no unit is, as in a
store of which only the log is left, the last file is looked at like this, and files are not cut.
"""

from __future__ import annotations

import heapq
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rocketline.errors import CorruptStoreError
from rocketline.spark.store_files.damage import damage
from rocketline.spark.store_files.log_files import LogFile, has_data_after, opened
from rocketline.spark.store_files.log_scan import Stop, are_whole, chunks
from rocketline.spark.store_files.queue_units import QueueUnits, Unit
from rocketline.wire.message_codec import MAGIC_V1, MAGIC_V2
from rocketline.wire.record_layout import HOSTS, place_of, struct_of

_CUTTING_QUEUES_MAX: Final = 16
"""The longest queues are enough to find a place to cut at."""
_HEAD: Final = struct_of("size", "magic", "log_offset", "sys_flag")
_STORE_MS: Final = struct.Struct(">q")
_STORE_MS_AT: Final = tuple(place_of("store_ms", hosts) for hosts in HOSTS)


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Records from position `start` of the log to before `end`, all in one file."""

    file: LogFile
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


class WrittenLog:
    """The files of a log and the queues that point into it."""

    def __init__(self, files: Sequence[LogFile], queues: Sequence[QueueUnits]) -> None:
        self._files, self._queues = files, queues
        self._cutting = heapq.nlargest(_CUTTING_QUEUES_MAX, queues, key=lambda queue: queue.count)

    # --- single records

    def _file_of(self, position: int) -> LogFile | None:
        return next((file for file in self._files if file.start <= position < file.end), None)

    def _read(self, position: int, size: int) -> bytes:
        file = self._file_of(position)
        if file is None:
            return b""
        try:
            with opened(file.path) as handle:
                return os.pread(handle, size, position - file.start)
        except FileNotFoundError:  # deleted meanwhile
            return b""

    def _is_record(self, unit: Unit) -> bool:
        """A record of this size begins there, and knows it."""
        data = self._read(unit.position, _HEAD.size)
        if len(data) < _HEAD.size:
            return False
        size, magic, log_offset, _ = _HEAD.unpack(data)
        return size == unit.size and magic in (MAGIC_V1, MAGIC_V2) and log_offset == unit.position

    def store_ms(self, position: int) -> int | None:
        """When the record that begins there was stored; None if none does."""
        data = self._read(position, max(_STORE_MS_AT) + _STORE_MS.size)
        if len(data) < _HEAD.size:
            return None
        _, magic, log_offset, sys_flag = _HEAD.unpack_from(data)
        at = _STORE_MS_AT[sys_flag >> 4 & 3]
        if magic not in (MAGIC_V1, MAGIC_V2) or log_offset != position or len(data) < at + _STORE_MS.size:
            return None
        store_ms: int = _STORE_MS.unpack_from(data, at)[0]
        return store_ms

    # --- the end

    def end(self) -> tuple[int, CorruptStoreError | None]:
        """The position after the last whole record, and what is wrong with the bytes that follow, if they are not
        just zeros."""
        position = self._known_end()
        while (file := self._file_of(position)) is not None:
            position, stop, has_more = self._walk(file, position)
            if stop not in (Stop.BLANK, Stop.END):
                if not has_more:
                    return position, None
                problem = f"its bytes from {position - file.start} on are no whole record: the last write was cut short"
                return position, damage(file.path, problem)
            position = next((later.start for later in self._files if later.start >= file.end), file.end)
        return position, None

    def _known_end(self) -> int:
        """A position that the log reaches, and where a record ends or a file begins."""
        last_units = [queue.last for queue in self._queues if queue.last is not None]
        for unit in sorted(last_units, key=lambda unit: unit.end, reverse=True):
            if self._is_record(unit):  # else the log lost more than the queue
                return unit.end
        written = [file.start for file in self._files if any(self._read(file.start, 8))]
        return max(written, default=self._files[0].start if self._files else 0)

    def _walk(self, file: LogFile, position: int) -> tuple[int, Stop, bool]:
        """How far records of the file are whole from there on, how that ended, and whether other bytes follow."""
        with opened(file.path) as handle:
            stop = Stop.END
            for chunk in chunks(handle, file.start, file.end, position, file.end):
                broken = np.flatnonzero(~are_whole(chunk.spans, chunk.position - file.start))
                position, stop = chunk.end, chunk.stop
                if len(broken):
                    position, stop = chunk.position + int(chunk.spans.starts[broken[0]]), Stop.BROKEN
                    break
            return position, stop, has_data_after(handle, position - file.start, file.size)

    # --- cutting

    def cut(self, one: LogSlice, bytes_max: int) -> Iterator[LogSlice]:
        """Parts of about the same size, not much more than `bytes_max`, as far as queues know where records begin."""
        count = -(-len(one) // bytes_max)
        start = one.start
        for number in range(1, count):
            unit = self._first_unit(max(one.start + len(one) * number // count, start + 1))
            if unit is None or unit.position >= one.end:
                break
            yield LogSlice(one.file, start, unit.position)
            start = unit.position
        yield LogSlice(one.file, start, one.end)

    def _first_unit(self, position: int) -> Unit | None:
        units = [unit for queue in self._cutting if (unit := queue.first_from(position)) is not None]
        return min((unit for unit in units if self._is_record(unit)), default=None)
