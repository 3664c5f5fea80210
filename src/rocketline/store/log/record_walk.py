"""Reading the log from record to record, over what is damaged in it, and noting that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from rocketline.logs import Log
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.damage import DamagedSpan
from rocketline.store.log.record_scan import Record, record_at, scan, stop_of
from rocketline.store.log.resync import next_record, still_damaged
from rocketline.wire.message_codec import RECORD_BYTES_MIN

_log = Log(__name__)
_TOLD_MAX: Final = 5
"""Messages of a damaged stretch that a line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRules:
    """What counts as a good record."""

    check_crc: bool = True
    needs_append_crc: bool = False


class RecordTaker(Protocol):
    """Who takes the records of a walk."""

    def goes_on(self, record: Record) -> bool:
        """Whether a record behind damage is no remnant of former bytes."""
        ...

    def lose(self, records: Iterable[Record]) -> None:
        """These records are damaged: the walk passes over them."""
        ...


class RecordWalk:
    """Walks over one log. Damage that is met is noted in `CommitLog.damage`, so that readers pass over it, too."""

    def __init__(self, log: CommitLog, rules: RecoveryRules) -> None:
        self._log, self._rules = log, rules

    def left_of(self, span: DamagedSpan) -> DamagedSpan | None:
        """What an earlier life found damaged may be whole by now, and must not be hidden."""
        if span.end <= self._log.start:
            return None
        left = still_damaged(self._log, span, needs_append_crc=self._rules.needs_append_crc)
        if left != span:
            _log.warning("bytes of the log are damaged no more", log_offset=span.begin, bytes=span.end - span.begin,
                         left=left.end - left.begin if left is not None else 0)  # fmt: skip
        return left

    def follow(self, taker: RecordTaker, begin: int, end: int, last: Record | None) -> Iterator[Record]:
        """The records from `begin` on, up to the last before `end` that goes on from those before it."""
        log, rules, position = self._log, self._rules, begin
        while True:
            for last in scan(log, position, end, check_crc=rules.check_crc, needs_append_crc=rules.needs_append_crc):
                if last.log_offset != position and log.damage:
                    self._tell_lost(taker, position, last.log_offset)
                yield last
                position = last.log_offset + last.size
            stop = stop_of(log, position)
            self._tell_lost(taker, position, stop)
            found = self._next_behind(taker, stop, end, last) if stop < end else None
            if found is None:
                return
            remains = self.remains(stop, found)
            self.note_damage(stop, found, remains)
            taker.lose(remains)
            position = found

    def between(self, begin: int, end: int) -> Iterator[Record]:
        """All records from one to the next of these positions, where others begin or the log ends; damage between them
        is noted."""
        log, position, last = self._log, begin, None
        while True:
            for last in scan(log, position, end, check_crc=False):
                yield last
                position = last.log_offset + last.size
            stop = stop_of(log, position)
            if stop >= end:
                return
            found = next_record(log, stop, end, check_crc=True, after=last)
            position = end if found is None else found
            self.note_damage(stop, position, self.remains(stop, position))

    def _tell_lost(self, taker: RecordTaker, begin: int, end: int) -> None:
        """What known damage between two positions has taken from queues."""
        for span in self._log.damage.within(begin, end):
            taker.lose(self.remains(*span))

    def remains(self, begin: int, end: int) -> list[Record]:
        """Damaged records, as far as they follow on each other from `begin` on: their lengths agree, and they know
        their place, so they say which messages they were."""
        found: list[Record] = []
        while begin < end and (record := record_at(self._log, begin)) is not None and begin + record.size <= end:
            found.append(record)
            begin += record.size
        return found

    def _next_behind(self, taker: RecordTaker, position: int, end: int, last: Record | None) -> int | None:
        """Where the log goes on behind damage at `position`: with a record whose queue has not been further already."""
        log, rules = self._log, self._rules
        place: int | None = position
        while place is not None:
            place = next_record(log, place, end, check_crc=True, after=last, needs_append_crc=rules.needs_append_crc)
            if place is not None and (record := record_at(log, place)) is not None and taker.goes_on(record):
                return place
        return None

    def note_damage(self, begin: int, end: int, remains: list[Record]) -> None:
        log = self._log
        log.damage.add(begin, end)
        if end - begin < RECORD_BYTES_MIN and not end % log.segment_bytes:
            _log.warning("blank record at the end of a log file is lost", log_offset=begin)
            return
        file = str(log.segments.path(log.segments.start_of(begin)))
        _log.error("log is damaged: these bytes are passed over", log_offset=begin, bytes=end - begin, file=file,
                   messages=_told(remains))  # fmt: skip


def _told(records: list[Record]) -> str:
    """Which messages these are."""
    places = [f"{one.topic.decode('utf-8', 'replace')}/{one.queue_id} offset {one.queue_offset}" for one in records]
    return ", ".join(places[:_TOLD_MAX]) + (" …" if len(places) > _TOLD_MAX else "") or "unknown"
