"""Checking a store that nobody has open: every record, every unit, every entry of the index, every table.

Nothing is changed. Memory is bounded by the number of queues, one file of the index, and the damage.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from rocketline.clock import Clock
from rocketline.errors import StoreError
from rocketline.model.delay_levels import DelayLevels
from rocketline.store.config import StoreConfig
from rocketline.store.filesystem import FileSystem
from rocketline.store.index.index_file import file_bytes
from rocketline.store.inspection.findings import RESTORE, Finding, Findings, Kind
from rocketline.store.inspection.index_check import IndexCheck
from rocketline.store.inspection.log_walk import FileOfLog, LogWalk, Stretch, log_files
from rocketline.store.inspection.queue_check import FOLDERS, QueueCheck
from rocketline.store.inspection.stand_in import Lost
from rocketline.store.inspection.table_check import CheckpointCheck, DamageCheck, EndsCheck, Tables
from rocketline.store.inspection.timer_check import TimerCheck
from rocketline.store.log.record_scan import Record, scan
from rocketline.store.timers.checkpoint import TimerCheckpoint
from rocketline.store.timers.wheel import SLOTS
from rocketline.wire.message_codec import MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN
from rocketline.wire.record_layout import struct_of

_RECORDS: Final = 65_536
"""Looked at together: as many units are compared at once as a queue has among them."""
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_HEAD: Final = struct_of("magic", "log_offset")
_PROBE_BYTES: Final = 1 << 20
_FOLDERS_MAX: Final = 1000
Tell = Callable[[int, int], None]
"""Bytes of the log that were read, of how many."""


@dataclass(slots=True)
class CheckReport:
    """What a check has seen."""

    root: Path
    findings: Findings = field(default_factory=Findings)
    records: int = 0
    log_bytes: int = 0
    """The size of all files of the log."""
    units: int = 0
    """Units that point at their own record."""
    queues: int = 0
    index_entries: int = 0
    seconds: float = 0.0
    damaged: list[Stretch] = field(default_factory=list)
    hurt_queues: set[tuple[bool, str, int]] = field(default_factory=set)
    is_index_hurt: bool = False
    is_index_strange: bool = False
    """Its files have another length than the settings say, so that it was not looked at."""
    log_end: int = 0
    last_ms: int = 0
    """When the last record was stored."""
    lost: list[Lost] = field(default_factory=list)
    """Messages of damaged stretches that queues know of."""
    beyond: list[Lost] = field(default_factory=list)
    """Messages that queues know of behind the end of the log, as far as others know that it went on."""
    contradicted: list[Lost] = field(default_factory=list)
    """Places that queues give to records which say otherwise."""
    is_confirmed: Callable[[bytes, int, int], bool] = lambda topic, queue_id, offset: False
    """A message is where its queue says."""
    timers: TimerCheckpoint | None = None
    """How far timers are, as far as the log has their messages; None if nobody knows."""
    is_topic_table_lost: bool = False
    """There is a table of topics, and neither it nor its `.bak` can be read."""
    topics: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """Topics with messages: how many queues, and whether these know batches."""
    gone_topics: set[str] = field(default_factory=set)
    """Topics with messages that have neither queues nor a place in the table: they were deleted."""
    is_batched: Callable[[str], bool | None] = lambda topic: None
    times: list[tuple[int, int]] = field(default_factory=list)
    """Log offset and store time of the last record before each damaged stretch."""

    def store_ms_before(self, position: int) -> int:
        """When the last record before a position was stored, as far as it is known."""
        if position >= self.log_end:
            return self.last_ms
        at = bisect_right(self.times, (position, 1 << 63)) - 1
        return self.times[max(at, 0)][1] if self.times else 0


def check_store(
    fs: FileSystem,
    clock: Clock,
    config: StoreConfig,
    tell: Tell = lambda done, total: None,
    *,
    timer_slots: int = SLOTS,
) -> CheckReport:
    """Look at the store in `storePathRootDir`. Raises `StoreError` if there is none, `StoreLockedError`, `OSError`."""
    with locked(fs, config):
        return look(fs, clock, config, tell, timer_slots)


@contextmanager
def locked(fs: FileSystem, config: StoreConfig) -> Iterator[None]:
    """Nobody has it open, and nobody can meanwhile."""
    root = config.store_path_root_dir
    if not fs.is_folder(config.commit_log_path):
        raise StoreError(f"{root} is no store: it has no folder {config.commit_log_path.name}")
    lock = fs.lock(root / "lock")
    try:
        yield
    finally:
        lock.release()


def look(fs: FileSystem, clock: Clock, config: StoreConfig, tell: Tell, timer_slots: int = SLOTS) -> CheckReport:
    """The same, of a store that is locked already."""
    begin_s, root = clock.monotonic(), config.store_path_root_dir
    report = CheckReport(root)
    findings = report.findings
    tables = Tables(fs, root, findings)
    checkpoint = CheckpointCheck(fs, root / "checkpoint", findings)
    ends, damage = EndsCheck(fs, root, findings), DamageCheck(fs, root, findings)
    is_clean = not fs.exists(root / "abort")
    files = log_files(fs, config.commit_log_path, config.mapped_file_size_commit_log, findings)
    report.log_bytes = total = sum(file.size for file in files)
    done = 0

    def passed(count: int) -> None:
        nonlocal done
        done += count
        tell(done, total)

    walk = LogWalk(fs, config.commit_log_path, config.mapped_file_size_commit_log, files, findings, passed)
    sizes = config.consume_queue_file_bytes, config.batch_consume_queue_file_bytes
    levels = DelayLevels.parse(config.message_delay_level)
    queues = QueueCheck(fs, root, sizes, levels, tables.is_batched, findings, walk)
    index = _index_check(fs, config, findings, walk, None if is_clean else checkpoint.checkpoint.index_msg_timestamp)
    timers = TimerCheck(fs, config, findings, walk, clock.wall_ms(), timer_slots)
    records = iter(walk)
    while some := list(islice(records, _RECORDS)):
        queues.add(some)
        timers.add(some)
        if index is not None:
            index.add(some)
    _tell_spans(fs, walk, findings)
    damage.compare(walk)
    derived_from = None if is_clean else _derived_from(walk, checkpoint)
    queues.finish(derived_from=derived_from)
    if index is not None:
        index.finish()
    timers.finish()
    others = [checkpoint.compare(walk), index.longest if index else (0, "")]
    others.append(ends.compare(walk, queues.expired, is_clean=is_clean))
    _tell_short(walk, findings, [queues.longest, *others])
    proven = max(max(others)[0], walk.end) + config.mapped_file_size_commit_log
    report.beyond = [one for one in queues.beyond if one.log_offset <= proven]
    if not is_clean:
        problem = "the last broker did not end cleanly: the next start reads the log from its last checkpoint"
        findings.add(Finding(kind=Kind.UNCLEAN, path=root / "abort", problem=problem, is_damage=False))
    report.is_index_strange = index is None and config.message_index_enable
    report.is_topic_table_lost, report.is_batched = tables.is_lost, tables.is_batched
    report.timers = timers.known
    _take_over(report, walk, queues, index)
    report.seconds = clock.monotonic() - begin_s
    return report


def _take_over(report: CheckReport, walk: LogWalk, queues: QueueCheck, index: IndexCheck | None) -> None:
    """What is known once all records were seen."""
    report.records, report.units, report.queues = walk.records, queues.units, queues.count
    report.damaged, report.hurt_queues, report.log_end = walk.damaged, queues.hurt, walk.end
    report.contradicted, report.is_confirmed = queues.contradicted, queues.is_confirmed
    report.lost, report.topics, report.gone_topics = queues.lost, queues.topics, queues.gone_topics
    report.times, report.last_ms = walk.times, walk.last.store_ms if walk.last is not None else 0
    report.index_entries = index.entries if index is not None else 0
    report.is_index_hurt = index is not None and index.hurt


def _index_check(
    fs: FileSystem, config: StoreConfig, findings: Findings, walk: LogWalk, safe_until_ms: int | None
) -> IndexCheck | None:
    folder = config.store_path_root_dir / "index"
    if not config.message_index_enable:
        return None
    counts = config.max_hash_slot_num, config.max_index_num
    sizes = {fs.size_of(folder / name) for name in fs.list(folder) if name.isascii() and name.isdigit()}
    if len(sizes) == 1 and file_bytes(*counts) not in sizes:
        problem = f"not looked at: its files have {sizes.pop()} bytes, by the settings {file_bytes(*counts)}"
        remedy = "give the broker's settings (maxHashSlotNum, maxIndexNum)"
        findings.add(Finding(kind=Kind.INDEX, path=folder, problem=problem, remedy=remedy, is_damage=False))
        return None
    return IndexCheck(fs, folder, counts, findings, walk, safe_until_ms)


def _derived_from(walk: LogWalk, checkpoint: CheckpointCheck) -> int:
    """From where on a start after a crash makes queues anew: the newest file that the checkpoint vouches for."""
    safe_ms = checkpoint.checkpoint.min_timestamp
    for file in reversed(walk.files):
        first = _first_record(walk, file)
        if first is not None and 0 < first.store_ms <= safe_ms:
            return file.start
    return 0


def _first_record(walk: LogWalk, file: FileOfLog) -> Record | None:
    if not file.size:
        return None
    log = walk.reader(file)
    try:
        return next(scan(log, file.start, file.start + 1, check_crc=False), None)
    finally:
        log.close()


# --- what is not a record


def _tell_spans(fs: FileSystem, walk: LogWalk, findings: Findings) -> None:
    for span in walk.damaged:
        record = _remains(walk, span)
        known = (
            {"topic": record.topic.decode("utf-8", "replace"), "queue_id": record.queue_id}
            | {"queue_offset": record.queue_offset}
            if record is not None
            else {}
        )
        what = "a message whose check sum is wrong" if record is not None else "no message can be read"
        findings.add(
            Finding(
                kind=Kind.RECORD,
                path=walk.path_of(span.begin),
                position=span.begin,
                problem=f"{what}: {span.end - span.begin} bytes up to the next one at {span.end}"
                + _moved(fs, walk, span),
                remedy=RESTORE,
                **known,  # type: ignore[arg-type]
            )
        )
    tail = walk.tail
    if tail is not None and (at := _first_set(fs, walk, tail)) is not None:
        problem = f"bytes that are not zero, from {at} on, behind the last message, which ends at {walk.end}"
        remedy = "torn by a crash, left by a former life of the file, or damaged: see what units say of it"
        findings.add(
            Finding(
                kind=Kind.TAIL,
                path=walk.path_of(at),
                position=at,
                problem=problem,
                remedy=remedy,
                is_damage=False,
            )
        )


def _remains(walk: LogWalk, span: Stretch) -> Record | None:
    """What the damaged record there says of itself, if it is one and its lengths agree."""
    for file in walk.files:
        if file.start <= span.begin < file.start + file.size:
            log = walk.reader(file)
            try:
                record = next(scan(log, span.begin, span.begin + 1, check_crc=False), None)
                return record if record is not None and span.begin + record.size == span.end else None
            finally:
                log.close()
    return None


def _moved(fs: FileSystem, walk: LogWalk, span: Stretch) -> str:
    """Where a whole file's records say that they belong, if that is elsewhere."""
    if span.begin % walk.log_bytes or span.end - span.begin < walk.log_bytes:
        return ""
    place = place_in(fs, walk.path_of(span.begin))
    return f"; its first record says that it belongs to {place}" if place not in (None, span.begin) else ""


def place_in(fs: FileSystem, path: Path) -> int | None:
    """Where in the log the first record of a file says that it stands; None if it begins with none."""
    if not fs.exists(path) or fs.size_of(path) < RECORD_BYTES_MIN:
        return None
    file = fs.open(path)
    try:
        head = file.read_at(0, _HEAD.size)
    finally:
        file.close()
    magic, log_offset = _HEAD.unpack(head)
    return int(log_offset) if magic in _MAGICS else None


def _first_set(fs: FileSystem, walk: LogWalk, span: Stretch) -> int | None:
    """The first byte of the span that is not zero."""
    for file in walk.files:
        begin, end = max(span.begin, file.start), min(span.end, file.start + file.size)
        if begin >= end:
            continue
        opened = fs.open(file.path)
        try:
            at = begin - file.start
            while (at := opened.next_data(at)) < end - file.start:
                data = opened.read_at(at, min(_PROBE_BYTES, end - file.start - at))
                if any(data):
                    return file.start + at + len(data) - len(data.lstrip(b"\0"))
                at += len(data)
        finally:
            opened.close()
    return None


def _tell_short(walk: LogWalk, findings: Findings, witnesses: list[tuple[int, str]]) -> None:
    """The log went on, somebody knows: its last file is missing, or its end is."""
    place, witness = max(witnesses)
    if place < walk.end or not place:
        return
    missing = place - walk.end
    problem = f"the log ends at {walk.end}, but {witness} is about {place}: at least {missing} bytes are missing"
    findings.add(
        Finding(
            kind=Kind.LOG_SHORT,
            path=walk.path_of(walk.end),
            position=walk.end,
            problem=problem,
            remedy=f"put the missing file back before any broker starts; {RESTORE}",
        )
    )


# --- sizes


def with_sizes_found(fs: FileSystem, config: StoreConfig) -> StoreConfig:
    """The configuration with the lengths of files that the store has, where all agree on another than it says."""
    return replace(
        config,
        mapped_file_size_commit_log=_usual_size(fs, [config.commit_log_path], config.mapped_file_size_commit_log),
        mapped_file_size_timer_log=_usual_size(
            fs, [config.store_path_root_dir / "timerlog"], config.mapped_file_size_timer_log
        ),
        mapped_file_size_consume_queue=_usual_size(
            fs, _queue_folders(fs, config, FOLDERS[False]), config.consume_queue_file_bytes
        ),
        mapper_file_size_batch_consume_queue=_usual_size(
            fs, _queue_folders(fs, config, FOLDERS[True]), config.batch_consume_queue_file_bytes
        ),
    )


def _queue_folders(fs: FileSystem, config: StoreConfig, name: str) -> Iterable[Path]:
    """Some of them: they all have files of one length."""
    folder = config.store_path_root_dir / name
    topics = (folder / topic for topic in fs.list(folder) if fs.is_folder(folder / topic))
    return islice((topic / queue for topic in topics for queue in fs.list(topic)), _FOLDERS_MAX)


def _usual_size(fs: FileSystem, folders: Iterable[Path], expected: int) -> int:
    """`expected` if some file has it, else the length that most files have."""
    sizes = Counter[int]()
    for folder in folders:
        for name in fs.list(folder):
            if name.isascii() and name.isdigit() and (size := fs.size_of(folder / name)):
                sizes[size] += 1
    return expected if expected in sizes or not sizes else sizes.most_common(1)[0][0]
