"""A file system in memory: for a broker that forgets everything when it stops, and for tests.

A file of one GiB costs nothing until it is written to: its bytes are an anonymous map, which the system fills with
zero pages on first use, and which slices and maps exactly as a file on disk does.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from rocketline.clock import Clock
from rocketline.errors import StoreLockedError
from rocketline.store.filesystem import Data, DiskUsage, File, Lock, ReadOnlyMap

_ZEROS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)


class Content:
    """The bytes of one file, whatever names and open handles it has.

    Space is charged up to the highest position written or reserved: exact for logs, an upper bound for the rest.
    """

    __slots__ = ("charged", "memory", "modified_ms", "size")

    def __init__(self, size: int = 0) -> None:
        self.size = size
        self.memory = mmap.mmap(-1, size, flags=_ZEROS) if size else None
        self.charged = 0
        self.modified_ms = 0

    def read(self, position: int, size: int) -> bytes:
        return self.memory[position : position + size] if self.memory else b""

    def write(self, position: int, data: Data) -> None:
        end = position + len(data)
        if end > self.size:
            self.resize(end)
        if self.memory:
            self.memory[position:end] = data
        self.charged = max(self.charged, end)

    def resize(self, size: int) -> None:
        """Set the length. Maps made before keep the bytes of before."""
        kept = self.read(0, min(self.charged, size))
        self.size = size
        self.memory = mmap.mmap(-1, size, flags=_ZEROS) if size else None
        self.charged = len(kept)
        if self.memory:
            self.memory[: len(kept)] = kept


class MemoryFile:
    """An open file in memory."""

    __slots__ = ("_charge", "_clock", "_open_content")

    def __init__(self, content: Content, clock: Clock, charge: Callable[[int], None]) -> None:
        self._open_content: Content | None = content
        self._clock = clock
        self._charge = charge

    @property
    def _content(self) -> Content:
        if self._open_content is None:
            raise OSError(errno.EBADF, "the file is closed")
        return self._open_content

    @property
    def size(self) -> int:
        return self._content.size

    def read_at(self, position: int, size: int) -> bytes:
        return self._content.read(position, size)

    def write_at(self, position: int, data: Data) -> None:
        content = self._content
        self.allocate(position, len(data))
        content.write(position, data)
        content.modified_ms = self._clock.wall_ms()

    def allocate(self, position: int, size: int) -> None:
        content, end = self._content, position + size
        if end > content.charged:
            self._charge(end - content.charged)
            content.charged = end

    def try_allocate(self, position: int, size: int) -> bool:
        self.allocate(position, size)
        return True

    def sync(self) -> None:
        self._content  # noqa: B018 - a closed file cannot be synced, here as on disk

    def map(self) -> ReadOnlyMap:
        memory = self._content.memory
        if memory is None:
            raise ValueError("cannot mmap an empty file")
        return memory

    def truncate(self, size: int) -> None:
        content = self._content
        charged = content.charged
        content.resize(size)
        self._charge(content.charged - charged)

    def next_data(self, position: int) -> int:
        content = self._content
        return position if position < content.charged else content.size

    def data_end(self, position: int) -> int:
        content = self._content
        return content.charged if position < content.charged else min(position, content.size)

    def close(self) -> None:
        self._open_content = None


class MemoryLock:
    """A path in the set of those that are locked."""

    __slots__ = ("_held", "_path")

    def __init__(self, held: set[Path], path: Path) -> None:
        self._held, self._path = held, path
        held.add(path)

    def release(self) -> None:
        self._held.discard(self._path)


class MemoryFileSystem:
    """Folders and files of one process, together no larger than `capacity` bytes."""

    may_wait = False

    def __init__(self, clock: Clock, *, capacity: int) -> None:
        self._clock = clock
        self._capacity = capacity
        self._used = 0
        self._locked: set[Path] = set()
        self._folders: dict[Path, dict[str, Content | None]] = {}
        """Folder → its names → the file's content, or None for a folder, which then is a key of its own."""

    def open(self, path: Path, *, size: int | None = None) -> File:
        content = self._find(path)
        if content is None:
            if size is None:
                raise _missing(path)
            content = Content(size)
            content.modified_ms = self._clock.wall_ms()
            self._names(path.parent)[path.name] = content
        elif size and not content.size:
            content.resize(size)
        return MemoryFile(content, self._clock, self._charge)

    def list(self, folder: Path) -> Sequence[str]:
        return sorted(self._folders.get(folder, ()))

    def exists(self, path: Path) -> bool:
        return self.is_folder(path) or path.name in self._folders.get(path.parent, ())

    def is_folder(self, path: Path) -> bool:
        return path == path.parent or path in self._folders

    def size_of(self, path: Path) -> int:
        return self._existing(path).size

    def modified_ms(self, path: Path) -> int:
        return self._existing(path).modified_ms

    def touch(self, path: Path, modified_ms: int) -> None:
        """As if it had been written then."""
        self._existing(path).modified_ms = modified_ms

    def make_folder(self, path: Path) -> None:
        if path in self._folders:
            return
        if self._find(path) is not None:
            raise FileExistsError(errno.EEXIST, "a file has this name", str(path))
        self._folders[path] = {}
        if path != path.parent:
            self.make_folder(path.parent)
            self._folders[path.parent][path.name] = None

    def remove(self, path: Path) -> None:
        content = self._find(path)
        if content is not None:
            del self._folders[path.parent][path.name]
            self._charge(-content.charged)

    def remove_tree(self, path: Path) -> None:
        for name, content in list(self._folders.get(path, {}).items()):
            if content is None:
                self.remove_tree(path / name)
            else:
                self.remove(path / name)
        if self._folders.pop(path, None) is not None:
            self._folders[path.parent].pop(path.name, None)

    def rename(self, old: Path, new: Path) -> None:
        if self.is_folder(old):
            self._rename_folder(old, new)
            return
        content = self._existing(old)
        if self.is_folder(new):
            raise IsADirectoryError(errno.EISDIR, "a folder has this name", str(new))
        names = self._names(new.parent)
        if old != new:
            self.remove(new)
            del self._folders[old.parent][old.name]
            names[new.name] = content

    def _rename_folder(self, old: Path, new: Path) -> None:
        if self._find(new) is not None or self._folders.get(new):
            raise OSError(errno.ENOTEMPTY, "the name is taken", str(new))
        names = self._names(new.parent)
        del self._folders[old.parent][old.name]
        names[new.name] = None
        for folder in [folder for folder in self._folders if folder == old or old in folder.parents]:
            self._folders[new / folder.relative_to(old)] = self._folders.pop(folder)

    def sync_folder(self, path: Path) -> None:
        self._names(path)

    def sync_all(self, root: Path) -> bool:
        self._names(root)
        return True

    def read_file(self, path: Path) -> bytes | None:
        content = self._find(path)
        return None if content is None else content.read(0, content.size)

    def write_file(self, path: Path, data: bytes) -> None:
        file = self.open(path, size=0)
        file.truncate(0)
        file.write_at(0, data)
        file.close()

    def usage(self, path: Path) -> DiskUsage:
        return DiskUsage(used=self._used, usable=self._capacity - self._used)

    def lock(self, path: Path) -> Lock:
        if path in self._locked:
            raise StoreLockedError(str(path), os.getpid())
        if self.read_file(path) != b"lock":
            self.write_file(path, b"lock")
        return MemoryLock(self._locked, path)

    def _charge(self, size: int) -> None:
        if size > self._capacity - self._used:
            raise OSError(errno.ENOSPC, f"the memory for files is used up: {self._used} of {self._capacity} bytes")
        self._used += size

    def _find(self, path: Path) -> Content | None:
        return self._folders.get(path.parent, {}).get(path.name)

    def _existing(self, path: Path) -> Content:
        content = self._find(path)
        if content is None:
            raise _missing(path)
        return content

    def _names(self, folder: Path) -> dict[str, Content | None]:
        names = self._folders.get(folder)
        if names is None:
            raise _missing(folder)
        return names


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or folder", str(path))
