"""The timer wheel: for each step of time, the chain of messages that are due then. Java: TimerWheel.

The file is a ring of two weeks. What counts is in memory, by time: only the slots that somebody waits in. Those that
changed are written together when the wheel is saved, so a wheel that nobody uses is no file at all.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rocketline.errors import CorruptStoreError
from rocketline.store.filesystem import FileSystem

SLOTS: Final = 7 * 86_400
"""Steps that messages can be ahead of the wheel, whatever the step; the ring has twice as many."""
SLOT: Final = struct.Struct(">qqqi4x")
_READ_SLOTS: Final = 32 * 1024
_SLOTS_A_STEP: Final = 1000
"""Laid out for the file in one go."""


class Slot(NamedTuple):
    """A chain of the timer log: where its first and its last unit are, and how many messages it stands for."""

    first: int
    last: int
    waiting: int
    """Those that call back count against those that wait."""


class TimerWheel:
    """The slots that somebody waits in, by their time in milliseconds."""

    def __init__(self, precision_ms: int, slots: int = SLOTS) -> None:
        self.precision_ms, self.slots = precision_ms, slots
        self._slots: dict[int, Slot] = {}
        self._times: list[int] = []  # a heap
        self._changed: dict[int, Slot] = {}
        self._is_renewed = False
        self.count = 0
        """Messages in all slots."""

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, slot_ms: int) -> bool:
        return slot_ms in self._slots

    @property
    def file_bytes(self) -> int:
        return 2 * self.slots * SLOT.size

    @property
    def span_ms(self) -> int:
        """Two slots so far apart would have the same place in the file."""
        return 2 * self.slots * self.precision_ms

    def rounded(self, time_ms: int) -> int:
        return time_ms // self.precision_ms * self.precision_ms

    def get(self, slot_ms: int) -> Slot | None:
        return self._slots.get(slot_ms)

    def put(self, slots: Mapping[int, Slot]) -> None:
        """Let these be so."""
        for slot_ms, slot in slots.items():
            before = self._slots.get(slot_ms)
            if before is None:
                heapq.heappush(self._times, slot_ms)
            self.count += slot.waiting - (before.waiting if before is not None else 0)
            self._slots[slot_ms] = self._changed[slot_ms] = slot

    def first_ms(self) -> int | None:
        """The time of the first slot that somebody waits in."""
        return self._times[0] if self._times else None

    def drop_first(self) -> None:
        """Nobody waits there any more. Its place in the file is left as it is: it tells its time."""
        slot_ms = heapq.heappop(self._times)
        self.count -= self._slots.pop(slot_ms).waiting
        self._changed.pop(slot_ms, None)

    def clear(self) -> None:
        self._slots, self._times, self._changed, self.count = {}, [], {}, 0

    def items(self) -> Iterator[tuple[int, Slot]]:
        """All slots by their times, in no order."""
        return iter(self._slots.items())

    def replace(self, slots: Mapping[int, Slot]) -> None:
        """Only these, all of which the file lacks."""
        self.clear()
        self.put(slots)

    def turn_back(self) -> None:
        """Slots will be put whose time is before that of others that are over: the file is to be made anew without
        these, which would count as waiting again."""
        self._is_renewed, self._changed = True, dict(self._slots)

    # --- the file

    def load(self, fs: FileSystem, path: Path, begin_ms: int) -> None:
        """Take the slots from `begin_ms` on out of the file, as far as the wheel goes. Raises `CorruptStoreError`,
        `OSError`."""
        begin, end = begin_ms // self.precision_ms, (begin_ms + self.span_ms) // self.precision_ms
        self.replace({
            time * self.precision_ms: slot
            for time, slot in self.entries(fs, path)
            if begin <= time < end
        })  # fmt: skip
        self._changed.clear()

    def entries(self, fs: FileSystem, path: Path) -> Iterator[tuple[int, Slot]]:
        """All slots in the file, those that are over among them, by their time in the steps of whoever wrote them.

        Raises `CorruptStoreError`, `OSError`.
        """
        size, ring = fs.size_of(path), 2 * self.slots
        if size != self.file_bytes:
            raise CorruptStoreError(str(path), f"{size} bytes where a timer wheel has {self.file_bytes}")
        file = fs.open(path)
        try:
            position = 0
            while (position := file.next_data(position)) < self.file_bytes:
                position -= position % SLOT.size
                size = min(file.data_end(position) - position + SLOT.size - 1, _READ_SLOTS * SLOT.size)
                data = file.read_at(position, size // SLOT.size * SLOT.size)
                for number, (time, first, last, count) in enumerate(SLOT.iter_unpack(data), position // SLOT.size):
                    if not time:
                        continue
                    if time % ring != number:
                        raise CorruptStoreError(str(path), f"slot {number} holds the time {time}, which is not its own")
                    yield time, Slot(first, last, count)
                position += len(data)
        finally:
            file.close()

    def take_changed(self) -> tuple[dict[int, Slot], bool]:
        """The slots that the file lacks, which it is to get now; and whether it is to be made anew."""
        taken = self._changed, self._is_renewed
        self._changed, self._is_renewed = {}, False
        return taken

    def give_back(self, changed: Mapping[int, Slot], *, is_renewed: bool) -> None:
        """Slots that did not get into the file; those that changed since, or are over, are not asked for."""
        self._changed = {at: slot for at, slot in changed.items() if at in self._slots} | self._changed
        self._is_renewed |= is_renewed

    def pieces(self, changed: Mapping[int, Slot]) -> Iterator[list[tuple[int, bytes]]]:
        """What to write for these slots, and where, some slots at a time: each second may have its own."""
        times = list(changed)
        for at in range(0, len(times), _SLOTS_A_STEP):
            yield list(self._joined(times[at : at + _SLOTS_A_STEP], changed))

    def _joined(self, times: Sequence[int], changed: Mapping[int, Slot]) -> Iterator[tuple[int, bytes]]:
        """Neighbours in one piece."""
        at, piece = -1, bytearray()
        places = sorted((slot_ms // self.precision_ms % (2 * self.slots), slot_ms) for slot_ms in times)
        for place, slot_ms in places:
            if at + len(piece) != place * SLOT.size:
                if piece:
                    yield at, bytes(piece)
                at, piece = place * SLOT.size, bytearray()
            piece += SLOT.pack(slot_ms // self.precision_ms, *changed[slot_ms])
        if piece:
            yield at, bytes(piece)
