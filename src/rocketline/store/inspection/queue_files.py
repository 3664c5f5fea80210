"""The files of one queue as they are, however damaged: what is not there reads as zeros, which are no units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from rocketline.store.files.segments import OpenFiles
from rocketline.store.inspection.findings import REPAIR, Finding, Findings, Kind

_NAME_DIGITS: Final = 20
_READ_UNITS: Final = 4096
_READ_UNITS_FIRST: Final = 128


class QueueFiles:
    """Read by position, as `Segments` is."""

    __slots__ = ("_files", "file_bytes", "folder", "sizes", "unit_bytes")

    def __init__(self, files: OpenFiles, folder: Path, file_bytes: int, unit_bytes: int) -> None:
        self._files = files
        self.folder, self.file_bytes, self.unit_bytes = folder, file_bytes, unit_bytes
        self.sizes: dict[int, int] = {}
        """How long each file is, by where it begins."""

    def load(self, findings: Findings, topic: str, queue_id: int) -> None:
        """Find the files, and tell what is wrong with them."""
        fs, found = self._files.fs, list[tuple[Path, str]]()
        names = [name for name in fs.list(self.folder) if not fs.is_folder(self.folder / name)]
        for name in names:
            path = self.folder / name
            if not (name.isascii() and name.isdigit() and len(name) == _NAME_DIGITS) or int(name) % self.file_bytes:
                found.append((path, f"its name is no multiple of {self.file_bytes}: no broker starts with it"))
                continue
            size = self.sizes[int(name)] = fs.size_of(path)
            if size != self.file_bytes and not (name == names[-1] and not size):
                found.append((path, f"{size} bytes where {self.file_bytes} are expected: no broker starts with it"))
        starts = list(self.sizes)
        for before, after in pairwise(starts):
            if after - before != self.file_bytes:
                path = self.path(before + self.file_bytes)
                found.append((path, "missing, though others follow: no broker starts without"))
        for path, problem in found:
            findings.add(
                Finding(
                    kind=Kind.QUEUE_FILE,
                    path=path,
                    topic=topic,
                    queue_id=queue_id,
                    problem=problem,
                    remedy=f"{REPAIR}: the log has all that it needs",
                )
            )

    def path(self, position: int) -> Path:
        return self.folder / f"{position - position % self.file_bytes:0{_NAME_DIGITS}}"

    def read(self, position: int, size: int) -> bytes:
        """So many bytes, zeros where there are none. Raises `OSError`."""
        parts = list[bytes]()
        while size > 0:
            in_file = position % self.file_bytes
            wanted = min(size, self.file_bytes - in_file)
            data = b""
            if self.sizes.get(position - in_file, 0) > in_file:
                data = self._files.get(self.path(position)).read_at(in_file, wanted)
            parts.append(data if len(data) == wanted else data.ljust(wanted, b"\0"))
            position, size = position + wanted, size - wanted
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def stretches(self, passed: Sequence[Sequence[int]] = ()) -> Iterator[tuple[int, bytes]]:
        """Every stretch of units that is not zero: its position, and its units.

        `passed` are ranges of units that need not be read, in order; a queue that is right costs next to nothing.
        """
        unit_bytes, number = self.unit_bytes, 0
        for start, size in self.sizes.items():
            position, end, step = start, start + min(size, self.file_bytes), _READ_UNITS_FIRST * unit_bytes
            while position < end:
                while number < len(passed) and passed[number][1] * unit_bytes <= position:
                    number += 1
                until = min(position + step, end)
                if number < len(passed):
                    if passed[number][0] * unit_bytes <= position:
                        position = passed[number][1] * unit_bytes
                        continue
                    until = min(until, passed[number][0] * unit_bytes)
                file = self._files.get(self.path(start))
                written = start + file.next_data(position - start) // unit_bytes * unit_bytes
                if written > position:
                    position = written
                    continue
                data = file.read_at(position - start, until - position)
                if any(data):
                    yield position, data.ljust(-(-len(data) // unit_bytes) * unit_bytes, b"\0")
                position, step = until, min(2 * step, _READ_UNITS * unit_bytes)
