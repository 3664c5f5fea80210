"""The `checkpoint` file: until when everything is durable, so recovery knows where to begin. Java: StoreCheckpoint."""

from __future__ import annotations

import struct
from pathlib import Path

from rocketline.logs import Log
from rocketline.store.filesystem import File, FileSystem, is_no_space, told

_log = Log(__name__)

FILE_BYTES = 4096
_FIELDS = struct.Struct(">6q")
_UNCERTAIN_MS = 3000
"""Recovery begins so much earlier: the stamps of log and queues are not taken at one moment."""


class Checkpoint:
    """Six numbers; a store that has no such file yet has zeros.

    They lie within one sector, so a crash leaves the old ones or the new ones. Whoever changes them is on the loop;
    `save` may run elsewhere, since each number is true by itself.
    """

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs, self._path = fs, path
        self._file: File | None = None
        self._saved = b""
        self.physic_msg_timestamp = 0
        """Store time of the last message in the synced part of the log."""
        self.logics_msg_timestamp = 0
        """Store time of the last message whose unit is in the synced part of its queue."""
        self.index_msg_timestamp = 0
        """Store time of the last message in the last index file that is full, and so synced."""
        self.master_flushed_offset = 0
        self.confirm_log_offset = 0
        """Java: confirmPhyOffset. Recovery sets it to the last good record; nothing moves it afterwards."""
        self.logics_log_offset = 0
        """Log offset of the last message whose unit is in the synced part of its queue. Java: logicsPhysicalOffset."""

    def load(self) -> None:
        """Open the file, which is made if missing, and take its numbers. Raises `OSError`; without room for a new file
        there are no numbers, and it is made with the next save."""
        try:
            file = self._opened()
        except OSError as error:
            if not is_no_space(error):
                raise
            return
        if file.size != FILE_BYTES:
            file.truncate(FILE_BYTES)
        self._take(file.read_at(0, _FIELDS.size))

    def peek(self) -> None:
        """Take the numbers of a file that is there and long enough, and leave it as it is. Raises `OSError`."""
        self._take((self._fs.read_file(self._path) or b"")[: _FIELDS.size])

    def _take(self, data: bytes) -> None:
        self._saved = data
        (
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_log_offset,
            self.logics_log_offset,
        ) = _FIELDS.unpack(data)

    def save(self) -> None:
        """Write the numbers durably, unless they are on disk already. Raises `OSError`, but not for lack of room: the
        old ones are true as well, and the next save comes soon."""
        try:
            self._save()
        except OSError as error:
            if not is_no_space(error):
                raise
            _log.warning("checkpoint not saved", problem=told(error))

    def distrust_queues(self) -> None:
        """Durably let the next start after a crash derive all queues from the whole log: some are about to be taken
        apart. Raises `OSError`."""
        self.logics_msg_timestamp = 0
        self._save()

    def _save(self) -> None:
        """One that was begun elsewhere may write older numbers over those of a later one; then it sees so."""
        while (data := self._packed()) != self._saved:
            file = self._opened()
            file.write_at(0, data)
            file.sync()
            self._saved = data

    def _packed(self) -> bytes:
        return _FIELDS.pack(
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_log_offset,
            self.logics_log_offset,
        )

    def _opened(self) -> File:
        if self._file is None:
            self._file = self._fs.open(self._path, size=FILE_BYTES)
        return self._file

    @property
    def min_timestamp(self) -> int:
        """Everything stored up to then is complete on disk, log and queues alike."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _UNCERTAIN_MS)

    def close(self) -> None:
        """Let go of the file, without saving; once more does nothing."""
        if self._file is not None:
            self._file.close()
