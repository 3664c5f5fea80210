"""A stream of bytes in files of one size, each named by the position in the stream where it begins.

Java: MappedFileQueue. The commit log is such a stream, and so is every consume queue.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rocketline.errors import CorruptStoreError
from rocketline.store.filesystem import Data, File, FileSystem, clear_from, last_set

_NAME_DIGITS: Final = 20
OPEN_FILES_MAX: Final = 256
_FIND_STEPS: Final = 3000


class OpenFiles:
    """Files that were used lately stay open; beyond `open_max` the one unused for longest is closed."""

    def __init__(self, fs: FileSystem, open_max: int = OPEN_FILES_MAX) -> None:
        self.fs = fs
        self._open_max = open_max
        self._files: OrderedDict[Path, File] = OrderedDict()

    def get(self, path: Path, *, size: int | None = None) -> File:
        """The open file; `size` is the length of a new one, without it the file must exist. Raises `OSError`."""
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self.fs.open(path, size=size)
            if len(self._files) > self._open_max:
                self._files.popitem(last=False)[1].close()
        else:
            self._files.move_to_end(path)
        return file

    def close(self, path: Path) -> None:
        if (file := self._files.pop(path, None)) is not None:
            file.close()

    def close_in(self, folder: Path) -> None:
        """Close the files in a folder and those below it."""
        below = f"{folder}{os.sep}"
        for path in [path for path in self._files if str(path).startswith(below)]:
            self.close(path)

    def close_all(self) -> None:
        for path in list(self._files):
            self.close(path)


def _is_position(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) == _NAME_DIGITS


def _find_last(file: File, step: int, is_wanted: Callable[[bytes], bool]) -> tuple[int, bytes] | None:
    end, read_bytes = file.size // step * step, _FIND_STEPS * step
    while end > 0:
        begin = max(end - read_bytes, 0)
        data = file.read_at(begin, end - begin)
        for at in range(len(data) - step, -1, -step) if any(data) else ():
            if is_wanted(piece := data[at : at + step]):
                return begin + at, piece
        end = begin
    return None


class Segments:
    """The files of one stream, in order, with no gap between them."""

    __slots__ = ("_files", "_is_derived", "_paths", "folder", "segment_bytes", "starts")

    def __init__(self, files: OpenFiles, folder: Path, segment_bytes: int, *, is_derived: bool = False) -> None:
        """`is_derived`: whoever flushes the stream syncs its first file and folder. A thousand new queues must not
        stop the loop for a thousand syncs."""
        self._files, self._is_derived = files, is_derived
        self.folder, self.segment_bytes = folder, segment_bytes
        self.starts: list[int] = []
        """Where each file begins."""
        self._paths: dict[int, Path] = {}  # making one takes as long as reading what is there

    def load(self) -> None:
        """Find the files that exist. Raises `CorruptStoreError` where Java's broker refuses to start."""
        if (empty := self.look()) is not None:
            self._files.fs.remove(empty)

    def look(self) -> Path | None:
        """The same, and change nothing: the last file, if it was made and not yet extended when the power went, is no
        part of the stream. Which it is."""
        fs, empty = self._files.fs, None
        names = [name for name in fs.list(self.folder) if not fs.is_folder(self.folder / name)]
        if names and fs.size_of(self.folder / names[-1]) == 0:
            empty = self.folder / names.pop()
        for name in names:
            path = self.folder / name
            if not _is_position(name):
                raise CorruptStoreError(str(path), "its name is no position; move it elsewhere if it is not ours")
            if (size := fs.size_of(path)) != self.segment_bytes:
                raise CorruptStoreError(str(path), f"{size} bytes where the settings say {self.segment_bytes}")
        self.starts = [int(name) for name in names]
        for before, after in zip(self.starts, self.starts[1:], strict=False):
            if after - before != self.segment_bytes:
                raise CorruptStoreError(str(self.path(after)), f"no file of {self.segment_bytes} bytes ends here")
        return empty

    @property
    def end(self) -> int:
        """Where the last file ends; 0 if there is none."""
        return self.starts[-1] + self.segment_bytes if self.starts else 0

    def path(self, start: int) -> Path:
        path = self._paths.get(start)
        if path is None:
            path = self._paths[start] = self.folder / f"{start:0{_NAME_DIGITS}}"
        return path

    def start_of(self, position: int) -> int:
        """Where the file begins that holds, or would hold, the byte at `position`."""
        return position - position % self.segment_bytes

    def has(self, position: int) -> bool:
        return bool(self.starts) and self.starts[0] <= position < self.end

    def add(self, start: int) -> None:
        """Make the next file, or the first. Raises `OSError`."""
        assert not self.starts or start == self.end
        fs = self._files.fs
        fs.make_folder(self.folder)
        if not self.starts:  # what an earlier stream left there would be taken for a part of this one
            self._files.close(self.path(start))
            fs.remove(self.path(start))
        file = self._files.get(self.path(start), size=self.segment_bytes)
        try:
            if self.starts or not self._is_derived:
                if self._is_derived:
                    self.file_of(self.starts[-1]).sync()
                file.sync()  # so that only the last may lack its length
                fs.sync_folder(self.folder)  # a synced file whose name is lost is lost too
        except BaseException:
            self._files.close(self.path(start))  # it may be gone until the next try
            raise
        self.starts.append(start)

    def adopt(self, start: int) -> None:
        """Take over the next file, which somebody has made as `add` does. Raises `OSError`."""
        assert start == self.end
        self._files.get(self.path(start))
        self.starts.append(start)

    def file_of(self, position: int) -> File:
        """The file that holds `position`, which must exist."""
        return self._files.get(self.path(self.start_of(position)))

    def read(self, position: int, size: int) -> bytes:
        """Bytes of one file: fewer than `size` where the file ends, none where there is no file."""
        if not self.has(position):
            return b""
        in_file = position % self.segment_bytes
        return self.file_of(position).read_at(in_file, min(size, self.segment_bytes - in_file))

    def read_data(self, position: int, size: int, step: int) -> bytes:
        """As `read`, in whole steps, and of these at least one but no more than were written without a hole between:
        of a sparse file that is little."""
        if not self.has(position):
            return b""
        file, in_file = self.file_of(position), position % self.segment_bytes
        written = max(-(-(file.data_end(in_file) - in_file) // step), 1) * step
        return file.read_at(in_file, min(size, written, self.segment_bytes - in_file))

    def write(self, position: int, data: Data) -> None:
        """Write into one file, which is made if the stream ended before it. Raises `OSError`."""
        if not self.has(position):
            self.add(self.start_of(position))
        self.file_of(position).write_at(position % self.segment_bytes, data)

    def find_last(self, step: int, is_wanted: Callable[[bytes], bool]) -> tuple[int, bytes] | None:
        """The last piece of so many bytes for which that holds, and its position: in whatever files the folder has, of
        any length and with any gaps. Raises `OSError`."""
        fs = self._files.fs
        for name in reversed(fs.list(self.folder)):
            if _is_position(name) and not fs.is_folder(self.folder / name):
                file = fs.open(self.folder / name)
                try:
                    found = _find_last(file, step, is_wanted)
                finally:
                    file.close()
                if found is not None:
                    return int(name) + found[0], found[1]
        return None

    def is_set_from(self, position: int) -> bool:
        """Whether any byte from `position` on is not zero. Raises `OSError`."""
        for start in self.starts:
            begin = max(position - start, 0)
            if begin < self.segment_bytes and last_set(self.file_of(start), begin) > begin:
                return True
        return False

    def clear_from(self, position: int) -> bool:
        """Let the stream end at `position`: later files go, later bytes become zero and durably so; whether any were.

        Java leaves the bytes. Should the process die again, whole records of an earlier life could follow there on what
        was written since, and recovery would take them for new ones.
        """
        later = [start for start in self.starts if start >= position and start > self.starts[0]]
        for start in reversed(later):  # whenever this stops, there is no gap
            self._remove(start)
        if later:
            self._files.fs.sync_folder(self.folder)
        if not self.has(position) or not clear_from(file := self.file_of(position), position % self.segment_bytes):
            return bool(later)
        file.sync()
        return True

    def remove_first(self) -> None:
        """Raises `OSError`."""
        self._remove(self.starts[0])

    def drop_first(self) -> Path:
        """Forget the first file, and say which it was."""
        start = self.starts.pop(0)
        self._files.close(self.path(start))
        return self._paths.pop(start)

    def forget_all(self) -> None:
        """There are no files any more; others may have opened some of them."""
        self._files.close_in(self.folder)
        self.starts, self._paths = [], {}

    def remove_all(self) -> None:
        for start in list(self.starts):
            self._remove(start)

    def _remove(self, start: int) -> None:
        """A file that cannot be deleted stays a part of the stream: one that is forgotten would come back."""
        self._files.close(self.path(start))
        self._files.fs.remove(self.path(start))
        self.starts.remove(start)
        del self._paths[start]
