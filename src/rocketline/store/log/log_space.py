"""Disk space for the log: reserved before it is written to, in the file being written and in the one after it.

Reserving may wait for the disk, and making a file always does. So whoever owns the store is told in time that space
runs low, and lets a job make more off the loop: a stretch of the file being written, or the whole next file. What is
not ready when it is needed is made on the spot, as if there were no jobs.

A job that is still at work then does no harm. Both sides may open, lengthen, reserve and sync one file at the same
time, each by its own handle, and none of that changes a byte; should it have to go, the loop removes it. What a job
achieved counts once it was reported as finished, so the two share no state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketline.logs import Log
from rocketline.store.files.segments import Segments
from rocketline.store.filesystem import File, FileSystem

_log = Log(__name__)

_RESERVE_BYTES: Final = 16 * 1024 * 1024
"""Disk blocks are reserved this far ahead of the writing, so that a full disk is noticed before it tears a record."""
_LOW_BYTES: Final = _RESERVE_BYTES // 2
"""When no more is left of them, a job reserves the next. A new store with few messages needs none."""
_NEVER: Final = 1 << 63


@dataclass(slots=True)
class SpaceJob:
    """What to reserve, off the loop."""

    fs: FileSystem
    path: Path
    is_new: bool
    """The file is to be made first, at its full length."""
    start: int
    """Where the file begins in the log."""
    begin: int
    end: int
    """Positions in the log, as all here."""
    has_reserved: bool = False
    """False where the file system cannot, and the space is reserved when it is written to."""

    def run(self) -> None:
        """Raises `OSError`. It must not run after the file was deleted for its age, and come back by this: the thread
        that does the one does the other, in the order in which they were asked for."""
        file = self.fs.open(self.path, size=self.end - self.start if self.is_new else None)
        try:
            self.has_reserved = file.try_allocate(self.begin - self.start, self.end - self.begin)
            if self.is_new:  # as in `Segments.add`
                file.sync()
                self.fs.sync_folder(self.path.parent)
        finally:
            file.close()


class LogSpace:
    """How much of the log's files is reserved, and what is due to be."""

    def __init__(self, fs: FileSystem, segments: Segments) -> None:
        self._fs, self._segments = fs, segments
        self.on_low: Callable[[], object] = lambda: None
        """Told when a job is due; set by whoever runs them."""
        self.reserved = 0
        """Up to here the file being written has its disk blocks."""
        self.low_at = _NEVER
        """Writing that passes this must be told to `tell_low`."""
        self._running: SpaceJob | None = None
        self._next: SpaceJob | None = None  # has made the next file
        self._is_able = True  # the file system can reserve beside the writing
        self._has_given_up = False  # until the next file: a job has failed, and would again

    # --- on the way of a message

    def begin_at(self, position: int) -> None:
        """The log goes on from here, in a file of which nothing is known."""
        self.reserved = position
        self._plan()

    def reserve(self, file: File, start: int, end: int) -> None:
        """Reserve at least up to `end` in the file that begins at `start`, and no more if the disk has less than is
        reserved at once: a file system may take the rest, say that it was too little, and keep it. Raises `OSError`."""
        begin = max(self.reserved, start)
        reserved = min(max(end, begin + _RESERVE_BYTES), start + self._segments.segment_bytes)
        if not self._has(reserved - begin):
            reserved = end
        file.allocate(begin - start, reserved - begin)
        self.reserved = reserved
        self._plan()

    def _has(self, size: int) -> bool:
        """The disk has so many bytes, or does not say."""
        try:
            return self._fs.usage(self._segments.folder).usable >= size
        except OSError:
            return True

    def add_file(self, start: int) -> None:
        """Go on to the next file: the one that is there, or make it. Raises `OSError`."""
        made = self._next
        if made is not None:
            try:
                self._segments.adopt(start)
            except FileNotFoundError:  # somebody tidied up: it was empty
                made = self._next = None
        if made is None:
            self._segments.add(start)
        self.reserved = made.end if made is not None and made.has_reserved else start
        self._next, self._has_given_up = None, False
        self._plan()

    def tell_low(self) -> None:
        self.low_at = _NEVER  # once is enough
        self.on_low()

    # --- ahead of it

    def begin(self, written_to: int, bytes_max: int) -> SpaceJob | None:
        """What to reserve now that the log is written so far, if it is no more than `bytes_max`. One job at a time."""
        self._plan()
        if written_to <= self.low_at:
            return None
        job = self._due()
        if job.end - job.begin > bytes_max:
            self.low_at = _NEVER  # it is not asked for again with each message
            return None
        self._running, self.low_at = job, _NEVER
        return job

    def finish(self, job: SpaceJob, error: OSError | None = None) -> None:
        """The job ran. If it failed nothing is lost: what is missing is made when it is needed, and only then may
        somebody have to be refused."""
        self._running = None
        if error is not None:
            self._give_up(job, error)
        elif job.start == self._segments.end:
            self._next = job
        elif job.has_reserved:  # also of a file that was needed before it was ready
            self.reserved = max(self.reserved, job.end)
        elif not job.is_new:
            self._is_able = False
        self._plan()

    def drop_next(self) -> None:
        """Leave no file behind that nothing was written to. One that cannot be removed is dropped by the next start."""
        if self._next is not None:
            with contextlib.suppress(OSError):
                self._fs.remove(self._next.path)
            self._next = None

    def _plan(self) -> None:
        """Find out where writing will make the next job due."""
        self.low_at = _NEVER
        if self._running is not None or self._has_given_up or not self._segments.starts:
            return
        if self._is_open_ended:
            self.low_at = self.reserved - _LOW_BYTES
        elif self._next is None:
            self.low_at = self._segments.end - self._segments.segment_bytes // 4

    @property
    def _is_open_ended(self) -> bool:
        """A job could reserve more of the file being written."""
        return self._is_able and self.reserved < self._segments.end

    def _due(self) -> SpaceJob:
        segments, end = self._segments, self._segments.end
        if self._is_open_ended:
            start, until = segments.starts[-1], min(self.reserved + _RESERVE_BYTES, end)
            return SpaceJob(self._fs, segments.path(start), False, start, self.reserved, until)
        return SpaceJob(self._fs, segments.path(end), True, end, end, end + segments.segment_bytes)

    def _give_up(self, job: SpaceJob, error: OSError) -> None:
        self._has_given_up = True
        if job.start == self._segments.end:  # it may have taken the last blocks, which queues and index need as well
            with contextlib.suppress(OSError):
                self._fs.remove(job.path)
        _log.warning("no space could be reserved ahead", file=str(job.path), problem=error.strerror or str(error))
