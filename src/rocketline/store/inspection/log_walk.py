"""Reading the whole log of a store, damaged or not: every record that is whole, and every stretch that is none.

Each file is looked at by itself, so that missing, short and misplaced ones stop nobody.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from rocketline.store.filesystem import FileSystem
from rocketline.store.inspection.findings import RESTORE, Finding, Findings, Kind
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.record_scan import Record, is_blank, scan
from rocketline.store.log.resync import next_record

_NAME_DIGITS: Final = 20
_TOLD_BYTES: Final = 4 << 20
QueueKey: TypeAlias = "tuple[bytes, int]"


class Stretch(NamedTuple):
    """A stretch of the log between two records, or behind the last one of a file, that holds no record."""

    begin: int
    end: int


class FileOfLog(NamedTuple):
    """A file of the log as it is on disk."""

    start: int
    path: Path
    size: int


def log_files(fs: FileSystem, folder: Path, log_bytes: int, findings: Findings) -> list[FileOfLog]:
    """The files that can be read, in order; what is wrong with their names, lengths and order is told."""
    files = list[FileOfLog]()
    for name in fs.list(folder):
        path = folder / name
        if fs.is_folder(path):
            continue
        if not (name.isascii() and name.isdigit() and len(name) == _NAME_DIGITS) or int(name) % log_bytes:
            problem = f"its name is no multiple of {log_bytes}: no broker starts with it"
            findings.add(Finding(kind=Kind.LOG_FILE, path=path, problem=problem, remedy="move it elsewhere"))
        else:
            files.append(FileOfLog(int(name), path, fs.size_of(path)))
    for number, file in enumerate(files):
        if file.size == log_bytes:
            continue
        is_last = number == len(files) - 1
        if is_last and not file.size:
            problem, remedy = "empty: made and not yet extended, or cut; a start removes it", ""
        else:
            problem, remedy = f"{file.size} bytes where {log_bytes} are expected: no broker starts with it", RESTORE
        is_damage = bool(remedy)
        findings.add(Finding(kind=Kind.LOG_FILE, path=file.path, problem=problem, remedy=remedy, is_damage=is_damage))
    for before, after in pairwise(files):
        missing = (after.start - before.start) // log_bytes - 1
        if missing:
            path = folder / f"{before.start + log_bytes:0{_NAME_DIGITS}}"
            problem = f"missing, {missing} in all, of {missing * log_bytes} bytes: no broker starts without"
            findings.add(Finding(kind=Kind.LOG_FILE, path=path, problem=problem, remedy=RESTORE, count=missing))
    return files


@dataclass(slots=True)
class LogWalk:
    """Goes over the log once. What it has learned on the way can be asked for at any time."""

    fs: FileSystem
    folder: Path
    log_bytes: int
    files: list[FileOfLog]
    findings: Findings
    tell: Callable[[int], None] = lambda count: None
    """Told of bytes that were passed."""
    damaged: list[Stretch] = field(default_factory=list)
    """Stretches between records, or where a file's last record or its blank one should be."""
    times: list[tuple[int, int]] = field(default_factory=list)
    """For each of them a log offset, and the store time of the records around it."""
    last: Record | None = None
    records: int = 0
    end: int = 0
    """Behind the last record, or the blank one that follows it."""
    tail: Stretch | None = None
    """What follows the end and is not zero, in the end."""

    def __iter__(self) -> Iterator[Record]:
        expected = self.files[0].start if self.files else 0
        for file in self.files:
            if file.start > expected:
                self._hurt(Stretch(expected, file.start))
            yield from self._walk_file(file)
            expected = file.start + self.log_bytes

    def reader(self, file: FileOfLog) -> CommitLog:
        """A log of this file alone. Close it."""
        log = CommitLog(self.fs, self.folder, self.log_bytes)
        log.segments.starts = [file.start]
        log.end = file.start + min(file.size, self.log_bytes)
        return log

    def _walk_file(self, file: FileOfLog) -> Iterator[Record]:
        if not file.size:
            self._hurt(Stretch(file.start, file.start + self.log_bytes))
            return
        log = self.reader(file)
        try:
            yield from self._walk(log, file.start, log.end)
        finally:
            log.close()

    def _walk(self, log: CommitLog, position: int, end: int) -> Iterator[Record]:
        start, told = position, position
        while position < end:
            for record in scan(log, position, end, check_crc=True):
                position = record.log_offset + record.size
                if self.tail is not None:
                    self._end_damage(record)
                self._check_time(record)
                self.last, self.end = record, position
                self.records += 1
                if position - told > _TOLD_BYTES:
                    self.tell(position - told)
                    told = position
                yield record
            if position >= end:
                break
            if is_blank(log.map_of(start), position - start):
                self.end = start + self.log_bytes
                break
            found = self._next(log, position, end)
            if found is None:
                self._hurt(Stretch(position, start + self.log_bytes))
                break
            self._hurt(Stretch(position, found))
            position = found
        self.tell(end - told)

    def _next(self, log: CommitLog, position: int, end: int) -> int | None:
        return next_record(log, position, end, check_crc=True, after=self.last)

    def _hurt(self, span: Stretch) -> None:
        """No record is here. Whether that is damage or the log's end shows once a record follows, or none."""
        self.tail = Stretch(self.tail.begin, span.end) if self.tail is not None else span

    def _end_damage(self, record: Record) -> None:
        """A record follows: what was the end was none."""
        assert self.tail is not None
        self.damaged.append(Stretch(self.tail.begin, record.log_offset))
        self.times.append((self.tail.begin, self.last.store_ms if self.last is not None else record.store_ms))
        self.tail = None

    def _check_time(self, record: Record) -> None:
        last = self.last
        if last is not None and record.store_ms < last.store_ms:
            self.findings.add(
                Finding(
                    kind=Kind.STORE_TIME,
                    path=self.path_of(record.log_offset),
                    position=record.log_offset,
                    topic=record.topic.decode("utf-8", "replace"),
                    queue_id=record.queue_id,
                    queue_offset=record.queue_offset,
                    problem=f"stored {last.store_ms - record.store_ms} ms before the record in front of it",
                    remedy="one of the two is damaged, or the clock went back: searches by time may go wrong there",
                    is_damage=False,
                )
            )

    def is_damaged(self, position: int) -> bool:
        """The position lies in a stretch without a record. Ask once the walk is over, or of what is behind."""
        at = bisect_right(self.damaged, position, key=lambda span: span.begin) - 1
        return at >= 0 and position < self.damaged[at].end

    def path_of(self, position: int) -> Path:
        return self.folder / f"{position - position % self.log_bytes:0{_NAME_DIGITS}}"
