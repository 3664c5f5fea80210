"""One file of the key index: a header, hash slots, and entries chained from newest to oldest per slot. Java: IndexFile.

    40 bytes     begin and end: store time and log offset of the first and last record; used slots; next entry's number
    4 per slot   number of the slot's newest entry, 0 if it has none
    20 per entry hash, log offset, seconds since the begin, number of the slot's entry before; entry 0 is never used

While a file grows, its slots and newest entries are in memory. Entries follow to disk as they come; slots and the
final header are written when the file is full or closed, which is also when Java makes them durable.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rocketline.store.filesystem import File, FileSystem
from rocketline.store.index import key_hashes

HEADER: Final = struct.Struct(">4q2i")
ENTRY: Final = struct.Struct(">iqii")
_SLOT_BYTES: Final = 4
_TAIL_BYTES_MAX: Final = 64 * 1024
_SLOTS_BLOCK: Final = 16 * 1024
_SECONDS_MAX: Final = 2**31 - 1
_ENTRIES: Final = [("hash", ">i4"), ("log_offset", ">i8"), ("seconds", ">i4"), ("before", ">i4")]


def file_bytes(slot_count: int, entry_count: int) -> int:
    """How long a file is, written or not."""
    return HEADER.size + slot_count * _SLOT_BYTES + entry_count * ENTRY.size


class IndexFile:
    """An open index file. Its numbers can be read at any time; `put` makes it grow."""

    def __init__(self, fs: FileSystem, path: Path, slot_count: int, entry_count: int) -> None:
        """Open the file, or make it if it is missing. Raises `OSError`."""
        self.path = path
        self._slot_count, self._entry_count = slot_count, entry_count
        self._entries_at = HEADER.size + slot_count * _SLOT_BYTES
        self._file: File = fs.open(path, size=file_bytes(slot_count, entry_count))
        header = HEADER.unpack(self._file.read_at(0, HEADER.size).ljust(HEADER.size, b"\0"))
        self.begin_ms: int = header[0]
        self.end_ms: int = header[1]
        self.begin_log_offset: int = header[2]
        self.end_log_offset: int = header[3]
        self.used_slots: int = header[4]
        self.next_number: int = max(header[5], 1)
        self._slots: memoryview | None = None
        self._tail = bytearray()
        self._is_changed = False

    @property
    def is_sound(self) -> bool:
        """Its length and its counts can be true. What else it holds is checked as it is used."""
        length = file_bytes(self._slot_count, self._entry_count)
        return self._file.size == length and self.next_number <= self._entry_count and self.used_slots >= 0

    @property
    def is_empty(self) -> bool:
        return self.next_number <= 1

    @property
    def room(self) -> int:
        """How many entries still fit."""
        return self._entry_count - self.next_number

    def follow(self, before: IndexFile) -> None:
        """Begin where another file ends, as Java does: the first entry counts its seconds from there.

        Written at once: Java's broker, which keeps this file if it opens the store after a crash, learns from it which
        records the files before have, and does not index them again. Raises `OSError`.
        """
        self.begin_ms = self.end_ms = before.end_ms
        self.begin_log_offset = self.end_log_offset = before.end_log_offset
        self._file.write_at(0, self._header())

    def put(self, hashes: Sequence[int], log_offsets: Sequence[int], stored_ms: Sequence[int]) -> None:
        """Add entries in log order, no more than there is `room` for; arrays will do. They wait in memory."""
        np = key_hashes.np
        if np is not None and len(hashes) >= key_hashes.MANY and self.next_number > 1:
            self._put_many(np.array(hashes, np.int32), np.array(log_offsets, np.int64), np.array(stored_ms, np.int64))
        else:
            self._put_each(hashes, log_offsets, stored_ms)
        self.end_ms, self.end_log_offset, self._is_changed = int(stored_ms[-1]), int(log_offsets[-1]), True

    def _put_many(self, hashes: Any, log_offsets: Any, stored_ms: Any) -> None:
        """With numpy, into a file that has an entry. Of those that share a slot each points to the one before."""
        np = key_hashes.np
        slots = np.frombuffer(self._loaded_slots(), np.int32)
        count, first = len(hashes), self.next_number
        places = hashes % self._slot_count
        befores = slots[places]
        befores[(befores < 0) | (befores >= first)] = 0
        order = np.argsort(places, kind="stable")
        sorted_places = places[order]
        repeats = np.flatnonzero(sorted_places[1:] == sorted_places[:-1])
        befores[order[repeats + 1]] = first + order[repeats]
        slots[sorted_places] = first + order  # where a place repeats, the last one stays
        entries = np.empty(count, _ENTRIES)
        entries["hash"], entries["log_offset"], entries["before"] = hashes, log_offsets, befores
        seconds = (stored_ms - self.begin_ms) // 1000 if self.begin_ms > 0 else 0
        entries["seconds"] = np.clip(seconds, 0, _SECONDS_MAX)
        self._tail += entries.tobytes()
        self.used_slots += int(count - np.count_nonzero(befores))
        self.next_number += count

    def _put_each(self, hashes: Sequence[int], log_offsets: Sequence[int], stored_ms: Sequence[int]) -> None:
        slots, slot_count, number, used = self._loaded_slots(), self._slot_count, self.next_number, self.used_slots
        begin_ms = self.begin_ms
        fields: list[int] = []
        for hashed, log_offset, store_ms in zip(
            *(map(int, of) for of in (hashes, log_offsets, stored_ms)), strict=True
        ):
            slot = hashed % slot_count
            before = slots[slot]
            if not 0 < before < number:
                before = 0
                used += 1
            slots[slot] = number
            seconds = (store_ms - begin_ms) // 1000 if begin_ms > 0 else 0
            fields += (hashed, log_offset, seconds if 0 <= seconds <= _SECONDS_MAX else _clamped(seconds), before)
            if number == 1:
                begin_ms = self.begin_ms = store_ms
                self.begin_log_offset = log_offset
            number += 1
        self._tail += struct.pack(f">{'iqii' * (number - self.next_number)}", *fields)
        self.next_number, self.used_slots = number, used

    def entries(self, hashed: int) -> Iterator[tuple[int, int, int]]:
        """The entries of a hash's slot from newest to oldest: their hash, log offset and time to the second.

        A chain that does not lead backwards is broken, and ends there.
        """
        slot = hashed % self._slot_count
        limit, number = self.next_number, self._newest(slot)
        while 0 < number < limit:
            limit = number
            found, log_offset, seconds, number = self._entry(number)
            if seconds < 0:
                return
            # The first entry's seconds count from the file before (see `follow`), but the begin is its own time.
            yield found, log_offset, self.begin_ms + (seconds * 1000 if limit > 1 else 0)

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Whether some of its records may lie in that span of time."""
        return begin_ms <= self.end_ms and end_ms >= self.begin_ms

    @property
    def is_far_behind(self) -> bool:
        """Many entries wait to be written."""
        return len(self._tail) >= _TAIL_BYTES_MAX

    def write_behind(self) -> None:
        """Write the entries that wait in memory. Raises `OSError`; they wait on then."""
        if self._tail:
            first = self.next_number - len(self._tail) // ENTRY.size
            self._file.write_at(self._entry_at(first), self._tail)
            self._tail = bytearray()

    def finish(self) -> None:
        """Write all that is in memory and let go of the memory; `sync` makes it durable. Raises `OSError`."""
        self.write_behind()
        if self._slots is not None and self._is_changed:
            self._write_slots(self._slots)
            self._file.write_at(0, self._header())
        self._slots, self._is_changed = None, False

    def sync(self) -> None:
        """Make durable what is written; may run off the loop. Raises `OSError`."""
        self._file.sync()

    def close(self) -> None:
        """Let go of the file, without writing anything; once more does nothing."""
        self._file.close()

    def _header(self) -> bytes:
        return HEADER.pack(
            self.begin_ms, self.end_ms, self.begin_log_offset, self.end_log_offset, self.used_slots, self.next_number
        )

    def _loaded_slots(self) -> memoryview:
        if self._slots is None:
            size = self._slot_count * _SLOT_BYTES
            held = bytearray(size)  # the system gives zero pages only when they are touched
            if not self.is_empty:
                numbers = array("i", self._file.read_at(HEADER.size, size))
                numbers.byteswap()
                held[:] = memoryview(numbers).cast("B")
            self._slots = memoryview(held).cast("i")
        return self._slots

    def _write_slots(self, slots: memoryview) -> None:
        """Slots are never emptied, so a block of zeros is as it was in the new file."""
        zeros = bytes(_SLOTS_BLOCK * _SLOT_BYTES)
        for first in range(0, self._slot_count, _SLOTS_BLOCK):
            block = slots[first : first + _SLOTS_BLOCK].tobytes()
            if block != zeros[: len(block)]:
                numbers = array("i", block)
                numbers.byteswap()
                self._file.write_at(HEADER.size + first * _SLOT_BYTES, numbers.tobytes())

    def _newest(self, slot: int) -> int:
        if self._slots is not None:
            return self._slots[slot]
        return int.from_bytes(self._file.read_at(HEADER.size + slot * _SLOT_BYTES, _SLOT_BYTES), "big", signed=True)

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        in_memory = number - (self.next_number - len(self._tail) // ENTRY.size)
        if in_memory >= 0:
            return ENTRY.unpack_from(self._tail, in_memory * ENTRY.size)
        return ENTRY.unpack(self._file.read_at(self._entry_at(number), ENTRY.size))

    def _entry_at(self, number: int) -> int:
        return self._entries_at + number * ENTRY.size


def _clamped(seconds: int) -> int:
    return 0 if seconds < 0 else _SECONDS_MAX
