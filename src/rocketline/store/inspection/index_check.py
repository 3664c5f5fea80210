"""Comparing the key index with the log: every entry with the record it points at, every chain and every slot.

Entries stand in the order of the log, so that both are read once, side by side. In memory are the slots of one file.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from operator import le
from pathlib import Path
from typing import Final, NamedTuple

from rocketline.model.sys_flags import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketline.store.filesystem import File, FileSystem
from rocketline.store.index.index_file import ENTRY, HEADER, file_bytes
from rocketline.store.index.index_keys import indexed
from rocketline.store.index.key_index import entries_of
from rocketline.store.inspection.findings import REPAIR, Finding, Findings, Kind, counted
from rocketline.store.inspection.log_walk import LogWalk
from rocketline.store.log.record_scan import Record

_READ_ENTRIES: Final = 4096
_EQUAL_MAX: Final = 512
_SLOT_BYTES: Final = 4
_SECONDS_MAX: Final = 2**31 - 1


class _File(NamedTuple):
    path: Path
    begin_ms: int
    end_ms: int
    begin_log_offset: int
    end_log_offset: int
    used_slots: int
    next_number: int


class _Block(NamedTuple):
    """Entries one after the other in a file, by columns."""

    file: _File
    numbers: list[int]
    hashes: list[int]
    log_offsets: list[int]
    seconds: list[int]


class IndexCheck:
    """Give it all records in log order, then `finish`."""

    def __init__(
        self,
        fs: FileSystem,
        folder: Path,
        counts: tuple[int, int],
        findings: Findings,
        walk: LogWalk,
        safe_until_ms: int | None,
    ) -> None:
        """`counts`: slots and entries of a file. After a crash files with messages later than `safe_until_ms` are not
        looked at: a start deletes them."""
        self._fs, self._folder, self._findings, self._walk = fs, folder, findings, walk
        self._slot_count, self._entry_count = counts
        self._safe_until_ms = safe_until_ms
        self._stream = self._blocks()
        self._block: _Block | None = None
        self._at = 0  # the next entry in the block
        self.entries = 0
        """Entries that are right."""
        self._absent = 0
        self.longest: tuple[int, str] = (0, "")
        self.hurt = False
        """Something is wrong with it."""
        self._told: set[tuple[Path, str]] = set()

    # --- reading

    def _blocks(self) -> Iterator[_Block]:
        for name in self._fs.list(self._folder):
            path = self._folder / name
            if not (name.isascii() and name.isdigit()) or self._fs.is_folder(path):
                continue
            file = self._fs.open(path) if self._fs.size_of(path) else None
            if file is None:
                self._tell(path, None, "empty")
                continue
            try:
                yield from self._read(path, file)
            finally:
                file.close()

    def _read(self, path: Path, file: File) -> Iterator[_Block]:
        header = HEADER.unpack(file.read_at(0, HEADER.size).ljust(HEADER.size, b"\0"))
        about = _File(path, *header)
        if self._safe_until_ms is not None and (about.next_number <= 1 or about.end_ms > self._safe_until_ms):
            problem, remedy = "may be incomplete after a crash, and was not looked at", "the next start makes it anew"
            self._findings.add(Finding(kind=Kind.INDEX, path=path, problem=problem, remedy=remedy, is_damage=False))
            return
        expected = file_bytes(self._slot_count, self._entry_count)
        if file.size != expected:
            self._tell(path, None, f"{file.size} bytes where {expected} are expected (maxHashSlotNum, maxIndexNum)")
            return
        if not 0 < about.next_number <= self._entry_count:
            self._tell(path, 36, f"its header counts {about.next_number - 1} entries")
            return
        slots = array("i", bytes(self._slot_count * _SLOT_BYTES))
        yield from self._walk_entries(about, file, slots)
        self._check_slots(about, file, slots)

    def _walk_entries(self, about: _File, file: File, slots: array[int]) -> Iterator[_Block]:
        entries_at, slot_count = self._entry_at(0), self._slot_count
        number, last = 1, -1
        while number < about.next_number:
            count = min(_READ_ENTRIES, about.next_number - number)
            data = file.read_at(entries_at + number * ENTRY.size, (count + 1) * ENTRY.size)
            fields = struct.unpack_from(f">{'iqii' * count}", data)
            hashes, log_offsets = fields[0::4], fields[1::4]
            for at, (hashed, before) in enumerate(zip(hashes, fields[3::4], strict=True), number):
                slot = hashed % slot_count
                if before != slots[slot] or hashed < 0:
                    self._tell(about.path, self._entry_at(at), f"entry {at} breaks the chain of its slot: {before}")
                slots[slot] = at
            if number == 1 and log_offsets[0] != (said := about.begin_log_offset):
                self._tell(about.path, 16, f"its header says that its first message is at {said}: {log_offsets[0]}")
            following = ENTRY.unpack_from(data, count * ENTRY.size)[1] if number + count < about.next_number else None
            last = log_offsets[-1]
            yield self._in_order(_Block(about, list(range(number, number + count)), *_lists(fields)), following)
            number += count
        if last >= 0 and last != (said := about.end_log_offset):
            self._tell(about.path, 24, f"its header says that its last message is at {said}, its last entry {last}")

    def _in_order(self, block: _Block, following: int | None) -> _Block:
        """The block without entries that are ahead of the one behind them: these are damaged."""
        offsets = block.log_offsets
        behind = [*offsets[1:], offsets[-1] if following is None else following]
        if all(map(le, offsets, behind)):
            return block
        ahead = [at for at, offset in enumerate(offsets) if offset > behind[at]]
        for at in reversed(ahead):
            self._tell_entry(block.file, block.numbers[at], "is ahead of the entry behind it")
            for column in block[1:]:
                del column[at]
        return block

    def _entry_at(self, number: int) -> int:
        return HEADER.size + self._slot_count * _SLOT_BYTES + number * ENTRY.size

    def _check_slots(self, about: _File, file: File, slots: array[int]) -> None:
        used = sum(map(bool, slots))
        if used != about.used_slots:
            self._tell(about.path, 32, f"its header counts {about.used_slots} used slots: {used}")
        slots.byteswap()
        expected, step = slots.tobytes(), _READ_ENTRIES * _SLOT_BYTES
        for at in range(0, len(expected), step):
            found = file.read_at(HEADER.size + at, min(step, len(expected) - at))
            if found != expected[at : at + len(found)]:
                slot = next(
                    slot for slot in range(0, len(found), _SLOT_BYTES)
                    if found[slot : slot + _SLOT_BYTES] != expected[at + slot : at + slot + _SLOT_BYTES]
                )  # fmt: skip
                self._tell(about.path, HEADER.size + at + slot, "a slot does not point at its newest entry")

    def _current(self) -> _Block | None:
        """The block that has the next entry."""
        while self._block is None or self._at >= len(self._block.numbers):
            self._block, self._at = next(self._stream, None), 0
            if self._block is None:
                return None
        return self._block

    # --- comparing

    def add(self, records: Sequence[Record]) -> None:
        """The next records of the log. Raises `OSError`."""
        kept = [record for record in records if record.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK]
        if not kept:
            return
        rows = [
            (record.topic.decode("utf-8", "replace"), indexed(record.properties), record.log_offset, record.store_ms)
            for record in kept
        ]
        hashes, log_offsets, stored_ms = (list(map(int, column)) for column in entries_of(rows))
        at = 0
        while at < len(hashes):
            count = self._equal(hashes, log_offsets, stored_ms, at)
            if count:
                at += count
                continue
            log_offset, first = log_offsets[at], at
            while at < len(hashes) and log_offsets[at] == log_offset:
                at += 1
            self._compare(log_offset, hashes[first:at], stored_ms[first])

    def _equal(self, hashes: list[int], log_offsets: list[int], stored_ms: list[int], at: int) -> int:
        """How many entries from `at` on are as they should be: many or, if one of them is not, none.

        Those of one record are never parted.
        """
        block = self._current()
        if block is None:
            return 0
        end = min(at + _EQUAL_MAX, at + len(block.numbers) - self._at, len(hashes))
        while end > at and end < len(hashes) and log_offsets[end] == log_offsets[end - 1]:
            end -= 1
        begin, until = self._at, self._at + end - at
        begin_ms = block.file.begin_ms
        seconds = [(time_ms - begin_ms) // 1000 for time_ms in stored_ms[at:end]]
        if block.numbers[begin] == 1:
            seconds[:1] = block.seconds[:1]
        if (
            block.hashes[begin:until] != hashes[at:end]
            or block.log_offsets[begin:until] != log_offsets[at:end]
            or block.seconds[begin:until] != seconds
        ):
            return 0
        self._at = until
        self.entries += end - at
        return end - at

    def _compare(self, log_offset: int, hashes: list[int], store_ms: int) -> None:
        """The entries of one record. Older releases of Apache's have none for tags."""
        found = 0
        while (block := self._current()) is not None and (place := block.log_offsets[self._at]) <= log_offset:
            at, file = self._at, block.file
            self._at += 1
            if place < log_offset:
                self._tell_stray(block, at)
            elif block.hashes[at] not in hashes:
                self._tell_entry(file, block.numbers[at], "has a hash that is none of its message's keys")
            elif block.numbers[at] > 1 and block.seconds[at] != _seconds(store_ms, file.begin_ms):
                problem = f"says that its message was stored {block.seconds[at]} s after the first"
                self._tell_entry(file, block.numbers[at], problem)
            else:
                found += 1
        self.entries += found
        if not found:
            self._absent += 1

    def finish(self) -> None:
        """All records were given."""
        while (block := self._current()) is not None:
            at, place = self._at, block.log_offsets[self._at]
            self._at += 1
            if place >= self._walk.end and place > self.longest[0]:
                self.longest = place, f"entry {block.numbers[at]} of index file {block.file.path.name}"
            self._tell_stray(block, at)
        if self._absent and self._safe_until_ms is None:
            problem, remedy = (
                f"{counted(self._absent, 'message')} with keys that the index does not know",
                f"if you need that: {REPAIR}",
            )
            self._findings.add(
                Finding(
                    kind=Kind.INDEX,
                    path=self._folder,
                    problem=problem,
                    remedy=remedy,
                    count=self._absent,
                    is_damage=False,
                )
            )

    def _tell_stray(self, block: _Block, at: int) -> None:
        start, place = self._walk.files[0].start if self._walk.files else 0, block.log_offsets[at]
        if not 0 <= place < start and not self._walk.is_damaged(place):
            problem = f"points at {place} of the log, where no message with keys begins"
            self._tell_entry(block.file, block.numbers[at], problem)

    def _tell_entry(self, file: _File, number: int, problem: str) -> None:
        """One of many like it is enough: all is made anew."""
        self.hurt = True
        kind_of = problem.split(" ", 1)[0]
        if (file.path, kind_of) not in self._told:
            self._told.add((file.path, kind_of))
            self._tell(file.path, self._entry_at(number), f"entry {number} {problem}")

    def _tell(self, path: Path, position: int | None, problem: str) -> None:
        self.hurt = True
        self._findings.add(Finding(kind=Kind.INDEX, path=path, position=position, problem=problem, remedy=REPAIR))


def _lists(fields: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
    return list(fields[0::4]), list(fields[1::4]), list(fields[2::4])


def _seconds(store_ms: int, begin_ms: int) -> int:
    seconds = (store_ms - begin_ms) // 1000 if begin_ms > 0 else 0
    return min(max(seconds, 0), _SECONDS_MAX)
