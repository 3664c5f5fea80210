"""Whether queues have all that the log has of them, where nobody has written down how they ended.

A queue that has lost its last file, or its folder, looks like a shorter one. So the log is read once behind the running
server, its newest file first: whose newest record is found there, and has its unit, ends where its files say, and may
go on. Queues that nobody has written to for long wait longest, and those that never had a message until the log's
beginning is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rocketline.logs import Log
from rocketline.model.sys_flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.record_scan import Record, messages_in
from rocketline.store.log.record_walk import RecordWalk
from rocketline.store.queues.queue_places import QueueReach
from rocketline.store.queues.queue_table import QueueTable

_log = Log(__name__)

_EFFORT_MAX: Final = 1 << 20
"""Bytes of the log that are read in one step; each record counts as some more."""
_RECORD_EFFORT: Final = 2048
_COMPARED_A_STEP: Final = 200
"""Queues, of which one may have to be opened."""

_Name = tuple[bytes, int]
"""Topic and queue id, as records have them."""


class EndProof:
    """One reading of the log from `end` back to its beginning, and what it has found of queues."""

    def __init__(self, log: CommitLog, walk: RecordWalk, queues: QueueTable, end: int) -> None:
        self._log, self._walk, self._queues, self._end = log, walk, queues, end
        self._read_from = end  # from here on, all records are compared with their queues
        self._lasts: dict[_Name, tuple[int, int]] = {}  # where each queue ended, and the record of its last message
        self._firsts: dict[_Name, int] = {}  # the first message of each
        self._waiting: dict[_Name, None] = {}  # queues that are wrong, and cannot be derived anew at this moment
        self._made: set[str] = set()  # topics made since: older records of their names are not theirs
        self._steps: Iterator[None] | None = None
        self.is_over = False
        """All of the log was read, and nobody has to wait for it any more."""

    def go_on(self) -> None:
        """Take a step. Raises `OSError`: then the next one begins with that file of the log again."""
        if self._steps is None:
            self._steps = self._read()
        try:
            next(self._steps)
        except StopIteration:
            self.is_over = True
            _log.info("all queues were compared with the log", log_start=self._log.start, log_end=self._end)
        except BaseException:
            self._steps = None
            raise

    def _read(self) -> Iterator[None]:
        for start in self._log.segments.starts[::-1]:  # whose first ones may expire meanwhile
            if start < self._read_from:
                yield from self._read_file(start)
        while self._waiting:  # for what is on its way to them; nothing more is taken for them
            for name in list(self._waiting):
                self._compare(name)
            yield

    def _read_file(self, start: int) -> Iterator[None]:
        """Take the bounds of all queues that have records in a file, and compare these queues with them."""
        firsts, lasts = dict[_Name, int](), dict[_Name, tuple[int, int]]()
        end = min(start + self._log.segment_bytes, self._end)
        records = self._walk.between(start, end)
        while start >= self._log.start and _take(records, firsts, lasts):
            yield
        for span in self._log.damage.within(start, end):
            _take_damaged(self._walk.remains(*span), firsts, lasts)
        for number, (name, last) in enumerate(lasts.items(), 1):
            if start < self._log.start:  # it has expired meanwhile, and queues begin behind it
                return
            self._lasts.setdefault(name, last)
            self._firsts[name] = firsts[name]
            self._compare(name)
            if number % _COMPARED_A_STEP == 0:
                yield
        self._read_from = start

    def _compare(self, name: _Name) -> None:
        topic, queue_id = name[0].decode("utf-8", "replace"), name[1]
        is_over = topic in self._made or self._queues.looks.compare(
            topic, queue_id, is_batched=self._queues.kind_of(topic)
        )
        if is_over:
            self._waiting.pop(name, None)
        else:
            self._waiting[name] = None

    # --- what is known so far

    def made(self, topic: str) -> None:
        """A topic is made, or gone: what the log has of its name until now is nobody's."""
        if not self.is_over:
            self._made.add(topic)

    def holds_for(self, topic: str, queue_id: int, queue: QueueReach | None) -> bool:
        """The queue ends where its files say. None stands for one that has none."""
        if self.is_over or topic in self._made:
            return True
        is_read = queue is not None and queue.max_log_offset > self._read_from
        return is_read and (topic.encode("utf-8", "replace"), queue_id) not in self._waiting

    def problem_of(self, topic: str, queue_id: int, queue: QueueReach | None) -> str | None:
        """What the log has of a queue that is missing in its files; None if it has nothing of that kind."""
        name = topic.encode("utf-8", "replace"), queue_id
        found = self._lasts.get(name)
        if found is None or topic in self._made:
            return None
        (end, log_offset), first = found, self._firsts[name]
        if queue is None:
            return f"it has no files, and the log has its messages up to {end - 1}"
        if queue.max_offset < end and queue.max_log_offset < log_offset:
            return f"it ends with {queue.max_offset - 1}, and the log has its messages up to {end - 1}"
        if queue.min_offset > first:
            return f"it begins with {queue.min_offset}, and the log has its messages from {first} on"
        return None


def _take(records: Iterator[Record], firsts: dict[_Name, int], lasts: dict[_Name, tuple[int, int]]) -> bool:
    """Note the bounds of queues in the next records, as many as a turn of the loop has time for; whether there were
    any. A topic that was deleted and made again begins anew at 0: what came before is not its."""
    record = None
    for record in _portion(records):
        log_offset, size, topic, queue_id, offset, sys_flag, _, _ = record
        if sys_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK) or queue_id < 0:
            continue
        name = topic, queue_id
        if not offset or name not in firsts:
            firsts[name] = offset
        lasts[name] = offset + messages_in(record), log_offset + size
    return record is not None


def _take_damaged(records: Iterable[Record], firsts: dict[_Name, int], lasts: dict[_Name, tuple[int, int]]) -> None:
    """What is left of damaged records may tell that their queues were longer than the whole ones say."""
    for record in records:
        name, end = (record.topic, record.queue_id), record.log_offset + record.size
        if record.queue_id >= 0 and end > lasts.get(name, (0, 0))[1]:
            firsts.setdefault(name, record.queue_offset)
            lasts[name] = record.queue_offset + messages_in(record), end


def _portion(records: Iterable[Record]) -> Iterator[Record]:
    effort = _EFFORT_MAX
    for record in records:
        yield record
        effort -= _RECORD_EFFORT + record.size
        if effort < 0:
            return
