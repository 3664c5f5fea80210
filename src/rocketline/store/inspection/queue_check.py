"""Comparing every unit of every queue with the log.

The log is read once, from its beginning to its end. For each record the unit is looked up where the queue must have
it; what agrees is remembered as a range of queue offsets, what does not as another. In the end every unit that no
record has asked for is looked at. So memory grows with queues and with damage, not with messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rocketline.model.delay_levels import DelayLevels
from rocketline.model.names import LMQ_PREFIX, SCHEDULE_TOPIC
from rocketline.model.sys_flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketline.store.files.segments import OpenFiles
from rocketline.store.filesystem import FileSystem
from rocketline.store.inspection.findings import REPAIR, Finding, Findings, Kind, counted
from rocketline.store.inspection.log_walk import LogWalk, QueueKey
from rocketline.store.inspection.queue_files import QueueFiles
from rocketline.store.inspection.stand_in import Lost
from rocketline.store.log.record_scan import Record, TagsCodes, messages_in
from rocketline.store.queues.batch_consume_queue import BATCH_UNIT, BATCH_UNIT_BYTES
from rocketline.store.queues.consume_queue import UNIT, UNIT_BYTES
from rocketline.wire.message_codec import RECORD_BYTES_MIN

FOLDERS: Final = {False: "consumequeue", True: "batchconsumequeue"}
_NO_MESSAGE: Final = (frozenset({TRANSACTION_PREPARED, TRANSACTION_ROLLBACK}), TRANSACTION_MASK)
_NO_SIZE: Final = 0x7FFFFFFF
_PRE_BLANK = UNIT.pack(0, _NO_SIZE, 0)
_EXT_ADDRESS_MAX: Final = -0x80000001
_BATCH_SEARCH: Final = 256
_LOST_MAX: Final = 1_000_000
_OPEN_FILES: Final = 128
_NO_UNIT: Final = f"a start makes it anew; or: {REPAIR}"


class Missing(NamedTuple):
    """Records one after the other in their queue that have no right unit."""

    offset: int
    messages: int
    log_offset: int
    """Where the first of them lies."""


class _Queue:
    """What is known of one queue so far."""

    __slots__ = ("confirmed", "cursor", "files", "is_batched", "missing", "next_offset", "queue_id", "topic")

    def __init__(self, files: QueueFiles, topic: str, queue_id: int, is_batched: bool) -> None:
        self.files, self.topic, self.queue_id, self.is_batched = files, topic, queue_id, is_batched
        self.next_offset = -1  # what the next record should have; -1 if there was none yet
        self.confirmed: list[list[int]] = []  # units that agree, as [first, behind the last], by number
        self.missing: list[Missing] = []
        self.cursor = -1  # the number of the next unit of a batch queue

    def confirm(self, first: int, end: int) -> None:
        if self.confirmed and self.confirmed[-1][1] == first:
            self.confirmed[-1][1] = end
        else:
            self.confirmed.append([first, end])

    def miss(self, offset: int, messages: int, log_offset: int) -> None:
        if self.missing and (last := self.missing[-1]).offset + last.messages == offset:
            self.missing[-1] = last._replace(messages=last.messages + messages)
        else:
            self.missing.append(Missing(offset, messages, log_offset))


class QueueCheck:
    """Give it all records in log order, then `finish`."""

    def __init__(
        self,
        fs: FileSystem,
        root: Path,
        sizes: tuple[int, int],
        levels: DelayLevels,
        is_batched: Callable[[str], bool | None],
        findings: Findings,
        walk: LogWalk,
    ) -> None:
        """`sizes`: bytes of a file of a queue, and of a batch queue. `is_batched` is None for an unknown topic."""
        self._fs, self._root, self._findings, self._walk = fs, root, findings, walk
        self._file_bytes = {False: sizes[0], True: sizes[1]}
        self._is_batched = is_batched
        self._files = OpenFiles(fs, _OPEN_FILES)
        self._codes = TagsCodes(levels)
        self._queues: dict[QueueKey, _Queue] = {}
        self._former: dict[str, int] = {}  # messages of topics that were deleted and made anew
        self._not_yet = 0  # messages whose units a start makes, since the last broker had not written them when it died
        self.units = 0
        """Units that point at their own record."""
        self.expired = 0
        """Units of messages that were in the log before its beginning."""
        self.longest: tuple[int, str] = (0, "")
        """Where the log must end at least, and which unit says so."""
        self.hurt: set[tuple[bool, str, int]] = set()
        """Queues with something wrong: whether batched, topic and queue id."""
        self.lost: list[Lost] = []
        """Messages that units know of and that lie in damaged stretches of the log, in log order."""
        self.beyond: list[Lost] = []
        """Messages that units know of behind the end of the log."""
        self.contradicted: list[Lost] = []
        """Units that have neighbours which are right, and point at no record of theirs."""
        self.gone_topics: set[str] = set()
        """Topics of which the log has messages, without queues and without a place in the table of topics."""
        self._load()

    @property
    def count(self) -> int:
        return len(self._queues)

    @property
    def topics(self) -> dict[str, tuple[int, bool]]:
        """How many queues each topic has that has messages, and whether these know batches."""
        found = dict[str, tuple[int, bool]]()
        for queue in self._queues.values():
            count, _ = found.get(queue.topic, (0, False))
            found[queue.topic] = max(count, queue.queue_id + 1), queue.is_batched
        return found

    def _load(self) -> None:
        fs = self._fs
        for is_batched, name in FOLDERS.items():
            folder = self._root / name
            for topic in fs.list(folder):
                for queue in fs.list(folder / topic) if fs.is_folder(folder / topic) else ():
                    if queue.isascii() and queue.isdigit():
                        self._check_kind(folder / topic, topic, is_batched)
                        self._add(topic, int(queue), is_batched)

    def _check_kind(self, folder: Path, topic: str, is_batched: bool) -> None:
        expected = self._is_batched(topic)
        if expected is not None and expected != is_batched:
            problem = f"the topic's queues belong into {FOLDERS[not is_batched]}: no broker starts with it"
            self._note(Kind.QUEUE_FILE, folder, problem, "move it elsewhere", topic=topic)

    def _add(self, topic: str, queue_id: int, is_batched: bool) -> _Queue:
        unit_bytes = BATCH_UNIT_BYTES if is_batched else UNIT_BYTES
        folder = self._root / FOLDERS[is_batched] / topic / str(queue_id)
        files = QueueFiles(self._files, folder, self._file_bytes[is_batched], unit_bytes)
        before = len(self._findings.kept)
        files.load(self._findings, topic, queue_id)
        queue = _Queue(files, topic, queue_id, is_batched)
        if len(self._findings.kept) > before:
            self._is_hurt(queue)
        self._queues[topic.encode("utf-8", "replace"), queue_id] = queue
        return queue

    def _is_hurt(self, queue: _Queue) -> None:
        self.hurt.add((queue.is_batched, queue.topic, queue.queue_id))

    # --- records

    def add(self, records: Sequence[Record]) -> None:
        """The next records of the log. Raises `OSError`."""
        groups: dict[QueueKey, list[Record]] = {}
        skipped, mask = _NO_MESSAGE
        for record in records:
            if record[5] & mask in skipped:
                continue
            key = record[2], record[3]
            group = groups.get(key)
            if group is None:
                group = groups[key] = []
            group.append(record)
        for key, group in groups.items():
            queue = self._queues.get(key)
            if queue is None:
                topic = key[0].decode("utf-8", "replace")
                queue = self._add(topic, key[1], bool(self._is_batched(topic)))
            for run in self._runs(queue, group):
                (self._compare_batches if queue.is_batched else self._compare)(queue, run)

    def _runs(self, queue: _Queue, records: list[Record]) -> Iterator[list[Record]]:
        """Records whose offsets follow on each other."""
        run = list[Record]()
        for record in records:
            offset = record.queue_offset
            if offset != queue.next_offset:
                if run:
                    yield run
                    run = []
                self._check_offset(queue, record)
            run.append(record)
            queue.next_offset = offset + messages_in(record)
        yield run

    def _check_offset(self, queue: _Queue, record: Record) -> None:
        offset, expected = record.queue_offset, queue.next_offset
        if expected < 0:  # the first that the log has of this queue: those before it may have been deleted
            if offset and not self._walk.files[0].start and not self._has_stand_in(queue, offset - 1):
                self._tell_gap(queue, record, 0)
        elif not offset:
            self._former[queue.topic] = self._former.get(queue.topic, 0) + sum(one.messages for one in queue.missing)
            queue.missing.clear()
        elif offset > expected:
            self._tell_gap(queue, record, expected)
        else:
            problem = f"a record before it has queue offset {offset} or a later one: there twice, or damaged"
            remedy = "consumers get the one that the queue's unit points at"
            self._tell(Kind.OFFSET, queue, record, problem, remedy)

    def _has_stand_in(self, queue: _Queue, offset: int) -> bool:
        return not queue.is_batched and queue.files.read(offset * UNIT_BYTES, UNIT_BYTES) == _PRE_BLANK

    def _tell_gap(self, queue: _Queue, record: Record, expected: int) -> None:
        """Offsets that no record has. Damaged stretches of the log tell of themselves: then it is their consequence."""
        if self._is_batched(queue.topic) is None and not queue.files.sizes:
            return  # a topic that does not exist is told of as a whole
        problem = f"no record has queue offsets {expected} to {record.queue_offset - 1}"
        # Units of batches need no neighbours: what a queue of them never had leaves no trace.
        is_explained = bool(self._walk.damaged) or queue.is_batched or self._is_blank(queue, expected, record)
        remedy = "what is missing was damaged, or never here" if is_explained else "it is damaged, or others are lost"
        self._tell(Kind.OFFSET, queue, record, problem, remedy, is_damage=not is_explained)

    def _is_blank(self, queue: _Queue, begin: int, record: Record) -> bool:
        """The queue says itself that this broker never had them."""
        return self._has_stand_in(queue, begin) and self._has_stand_in(queue, record.queue_offset - 1)

    def _compare(self, queue: _Queue, run: list[Record]) -> None:
        first, codes, topic = run[0].queue_offset, self._codes, queue.topic
        if first < 0:
            return
        fields = list[int]()
        for record in run:
            fields += (record.log_offset, record.size, codes.of(record, topic))
        expected = struct.pack(f">{'qiq' * len(run)}", *fields)
        actual = queue.files.read(first * UNIT_BYTES, len(expected))
        if actual == expected:
            queue.confirm(first, first + len(run))
            self.units += len(run)
            return
        for number, record in enumerate(run):
            at = number * UNIT_BYTES
            unit = actual[at : at + UNIT_BYTES]
            if unit == expected[at : at + UNIT_BYTES] or self._has_other_code(queue, record, unit):
                queue.confirm(first + number, first + number + 1)
                self.units += 1
            else:
                queue.miss(first + number, 1, record.log_offset)

    def _has_other_code(self, queue: _Queue, record: Record, unit: bytes) -> bool:
        """The unit points at its record, but not with the tags code that the properties give."""
        log_offset, size, code = UNIT.unpack(unit)
        if (log_offset, size) != (record.log_offset, record.size):
            return False
        if code > _EXT_ADDRESS_MAX:
            expected, is_delayed = self._codes.of(record, queue.topic), queue.topic == SCHEDULE_TOPIC
            what = "it is due" if is_delayed else "tags code"
            problem = f"{what} {code} in its queue, {expected} by its properties"
            remedy = f"messageDelayLevel was another, or: {REPAIR}" if is_delayed else REPAIR
            self._tell(Kind.UNIT, queue, record, problem, remedy, path=queue.files.path(self._unit_at(record)))
            self._is_hurt(queue)
        return True

    @staticmethod
    def _unit_at(record: Record) -> int:
        return record.queue_offset * UNIT_BYTES

    def _compare_batches(self, queue: _Queue, run: list[Record]) -> None:
        for record in run:
            if queue.cursor < 0:
                queue.cursor = self._first_unit(queue, record.log_offset)
            code = self._codes.of(record, queue.topic)
            fields = (record.log_offset, record.size, code, record.store_ms, record.queue_offset, messages_in(record))
            expected = BATCH_UNIT.pack(*fields, -1, 0)
            number = queue.cursor
            units = queue.files.read(number * BATCH_UNIT_BYTES, BATCH_UNIT_BYTES)
            if units != expected:
                units = queue.files.read(number * BATCH_UNIT_BYTES, _BATCH_SEARCH * BATCH_UNIT_BYTES)
                at = units.find(expected)
                if at < 0 or at % BATCH_UNIT_BYTES:
                    queue.miss(record.queue_offset, messages_in(record), record.log_offset)
                    continue
                number += at // BATCH_UNIT_BYTES
            queue.confirm(number, number + 1)
            queue.cursor = number + 1
            self.units += 1

    def _first_unit(self, queue: _Queue, log_offset: int) -> int:
        """The number of the first unit that may be of a record at `log_offset`."""
        for position, units in queue.files.stretches():
            for number, unit in enumerate(BATCH_UNIT.iter_unpack(units), position // BATCH_UNIT_BYTES):
                if unit[1] > 0 and unit[0] >= log_offset:
                    return number
        starts = queue.files.sizes
        return min(starts, default=0) // BATCH_UNIT_BYTES

    # --- the end

    def finish(self, *, derived_from: int | None) -> None:
        """All records were given. Those from `derived_from` on get their units anew when a broker starts."""
        for queue in self._queues.values():
            is_known = self._is_batched(queue.topic) is not None
            for missing in queue.missing:
                self._tell_missing(queue, missing, derived_from, is_known=is_known)
            self._look_at_rest(queue)
        if self._not_yet:
            problem, remedy = f"{counted(self._not_yet, 'message')} without a unit yet", "the next start makes them"
            self._findings.add(
                Finding(
                    kind=Kind.UNIT,
                    path=self._root / FOLDERS[False],
                    problem=problem,
                    remedy=remedy,
                    count=self._not_yet,
                    is_damage=False,
                )
            )
        for topic, count in self._former.items():
            if count:
                problem = (
                    f"{counted(count, 'message')} of a former topic of this name, which was deleted: no queue has them"
                )
                self._note(Kind.TOPIC, self._walk.folder, problem, "", topic=topic, count=count, is_damage=False)
        self._files.close_all()

    def _tell_missing(self, queue: _Queue, missing: Missing, derived_from: int | None, *, is_known: bool) -> None:
        offset, count, log_offset = missing
        path, is_new = queue.files.path(0), not queue.files.sizes
        if queue.topic.startswith(LMQ_PREFIX):
            return
        if not is_known and is_new:
            problem, remedy = (
                f"{counted(count, 'message')} of a topic that does not exist",
                "it was deleted, or topics.json lost it",
            )
            kind, is_damage = Kind.TOPIC, False
            self.gone_topics.add(queue.topic)
        elif derived_from is not None and log_offset >= derived_from:
            self._not_yet += count
            return
        else:
            is_empty = True
            if not queue.is_batched:
                path = queue.files.path(offset * UNIT_BYTES)
                is_empty = not any(queue.files.read(offset * UNIT_BYTES, UNIT_BYTES))
            what = "without a unit" if is_empty else "at which no unit points"
            problem = f"{counted(count, 'message')} {what}, the first at {log_offset} of the log"
            remedy, kind, is_damage = _NO_UNIT, Kind.UNIT, True
            self._is_hurt(queue)
        self._findings.add(
            Finding(
                kind=kind,
                path=path,
                position=None if queue.is_batched else offset * UNIT_BYTES,
                topic=queue.topic,
                queue_id=queue.queue_id,
                queue_offset=offset,
                count=count,
                problem=problem,
                remedy=remedy,
                is_damage=is_damage,
            )
        )

    def _look_at_rest(self, queue: _Queue) -> None:
        """Units that no record has asked for."""
        if queue.topic.startswith(LMQ_PREFIX):
            return
        ranges = sorted(queue.confirmed + self._told_ranges(queue))
        strays, beyond = list[tuple[int, int, int]](), 0
        start = self._walk.files[0].start if self._walk.files else 0
        for number, log_offset, size in _outside(queue, ranges):
            end = log_offset + size
            if 0 <= log_offset < end <= start:
                self.expired += 1
                continue  # its message was deleted with a file of the log
            self._note_lost(queue, number, log_offset, size)
            if size != _NO_SIZE and log_offset >= self._walk.end:
                beyond += 1
                if end > self.longest[0]:
                    self.longest = end, f"unit {number} of {queue.topic}/{queue.queue_id}"
            elif strays and strays[-1][0] + strays[-1][1] == number:
                strays[-1] = strays[-1][0], strays[-1][1] + 1, strays[-1][2]
            else:
                strays.append((number, 1, log_offset))
        if beyond:
            self._is_hurt(queue)
            problem = f"{counted(beyond, 'unit')} for what is behind the end of the log, which is at {self._walk.end}"
            self._tell_stray(queue, beyond, None, problem, REPAIR)
        for number, count, log_offset in strays:
            if self._walk.is_damaged(log_offset):
                problem, remedy = f"{counted(count, 'unit')} for damaged messages", f"those messages are lost; {REPAIR}"
            else:
                self._is_hurt(queue)
                problem, remedy = f"{counted(count, 'unit')} for no message of this queue", REPAIR
            self._tell_stray(queue, count, number, f"{problem}, the first at {log_offset} of the log", remedy)

    def _note_lost(self, queue: _Queue, number: int, log_offset: int, size: int) -> None:
        """What a repair can do something about."""
        if queue.is_batched or not RECORD_BYTES_MIN <= size < _NO_SIZE:
            return
        kept = self.lost
        if log_offset >= self._walk.end:
            kept = self.beyond
        elif not self._walk.is_damaged(log_offset):
            kept = self.contradicted
            if not any(first - 1 <= number <= end for first, end in queue.confirmed):
                return
        if len(kept) < _LOST_MAX:
            kept.append(Lost(log_offset, size, queue.topic, queue.queue_id, number, {}))

    def is_confirmed(self, topic: bytes, queue_id: int, offset: int) -> bool:
        """The queue's unit of that offset points at a record that says the same."""
        queue = self._queues.get((topic, queue_id))
        return queue is not None and any(first <= offset < end for first, end in queue.confirmed)

    def _told_ranges(self, queue: _Queue) -> list[list[int]]:
        return [] if queue.is_batched else [[one.offset, one.offset + one.messages] for one in queue.missing]

    def _tell_stray(self, queue: _Queue, count: int, number: int | None, problem: str, remedy: str) -> None:
        position = None if number is None else number * queue.files.unit_bytes
        path = queue.files.folder if position is None else queue.files.path(position)
        self._findings.add(
            Finding(
                kind=Kind.UNIT,
                path=path,
                position=position,
                topic=queue.topic,
                queue_id=queue.queue_id,
                queue_offset=None if queue.is_batched else number,
                count=count,
                problem=problem,
                remedy=remedy,
            )
        )

    # --- telling

    def _tell(
        self,
        kind: Kind,
        queue: _Queue,
        record: Record,
        problem: str,
        remedy: str,
        *,
        path: Path | None = None,
        is_damage: bool = True,
    ) -> None:
        self._findings.add(
            Finding(
                kind=kind,
                path=path or self._walk.path_of(record.log_offset),
                position=record.log_offset,
                topic=queue.topic,
                queue_id=queue.queue_id,
                queue_offset=record.queue_offset,
                problem=problem,
                remedy=remedy,
                is_damage=is_damage,
            )
        )

    def _note(
        self, kind: Kind, path: Path, problem: str, remedy: str, *, topic: str, count: int = 1, is_damage: bool = True
    ) -> None:
        self._findings.add(
            Finding(kind=kind, path=path, topic=topic, problem=problem, remedy=remedy, count=count, is_damage=is_damage)
        )


def _outside(queue: _Queue, ranges: list[list[int]]) -> Iterator[tuple[int, int, int]]:
    """Number, log offset and size of each unit that lies in no range and is neither zero nor pre-blank."""
    unit_bytes = queue.files.unit_bytes
    unpack = (BATCH_UNIT if queue.is_batched else UNIT).unpack
    for position, units in queue.files.stretches(ranges):
        for at in range(0, len(units), unit_bytes):
            unit = units[at : at + unit_bytes]
            if any(unit) and unit != _PRE_BLANK:
                log_offset, size = unpack(unit)[:2]
                yield (position + at) // unit_bytes, log_offset, size
