"""The file system as something that can be handed in: disk in production, memory or a failing disk in tests.

Everything is written by position (`File.write_at`) and never through a map, so a full disk is an `OSError` where it
happens and not a signal that ends the process. Maps are for reading only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from rocketline.errors import StoreLockedError

Data: TypeAlias = bytes | bytearray | memoryview
ReadOnlyMap: TypeAlias = mmap.mmap
"""A file's bytes in memory: slices are `bytes`, and it is a buffer for `struct`. Nobody writes through it."""

_fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync
_CLEARED_BYTES = 1 << 20
_CLOSED = 2**31 - 1  # a handle that nobody has; -1 would mean an anonymous map to `mmap`
_FLOCK = "@hhqqi"  # Linux struct flock: type, whence, start, length, pid
_LOCK_TEXT: Final = b"lock"
_NO_RESERVATION: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV})
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class SyncError(OSError):
    """A sync failed: what was written since the one before may be gone, and the next one would not tell."""


def is_no_space(error: OSError) -> bool:
    """A disk or quota is full: what was to be written has no place now, and may have one later. A sync that fails so
    has lost what was written, and is no such case."""
    return error.errno in _NO_SPACE and not isinstance(error, SyncError)


def told(error: OSError) -> str:
    """What is wrong, and with which file, if that is known."""
    problem = error.strerror or str(error)
    return f"{error.filename}: {problem}" if error.filename else problem


def _find_fallocate() -> Callable[[int, int, int, int], int] | None:
    """Linux's fallocate(2). Python has posix_fallocate only, which imitates it where the file system cannot."""
    if sys.platform != "linux":
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        # There is no other where all offsets are long.
        found = getattr(library, "fallocate64", None) or library.fallocate
    except (OSError, AttributeError):  # a static Python, or another C library
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return found


_fallocate: Final = _find_fallocate()


def _find_syncfs() -> Callable[[int], int] | None:
    """Linux's syncfs(2), which Python does not have."""
    if sys.platform != "linux":
        return None
    try:
        found = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None
    found.argtypes = (ctypes.c_int,)
    return found


_syncfs: Final = _find_syncfs()


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Bytes in use on a volume, and bytes that this process may still use (reserved blocks are neither)."""

    used: int
    usable: int

    @property
    def ratio(self) -> float:
        """Used share of what can be used at all, in whole percent rounded up, as Apache compares it: 0.0 to 1.0."""
        entire = self.used + self.usable
        return -(-self.used * 100 // entire) / 100 if entire else 0.0

    def bytes_below(self, percent: int) -> int:
        """How many bytes more can be used while `ratio` stays within so many percent; negative if it is beyond."""
        return (self.used + self.usable) * percent // 100 - self.used


class File(Protocol):
    """An open file, used by one thread at a time. Only `sync` may run beside other calls, and `close` not beside it."""

    @property
    def size(self) -> int:
        """Its length, holes included."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """The bytes there; fewer than `size` only at the end of the file."""
        ...

    def write_at(self, position: int, data: Data) -> None:
        """Write all of `data`, growing the file if need be. After an `OSError` any part of it may be written."""
        ...

    def allocate(self, position: int, size: int) -> None:
        """Reserve disk blocks for a range inside the file, so that writing there cannot run out of space.

        Does nothing where the file system cannot. The C library may imitate it by writing zeros over zeros: nobody may
        write to the range meanwhile. Raises `OSError` when there is no space.
        """
        ...

    def try_allocate(self, position: int, size: int) -> bool:
        """The same without imitation: no byte is touched, so others may write to the range meanwhile.

        False where the file system cannot. Raises `OSError` when there is no space.
        """
        ...

    def sync(self) -> None:
        """Make every write so far durable (fdatasync). After a `SyncError` nothing written since the last one is safe,
        and trying again proves nothing: the system may have dropped the pages."""
        ...

    def map(self) -> ReadOnlyMap:
        """The whole file as it is long now, which must not be empty. Later writes show through while it keeps that
        length; the map outlives `close`."""
        ...

    def truncate(self, size: int) -> None:
        """Set the length. New bytes are zero and take no space."""
        ...

    def next_data(self, position: int) -> int:
        """Where bytes were written next, from `position` on; the size if nowhere. In between all is zero."""
        ...

    def data_end(self, position: int) -> int:
        """Where the bytes end that were written around `position`, which itself is the end if none were; the size if
        nothing is known. What follows may be a hole: to read that through a map takes disk blocks on tmpfs, and ends
        the process where there are none.
        """
        ...

    def close(self) -> None:
        """Let go of the file; once more does nothing."""
        ...


class Lock(Protocol):
    """A lock held until `release`."""

    def release(self) -> None:
        """Let go; once more does nothing."""
        ...


class FileSystem(Protocol):
    """Files by path. Every method raises `OSError` when the system refuses."""

    @property
    def may_wait(self) -> bool:
        """Calls may wait for a device: what can be done ahead is better done on another thread, which is safe here."""
        ...

    def open(self, path: Path, *, size: int | None = None) -> File:
        """Open for reading and writing. Given a `size`, a missing or empty file gets that length, sparse; any other
        keeps its own. Without, it must exist. Two threads may do this with one path at the same time."""
        ...

    def list(self, folder: Path) -> Sequence[str]:
        """The names in a folder, sorted; none if there is no such folder."""
        ...

    def exists(self, path: Path) -> bool: ...

    def is_folder(self, path: Path) -> bool: ...

    def size_of(self, path: Path) -> int: ...

    def modified_ms(self, path: Path) -> int: ...

    def make_folder(self, path: Path) -> None:
        """Make the folder and those above it, as far as they are missing."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; a missing one is as good as removed."""
        ...

    def remove_tree(self, path: Path) -> None:
        """Remove a folder with all it holds; a missing one is as good as removed."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Give a file or folder another name, replacing a file of that name in one step."""
        ...

    def sync_folder(self, path: Path) -> None:
        """Make what was created, renamed and removed in the folder durable. Raises `SyncError`."""
        ...

    def sync_all(self, root: Path) -> bool:
        """Make everything below `root` durable, names and all, in one go; False where the system has no such call."""
        ...

    def read_file(self, path: Path) -> bytes | None:
        """The whole content, None if there is no such file."""
        ...

    def write_file(self, path: Path, data: bytes) -> None:
        """Overwrite or make a file and sync it. A crash in between leaves any part of it."""
        ...

    def usage(self, path: Path) -> DiskUsage:
        """How full the volume of `path` is."""
        ...

    def lock(self, path: Path) -> Lock:
        """Lock out every other broker, Apache's too: the first byte of this file, which holds the text `lock`.

        A file that says so is not written again, and Apache's broker writes it at each start: when it was last modified
        tells whether somebody else had the store in between. Raises `StoreLockedError` when somebody holds it.
        """
        ...


def clear_from(file: File, position: int) -> bool:
    """Let nothing but zeros follow `position`; whether anything did. What is zero already is not written, and the
    length never changes: a file cut and grown again would be found short after a crash in between. Raises `OSError`."""
    was_set = False
    while (position := file.next_data(position)) < file.size:
        data = file.read_at(position, min(_CLEARED_BYTES, file.data_end(position) - position))
        if data != (zeros := bytes(len(data))):
            file.write_at(position, zeros)
            was_set = True
        position += len(data)
    return was_set


def last_set(file: File, begin: int) -> int:
    """Where the last byte from `begin` on that is not zero ends; `begin` if all are. Raises `OSError`."""
    end, position = begin, begin
    while (position := file.next_data(position)) < file.size:
        data = file.read_at(position, min(_CLEARED_BYTES, file.data_end(position) - position))
        if set_bytes := len(data.rstrip(b"\0")):
            end = position + set_bytes
        position += len(data)
    return end


class DiskFile:
    """A file on disk. Its errors name it."""

    __slots__ = ("_handle", "_path", "size")

    def __init__(self, handle: int, path: Path) -> None:
        self._handle, self._path = handle, path
        self.size = os.fstat(handle).st_size

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._handle, size, position)
        while len(data) < min(size, self.size - position):  # the system may hand over less than there is
            more = os.pread(self._handle, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def write_at(self, position: int, data: Data) -> None:
        end = position + len(data)
        try:
            written = os.pwrite(self._handle, data, position)
            while written < len(data):
                written += os.pwrite(self._handle, memoryview(data)[written:], position + written)
        except OSError as error:
            error.filename = str(self._path)
            raise
        if end > self.size:
            self.size = end

    def allocate(self, position: int, size: int) -> None:
        if not hasattr(os, "posix_fallocate"):
            return
        try:
            os.posix_fallocate(self._handle, position, size)
        except OSError as error:
            if error.errno not in _NO_RESERVATION:
                error.filename = str(self._path)
                raise

    def try_allocate(self, position: int, size: int) -> bool:
        if _fallocate is None:
            return False
        while _fallocate(self._handle, 0, position, size):
            number = ctypes.get_errno()
            if number in _NO_RESERVATION:
                return False
            if number != errno.EINTR:
                raise OSError(number, os.strerror(number), str(self._path))
        return True

    def sync(self) -> None:
        try:
            _fdatasync(self._handle)
        except OSError as error:
            raise SyncError(error.errno, error.strerror, str(self._path)) from error

    def map(self) -> ReadOnlyMap:
        return mmap.mmap(self._handle, self.size, access=mmap.ACCESS_READ)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._handle, size)
        self.size = size

    def next_data(self, position: int) -> int:
        if position >= self.size or not hasattr(os, "SEEK_DATA"):
            return position
        try:
            return os.lseek(self._handle, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing up to the end
                return self.size
            raise

    def data_end(self, position: int) -> int:
        if position >= self.size or not hasattr(os, "SEEK_HOLE"):
            return self.size
        return os.lseek(self._handle, position, os.SEEK_HOLE)

    def close(self) -> None:
        handle, self._handle = self._handle, _CLOSED
        if handle != _CLOSED:
            os.close(handle)


class DiskLock:
    """A POSIX record lock on the first byte of an open file.

    Such a lock is dropped when its process closes *any* handle of the file and never keeps out its own process, so the
    files locked here are also remembered by identity and not opened again.
    """

    _held: set[tuple[int, int]] = set()  # noqa: RUF012 - the locks of this process, whoever took them

    __slots__ = ("_handle", "_identity")

    def __init__(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            if _identity(path.stat()) in self._held:
                raise StoreLockedError(str(path), os.getpid())
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._identity = _identity(os.fstat(self._handle))
        try:
            self._take(path)
        except BaseException:
            os.close(self._handle)
            raise
        self._held.add(self._identity)

    def _take(self, path: Path) -> None:
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise StoreLockedError(str(path), self._holder()) from None
        if os.pread(self._handle, len(_LOCK_TEXT), 0) == _LOCK_TEXT:
            return
        try:
            os.pwrite(self._handle, _LOCK_TEXT, 0)
        except OSError as error:
            if not is_no_space(error):  # the text is for people: what counts is the lock
                raise

    def _holder(self) -> int | None:
        """Who has it, as far as the system tells: nobody we can name in another container or off Linux."""
        if sys.platform != "linux":
            return None
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        found = struct.unpack(_FLOCK, fcntl.fcntl(self._handle, fcntl.F_GETLK, asked))
        return found[4] if found[0] != fcntl.F_UNLCK and found[4] > 0 else None

    def release(self) -> None:
        if self._identity in self._held:
            self._held.remove(self._identity)
            os.close(self._handle)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class DiskFileSystem:
    """The machine's own file system."""

    may_wait = True

    def open(self, path: Path, *, size: int | None = None) -> File:
        if size is None:
            return DiskFile(os.open(path, os.O_RDWR), path)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not os.fstat(handle).st_size:  # should another thread do the same now, this changes nothing
                os.ftruncate(handle, size)
        except BaseException as error:
            os.close(handle)
            if isinstance(error, OSError):
                error.filename = str(path)
            raise
        return DiskFile(handle, path)

    def list(self, folder: Path) -> Sequence[str]:
        try:
            return sorted(os.listdir(folder))  # noqa: PTH208 - a store has many folders, and a path takes its time
        except FileNotFoundError:
            return []

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def size_of(self, path: Path) -> int:
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def sync_folder(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            raise SyncError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(handle)

    def sync_all(self, root: Path) -> bool:
        if _syncfs is None:
            return False
        handle = os.open(root, os.O_RDONLY)
        try:
            if _syncfs(handle):
                number = ctypes.get_errno()
                raise SyncError(number, os.strerror(number), str(root))
        finally:
            os.close(handle)
        return True

    def read_file(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def write_file(self, path: Path, data: bytes) -> None:
        file = DiskFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666), path)
        try:
            file.write_at(0, data)
            file.sync()
        finally:
            file.close()

    def usage(self, path: Path) -> DiskUsage:
        volume = os.statvfs(path)
        used = (volume.f_blocks - volume.f_bfree) * volume.f_frsize
        return DiskUsage(used=used, usable=volume.f_bavail * volume.f_frsize)

    def lock(self, path: Path) -> Lock:
        return DiskLock(path)
