"""The file `timercheck`: how far timers are, as it is on disk and as replicas ask for it. Java: TimerCheckpoint."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketline.errors import CorruptStoreError
from rocketline.store.filesystem import FileSystem

_FIELDS: Final = struct.Struct(">7q")
_FILE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class TimerCheckpoint:
    """Seven numbers within one sector: a crash leaves all of the old ones or all of the new ones."""

    read_ms: int = 0
    """All slots before this time were delivered."""
    log_flushed: int = 0
    """The timer log is on disk up to here."""
    queue_offset: int = 0
    """The next message of the timer topic to be parked."""
    master_queue_offset: int = 0
    """The same of the master, for its replicas. A master's own."""
    state_version: int = 0
    timestamp_ms: int = 0
    counter: int = 0

    def encode(self) -> bytes:
        return _FIELDS.pack(
            self.read_ms,
            self.log_flushed,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.timestamp_ms,
            self.counter,
        )

    @classmethod
    def load(cls, fs: FileSystem, path: Path) -> TimerCheckpoint | None:
        """What the file says, None if there is none. Raises `CorruptStoreError`, `OSError`."""
        data = fs.read_file(path)
        if not data or not any(data):
            return None
        if len(data) < _FIELDS.size:
            raise CorruptStoreError(str(path), f"{len(data)} bytes where a timer checkpoint has {_FILE_BYTES}")
        found = cls(*_FIELDS.unpack_from(data))
        if min(found.read_ms, found.log_flushed, found.queue_offset, found.master_queue_offset) < 0:
            raise CorruptStoreError(str(path), "it holds a negative time or position")
        return found

    def save(self, fs: FileSystem, path: Path) -> None:
        """Durably. Raises `OSError`."""
        is_new = not fs.exists(path)
        if is_new:
            fs.make_folder(path.parent)
        file = fs.open(path, size=_FILE_BYTES)
        try:
            if file.size < _FILE_BYTES:
                file.truncate(_FILE_BYTES)
            file.write_at(0, self.encode())
            file.sync()
        finally:
            file.close()
        if is_new:
            fs.sync_folder(path.parent)
