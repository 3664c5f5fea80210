"""The files of a broker's log and what else its folder tells, read without ever writing there.

The broker may be running: files grow, new ones appear, old ones are deleted.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from rocketline.errors import ConfigError, CorruptStoreError
from rocketline.model.names import SYSTEM_TOPIC_PREFIX
from rocketline.spark.options.store import StoreOptions
from rocketline.spark.store_files.damage import damage

_NAME: Final = re.compile(r"[0-9]{20}")
_MEMBER_TOPIC: Final = re.compile(rf'"{SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_([^"\\]+)"')
"""The topic that has the broker's name in its own; every broker of 5.x makes it."""
_FLOCK: Final = "@hhqqi"  # Linux struct flock: type, whence, start, length, pid
_LOOK_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the log."""

    path: str
    start: int
    """The position in the log of its first byte."""
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def log_files(options: StoreOptions) -> list[LogFile]:
    """The files of the log in order. Raises `ConfigError` if there is no log at all."""
    folders = [Path(path) for path in options.log_paths] or [_log_folder(Path(options.path))]
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError([f"{folder} is no folder: path names the store's folder, which has a folder commitlog"])
    found = [file for folder in folders for file in stream_files(folder)]
    return sorted(found, key=lambda file: file.start)


def _log_folder(root: Path) -> Path:
    if (root / "commitlog").is_dir() or not any(stream_files(root)):
        return root / "commitlog"
    return root


def stream_files(folder: Path) -> Iterator[LogFile]:
    """The files of a stream of bytes that lie in `folder`, in any order; each is named by where it begins."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if _NAME.fullmatch(entry.name):
            try:
                found = entry.stat()
            except FileNotFoundError:  # deleted meanwhile, by its broker
                continue
            if stat.S_ISREG(found.st_mode):
                yield LogFile(str(entry), int(entry.name), found.st_size)


def check_adjacent(files: Sequence[LogFile]) -> Iterator[CorruptStoreError]:
    """What is missing between files."""
    for before, after in pairwise(files):
        if before.end != after.start:
            yield damage(before.path, f"it ends at position {before.end} of the log, and the next file is {after.path}")


def broker_name(options: StoreOptions) -> str | None:
    """The name of the broker whose store it is, as far as the options or the folder tell."""
    if options.broker_name is not None:
        return options.broker_name
    for content in topic_lists(Path(options.path)):
        if found := _MEMBER_TOPIC.search(content.decode("utf-8", "replace")):
            return found[1]
    return None


def topic_lists(root: Path) -> Iterator[bytes]:
    """What the broker has written down of its topics: the newest, then the one before, then each change since.

    It may write them right now. Changes go from the journal to the one before, and then into the table: whoever reads
    the files in this order misses none.
    """
    found: dict[str, bytes] = {}
    for name in ("topics.json.journal", "topics.json.journal.bak", "topics.json", "topics.json.bak"):
        with suppress(OSError):
            found[name] = (root / "config" / name).read_bytes()
    for name in ("topics.json", "topics.json.bak"):
        if name in found:
            yield found[name]
    for name in ("topics.json.journal.bak", "topics.json.journal"):
        yield from (line.partition(b" ")[2] for line in found.get(name, b"").splitlines())


def is_in_use(options: StoreOptions) -> bool:
    """A broker has the store open, as far as the system tells: one elsewhere, on a shared disk, may go unnoticed."""
    if sys.platform != "linux":
        return False
    try:
        handle = os.open(Path(options.path) / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        found: tuple[int, ...] = struct.unpack(_FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    except OSError:
        return False
    finally:
        os.close(handle)
    return found[0] != fcntl.F_UNLCK


@contextmanager
def opened(path: str) -> Iterator[int]:
    """The file's handle, for reading. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def has_data_after(handle: int, at: int, size: int) -> bool:
    """A byte that is not zero follows in the file, of `size` bytes; what was never written takes no time."""
    while at < size:
        try:
            at = os.lseek(handle, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing up to the end
                return False
        data = os.pread(handle, min(_LOOK_BYTES, size - at), at)
        if not data:
            return False
        if data.count(0) != len(data):
            return True
        at += len(data)
    return False
