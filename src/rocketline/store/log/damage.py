"""Damage of the log: which bytes hold no record that can be read, and copies of what a recovery clears.

A damaged record costs itself and nothing else. Its bytes stay where they are, everybody who walks over the log passes
over them, and `damage.json` beside the log remembers where: a clean start reads no record again.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from rocketline.logs import Log
from rocketline.store.filesystem import File, FileSystem, last_set

_log = Log(__name__)

FILE_NAME: Final = "damage.json"
_COPIED_BYTES: Final = 1 << 20
_FAR: Final = 1 << 63


class DamagedSpan(NamedTuple):
    """Damaged bytes of the log, by log offsets."""

    begin: int
    end: int


class DamagedSpans:
    """The damaged parts of one log, in order. Nearly every log has none, which readers ask first."""

    def __init__(self) -> None:
        self._spans: list[DamagedSpan] = []
        self.is_unsaved = False
        """What is known differs from what the file says."""

    def __bool__(self) -> bool:
        return bool(self._spans)

    def __iter__(self) -> Iterator[DamagedSpan]:
        return iter(self._spans)

    def add(self, begin: int, end: int) -> None:
        """Note damage; it becomes one with what it touches."""
        touched = [span for span in self._spans if span.begin <= end and begin <= span.end]
        for span in touched:
            self._spans.remove(span)
            begin, end = min(begin, span.begin), max(end, span.end)
        if touched != [(begin, end)]:
            self.is_unsaved = True
        self._spans.insert(bisect_right(self._spans, (begin, end)), DamagedSpan(begin, end))

    def review(self, left_of: Callable[[DamagedSpan], DamagedSpan | None]) -> None:
        """Keep what is left of each, as somebody says who is to look at the log as if nothing were damaged."""
        before, self._spans = self._spans, []
        self._spans = [left for span in before if (left := left_of(span)) is not None]
        self.is_unsaved = self.is_unsaved or self._spans != before

    def at(self, position: int) -> DamagedSpan | None:
        """The damage that `position` lies in."""
        number = bisect_right(self._spans, (position, _FAR)) - 1
        return self._spans[number] if number >= 0 and position < self._spans[number].end else None

    def next_begin(self, position: int) -> int:
        """Where the next damage behind `position` begins; far away if there is none."""
        number = bisect_right(self._spans, (position, _FAR))
        return self._spans[number].begin if number < len(self._spans) else _FAR

    def within(self, begin: int, end: int) -> Iterator[DamagedSpan]:
        """The damage between two positions, also what reaches over them."""
        spans = self._spans
        number = max(bisect_right(spans, (begin, _FAR)) - 1, 0)
        while number < len(spans) and spans[number].begin < end:
            if begin < spans[number].end:
                yield spans[number]
            number += 1

    def first_in(self, begin: int, end: int) -> DamagedSpan | None:
        """The first of it."""
        return next(self.within(begin, end), None)

    def forget_before(self, log_start: int) -> None:
        """Drop what is gone from the log."""
        self.review(lambda span: span if span.end > log_start else None)

    def load(self, fs: FileSystem, path: Path) -> None:
        """Take what an earlier life has found. A file that cannot be read is no reason not to start."""
        try:
            for span in read_spans(fs, path):
                self.add(*span)
            self.is_unsaved = False
        except ValueError as error:
            _log.warning("list of damaged bytes cannot be read: `rocketline store check` finds them anew",
                         path=str(path), problem=str(error))  # fmt: skip

    def save(self, fs: FileSystem, path: Path) -> None:
        """Write them durably; without any there is no file. Raises `OSError`."""
        if self._spans:
            text = json.dumps({"spans": [span._asdict() for span in self._spans]}).encode()
            fresh = path.with_name(f"{path.name}.tmp")
            fs.write_file(fresh, b"%08x\n%s\n" % (zlib.crc32(text), text))
            fs.rename(fresh, path)
        else:
            fs.remove(path)
        fs.sync_folder(path.parent)
        self.is_unsaved = False


def read_spans(fs: FileSystem, path: Path) -> list[DamagedSpan]:
    """What the file says, none if it is missing. Raises `ValueError` if it is damaged, `OSError`."""
    data = fs.read_file(path)
    if data is None:
        return []
    crc, _, text = data.partition(b"\n")
    if int(crc, 16) != zlib.crc32(text[:-1]):
        raise ValueError("its check sum is wrong")
    try:
        return [DamagedSpan(int(span["begin"]), int(span["end"])) for span in json.loads(text)["spans"]]
    except (KeyError, TypeError) as error:
        raise ValueError(str(error)) from error


class Aside:
    """The folder where what is cleared or replaced goes first; nobody but its owner removes anything there."""

    def __init__(self, fs: FileSystem, root: Path) -> None:
        self._fs, self.root = fs, root
        self.folder = root / "damaged"

    def _free(self, name: Path) -> Path:
        wanted = path = self.folder / name
        number = 1
        while self._fs.exists(path):
            number += 1
            path = wanted.with_name(f"{wanted.name}.{number}")
        self._fs.make_folder(path.parent)
        return path

    def _sync(self, path: Path) -> None:
        for folder in path.parents:
            self._fs.sync_folder(folder)
            if folder == self.root:
                break

    def copy(self, file: File, begin: int, name: Path, *, end: int | None = None) -> Path | None:
        """Copy the bytes from `begin` to `end`, or up to the last that is not zero; None if all are. Raises `OSError`.

        The copy is durable when this returns, and gone if it could not be made: on a full disk each try would leave
        another one. Zeros are not written.
        """
        end = last_set(file, begin) if end is None else end
        if not any(_set_chunks(file, begin, end)):
            return None
        path = self._free(name)
        try:
            copy = self._fs.open(path, size=end - begin)
            try:
                for at, data in _set_chunks(file, begin, end):
                    copy.write_at(at - begin, data)
                copy.sync()
            finally:
                copy.close()
            self._sync(path)
        except BaseException:
            self._drop(path)
            raise
        return path

    def _drop(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            self._fs.remove(path)

    def keep(self, data: bytes, name: Path) -> Path:
        """Write bytes that are about to be replaced; none are left if that fails. Raises `OSError`."""
        path = self._free(name)
        try:
            self._fs.write_file(path, data)
            self._sync(path)
        except BaseException:
            self._drop(path)
            raise
        return path

    def move(self, path: Path) -> Path | None:
        """Move a file or folder of the store away; where it is now, None if there was none. Raises `OSError`."""
        if not self._fs.exists(path):
            return None
        place = self._free(self.name_of(path))
        self._fs.rename(path, place)
        self._sync(place)
        self._fs.sync_folder(path.parent)
        return place

    def name_of(self, path: Path) -> Path:
        """Its name here; a log may lie elsewhere."""
        return path.relative_to(self.root) if path.is_relative_to(self.root) else Path(path.parent.name, path.name)


def _set_chunks(file: File, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """What is not zero of a part of a file, and where; holes of a sparse one are not read. Raises `OSError`."""
    at = begin
    while (at := file.next_data(at)) < end:
        data = file.read_at(at, min(_COPIED_BYTES, end - at))
        if any(data):
            yield at, data
        at += max(len(data), 1)
