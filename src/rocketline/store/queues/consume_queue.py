"""A consume queue: for every message of one topic queue, where the log has it. Java: ConsumeQueue.

A unit has 20 bytes: log offset (8), record size (4), tags code (8). Unit `n` belongs to queue offset `n`, so there are
no gaps. The newest units are in memory and written behind: they can always be derived from the log again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final, Protocol, TypeAlias

from rocketline.logs import Log
from rocketline.store.files.segments import OpenFiles, Segments
from rocketline.store.log.damage import DamagedSpan
from rocketline.store.queues.queue_ends import KnownQueue
from rocketline.wire.message_codec import MAGIC_V1, MAGIC_V2

_log = Log(__name__)

UNIT_BYTES: Final = 20
UNIT = struct.Struct(">qiq")
NO_SIZE: Final = 0x7FFFFFFF
PRE_BLANK = UNIT.pack(0, NO_SIZE, 0)
"""Stands for a queue offset whose message this broker never had."""

_BEHIND_BYTES_MAX: Final = 64 * 1024
_KEPT_BYTES: Final = 800 * UNIT_BYTES
"""Of what is written, so much stays in memory: as far as one pull looks."""
_NEAR_UNITS: Final = 200
"""Four kilobytes that a reader of older messages will ask for next."""
_SCAN_BYTES: Final = 64 * 1024 - 64 * 1024 % UNIT_BYTES
_TOPIC_BYTES_MAX_V1: Final = 127
MESSAGE_BYTES_MIN: Final = 22
"""In the log. A record has more, but may be a batch of such."""


def record_topic(topic: str) -> tuple[int, bytes]:
    """The magic of the records of a topic, and the topic as they have it, with its length."""
    name = topic.encode("utf-8", "replace")
    if len(name) <= _TOPIC_BYTES_MAX_V1:
        return MAGIC_V1, len(name).to_bytes(1, "big") + name
    return MAGIC_V2, len(name).to_bytes(2, "big") + name


IsGone: TypeAlias = Callable[[int, int], bool]
"""Whether the log has no record any more that began there and had so many bytes."""
CheckUnits: TypeAlias = "Callable[[ConsumeQueue, int, bytes], bytes]"


def _unchecked(queue: ConsumeQueue, offset: int, units: bytes) -> bytes:
    return units


class QueueEnd(Protocol):
    """Where a queue ends, and where the record of its last unit does."""

    topic: str
    queue_id: int
    max_offset: int
    max_log_offset: int


def is_gap(queue: QueueEnd, offset: int, log_offset: int) -> bool:
    """Whether a record in the log may follow on others that are gone: so many must once have had room before it."""
    missing = offset - queue.max_offset
    if 0 < missing * MESSAGE_BYTES_MIN <= log_offset - max(queue.max_log_offset, 0):
        return True
    _log.error("queue offset is damaged", queue=str(queue), found=offset, log_offset=log_offset)
    return False


class ConsumeQueue:
    """One queue of one topic. `next_offset` is given to the next message; up to `max_offset` units can be read."""

    is_batched: ClassVar = False
    __slots__ = (
        "_near",
        "_near_first",
        "_own_first",
        "_segments",
        "_tail",
        "_tail_first",
        "_written",
        "check_units",
        "magic",
        "max_log_offset",
        "max_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "topic",
        "topic_field",
    )

    def __init__(self, files: OpenFiles, folder: Path, segment_bytes: int, topic: str, queue_id: int) -> None:
        self.topic, self.queue_id = topic, queue_id
        self.magic, self.topic_field = record_topic(topic)
        self._segments = Segments(files, folder, segment_bytes, is_derived=True)
        self.min_offset = self.max_offset = self.next_offset = 0
        self.max_log_offset = -1
        """Where the record of the last unit ends, -1 if there is none. Java: maxPhysicOffset."""
        self._near = b""  # units read from the files last, and the queue offset of the first of them
        self._near_first = 0
        self._tail = bytearray()
        self._tail_first = 0  # the queue offset of the first unit in the tail
        self._written = 0  # units before this queue offset are in the files
        self._own_first = 0  # units from this queue offset on were derived by this process, and are not looked at again
        self.check_units: CheckUnits = _unchecked
        """Told of units of others that were read from the files, and of the queue offset of the first; gives the right
        ones."""

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}:{self.queue_id} {self.min_offset}..{self.max_offset}>"

    def check_with(self, check: CheckUnits) -> None:
        """Compare units of others from now on; what was read before was compared with nothing."""
        self.check_units = check
        self._near = b""

    @property
    def folder(self) -> Path:
        return self._segments.folder

    # --- opening

    def load(self, *, is_clean: bool) -> bool:
        """Find the files and the first offset without a unit. After a crash every unit is looked at, for holes.

        True if bytes follow there although the stop was clean: the queue cannot be right. After a crash they are
        cleared, because behind a hole that it has left units may look right. Raises `CorruptStoreError`, `OSError`.
        """
        self._segments.load()
        if not self._segments.starts:
            return False
        end = self._find_end() if is_clean else self._scan_end()
        # A file is made for its first unit, when the one before it is full.
        is_followed = is_clean and (end < self._segments.starts[-1] or self._segments.is_set_from(end))
        if not is_followed:
            self._segments.clear_from(end)
        self._restart(end // UNIT_BYTES)
        self.min_offset = self._segments.starts[0] // UNIT_BYTES
        return is_followed

    def adopt(self, known: KnownQueue) -> str | None:
        """Find the files of a queue whose ends are known; what is wrong with them, None if they agree.

        Raises `CorruptStoreError`.
        """
        self._segments.load()
        self._restart(known.max_offset)
        self.min_offset = min(self.first_kept, known.max_offset)
        if self.max_log_offset != known.max_log_offset:
            return f"unit {known.max_offset - 1}, its last one, is missing or another than it was"
        if _is_unit(self._segments.read(known.max_offset * UNIT_BYTES, UNIT_BYTES)):
            return f"units follow on unit {known.max_offset - 1}, which was its last one"
        return None

    def expect(self, offset: int, min_offset: int) -> None:
        """Recovery gives this queue its units from `offset` on; its files are looked at later, by `settle`."""
        self.min_offset = min_offset
        self.max_offset = self.next_offset = self._written = self._tail_first = self._own_first = offset

    def settle(self, *, is_first: bool, derived_from: int) -> tuple[str | None, int]:
        """Find the files of a queue whose newest units were derived, and let nothing follow on these.

        What is wrong with the files, None if they agree; and how many units went that no record has any more.
        Derived were records from the log offset `derived_from` on; `is_first`: the log has nothing before. Raises
        `CorruptStoreError`, `OSError`.
        """
        self._segments.load()
        first, end = self._tail_first, self.max_offset * UNIT_BYTES
        if first and not _is_unit(self._segments.read((first - 1) * UNIT_BYTES, UNIT_BYTES)):
            if not is_first:
                return f"unit {first - 1} is missing", 0
            self._pad()
        elif self._segments.starts and self._segments.starts[0] > self._segments.start_of(first * UNIT_BYTES):
            return f"units before {self.first_kept} are missing", 0
        elif first and self._tail and self._is_taken(first, derived_from):
            return f"unit {first} is of an earlier record than the one that the log has for it now", 0
        self.min_offset = min(self.first_kept, first)
        if self._segments.has(end - 1) and self._read_files(self._tail_first * UNIT_BYTES, end) == self._tail:
            self._written = self.max_offset  # they were written before the crash
        stale = self._count_units(end)
        self._segments.clear_from(end)
        return None, stale

    def _is_taken(self, offset: int, derived_from: int) -> bool:
        """A record before those that were derived has that queue offset: in a later one it is damaged."""
        place, size, _ = UNIT.unpack(self._segments.read(offset * UNIT_BYTES, UNIT_BYTES) or PRE_BLANK)
        return bool(0 < size < NO_SIZE and 0 <= place < derived_from)

    def _pad(self) -> None:
        """Begin with a whole file, as Java does: what is missing before the units in memory gets pre-blank ones."""
        self._segments.remove_all()
        start = self._segments.start_of(self._tail_first * UNIT_BYTES) // UNIT_BYTES
        self._tail[:0] = PRE_BLANK * (self._tail_first - start)
        self._tail_first = self._written = self._own_first = start

    def _read_files(self, position: int, end: int) -> bytes:
        """All bytes of the files between two positions."""
        parts = []
        while position < end and (part := self._segments.read(position, end - position)):
            parts.append(part)
            position += len(part)
        return b"".join(parts)

    def _count_units(self, position: int) -> int:
        """Units that stand from `position` on, without a hole."""
        count = 0
        while units := self._segments.read_data(position, _SCAN_BYTES, UNIT_BYTES):
            for unit in UNIT.iter_unpack(units):
                if unit[0] < 0 or unit[1] <= 0:
                    return count
                count += 1
            position += len(units)
        return count

    def keep_from_files(self, is_lost: Callable[[int], bool], files_end: int) -> int:
        """Go on with the units that the files have behind those derived, of records that are lost by their place: the
        log, whose files end at `files_end`, had them. Where the last of these records ends, 0 if there is none."""
        self._segments.load()
        position, fields = self.max_offset * UNIT_BYTES, list[int]()
        while unit := self._segments.read(position, UNIT_BYTES):
            place, size, code = UNIT.unpack(unit)
            is_there = self.max_log_offset <= place and 0 < size <= files_end - place
            if not is_there or not is_lost(place):
                break
            fields += place, size, code
            position += UNIT_BYTES
        if not fields:
            return 0
        _log.error("messages are damaged", topic=self.topic, queue=self.queue_id, first_offset=self.max_offset,
                   count=len(fields) // 3, log_offset=fields[0])  # fmt: skip
        self.extend(fields)
        self.next_offset = self.max_offset
        return self.max_log_offset

    def end_units(self) -> list[tuple[int, int, int]]:
        """Queue offset, log offset and record size of the first unit and of the last."""
        offsets = {self.min_offset, self.max_offset - 1} if self.min_offset < self.max_offset else set()
        return [(offset, *unit[:2]) for offset in sorted(offsets) if (unit := self.unit(offset)) is not None]

    def last_places(self) -> list[tuple[int, int]]:
        """Log offset and record size of the last two units."""
        offsets = range(max(self.max_offset - 2, self.first_kept), self.max_offset)
        return [unit[:2] for offset in offsets if (unit := self.unit(offset)) is not None]

    def end_of_gone(self, is_gone: IsGone) -> int:
        """The queue offset behind the last unit whose record is gone, by what is left of the files: nothing else tells
        that there was one. Raises `OSError`."""

        def is_of_gone(unit: bytes) -> bool:
            log_offset, size, _ = UNIT.unpack(unit)
            return unit == PRE_BLANK or (log_offset >= 0 and 0 < size < NO_SIZE and is_gone(log_offset, size))

        found = self._segments.find_last(UNIT_BYTES, is_of_gone)
        return found[0] // UNIT_BYTES + 1 if found is not None else 0

    def reset(self) -> Path:
        """Forget all units; the folder, whose files somebody has moved away, is as good as new."""
        self._segments.forget_all()
        self.min_offset = self.max_offset = self.next_offset = self._written = self._tail_first = self._own_first = 0
        self.max_log_offset = -1
        self._near = b""
        self._tail.clear()
        return self._segments.folder

    def _find_end(self) -> int:
        """The position of the first unit that is none: units stand without holes, zeros follow."""
        low, high = self._segments.starts[-1], self._segments.end
        while low < high:
            middle = (low + high) // 2 // UNIT_BYTES * UNIT_BYTES
            if _is_unit(self._segments.read(middle, UNIT_BYTES)):
                low = middle + UNIT_BYTES
            else:
                high = middle
        if low == self._segments.starts[-1] and len(self._segments.starts) > 1:
            return low if _is_unit(self._segments.read(low - UNIT_BYTES, UNIT_BYTES)) else self._scan_end()
        return low

    def _scan_end(self) -> int:
        """The same, looking at every unit of the last three files, as Java does."""
        position = self._segments.starts[max(len(self._segments.starts) - 3, 0)]
        while units := self._segments.read_data(position, _SCAN_BYTES, UNIT_BYTES):
            fields = struct.unpack(f">{'qiq' * (len(units) // UNIT_BYTES)}", units)
            if min(fields[::3]) >= 0 and min(fields[1::3]) > 0:
                position += len(units)
                continue
            for log_offset, size in zip(fields[::3], fields[1::3], strict=True):
                if log_offset < 0 or size <= 0:
                    return position
                position += UNIT_BYTES
        return position

    def _restart(self, offset: int) -> None:
        """Let the queue end before `offset`."""
        self._near = b""
        self.max_offset = self.next_offset = self._written = self._tail_first = self._own_first = offset
        self._tail.clear()
        last = self._segments.read((offset - 1) * UNIT_BYTES, UNIT_BYTES) if offset else b""
        log_offset, size, _ = UNIT.unpack(last) if last else (-1, 0, 0)
        self.max_log_offset = log_offset + size if last and last != PRE_BLANK else -1

    # --- appending

    def append(self, log_offset: int, size: int, tags_code: int) -> None:
        """The unit of the next offset that has none."""
        self._tail += UNIT.pack(log_offset, size, tags_code)
        self.max_offset += 1
        self.max_log_offset = log_offset + size

    def extend(self, fields: list[int]) -> list[int]:
        """Units of the next offsets: log offset, record size and tags code of each. Their tags codes."""
        count = len(fields) // 3
        self._tail += struct.pack(f">{'qiq' * count}", *fields)
        self.max_offset += count
        self.max_log_offset = fields[-3] + fields[-2]
        return fields[2::3]

    def derive(self, offset: int, log_offset: int, size: int, tags_code: int, lost: DamagedSpan | None = None) -> None:
        """The unit of a record found in the log, after those of all records before it.

        A record whose predecessors this broker does not have leaves pre-blank units for them; Java puts the unit in
        the wrong place then, unless the queue is new. If `lost`, damage of the log, has them, their units point there:
        readers pass over it. A record that begins the queue anew, because its topic was
        deleted and made again, takes the place of the older ones; Java takes it for one that is there already. Any
        other offset is damage, which no check sum tells: the record gets the next place, which it had.
        """
        if offset != self.max_offset:
            if not offset:
                self._cut(offset)
            elif is_gap(self, offset, log_offset):
                self._skip_to(offset, lost)
        self.append(log_offset, size, tags_code)
        self.next_offset = self.max_offset

    def end_at(self, offset: int, lost: DamagedSpan | None) -> None:
        """The queue went up to `offset`: what it lacks is `lost` to damage of the log, or is gone from it.

        One that lacks everything has a pre-blank unit in front of its next, so that its files tell where it is.
        """
        if not self.max_offset and lost is None:
            self._skip_to(offset - 1, None)
        self._skip_to(offset, lost)
        self.next_offset = offset
        self.max_log_offset = lost.end if lost is not None else -1

    def _cut(self, offset: int) -> None:
        """Drop the units from `offset` on."""
        self._near = b""
        if self._segments.starts and offset * UNIT_BYTES < self._segments.starts[0]:
            self._segments.remove_all()
        elif self._segments.has(offset * UNIT_BYTES):
            self._segments.clear_from(offset * UNIT_BYTES)
        if offset >= self._tail_first:
            del self._tail[(offset - self._tail_first) * UNIT_BYTES :]
        else:
            self._tail.clear()
            self._tail_first = offset
        self._written, self._own_first = min(self._written, offset), min(self._own_first, offset)
        self.max_offset = self.next_offset = offset
        self.min_offset = min(self.min_offset, offset)

    def _skip_to(self, offset: int, lost: DamagedSpan | None) -> None:
        if lost is not None:
            _log.error(
                "messages are damaged", topic=self.topic, queue=self.queue_id, first_offset=self.max_offset,
                count=offset - self.max_offset, log_offset=lost.begin, log_bytes=lost.end - lost.begin,
            )  # fmt: skip
            size = min(lost.end - lost.begin, NO_SIZE - 1)
            self._tail += UNIT.pack(lost.begin, size, 0) * (offset - self.max_offset)
            self.max_offset = offset
            return
        if not self.max_offset:  # new: its first file is the one that holds this offset
            start = self._segments.start_of(offset * UNIT_BYTES) // UNIT_BYTES
            self._written = self._tail_first = self.max_offset = start
            self.min_offset = offset
        missing = offset - self.max_offset
        self._tail += PRE_BLANK * missing
        self.max_offset = offset

    @property
    def is_behind(self) -> bool:
        """Units wait to be written."""
        return self._written < self.max_offset

    @property
    def behind_bytes(self) -> int:
        """How much they have."""
        return (self.max_offset - self._written) * UNIT_BYTES

    @property
    def is_far_behind(self) -> bool:
        return (self.max_offset - self._written) * UNIT_BYTES > _BEHIND_BYTES_MAX

    def write_behind(self) -> list[Path]:
        """Bring the waiting units into the files, whose paths are given back for syncing. Raises `OSError` if none of
        them is written; what a later file does not take waits on."""
        paths: list[Path] = []
        while self._written < self.max_offset:
            position = self._written * UNIT_BYTES
            start = self._segments.start_of(position)
            at = (self._written - self._tail_first) * UNIT_BYTES
            room = start + self._segments.segment_bytes - position
            units = self._tail[at : at + room]
            try:
                self._segments.write(position, units)
            except OSError:
                if paths:
                    break
                raise
            self._written += len(units) // UNIT_BYTES
            paths.append(self._segments.path(start))
        self._trim()
        return paths

    def replace(self, offset: int, units: bytes) -> None:
        """Write other units over those that the files have. Raises `OSError`."""
        self._near = b""
        self._segments.write(offset * UNIT_BYTES, units)

    @property
    def kept_bytes(self) -> int:
        """Of units that are kept in memory although they are written."""
        return (self._written - self._tail_first) * UNIT_BYTES

    def drop_kept(self) -> None:
        """Let memory go of them."""
        self._tail = self._tail[self.kept_bytes :]
        self._tail_first = self._written
        self._near = b""

    def _trim(self) -> None:
        spare = len(self._tail) - _KEPT_BYTES
        if spare > _KEPT_BYTES:  # seldom and much, because it moves what stays
            del self._tail[:spare]
            self._tail_first += spare // UNIT_BYTES

    # --- reading

    def units(self, offset: int, count: int) -> bytes | bytearray:
        """Units from `offset` on, at most `count`; fewer at the end of a file or of the queue."""
        count = min(count, self.max_offset - offset)
        if count <= 0:
            return b""
        if offset >= self._tail_first:
            at = (offset - self._tail_first) * UNIT_BYTES
            return self._tail[at : at + count * UNIT_BYTES]
        before = min(count, self._tail_first - offset)
        units = self._read(offset, before)
        if before < count and len(units) == before * UNIT_BYTES:
            units += self._tail[: (count - before) * UNIT_BYTES]
        return units

    def _read(self, offset: int, count: int) -> bytes:
        """Units from a file. Whoever reads a queue goes on where he stopped, so more are read than asked for."""
        at = (offset - self._near_first) * UNIT_BYTES
        if at < 0 or at + count * UNIT_BYTES > len(self._near):
            wanted = min(max(count, _NEAR_UNITS), self._tail_first - offset)
            units = self._segments.read(offset * UNIT_BYTES, wanted * UNIT_BYTES)
            if offset < self._own_first:
                units = self.check_units(self, offset, units)
            self._near, self._near_first, at = units, offset, 0
        return self._near[at : at + count * UNIT_BYTES]

    def unit(self, offset: int) -> tuple[int, int, int] | None:
        """Log offset, record size and tags code of one message."""
        unit = self.units(offset, 1) if offset >= 0 else b""
        return UNIT.unpack(unit) if len(unit) == UNIT_BYTES else None

    def unit_in_files(self, offset: int) -> tuple[int, int, int] | None:
        """The same as the files have it, compared with nothing."""
        unit = self._segments.read(offset * UNIT_BYTES, UNIT_BYTES) if offset >= 0 else b""
        return UNIT.unpack(unit) if unit else None

    def place_in_files(self, offset: int) -> int:
        """Where the record of a message lies by what the files say, -1 if they say nothing."""
        unit = self.unit_in_files(offset)
        return unit[0] if unit is not None else -1

    def is_between_others(self, offset: int, log_offset: int) -> bool:
        """Whether a record there lies where the one of `offset` must, by the units before and behind it."""
        before, after = self.unit_in_files(offset - 1), self.unit_in_files(offset + 1)
        is_behind = before is None or before[1] == NO_SIZE or before[0] < log_offset
        return is_behind and (after is None or not 0 < after[1] < NO_SIZE or log_offset < after[0])

    def next_file_offset(self, offset: int) -> int:
        """The first queue offset of the file after the one that holds, or would hold, `offset`."""
        return (self._segments.start_of(offset * UNIT_BYTES) + self._segments.segment_bytes) // UNIT_BYTES

    # --- shortening

    def truncate(self, log_end: int) -> None:
        """Drop the units of records that begin at or beyond `log_end`; pre-blank units before them stay."""
        low, high = self.first_kept, self.max_offset
        while low < high:
            middle = (low + high) // 2
            real = self._last_real(low, middle + 1)
            unit = self.unit(real) if real >= low else None
            if real < low or (unit is not None and unit[0] < log_end):
                low = middle + 1
            else:
                high = real
        if low < self.max_offset:
            self._cut(low)
            last = self.unit(low - 1)
            self.max_log_offset = last[0] + last[1] if last is not None and last[1] != NO_SIZE else -1

    @property
    def first_kept(self) -> int:
        """The queue offset of the first unit that the files have, whatever has become of its record."""
        starts = self._segments.starts
        return starts[0] // UNIT_BYTES if starts else self._tail_first

    def correct_min(self, log_start: int) -> None:
        """Let `min_offset` be the first whose record is still in the log, which begins at `log_start`."""
        low, high = max(self.min_offset, self.first_kept), self.max_offset
        while low < high:
            middle = (low + high) // 2
            first = self._first_real(middle, high)
            unit = self.unit(first) if first < high else None
            if first == high or (unit is not None and unit[0] >= log_start):
                high = middle
            else:
                low = first + 1
        self.min_offset = self._first_real(low, self.max_offset)

    def _first_real(self, offset: int, end: int) -> int:
        """The first queue offset from there on whose unit is not pre-blank, `end` if all are."""
        while offset < end and (units := self.units(offset, min(end - offset, _NEAR_UNITS))):
            for _, size, _ in UNIT.iter_unpack(units):
                if size != NO_SIZE:
                    return offset
                offset += 1
        return offset

    def _last_real(self, begin: int, offset: int) -> int:
        """The last queue offset before `offset` whose unit is not pre-blank, one before `begin` if all are."""
        while offset > begin:
            first = max(begin, offset - _NEAR_UNITS, self._segments.start_of((offset - 1) * UNIT_BYTES) // UNIT_BYTES)
            sizes = [size for _, size, _ in UNIT.iter_unpack(self.units(first, offset - first))]
            real = [number for number, size in enumerate(sizes) if size != NO_SIZE]
            if real or not sizes:
                return first + real[-1] if real else offset - 1
            offset = first
        return begin - 1

    def remove_before(self, log_start: int) -> int:
        """Delete leading files, never the last, all of whose records are gone from the log; how many. `OSError`."""
        removed = 0
        while len(self._segments.starts) > 1:
            begin, end = (start // UNIT_BYTES for start in self._segments.starts[:2])
            last = self._last_real(begin, end)
            if last >= begin and (unit := self.unit(last)) is not None and unit[0] >= log_start:
                break
            self._near = b""
            self._segments.remove_first()
            removed += 1
        return removed

    def remove(self) -> None:
        """Delete every file."""
        self._near = b""
        self._segments.remove_all()


def _is_unit(unit: bytes) -> bool:
    if len(unit) < UNIT_BYTES:
        return False
    log_offset, size, _ = UNIT.unpack(unit)
    return bool(log_offset >= 0 and size > 0)
