"""The units of a store's queues: where in the log the records of each queue begin.

A unit is written after its record, and points to its first byte. That makes units the safe places to cut the log at,
and says how far it is whole: nothing inside a message can look like one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

from rocketline.spark.store_files.log_files import LogFile, stream_files

_KINDS: Final = (("consumequeue", 20), ("batchconsumequeue", 46))
"""The folder of each kind of queue, and how long its units are; both begin with position and size."""
_UNIT: Final = struct.Struct(">qi")
_BLANK_SIZE: Final = 0x7FFFFFFF
"""Of units that fill a file up to where a queue really begins."""


class Unit(NamedTuple):
    """The record of a message."""

    position: int
    size: int

    @property
    def end(self) -> int:
        return self.position + self.size


class QueueUnits:
    """The units of one queue, in the order of the log. Use it as `with`.

    It has one file open at most, and none before it is asked: a store may have thousands of queues.
    """

    def __init__(self, files: list[LogFile], unit_bytes: int) -> None:
        """Raises `OSError`."""
        self._files = sorted(files, key=lambda file: file.start)
        self._unit_bytes = unit_bytes
        self._counts = [file.size // unit_bytes for file in self._files]
        self._opened: tuple[int, int] | None = None
        """The number of the file that is open, and its handle."""
        try:
            self.count = self._count()
            """How many units there are, those that only fill the file included."""
            self.last = self._real(self.count - 1) if self.count else None
            """The unit written last."""
        finally:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            os.close(opened[1])

    def _count(self) -> int:
        return _first(0, sum(self._counts), lambda number: self._read(number) is None)

    def _read(self, number: int) -> Unit | None:
        """The unit of this number, counted from the first file; None if none was written there."""
        for index, count in enumerate(self._counts):
            if number < count:
                data = os.pread(self._handle(index), _UNIT.size, number * self._unit_bytes)
                unit = Unit(*_UNIT.unpack(data)) if len(data) == _UNIT.size else Unit(-1, 0)
                return unit if unit.position >= 0 and unit.size > 0 else None
            number -= count
        return None

    def _handle(self, index: int) -> int:
        if self._opened is None or self._opened[0] != index:
            self.close()
            self._opened = index, os.open(self._files[index].path, os.O_RDONLY)
        return self._opened[1]

    def first_from(self, position: int) -> Unit | None:
        """The first unit whose record begins at `position` of the log or later; None also if files vanish meanwhile."""
        try:
            number = _first(0, self.count, lambda at: self._begins_from(at, position))
            return self._real(number) if number < self.count else None
        except FileNotFoundError:
            return None

    def _begins_from(self, number: int, position: int) -> bool:
        unit = self._real(number)
        return unit is not None and unit.position >= position

    def _real(self, number: int) -> Unit | None:
        unit = self._read(number)
        return None if unit is None or unit.size == _BLANK_SIZE else unit


def _first(low: int, high: int, is_true: Callable[[int], bool]) -> int:
    """The first number from `low` to before `high` for which it is true, as for all after it; else `high`.

    >>> _first(0, 10, lambda number: number >= 7)
    7
    """
    while low < high:
        middle = (low + high) // 2
        if is_true(middle):
            high = middle
        else:
            low = middle + 1
    return low


def topics_with_queues(root: Path) -> set[str]:
    """The topics that had a message once."""
    return {folder.name for name, _ in _KINDS for folder in (root / name).glob("*") if folder.is_dir()}


def queues_of(root: Path) -> Iterator[QueueUnits]:
    """Every queue of a store, each to be closed. A queue whose files vanish meanwhile is left out."""
    for name, unit_bytes in _KINDS:
        for folder in sorted((root / name).glob("*/*")):
            if not folder.name.isdigit():
                continue
            try:
                yield QueueUnits(list(stream_files(folder)), unit_bytes)
            except FileNotFoundError:
                continue
