"""A disk that fails when told to, and forgets at a power cut what was not synced.

The model is a Linux page cache over a journaling file system:

- Bytes written are seen at once, and durable after `File.sync`. A crash keeps all of the rest, nothing, a stretch of
  it in the order of writing, or any mixture of its 512-byte sectors, as old as the last sync or newer.
- A crash leaves a length that the file has had since its last sync. If it was made shorter, writes survive in order.
- Creations, renames and removals are durable after `sync_folder` of their folder, and in order: a crash keeps the
  durable ones and a stretch of those that followed.
- A lock file stays, with its time.
- A sync that fails drops the bytes it should have made durable: a second one succeeds and proves nothing.

    disk = FaultyFileSystem(clock)
    disk.fail(at=7, lasting=True)     # power is gone from the seventh call on that changes anything
    ...
    disk = disk.crash(Survival.SECTORS, seed=1)
"""

from __future__ import annotations

import enum
import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock as ThreadLock
from typing import TypeAlias

from rocketline.clock import Clock
from rocketline.store.filesystem import Data, DiskUsage, File, Lock, ReadOnlyMap, SyncError
from rocketline.store.memory_filesystem import Content, MemoryFileSystem

SECTOR_BYTES = 512
SPACE_CALLS = frozenset(["create", "extend", "allocate", "make_folder"])
"""What a full disk refuses. A `create` is an `open` of a file that is not there, an `extend` a `write` to where nothing
was written or reserved before. File systems that write nothing in place refuse every `write`."""
CALLS = SPACE_CALLS | {"open", "write", "sync", "truncate", "remove", "remove_tree", "rename", "sync_folder"}
"""What can fail. `write_file` is an open, a truncate, a write and a sync. A folder that is there is not made again."""
_KINDS = {"create": {"create", "open"}, "extend": {"extend", "write"}}


class Survival(enum.Enum):
    """What a crash leaves of that which was not synced."""

    NOTHING = enum.auto()
    EVERYTHING = enum.auto()
    STRETCH = enum.auto()
    """The first writes, the last of them perhaps in part."""
    SECTORS = enum.auto()
    """Each sector as it was after any of its writes, or before the first."""


@dataclass(slots=True)
class _Change:
    """Bytes written, or a length set."""

    position: int
    data: bytes | None


@dataclass(slots=True)
class _Inode:
    """One file: what the platter holds for certain, and what happened since."""

    durable: Content = field(default_factory=Content)
    unsynced: list[_Change] = field(default_factory=list)

    def settle(self) -> None:
        for change in self.unsynced:
            if change.data is None:
                self.durable.resize(change.position)
            else:
                self.durable.write(change.position, change.data)
        self.unsynced.clear()

    def restore(self, file: File, survival: Survival, chance: random.Random) -> None:
        """Write to `file` what a crash leaves of this one."""
        file.truncate(self.durable.size)
        file.write_at(0, self.durable.read(0, self.durable.charged))
        for change in self._survivors(survival, chance):
            if change.data is None:
                file.truncate(change.position)
            else:
                file.write_at(change.position, change.data)
        file.sync()

    def _survivors(self, survival: Survival, chance: random.Random) -> Sequence[_Change]:
        if survival is Survival.NOTHING:
            return []
        if survival is Survival.EVERYTHING:
            return self.unsynced
        lengths = self._lengths()
        if survival is Survival.SECTORS and lengths == sorted(lengths):
            return [*self._sectors(chance), _Change(chance.choice(lengths), None)]
        storage = self.unsynced[: chance.randint(0, len(self.unsynced))]
        if storage and (data := storage[-1].data):
            storage[-1] = _Change(storage[-1].position, data[: chance.randint(0, len(data))])
        return storage

    def _lengths(self) -> list[int]:
        """How long the file was before and after each change: a crash leaves one of these lengths."""
        lengths = [self.durable.size]
        for change in self.unsynced:
            is_cut = change.data is None
            lengths.append(change.position if is_cut else max(lengths[-1], change.position + len(change.data or b"")))
        return lengths

    def _sectors(self, chance: random.Random) -> Sequence[_Change]:
        """The writes cut into sectors; from each sector the latest few are left out."""
        pieces = [piece for change in self.unsynced for piece in _cut(change)]
        writes_of = Counter(piece.position // SECTOR_BYTES for piece in pieces)
        kept_of = {sector: chance.randint(0, count) for sector, count in writes_of.items()}
        survivors = []
        for piece in pieces:
            sector = piece.position // SECTOR_BYTES
            if kept_of[sector]:
                kept_of[sector] -= 1
                survivors.append(piece)
        return survivors


def _cut(change: _Change) -> list[_Change]:
    """A write by sectors; a change of length is none."""
    data = change.data or b""
    pieces, at, end = [], change.position, change.position + len(data)
    while at < end:
        until = min(end, at - at % SECTOR_BYTES + SECTOR_BYTES)
        pieces.append(_Change(at, data[at - change.position : until - change.position]))
        at = until
    return pieces


_Names: TypeAlias = dict[Path, _Inode | None]
"""Every path, with its file, or None for a folder."""


@dataclass(slots=True)
class _Naming:
    """A change of names, and the folders that must be synced to make it last."""

    folders: frozenset[Path]
    apply: Callable[[_Names], None]


@dataclass(slots=True)
class _Fault:
    """Which call fails, and how."""

    at: int
    calls: frozenset[str]
    error: int
    lasting: bool
    torn: bool


class FaultyFile:
    """An open file on the failing disk."""

    def __init__(self, disk: FaultyFileSystem, path: Path, file: File, inode: _Inode) -> None:
        self._disk, self._path, self._file, self._inode = disk, path, file, inode

    @property
    def size(self) -> int:
        return self._file.size

    def read_at(self, position: int, size: int) -> bytes:
        return self._file.read_at(position, size)

    def write_at(self, position: int, data: Data) -> None:
        try:
            is_in_place = self._file.data_end(position) >= position + len(data)
            self._disk.count("write" if is_in_place else "extend", self._path)
        except OSError:
            torn = self._disk.torn_part(data)
            if torn:
                self._write(position, torn)
            raise
        self._write(position, data)

    def _write(self, position: int, data: Data) -> None:
        self._file.write_at(position, data)
        self._inode.unsynced.append(_Change(position, bytes(data)))

    def allocate(self, position: int, size: int) -> None:
        self._disk.count("allocate", self._path)
        self._file.allocate(position, size)

    def try_allocate(self, position: int, size: int) -> bool:
        self.allocate(position, size)
        return True

    def sync(self) -> None:
        try:
            self._disk.count("sync", self._path)
        except OSError:
            self._inode.unsynced[:] = [_Change(self._file.size, None)]  # the length has its own way to the disk
            raise
        self._file.sync()
        self._inode.settle()

    def map(self) -> ReadOnlyMap:
        return self._file.map()

    def truncate(self, size: int) -> None:
        self._disk.count("truncate", self._path)
        self._file.truncate(size)
        self._inode.unsynced.append(_Change(size, None))

    def next_data(self, position: int) -> int:
        return self._file.next_data(position)

    def data_end(self, position: int) -> int:
        return self._file.data_end(position)

    def close(self) -> None:
        self._file.close()


class FaultyFileSystem:
    """A file system in memory that can fail and crash."""

    may_wait = True

    def __init__(self, clock: Clock, *, capacity: int = 1 << 32, seed: int = 0) -> None:
        self._clock, self._capacity = clock, capacity
        self._memory = MemoryFileSystem(clock, capacity=capacity)
        self._live: _Names = {}
        self._durable: _Names = {}
        self._namings: list[_Naming] = []
        self._fault: _Fault | None = None
        self._chance = random.Random(seed)  # noqa: S311 - it must repeat
        self._making = ThreadLock()
        self._locks: set[Path] = set()
        self.call_count = 0
        """How many calls could have failed since the start or the last `fail`, of the kinds it named."""

    def fail(
        self,
        *,
        at: int,
        calls: Collection[str] = CALLS,
        error: int = errno.EIO,
        lasting: bool = False,
        torn: bool = False,
    ) -> None:
        """Let the `at`-th call from now (1 is the next) of these kinds fail, and with `lasting` all that follow it.

        `torn`: if the first that fails is a write, a part of its bytes is written.
        """
        unknown = set(calls) - CALLS
        assert not unknown, f"no such calls: {unknown}"
        self.call_count = 0
        self._fault = _Fault(at, frozenset(calls), error, lasting, torn)

    def heal(self) -> None:
        """Let nothing fail any more."""
        self._fault = None

    def crash(self, survival: Survival, *, seed: int) -> FaultyFileSystem:
        """The disk as the next process finds it. This one, and the files open on it, lead nowhere any more."""
        chance = random.Random(seed)  # noqa: S311 - it must repeat
        names = dict(self._durable)
        for naming in self._namings[: self._kept_namings(survival, chance)]:
            naming.apply(names)
        after = FaultyFileSystem(self._clock, capacity=self._capacity, seed=seed)
        for path, inode in sorted(names.items()):
            if inode is None:
                after.make_folder(path)
        for path, inode in sorted(names.items()):
            if inode is not None:
                inode.restore(after.open(path, size=0), survival, chance)
        for path in self._locks:
            if path.parent in names:
                after._keep_lock(path, self._memory.modified_ms(path))
        after._settle_names(len(after._namings))
        after.call_count = 0
        return after

    def _kept_namings(self, survival: Survival, chance: random.Random) -> int:
        if survival is Survival.NOTHING:
            return 0
        return len(self._namings) if survival is Survival.EVERYTHING else chance.randint(0, len(self._namings))

    def count(self, call: str, path: Path) -> None:
        """Note that a call of this kind happens now, or raise what it shall fail with."""
        fault = self._fault
        if fault is not None and not fault.calls & _KINDS.get(call, {call}):
            return
        self.call_count += 1
        if fault is not None and (self.call_count == fault.at or (fault.lasting and self.call_count > fault.at)):
            kind = SyncError if call in ("sync", "sync_folder") else OSError
            raise kind(fault.error, os.strerror(fault.error), str(path))

    def torn_part(self, data: Data) -> bytes:
        """What a write that fails has written all the same."""
        if self._fault is None or not self._fault.torn or self.call_count != self._fault.at:
            return b""
        return bytes(data[: self._chance.randint(0, len(data))])

    def open(self, path: Path, *, size: int | None = None) -> File:
        self.count("open" if path in self._live else "create", path)
        with self._making:  # two threads may open one path
            inode = self._live.get(path)
            was_empty = inode is None or not self._memory.size_of(path)
            file = self._memory.open(path, size=size)
            if inode is None:
                inode = _Inode()
                self._rename_in((path.parent,), partial(_link, path=path, inode=inode))
            if was_empty and file.size:
                inode.unsynced.append(_Change(file.size, None))
        return FaultyFile(self, path, file, inode)

    def list(self, folder: Path) -> Sequence[str]:
        return self._memory.list(folder)

    def exists(self, path: Path) -> bool:
        return self._memory.exists(path)

    def is_folder(self, path: Path) -> bool:
        return self._memory.is_folder(path)

    def size_of(self, path: Path) -> int:
        return self._memory.size_of(path)

    def modified_ms(self, path: Path) -> int:
        return self._memory.modified_ms(path)

    def make_folder(self, path: Path) -> None:
        if self._memory.is_folder(path):
            return
        self.count("make_folder", path)
        self._memory.make_folder(path)
        for folder in [path, *path.parents]:
            if folder not in self._live:
                self._rename_in((folder.parent,), partial(_link, path=folder, inode=None))

    def remove(self, path: Path) -> None:
        self.count("remove", path)
        self._memory.remove(path)
        self._rename_in((path.parent,), partial(_drop, path=path))

    def remove_tree(self, path: Path) -> None:
        self.count("remove_tree", path)
        self._memory.remove_tree(path)
        self._rename_in((path.parent,), partial(_drop, path=path))

    def rename(self, old: Path, new: Path) -> None:
        self.count("rename", old)
        self._memory.rename(old, new)
        self._rename_in((old.parent, new.parent), partial(_move, old=old, new=new))

    def sync_folder(self, path: Path) -> None:
        self.count("sync_folder", path)
        self._memory.sync_folder(path)
        numbers = [number for number, naming in enumerate(self._namings, 1) if path in naming.folders]
        self._settle_names(max(numbers, default=0))

    def sync_all(self, root: Path) -> bool:
        return False  # what is durable shows file by file here

    def read_file(self, path: Path) -> bytes | None:
        return self._memory.read_file(path)

    def write_file(self, path: Path, data: bytes) -> None:
        file = self.open(path, size=0)
        file.truncate(0)
        file.write_at(0, data)
        file.sync()
        file.close()

    def usage(self, path: Path) -> DiskUsage:
        return self._memory.usage(path)

    def lock(self, path: Path) -> Lock:
        self._locks.add(path)
        return self._memory.lock(path)

    def _keep_lock(self, path: Path, modified_ms: int) -> None:
        """The file is there, as old as it is, and nobody holds it."""
        self.lock(path).release()
        self._memory.touch(path, modified_ms)

    def _rename_in(self, folders: Sequence[Path], apply: Callable[[_Names], None]) -> None:
        apply(self._live)
        self._namings.append(_Naming(frozenset(folders), apply))

    def _settle_names(self, count: int) -> None:
        for naming in self._namings[:count]:
            naming.apply(self._durable)
        del self._namings[:count]


def _link(names: _Names, path: Path, inode: _Inode | None) -> None:
    names[path] = inode


def _drop(names: _Names, path: Path) -> None:
    for name in [name for name in names if name == path or path in name.parents]:
        del names[name]


def _move(names: _Names, old: Path, new: Path) -> None:
    moved = {name: names[name] for name in names if name == old or old in name.parents}
    _drop(names, old)
    names.update({new / name.relative_to(old): inode for name, inode in moved.items()})
