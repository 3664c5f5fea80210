"""The file `timercheck`: how far timers are, as it is on disk and as replicas ask for it. Java: TimerCheckpoint.

Differs: behind Apache's seven numbers, in the same sector, stands what wheel and timer log must agree with, and a check
sum of all. It counts as long as nobody else has had the store since, which the lock file shows.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from rocketline.errors import CorruptStoreError
from rocketline.store.filesystem import FileSystem

_FIELDS: Final = struct.Struct(">7q")
_NOTE: Final = struct.Struct(">5q")
_SUM: Final = struct.Struct(">I")
_NOTED_BYTES: Final = _FIELDS.size + _NOTE.size
FILE_BYTES: Final = 4096
UNUSABLE: Final = 2**62
"""In place of a position in the timer log: the other files are to be derived anew."""
_AHEAD_MS_MAX: Final = 86_400_000
"""Of a checkpoint without a check sum: so far the clock may have been set back."""
NO_LOCK: Final = -1
"""In place of the time when the lock file was modified: there is none."""


class TimerNote(NamedTuple):
    """What is in the other files at the moment of a checkpoint: a wheel or a timer log that lacks some of it would look
    whole all the same."""

    lock_ms: int
    """When the lock file of the store was modified: Apache's broker does so at each start."""
    log_start: int
    """Where the timer log began."""
    precision_ms: int
    slots: int
    """In which somebody waits."""
    waiting: int
    """Messages in all of them."""


def lock_ms_of(fs: FileSystem, root: Path) -> int:
    """What a note has to say that counts. Raises `OSError`."""
    return fs.modified_ms(root / "lock") if fs.exists(root / "lock") else NO_LOCK


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
    note: TimerNote | None = field(default=None, compare=False)
    """None if nobody wrote one, or somebody else has had the store since."""

    def encode(self) -> bytes:
        """The seven numbers."""
        return _FIELDS.pack(
            self.read_ms,
            self.log_flushed,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.timestamp_ms,
            self.counter,
        )

    def _encode_noted(self) -> bytes:
        if self.note is None:
            return self.encode().ljust(_NOTED_BYTES + _SUM.size, b"\0")
        data = self.encode() + _NOTE.pack(*self.note)
        return data + _SUM.pack(zlib.crc32(data))

    @classmethod
    def load(cls, fs: FileSystem, path: Path, lock_ms: int, now_ms: int) -> TimerCheckpoint | None:
        """What the file says, None if there is none. Raises `CorruptStoreError`, `OSError`."""
        data = fs.read_file(path)
        if not data or not any(data):
            return None
        if len(data) < _FIELDS.size:
            raise CorruptStoreError(str(path), f"{len(data)} bytes where a timer checkpoint has {FILE_BYTES}")
        found = replace(cls(*_FIELDS.unpack_from(data)), note=_note_in(data, path, lock_ms))
        if min(found.read_ms, found.log_flushed, found.queue_offset, found.master_queue_offset) < 0:
            raise CorruptStoreError(str(path), "it holds a negative time or position")
        if found.note is None and found.read_ms > now_ms + _AHEAD_MS_MAX:
            raise CorruptStoreError(str(path), f"its time, {found.read_ms}, is far ahead of the clock")
        return found

    def save(self, fs: FileSystem, path: Path) -> None:
        """Durably. Raises `OSError`."""
        is_new = not fs.exists(path)
        if is_new:
            fs.make_folder(path.parent)
        file = fs.open(path, size=FILE_BYTES)
        try:
            if file.size < FILE_BYTES:
                file.truncate(FILE_BYTES)
            file.write_at(0, self._encode_noted())
            file.sync()
        finally:
            file.close()
        if is_new:
            fs.sync_folder(path.parent)


def unusable(known: TimerCheckpoint, now_ms: int, lock_ms: int, precision_ms: int) -> TimerCheckpoint:
    """What lets a start derive wheel and timer log anew, and deliver nothing again of which `known` tells."""
    note = TimerNote(lock_ms, 0, precision_ms, 0, 0)
    return TimerCheckpoint(known.read_ms, UNUSABLE, known.queue_offset, 0, 0, now_ms, known.counter + 1, note)


def _note_in(data: bytes, path: Path, lock_ms: int) -> TimerNote | None:
    if len(data) < _NOTED_BYTES + _SUM.size:
        return None
    note = TimerNote._make(_NOTE.unpack_from(data, _FIELDS.size))
    if note.lock_ms != lock_ms:
        return None
    if zlib.crc32(data[:_NOTED_BYTES]) != _SUM.unpack_from(data, _NOTED_BYTES)[0]:
        raise CorruptStoreError(str(path), "its check sum is wrong")
    return note
