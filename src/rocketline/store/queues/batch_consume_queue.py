"""A batch consume queue: for every record of one topic queue, where the log has it and which messages it holds.

Topics with the attribute `queue.type=BatchCQ` have such queues: a producer's batch stays one record there, an inner
batch, which clients take apart. Java: BatchConsumeQueue. A unit has 46 bytes:

    log offset (8) | record size (4) | tags code (8) | store time (8) | first queue offset (8) | messages (2)
    compacted offset, always -1 (4) | reserved (4)

Units are appended as records come, so a message is found by halving. The newest units are in memory and written behind.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, TypeAlias

from rocketline.logs import Log
from rocketline.store.files.segments import OpenFiles, Segments
from rocketline.store.log.damage import DamagedSpan
from rocketline.store.queues.consume_queue import NO_SIZE, IsGone, is_gap, record_topic
from rocketline.store.queues.queue_ends import KnownQueue

_log = Log(__name__)

BATCH_UNIT_BYTES: Final = 46
BATCH_MESSAGES_MAX: Final = 0x7FFF
"""Of one producer's batch: a unit counts them in two bytes, and so does Java for batches that are taken apart."""
BATCH_UNIT = struct.Struct(">qiqqqhii")
_NOT_COMPACTED: Final = -1
_BEHIND_BYTES_MAX: Final = 64 * 1024
_SCAN_BYTES: Final = 1024 * BATCH_UNIT_BYTES
_COMPARED_MAX: Final = 200
"""Units that are compared with the log for one read."""


class BatchUnit(NamedTuple):
    """One record and the messages in it."""

    log_offset: int
    size: int
    tags_code: int
    store_ms: int
    first: int
    """The queue offset of its first message."""
    messages: int

    @property
    def end(self) -> int:
        """The queue offset behind its last message."""
        return self.first + self.messages


CheckBatches: TypeAlias = "Callable[[BatchConsumeQueue, list[BatchUnit]], bool]"


def _unchecked(queue: BatchConsumeQueue, units: list[BatchUnit]) -> bool:
    return True


class BatchConsumeQueue:
    """One queue of one topic. `next_offset` is given to the next message; up to `max_offset` units can be read."""

    is_batched: ClassVar = True
    __slots__ = (
        "_compared",
        "_end",
        "_is_rewound",
        "_own_first",
        "_segments",
        "_tail",
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
        """Where the record of the last unit ends, -1 if there is none."""
        self._end = 0  # the number of the next unit, counted from the first that the queue ever had
        self._written = 0  # units before this number are in the files, the others in the tail
        self._tail = bytearray()
        self._is_rewound = False  # its files may have units behind its end
        self._own_first = 0  # units from this number on were derived by this process, and are not looked at again
        self._compared = range(0)  # others that were looked at
        self.check_units: CheckBatches = _unchecked
        """Told of units of others that were read from the files. Whether they are right; if not, this queue has others
        now."""

    def __repr__(self) -> str:
        return f"<BatchConsumeQueue {self.topic}:{self.queue_id} {self.min_offset}..{self.max_offset}>"

    def check_with(self, check: CheckBatches) -> None:
        """Compare units of others from now on; what was read before was compared with nothing."""
        self.check_units, self._compared = check, range(0)

    # --- opening

    def load(self, *, is_clean: bool) -> bool:
        """Find the files and the first place without a unit, looking at the last three as Java does, clean or not.

        True if bytes follow there although the stop was clean: the queue cannot be right. After a crash they are
        cleared. Raises `CorruptStoreError`, `OSError`.
        """
        self._segments.load()
        if not self._segments.starts:
            return False
        end = self._scan_end()
        is_followed = is_clean and (end < self._segments.starts[-1] or self._segments.is_set_from(end))
        if not is_followed:
            self._segments.clear_from(end)
        self._end = self._written = self._own_first = end // BATCH_UNIT_BYTES
        self._take_bounds()
        first = self._at(self._first)
        self.min_offset = first.first if first is not None else 0
        return is_followed

    def adopt(self, known: KnownQueue) -> str | None:
        """The same, of a queue whose ends are known; what is wrong with its files, None if they agree."""
        is_followed = self.load(is_clean=True)
        is_other = self.max_log_offset != known.max_log_offset or self.max_offset > known.max_offset
        if is_followed or is_other:
            return f"its last message is {self.max_offset - 1} where it was {known.max_offset - 1}"
        self.max_offset = self.next_offset = known.max_offset  # behind its last unit it may have lost some
        return None

    def end_units(self) -> list[tuple[int, int, int]]:
        """Queue offset, log offset and record size of the first unit and of the last."""
        numbers = {self._search(lambda unit: unit.end > self.min_offset), self._end - 1}
        units = [self._at(number) for number in sorted(numbers) if self._first <= number < self._end]
        return [(unit.first, unit.log_offset, unit.size) for unit in units if unit is not None]

    def last_places(self) -> list[tuple[int, int]]:
        """Log offset and record size of the last two units."""
        numbers = range(max(self._end - 2, self._first), self._end)
        return [unit[:2] for number in numbers if (unit := self._at(number)) is not None]

    def end_of_gone(self, is_gone: IsGone) -> int:
        """The queue offset behind the last record that is gone, by what is left of the files. Raises `OSError`."""

        def is_of_gone(unit: bytes) -> bool:
            log_offset, size, _, _, first, messages, _, _ = BATCH_UNIT.unpack(unit)
            return log_offset >= 0 and size > 0 and first >= 0 and messages > 0 and is_gone(log_offset, size)

        found = self._segments.find_last(BATCH_UNIT_BYTES, is_of_gone)
        return BatchUnit(*BATCH_UNIT.unpack(found[1])[:6]).end if found is not None else 0

    def reset(self) -> Path:
        """Forget all units; the folder, whose files somebody has moved away, is as good as new."""
        self._segments.forget_all()
        self.min_offset = self.max_offset = self.next_offset = self._end = self._written = self._own_first = 0
        self.max_log_offset = -1
        self._tail.clear()
        return self._segments.folder

    def end_at(self, offset: int, lost: DamagedSpan | None) -> None:
        """The queue went up to `offset`: units for what it lacks point into damage of the log, which readers pass. What
        is gone from the log leaves nothing: units need no neighbours."""
        if lost is not None:
            self._lose(offset, lost)
        self.max_offset = self.next_offset = offset

    def keep_from_files(self, is_lost: Callable[[int], bool], files_end: int) -> int:
        """See `ConsumeQueue.keep_from_files`: of what is left there when the queue was rewound."""
        number, first = self._end, self.max_offset
        while units := self._segments.read(number * BATCH_UNIT_BYTES, BATCH_UNIT_BYTES):
            number, unit = number + 1, BatchUnit(*BATCH_UNIT.unpack(units)[:6])
            if unit.size > 0 and unit.log_offset < self.max_log_offset:
                continue  # of a record that is whole, behind others that were lost
            is_there = 0 < unit.size <= files_end - unit.log_offset and self.max_log_offset <= unit.log_offset
            if not is_there or unit.first < self.max_offset or unit.messages <= 0 or not is_lost(unit.log_offset):
                break
            self._append(unit)
        if self.max_offset == first:
            return 0
        self.next_offset = self.max_offset
        _log.error("messages are damaged", topic=self.topic, queue=self.queue_id, first_offset=first,
                   count=self.max_offset - first, log_bytes=self.max_log_offset)  # fmt: skip
        return self.max_log_offset

    def _lose(self, offset: int, lost: DamagedSpan) -> None:
        _log.error("messages are damaged", topic=self.topic, queue=self.queue_id, first_offset=self.max_offset,
                   count=offset - self.max_offset, log_offset=lost.begin, log_bytes=lost.end - lost.begin)  # fmt: skip
        place = max(lost.begin, min(self.max_log_offset, lost.end - 1))
        size = min(lost.end - place, NO_SIZE - 1)
        while self.max_offset < offset:
            messages = min(offset - self.max_offset, BATCH_MESSAGES_MAX)
            self._append(BatchUnit(place, size, 0, 0, self.max_offset, messages))

    def _scan_end(self) -> int:
        position = self._segments.starts[max(len(self._segments.starts) - 3, 0)]
        while units := self._segments.read(position, _SCAN_BYTES):
            for log_offset, size, _, _, first, messages, _, _ in BATCH_UNIT.iter_unpack(units):
                if log_offset < 0 or size <= 0 or first < 0 or messages <= 0:
                    return position
                position += BATCH_UNIT_BYTES
        return position

    def _take_bounds(self) -> None:
        """The last unit tells where the queue ends."""
        last = self._at(self._end - 1)
        self.max_offset = self.next_offset = last.end if last is not None else 0
        self.max_log_offset = last.log_offset + last.size if last is not None else -1
        self.min_offset = min(self.min_offset, self.max_offset)

    # --- appending

    def extend(self, fields: list[int]) -> list[int]:
        """Units of the next records: log offset, size, tags code, store time and messages of each. Their tags codes."""
        for at in range(0, len(fields), 5):
            log_offset, size, tags_code, store_ms, messages = fields[at : at + 5]
            self._append(BatchUnit(log_offset, size, tags_code, store_ms, self.max_offset, messages))
        return fields[2::5]

    def derive(self, unit: BatchUnit) -> None:
        """The unit of a record found in the log, after those of all records before it.

        A record that begins the queue anew, because its topic was deleted and made again, takes the place of the older
        ones. Records before it that this broker does not have leave nothing: units need no neighbours. Any other offset
        is damage: the record gets the next place.
        """
        if unit.first != self.max_offset:
            if not unit.first:
                self._cut(self._first)
            elif not is_gap(self, unit.first, unit.log_offset):
                unit = unit._replace(first=self.max_offset)
        self._append(unit)
        self.next_offset = self.max_offset

    def _append(self, unit: BatchUnit) -> None:
        if self._end == self._first:
            self.min_offset = unit.first
        self._tail += BATCH_UNIT.pack(*unit, _NOT_COMPACTED, 0)
        self._end += 1
        self.max_offset = unit.end
        self.max_log_offset = unit.log_offset + unit.size

    def _cut(self, number: int) -> None:
        """Drop the units from `number` on."""
        if self._segments.has(number * BATCH_UNIT_BYTES):
            self._segments.clear_from(number * BATCH_UNIT_BYTES)
        del self._tail[max(number - self._written, 0) * BATCH_UNIT_BYTES :]
        self._written, self._own_first = min(self._written, number), min(self._own_first, number)
        self._compared = range(0)
        self._end = number
        self._take_bounds()

    @property
    def is_behind(self) -> bool:
        """Units wait to be written."""
        return bool(self._tail)

    @property
    def behind_bytes(self) -> int:
        """How much they have."""
        return len(self._tail)

    @property
    def is_far_behind(self) -> bool:
        return len(self._tail) > _BEHIND_BYTES_MAX

    def write_behind(self) -> list[Path]:
        """Bring the waiting units into the files, whose paths are given back for syncing. Raises `OSError` if none of
        them is written; what a later file does not take waits on."""
        paths: list[Path] = []
        while self._tail:
            position = self._written * BATCH_UNIT_BYTES
            start = self._segments.start_of(position)
            units = self._tail[: start + self._segments.segment_bytes - position]
            try:
                self._segments.write(position, units)
            except OSError:
                if paths:
                    break
                raise
            del self._tail[: len(units)]
            self._written += len(units) // BATCH_UNIT_BYTES
            paths.append(self._segments.path(start))
        return paths

    # --- reading

    @property
    def first_kept(self) -> int:
        """The queue offset of the first message that the files know, whatever has become of its record."""
        first = self._at(self._first)
        return first.first if first is not None else self.max_offset

    @property
    def folder(self) -> Path:
        return self._segments.folder

    @property
    def _first(self) -> int:
        """The number of the first unit that is kept."""
        starts = self._segments.starts
        return starts[0] // BATCH_UNIT_BYTES if starts else self._written

    def _read(self, number: int, count: int) -> bytes | bytearray:
        """Units from `number` on, at most `count`; fewer at the end of a file or of the queue."""
        if number >= self._written:
            at = (number - self._written) * BATCH_UNIT_BYTES
            return self._tail[at : at + count * BATCH_UNIT_BYTES]
        count = min(count, self._written - number)
        return self._segments.read(number * BATCH_UNIT_BYTES, count * BATCH_UNIT_BYTES)

    def _at(self, number: int) -> BatchUnit | None:
        unit = self._read(number, 1) if number >= 0 else b""
        return BatchUnit(*BATCH_UNIT.unpack(unit)[:6]) if unit else None

    def _search(self, is_behind: Callable[[BatchUnit], bool]) -> int:
        """The number of the first unit for which `is_behind` holds, as it does for all that follow it."""
        low, high = self._first, self._end
        while low < high:
            middle = (low + high) // 2
            unit = self._at(middle)
            if unit is not None and is_behind(unit):
                high = middle
            else:
                low = middle + 1
        return low

    def units(self, offset: int, count: int) -> list[BatchUnit]:
        """Units from the one that holds the message at `offset` on, at most `count` and, as in Java, of one file."""
        number = self._search(lambda unit: unit.end > offset)
        file_units = self._segments.segment_bytes // BATCH_UNIT_BYTES
        count = min(count, file_units - number % file_units)
        if number < self._own_first:
            count = min(count, _COMPARED_MAX)
        found: list[BatchUnit] = []
        while len(found) < count and (units := self._read(number + len(found), count - len(found))):
            found += [BatchUnit(*unit[:6]) for unit in BATCH_UNIT.iter_unpack(units)]
        return found if self._are_right(number, found) else self.units(offset, count)

    def _are_right(self, number: int, units: list[BatchUnit]) -> bool:
        """Units that were found by halving are right if they and the one before them are: whatever unit has led the
        search astray is one of these."""
        others = range(number, min(number + len(units), self._own_first))
        if not others or (others.start in self._compared and others[-1] in self._compared):
            return True
        around = self._at(number - 1) if number > self._first else None, self._at(others.stop)
        if not self.check_units(self, [unit for unit in (around[0], *units[: len(others)], around[1]) if unit]):
            return False
        goes_on = self._compared.start <= others.start <= self._compared.stop
        self._compared = range(self._compared.start if goes_on else others.start, others.stop)
        return True

    def unit(self, offset: int) -> tuple[int, int, int] | None:
        """Log offset, record size and tags code of the record that holds the message at `offset`."""
        units = self.units(offset, 1) if 0 <= offset < self.max_offset else []
        return units[0][:3] if units else None

    def place_in_files(self, offset: int) -> int:
        """Where the record that holds the message at `offset` lies, -1 if there is none."""
        unit = self.unit(offset)
        return unit[0] if unit is not None else -1

    def is_between_others(self, offset: int, log_offset: int) -> bool:
        """Units were found by halving, which needs them in their order."""
        return True

    # --- shortening

    def end_before(self, log_end: int) -> int:
        """Where the queue would end without the units of records that begin at or beyond `log_end`."""
        last = self._at(self._search(lambda unit: unit.log_offset >= log_end) - 1)
        return last.end if last is not None else 0

    def truncate(self, log_end: int) -> None:
        """Drop the units of records that begin at or beyond `log_end`."""
        number = self._search(lambda unit: unit.log_offset >= log_end)
        if number < self._end or self._is_rewound:
            self._is_rewound = False
            self._cut(number)

    def rewind(self, log_end: int) -> None:
        """Likewise, and leave them in the files until the queue is truncated: they may be all that tells of records
        that can be read no more."""
        self._end = self._search(lambda unit: unit.log_offset >= log_end)
        self._written = self._own_first = self._end
        self._is_rewound, self._compared = True, range(0)
        self._take_bounds()

    def correct_min(self, log_start: int) -> None:
        """Let `min_offset` be the first whose record is still in the log, which begins at `log_start`."""
        unit = self._at(self._search(lambda unit: unit.log_offset >= log_start))
        self.min_offset = unit.first if unit is not None else self.max_offset

    def remove_before(self, log_start: int) -> int:
        """Delete leading files, never the last, all of whose records are gone from the log; how many. `OSError`."""
        removed = 0
        while len(self._segments.starts) > 1:
            last = self._at(self._segments.starts[1] // BATCH_UNIT_BYTES - 1)
            if last is not None and last.log_offset >= log_start:
                break
            self._segments.remove_first()
            removed += 1
        return removed

    def remove(self) -> None:
        """Delete every file."""
        self._segments.remove_all()
