"""The timer log: a unit for each message that waits, which names the one before it in the same slot. Java: TimerLog."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rocketline.store.files.segments import OpenFiles, Segments
from rocketline.store.filesystem import FileSystem, ReadOnlyMap

UNIT: Final = struct.Struct(">iqiqiqiiq")
UNIT_BYTES: Final = UNIT.size
NONE: Final = -1
"""The position before the first unit of a slot."""
MAGIC_PLAIN: Final = 1
MAGIC_ROLL: Final = 2
"""Its time is beyond the wheel: when its slot comes, it is parked again."""
MAGIC_DELETE: Final = 4
"""It calls another message back."""
_MAGIC_MAX: Final = 15
_BLANK: Final = struct.Struct(">iqI")
_BLANK_MAGIC: Final = 0xCBD43194
_MAPS_MAX: Final = 4
_READ_UNITS: Final = 20_000


class TimerUnit(NamedTuple):
    """One message that waits."""

    size: int
    previous: int
    """Where the unit before it in the same slot begins, or `NONE`."""
    magic: int
    write_ms: int
    """When it was parked, rounded down."""
    delay_ms: int
    """From then until its slot."""
    log_offset: int
    record_bytes: int
    topic_hash: int
    """Java's hash of the topic where it belongs."""
    reserved: int

    @property
    def slot_ms(self) -> int:
        return self.write_ms + self.delay_ms

    @property
    def is_roll(self) -> bool:
        return bool(self.magic & MAGIC_ROLL)

    @property
    def is_delete(self) -> bool:
        return bool(self.magic & MAGIC_DELETE)

    @property
    def is_valid(self) -> bool:
        return self.size == UNIT_BYTES and 0 < self.magic <= _MAGIC_MAX


class TimerLog:
    """Units in files of one size. A unit never crosses a file's end, which a blank marks."""

    def __init__(self, fs: FileSystem, folder: Path, segment_bytes: int) -> None:
        self.fs = fs
        self._files = OpenFiles(fs, _MAPS_MAX)
        self.segments = Segments(self._files, folder, segment_bytes, is_derived=True)
        self.end = 0
        """Where the next unit begins, unless it does not fit there."""
        self._maps: OrderedDict[int, ReadOnlyMap] = OrderedDict()

    def load(self) -> None:
        """Find the files. Raises `CorruptStoreError`, `OSError`."""
        self.segments.load()
        self.end = self.segments.end

    def look(self) -> None:
        """The same, and change nothing."""
        self.segments.look()
        self.end = self.segments.end

    @property
    def start(self) -> int:
        return self.segments.starts[0] if self.segments.starts else 0

    # --- reading

    def at(self, position: int) -> TimerUnit | None:
        """The unit that begins there, None if none does. Raises `OSError`."""
        segment_bytes = self.segments.segment_bytes
        in_file = position % segment_bytes
        if not self.start <= position <= self.end - UNIT_BYTES or in_file % UNIT_BYTES:
            return None
        if in_file + UNIT_BYTES > segment_bytes:
            return None
        unit = TimerUnit._make(UNIT.unpack_from(self._map_of(position - in_file), in_file))
        return unit if unit.is_valid and NONE <= unit.previous < position else None

    def scan(self, begin: int) -> Iterator[tuple[int, TimerUnit]]:
        """The units from `begin` on with their positions, up to the first place where none can be. Raises `OSError`."""
        position, segment_bytes = begin, self.segments.segment_bytes
        while self.segments.has(position):
            left = (segment_bytes - position % segment_bytes) // UNIT_BYTES
            data = self.segments.read_data(position, min(left, _READ_UNITS) * UNIT_BYTES, UNIT_BYTES)
            for fields in UNIT.iter_unpack(data[: len(data) // UNIT_BYTES * UNIT_BYTES]):
                unit = TimerUnit._make(fields)
                if unit.magic & 0xFFFFFFFF == _BLANK_MAGIC:
                    break
                if not unit.is_valid or not NONE <= unit.previous < position:
                    return
                yield position, unit
                position += UNIT_BYTES
            else:
                if position % segment_bytes + UNIT_BYTES <= segment_bytes:
                    continue
            position += segment_bytes - position % segment_bytes

    def _map_of(self, start: int) -> ReadOnlyMap:
        found = self._maps.get(start)
        if found is None:
            found = self._maps[start] = self.segments.file_of(start).map()
            if len(self._maps) > _MAPS_MAX:
                self._maps.popitem(last=False)
        return found

    # --- writing

    def places(self, count: int) -> list[int]:
        """Where the next so many units will begin."""
        position, found = self.end, []
        for _ in range(count):
            position = self.place_from(position)
            found.append(position)
            position += UNIT_BYTES
        return found

    def place_from(self, position: int) -> int:
        """Where a unit begins that comes next after `position`: there, or in the next file."""
        in_file, segment_bytes = position % self.segments.segment_bytes, self.segments.segment_bytes
        fits = in_file + UNIT_BYTES + _BLANK.size <= segment_bytes
        return position if fits else position - in_file + segment_bytes

    def append(self, units: Sequence[tuple[int, bytes]]) -> None:
        """Write units, each at its place of `places`. Raises `OSError`; then nothing of it counts."""
        segment_bytes, at, data = self.segments.segment_bytes, self.end, bytearray()
        for position, unit in units:
            if position != at + len(data):  # the next file
                end = at + len(data)
                if left := -end % segment_bytes:
                    data += _BLANK.pack(left, 0, _BLANK_MAGIC)
                self._write(at, data)
                at, data = position, bytearray()
            data += unit
        self._write(at, data)
        self.end = at + len(data)

    def _write(self, position: int, data: bytearray) -> None:
        if data:
            self.segments.write(position, data)

    def cut(self, end: int) -> None:
        """Let the log end there, durably. Raises `OSError`."""
        self.segments.clear_from(end)
        self.end = end

    def written_since(self, position: int) -> list[Path]:
        """The files with units from `position` on."""
        segments = self.segments
        return [
            segments.path(start)
            for start in segments.starts
            if start < self.end and start + segments.segment_bytes > position
        ]

    # --- removing

    def drop_before(self, log_start: int) -> list[Path]:
        """Let go of files whose units all lead to messages that are gone from the log; which to unlink, oldest first.

        Raises `OSError`.
        """
        dropped, starts = [], self.segments.starts
        while len(starts) > 1:
            position = self.last_before(starts[1])
            last = self.at(position) if position is not None else None
            if last is None or last.log_offset >= log_start:
                break
            self._maps.pop(starts[0], None)
            dropped.append(self.segments.drop_first())
        return dropped

    def last_before(self, end: int) -> int | None:
        """Where the last unit before `end` begins, None if there is none."""
        segment_bytes = self.segments.segment_bytes
        start = (end - 1) // segment_bytes * segment_bytes
        count = min((segment_bytes - _BLANK.size) // UNIT_BYTES, -(-(end - start) // UNIT_BYTES))
        position = start + (count - 1) * UNIT_BYTES
        return position if end and self.start <= position < self.end else None

    def remove_all(self) -> None:
        """Begin anew. Raises `OSError`."""
        self._maps.clear()
        self.segments.remove_all()
        self.end = 0

    def close(self) -> None:
        self._maps.clear()
        self._files.close_all()
