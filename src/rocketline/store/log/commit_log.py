"""The commit log: every message of the broker, one after the other, in the order in which they came. Java: CommitLog.

What is known of its bytes, from the oldest to the newest: up to `flushed` they are on disk; up to `end` they are
written. A write that fails leaves any bytes beyond `end`. If there was just no room, they are cleared before the next
one; after any other failure nothing more is written until recovery has looked.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketline.errors import IllegalMessageError, StoreFullError
from rocketline.logs import Log
from rocketline.store.files.segments import OpenFiles, Segments
from rocketline.store.filesystem import File, FileSystem, ReadOnlyMap, is_no_space
from rocketline.store.log.damage import Aside, DamagedSpans
from rocketline.store.log.log_space import LogSpace
from rocketline.wire.message_codec import BLANK_BYTES_MIN, MAGIC_V1, MAGIC_V2, encode_blank

_log = Log(__name__)

_MAPS_MAX: Final = 64
_BLOCK_BYTES: Final = 4096
"""What file systems give at once: where a byte was written, zeros can be."""
_MAGICS = frozenset({MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big")})


@dataclass(frozen=True, slots=True)
class FlushJob:
    """What must be synced, off the loop, so that the log is durable up to `end`."""

    files: tuple[File, ...]
    end: int

    def run(self) -> None:
        """Raises `OSError`. The files stay open until the job was reported as finished."""
        for file in self.files:
            file.sync()


class CommitLog:
    """An endless log in files of one size. A record lies in one file; a blank record fills a file's end."""

    def __init__(self, fs: FileSystem, folder: Path, segment_bytes: int) -> None:
        self._files = OpenFiles(fs)
        self._fs = fs
        self.segments = Segments(self._files, folder, segment_bytes)
        self.space = LogSpace(fs, self.segments)
        self.segment_bytes = segment_bytes
        self.end = 0
        """Where the next record goes. Java: maxOffset."""
        self.flushed = 0
        self.has_rest = False
        """Bytes of a former life may follow the end, for whose copies there was no room: nothing may be written."""
        self._torn_to = 0  # up to here a write that found no room may have left bytes beyond the end
        self.damage = DamagedSpans()
        """Bytes before `end` that hold no readable record."""
        self._writing: dict[int, File] = {}  # by start: those that are not flushed to their end yet
        self._maps: OrderedDict[int, ReadOnlyMap] = OrderedDict()

    # --- opening

    def load(self) -> None:
        """Find the files. Until recovery says otherwise the log goes to the end of the last one."""
        self.segments.load()
        self.end = self.flushed = self.segments.end

    def restart(self, begin: int, end: int, aside: Aside) -> list[Path]:
        """Recovery read the log from `begin` on and found it good up to `end`: drop the rest, and go on from there.

        What it found is made durable, since it will be read: it may have been left by a process that never synced it.
        What is dropped is copied first; where these copies are is given back. Raises `OSError`: the log can be read
        all the same, but nothing may be written before `drop_rest` has succeeded.
        """
        self._maps.clear()
        for start in self.segments.starts:
            if begin < start + self.segment_bytes and start < end:
                self.segments.file_of(start).sync()
        self.end = self.flushed = end
        self.has_rest = True
        self.space.begin_at(end)
        return self.drop_rest(aside)

    def drop_rest(self, aside: Aside) -> list[Path]:
        """Clear all bytes behind the end, each file's once there is a copy of it. Raises `OSError`; what was done until
        then stays done."""
        copies = []
        for start in reversed(self.segments.starts):  # whenever this stops, there is no gap
            if start + self.segment_bytes > self.end:
                begin = max(start, self.end)
                copy = aside.copy(self.segments.file_of(start), begin - start, Path("commitlog", f"{begin:020}"))
                if copy is not None:
                    copies.append(copy)
                    _log.warning("what followed the last good record was dropped", log_end=self.end, copy=str(copy))
                self.segments.clear_from(begin)
        self.has_rest = False
        self.space.begin_at(self.end)
        return copies

    @property
    def start(self) -> int:
        """The first byte that is still kept; 0 if nothing ever was. Java: minOffset."""
        return self.segments.starts[0] if self.segments.starts else 0

    # --- writing

    def room(self) -> int:
        """How many bytes still fit into the file being written; 0 if there is none."""
        return self.segments.end - self.end if self.segments.has(self.end) else 0

    def make_room(self, record_bytes: int) -> None:
        """Go on to the next file unless a record of this size fits, and a blank one after it.

        Raises `IllegalMessageError` if no file can hold it, `StoreFullError`, and `OSError` when writing fails.
        """
        if record_bytes + BLANK_BYTES_MIN > self.segment_bytes:
            raise IllegalMessageError(
                f"the record has {record_bytes} bytes, a log file {self.segment_bytes}: raise mappedFileSizeCommitLog"
            )
        left = self.room()
        if record_bytes + BLANK_BYTES_MIN <= left:
            return
        if left:
            self.write(encode_blank(left))
            self.end += left - BLANK_BYTES_MIN
        try:
            self.space.add_file(self.end)
        except OSError as error:
            raise StoreFullError(f"no new log file can be made in {self.segments.folder}: {error.strerror}") from error

    def write(self, data: bytes) -> None:
        """Append bytes that fit into the current file. Raises `StoreFullError` if there is no room for them, which is
        known before they are written wherever the file system can reserve it, and `OSError` if writing fails."""
        start = self.segments.start_of(self.end)
        file = self._writing.get(start)
        if file is None:
            file = self._writing[start] = self._fs.open(self.segments.path(start))
        end, space = self.end + len(data), self.space
        if end > space.reserved:
            self._reserve(file, start, end)
        try:
            if self._torn_to:
                self._clear_torn(file, start)
            file.write_at(self.end - start, data)
        except OSError as error:
            if not is_no_space(error):
                raise
            raise self._refused(file, start, end, error) from error
        self.end = end
        if end > space.low_at:
            space.tell_low()

    def _reserve(self, file: File, start: int, end: int) -> None:
        if self.has_rest:
            raise StoreFullError(
                f"no disk space for a copy of what follows the end of the log in {self.segments.folder}"
            )
        try:
            self.space.reserve(file, start, end)
        except OSError as error:
            raise self._full(error) from error

    def _full(self, error: OSError) -> StoreFullError:
        return StoreFullError(f"no disk space for the log in {self.segments.folder}: {error.strerror}")

    def _refused(self, file: File, start: int, end: int, error: OSError) -> StoreFullError:
        """There was no room for all of it. What was written must not be found by a recovery, so it goes again: now, or,
        on a file system that needs room even for that, before anything else is written."""
        self._torn_to = max(self._torn_to, end)
        try:
            self._clear_torn(file, start)
        except OSError as again:
            if not is_no_space(again):
                raise
        return self._full(error)

    def _clear_torn(self, file: File, start: int) -> None:
        """Raises `OSError`. Where nothing was written no block is asked for."""
        at, until = self.end - start, self._torn_to - start
        while at < until:
            data = file.read_at(at, min(_BLOCK_BYTES - at % _BLOCK_BYTES, until - at))
            if any(data):
                file.write_at(at, bytes(len(data)))
            at += len(data)
        self._torn_to = 0

    # --- flushing

    def begin_flush(self) -> FlushJob | None:
        """What to sync for everything written so far, None if all is flushed."""
        if self.flushed == self.end:
            return None
        return FlushJob(tuple(self._writing.values()), self.end)

    def finish_flush(self, job: FlushJob) -> None:
        """The job ran without an error."""
        self.flushed = job.end
        for start in [start for start in self._writing if start + self.segment_bytes <= job.end]:
            self._writing.pop(start).close()

    # --- reading

    def read(self, position: int, size: int) -> bytes | None:
        """Exactly `size` written bytes of one file, None if they are not all there."""
        in_file = position % self.segment_bytes
        if size <= 0 or position < self.start or position + size > self.end or in_file + size > self.segment_bytes:
            return None
        return self.map_of(position - in_file)[in_file : in_file + size]

    def record_bytes_at(self, position: int) -> int:
        """The size of the record that begins at `position`, 0 if none does."""
        head = self.read(position, 8)
        if head is None or head[4:8] not in _MAGICS:
            return 0
        return int.from_bytes(head[:4], "big", signed=True)

    def mapped_until(self, position: int) -> int:
        """How far the file that holds `position` was written from there on, as a position in the log.

        Whoever looks at bytes that may never have been written asks before he takes them from a map: see
        `File.data_end`. Raises `OSError`.
        """
        start = self.segments.start_of(position)
        file = self.segments.file_of(position)
        at = file.data_end(position - start)
        while at < file.size and any(file.read_at(at, _BLOCK_BYTES)):  # some file systems are behind with their answer
            at = file.data_end(at + _BLOCK_BYTES)
        return start + min(at, file.size)

    def map_of(self, start: int) -> ReadOnlyMap:
        """The file that begins at `start`, as memory. Raises `OSError`."""
        found = self._maps.get(start)
        if found is None:
            found = self._maps[start] = self.segments.file_of(start).map()
            if len(self._maps) > _MAPS_MAX:
                self._maps.popitem(last=False)  # it goes once nobody looks at it any more
        return found

    # --- the oldest and the last

    def drop_first(self) -> Path:
        """Forget the oldest file, never the one being written; its path, to be unlinked where waiting is no harm."""
        start = self.segments.starts[0]
        assert start + self.segment_bytes <= self.flushed
        self._maps.pop(start, None)
        return self.segments.drop_first()

    def close(self) -> None:
        for file in self._writing.values():
            file.close()
        self._writing.clear()
        for start in list(self._maps):
            self._maps.pop(start, None)
        self._files.close_all()
