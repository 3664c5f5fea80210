"""Bringing log and queues into agreement when a store is opened.

After a clean stop the queues are complete, so only what the log has behind their last unit is looked at. After a crash
every record is read from the last file that was safely behind us (the checkpoint tells which), and the queues are
derived anew from there on. Either way the log ends after its last good record, and nothing follows it.

Differs from Java, whose result on an undamaged store is the same: a clean start reads from the end of the queues and
not the whole last file; units that a crash may have left in doubt are dropped, not kept if they look right; the bytes
behind the last good record are cleared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketline.logs import Log
from rocketline.model.sys_flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketline.store.batch_consume_queue import BatchConsumeQueue, BatchUnit
from rocketline.store.commit_log import CommitLog
from rocketline.store.queue_table import Queue, QueueTable
from rocketline.store.record_scan import Record, TagsCodes, is_blank_at, messages_in, scan

_log = Log(__name__)
_RUN_FIELDS_MAX: Final = 3 * 1024
"""Of the units that wait for their queue."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found."""

    end: int
    """Where the log ends now."""
    derived_from: int
    """From this log offset on, records were dispatched anew; the index has to follow."""
    last_record: int
    """Where the last good record begins, 0 if there is none."""
    store_ms: int
    """When it was stored, 0 if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRules:
    """What counts as a good record."""

    check_crc: bool = True
    needs_append_crc: bool = False


def recover(
    log: CommitLog,
    queues: QueueTable,
    codes: TagsCodes,
    rules: RecoveryRules,
    *,
    is_clean: bool,
    safe_store_ms: int,
) -> Recovered:
    """Make log and queues agree. `safe_store_ms`: what was stored until then is complete on disk. Raises `OSError`."""
    if not log.segments.starts:
        for topic in list(queues.topics):
            queues.remove(topic)
        return Recovered(0, 0, 0, 0)
    known = _last_known(log, queues) if is_clean else None
    if known is not None:
        begin = known.log_offset + known.size
    else:
        begin = log.start if is_clean else _crash_begin(log, safe_store_ms)
        for queue in queues:
            queue.truncate(begin)
    found = _derive(log, queues, codes, rules, begin, known)
    if log.restart(begin, found.end):
        _log.info("what followed the last good record was dropped", log_end=found.end)
    for queue in queues:
        queue.truncate(found.end)
        queue.correct_min(log.start)
    return found


def _last_known(log: CommitLog, queues: QueueTable) -> Record | None:
    """The last record that has a unit; None if the queues cannot be trusted."""
    last = max(queues, key=lambda queue: queue.max_log_offset, default=None)
    if last is None or last.max_log_offset < 0:
        return None
    unit = last.unit(last.max_offset - 1)
    if unit is None or unit[0] < log.start:
        return None
    for record in scan(log, unit[0], unit[0] + 1, check_crc=True):
        if record.size == unit[1]:
            return record
    _log.warning("the last unit of a queue points at no record: reading the whole log", queue=str(last))
    return None


def _crash_begin(log: CommitLog, safe_store_ms: int) -> int:
    """The start of the newest file whose first record was stored before anything was in doubt."""
    for start in reversed(log.segments.starts):
        for record in scan(log, start, start + 1, check_crc=False):
            if 0 < record.store_ms <= safe_store_ms:
                return start
    return log.start


class _Run:
    """Units of one queue that follow each other, until they are given to it together."""

    __slots__ = ("_queues", "next_offset", "queue", "topic", "units")

    def __init__(self, queues: QueueTable, queue: Queue) -> None:
        self._queues, self.queue, self.topic = queues, queue, queue.topic
        self.units: list[int] = []
        """Log offset, record size and tags code of each."""
        self.next_offset = self._next()

    def _next(self) -> int:
        """The offset that the next record has if nothing is special; none if a record may hold several messages."""
        return -1 if isinstance(self.queue, BatchConsumeQueue) else self.queue.max_offset

    def end(self) -> None:
        """Give the queue what there is."""
        if self.units:
            self.queue.extend(self.units)
            self.queue.next_offset = self.queue.max_offset
            self.units = []
        if self.queue.is_far_behind:
            self._queues.touched((self.queue,))

    def add_unusual(self, record: Record, code: int) -> None:
        """A record with an offset of its own, or one that may hold several messages."""
        self.end()
        log_offset, size, _, _, queue_offset, _, store_ms, _ = record
        if isinstance(self.queue, BatchConsumeQueue):
            self.queue.derive(BatchUnit(log_offset, size, code, store_ms, queue_offset, messages_in(record)))
        else:
            self.queue.derive(queue_offset, log_offset, size, code)
        self.next_offset = self._next()


def _derive(
    log: CommitLog, queues: QueueTable, codes: TagsCodes, rules: RecoveryRules, begin: int, last: Record | None
) -> Recovered:
    """Read the log from `begin`, the end of `last`, on, and give each queue its units."""
    runs: dict[tuple[bytes, int], _Run] = {}
    for last in scan(log, begin, log.end, check_crc=rules.check_crc, needs_append_crc=rules.needs_append_crc):
        log_offset, size, topic, queue_id, queue_offset, sys_flag, _, _ = last
        if sys_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            continue
        run = runs.get((topic, queue_id))
        if run is None:
            queue = queues.make(topic.decode("utf-8", "replace"), queue_id)
            run = runs[topic, queue_id] = _Run(queues, queue)
        code = codes.of(last, run.topic)
        if queue_offset == run.next_offset:
            run.next_offset += 1
            units = run.units
            units += (log_offset, size, code)
            if len(units) > _RUN_FIELDS_MAX:
                run.end()
        else:
            run.add_unusual(last, code)
    for run in runs.values():
        run.end()
    queues.touched(run.queue for run in runs.values())
    end = begin if last is None else last.log_offset + last.size
    in_file = end % log.segment_bytes
    if in_file and log.segments.has(end) and is_blank_at(log, end):
        end += log.segment_bytes - in_file
    return Recovered(end, begin, last.log_offset if last else 0, last.store_ms if last else 0)
