"""Deriving the units of queues from records of the log, after a crash and where a queue is damaged.

A record says of itself at which queue offset it stands, and a flipped bit there looks like any other number: so what
is unusual waits for the queue's next record, which tells what is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rocketline.logs import Log
from rocketline.model.names import topic_problem
from rocketline.model.sys_flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.record_scan import Record, TagsCodes, messages_in
from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue, BatchUnit
from rocketline.store.queues.consume_queue import MESSAGE_BYTES_MIN
from rocketline.store.queues.queue_ends import UNKNOWN
from rocketline.store.queues.queue_table import Queue, QueueTable

_log = Log(__name__)
_RUN_FIELDS_MAX: Final = 3 * 1024
"""Fields of units that wait for their queue, three for each unit."""


class _Run:
    """Units of one queue that follow each other, until they are given to it together."""

    __slots__ = ("_doubtful", "_log", "_queues", "lost", "next_offset", "queue", "topic", "units")

    def __init__(self, log: CommitLog, queues: QueueTable, queue: Queue) -> None:
        self._log, self._queues, self.queue, self.topic = log, queues, queue, queue.topic
        self.units: list[int] = []
        """Log offset, record size and tags code of each."""
        self.lost: list[Record] = []
        """Damaged records that say they are of this queue, and that have no unit yet."""
        self.next_offset = self._next()
        self._doubtful: tuple[Record, int] | None = None  # waits for the queue's next record, with its tags code

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
            self._queues.relieve(self.queue)

    def add(self, record: Record, code: int) -> None:
        if record.queue_offset == self.next_offset:
            self.next_offset += 1
            self.units += (record.log_offset, record.size, code)
        else:
            self.add_unusual(record, code)

    def add_unusual(self, record: Record, code: int) -> None:
        """A record with an offset of its own, or one that may hold several messages."""
        self.end()
        self._clear_doubt(record.queue_offset)
        # One that seems to begin the queue anew may be damaged: those before it count if it is.
        self._take_lost(record.queue_offset or None)
        if self._is_doubtful(record):
            self._doubtful, self.next_offset = (record, code), -1
        else:
            self._derive(record, code)
            self.next_offset = self._next()

    def _is_doubtful(self, record: Record) -> bool:
        """The record leaves others out of which nothing is known, or begins the queue anew: a flipped bit of its queue
        offset looks the same, and would hide other messages."""
        queue, offset = self.queue, record.queue_offset
        if not queue.max_offset or 0 < offset <= queue.max_offset:
            return False
        return not offset or self._log.damage.first_in(queue.max_log_offset, record.log_offset) is None

    def _clear_doubt(self, next_offset: int) -> None:
        """The queue's next record, be it damaged or whole, says which offset the one before it has."""
        if self._doubtful is None:
            return
        (record, code), self._doubtful = self._doubtful, None
        if self.lost:
            next_offset = self.lost[0].queue_offset
        if next_offset == self.queue.max_offset + messages_in(record):
            _log.error("queue offset is damaged", queue=str(self.queue), found=record.queue_offset,
                       log_offset=record.log_offset)  # fmt: skip
            record = record._replace(queue_offset=self.queue.max_offset)
        self._derive(record, code)

    def finish(self) -> None:
        """No record follows."""
        self.end()
        self._clear_doubt(-1)
        self._take_lost(None)
        self.next_offset = self._next()

    def _take_lost(self, following: int | None) -> None:
        """Give damaged records their units, up to the offset of the whole one that follows. Nothing but themselves says
        what they were: so each must fit between its neighbours."""
        queue, taken = self.queue, list[Record]()
        for record in self.lost:
            begin, end = record.queue_offset, record.queue_offset + messages_in(record)
            if self._may_follow(record) if following is None else queue.max_offset <= begin and end <= following:
                self._derive(record, 0)
                taken.append(record)
        self.lost = []
        if taken:
            _log.error("messages are damaged", topic=queue.topic, queue=queue.queue_id,
                       first_offset=taken[0].queue_offset, count=sum(map(messages_in, taken)),
                       log_offset=taken[0].log_offset)  # fmt: skip

    def _may_follow(self, record: Record) -> bool:
        """The record is the next, or damage before it has room for all between."""
        queue = self.queue
        missing = record.queue_offset - queue.max_offset
        spans = self._log.damage.within(max(queue.max_log_offset, 0), record.log_offset) if missing > 0 else ()
        return 0 <= missing * MESSAGE_BYTES_MIN <= sum(end - begin for begin, end in spans)

    def _derive(self, record: Record, code: int) -> None:
        log_offset, size, _, _, queue_offset, _, store_ms, _ = record
        if isinstance(self.queue, BatchConsumeQueue):
            self.queue.derive(BatchUnit(log_offset, size, code, store_ms, queue_offset, messages_in(record)))
        else:
            lost = self._log.damage.first_in(self.queue.max_log_offset, log_offset)
            self.queue.derive(queue_offset, log_offset, size, code, lost)


class Derivation:
    """Gives queues the units of records of the log: all queues, or those in `only`."""

    def __init__(
        self, log: CommitLog, queues: QueueTable, codes: TagsCodes, begin: int, only: Iterable[Queue] | None = None
    ) -> None:
        self._log, self._queues, self._codes, self._begin = log, queues, codes, begin
        self._only = (
            None
            if only is None
            else {(queue.topic.encode("utf-8", "replace"), queue.queue_id): queue for queue in only}
        )
        self._runs: dict[tuple[bytes, int], _Run] = {}
        self._early: dict[tuple[bytes, int], list[Record]] = {}  # the first of their queues, until two of them agree
        self._orphans: dict[tuple[bytes, int], list[Record]] = {}  # damaged, of queues that have no whole record

    def goes_on(self, record: Record) -> bool:
        """A record behind damage is no remnant: its queue has not been further before, unless it began anew."""
        run = self._run_of((record.topic, record.queue_id))
        if run is None or not record.queue_offset:
            return True
        return record.queue_offset >= max(run.next_offset, run.queue.max_offset)

    def lose(self, records: Iterable[Record]) -> None:
        """These records are damaged. Their queues keep their places for them, which readers pass over, so that no
        offset is given out again."""
        for record in records:
            if record.sys_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
                continue
            key = record.topic, record.queue_id
            if (run := self._run_of(key)) is not None:
                run.lost.append(record)
            elif self._only is None:
                self._orphans.setdefault(key, []).append(record)
            elif key in self._only:
                self._begin_run(*key, 0).lost.append(record)

    def take_all(self, records: Iterable[Record]) -> Record | None:
        """The last of them."""
        runs, codes, last = self._runs, self._codes, None
        for last in records:
            log_offset, size, topic, queue_id, queue_offset, sys_flag, _, _ = last
            if sys_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
                continue
            run = runs.get((topic, queue_id))
            if run is None:
                self._take_early(last)
                continue
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
        return last

    def _take_early(self, record: Record) -> None:
        """One of the first of its queue. Nothing but the next ones tells whether its queue offset is right: if it is
        not, they must not be put behind it."""
        key = record.topic, record.queue_id
        if self._only is not None and key not in self._only:
            return
        early = self._early.setdefault(key, [])
        early.append(record)
        if len(early) > 2 or (len(early) > 1 and _may_follow(*early)):
            self._run_of(key)

    def _run_of(self, key: tuple[bytes, int]) -> _Run | None:
        """The run of a queue, with what has waited for it; None if nothing whole of that queue was there yet."""
        early = self._early.pop(key, None)
        if early is None:
            return self._runs.get(key)
        if len(early) > 1 and _is_first_wrong(*early):
            first, second = early[:2]
            early[0] = first._replace(queue_offset=second.queue_offset - messages_in(first))
            _log.error("queue offset is damaged", topic=first.topic.decode("utf-8", "replace"), queue=first.queue_id,
                       found=first.queue_offset, log_offset=first.log_offset)  # fmt: skip
        run = self._begin_run(*key, early[0].queue_offset)
        for record in early:
            run.add(record, self._codes.of(record, run.topic))
        return run

    def _begin_run(self, topic: bytes, queue_id: int, queue_offset: int) -> _Run:
        if self._only is not None:
            queue = self._only[topic, queue_id]
        else:
            queue = self._queues.derive(topic.decode("utf-8", "replace"), queue_id, queue_offset, self._begin)
        run = self._runs[topic, queue_id] = _Run(self._log, self._queues, queue)
        return run

    def finish(self) -> None:
        """Let queues have what waits for them; no record follows."""
        for key in list(self._early):
            self._run_of(key)
        for (topic, queue_id), records in self._orphans.items():
            # A queue with a whole record begins at that: what it had before is in its files.
            if (topic, queue_id) not in self._runs and (first := self._end_before(records[0])) is not None:
                self._begin_run(topic, queue_id, first).lost = records
        self._orphans = {}
        for run in self._runs.values():
            run.finish()
        self._queues.derived(run.queue for run in self._runs.values())

    def _end_before(self, record: Record) -> int | None:
        """Where the queue of a damaged record ended before it; None if it cannot have been that queue's."""
        topic, offset = record.topic.decode("utf-8", "replace"), record.queue_offset
        end = self._queues.known_end(topic, record.queue_id)
        if end is None:  # new since the last stop, or no queue at all
            return 0 if not offset and record.queue_id >= 0 and topic_problem(topic) is None else None
        return end if end != UNKNOWN else None  # such a queue is derived anew


def _may_follow(first: Record, second: Record) -> bool:
    """Whether one record of a queue may be the next after another: it has the next offset, or begins the queue anew, or
    there was room for those between."""
    missing = second.queue_offset - first.queue_offset - messages_in(first)
    room = second.log_offset - first.log_offset - first.size
    return not second.queue_offset or 0 <= missing * MESSAGE_BYTES_MIN <= room


def _is_first_wrong(first: Record, second: Record, third: Record | None = None) -> bool:
    """Whether the queue offset of a queue's first record is damaged, and not that of the second: the third goes on from
    the second, or so many messages as the first says never had room before it."""
    if _may_follow(first, second) or second.queue_offset < messages_in(first):
        return False
    if third is None:
        return first.queue_offset * MESSAGE_BYTES_MIN > first.log_offset
    return third.queue_offset == second.queue_offset + messages_in(second)
