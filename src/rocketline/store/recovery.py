"""Bringing log and queues into agreement when a store is opened.

After a clean stop only what the log has behind the last known record is looked at. After a crash every record is read
from the last file that was safely behind us (the checkpoint tells which), and the queues are derived anew from there
on. Damage in the midst costs the record that has it: as long as records follow that go on from those before, or queues
or checkpoint prove that the log went on, nothing behind it is lost. Otherwise the log ends after its last good record,
and what follows is copied away and cleared.

Differs from Java, whose result on an undamaged store is the same: a clean start reads from the end of the queues and
not the whole last file; units that a crash may have left in doubt are dropped, not kept if they look right; damage ends
the log only if nothing follows on it; the bytes behind the last good record are cleared.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rocketline.errors import CorruptStoreError
from rocketline.logs import Log
from rocketline.model.names import topic_problem
from rocketline.model.sys_flags import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketline.store.files.checkpoint import Checkpoint
from rocketline.store.filesystem import ReadOnlyMap, is_no_space
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.damage import Aside, DamagedSpan
from rocketline.store.log.record_scan import Record, TagsCodes, messages_in, record_at, scan, stop_of
from rocketline.store.log.resync import next_record, still_damaged
from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue, BatchUnit
from rocketline.store.queues.consume_queue import MESSAGE_BYTES_MIN, NO_SIZE, PRE_BLANK, UNIT, UNIT_BYTES, ConsumeQueue
from rocketline.store.queues.queue_ends import UNDERIVED, UNKNOWN, KnownQueue, QueueEnds
from rocketline.store.queues.queue_table import Queue, QueueTable
from rocketline.wire.message_codec import RECORD_BYTES_MIN
from rocketline.wire.record_layout import fixed_bytes, struct_of

_log = Log(__name__)
_RUN_FIELDS_MAX: Final = 3 * 1024
"""Of the units that wait for their queue."""
_LOST_FILES_MAX: Final = 1024
"""Units that point further behind the log are damaged."""
_MENDED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of the log that one reader of damaged units reads: all others wait meanwhile."""
_NEIGHBOURS_MAX: Final = 200
"""Units behind those that were read which are looked at, for one that is right."""
_TOLD_MAX: Final = 5
"""Messages of a damaged stretch that a line names."""
_EFFORT_MAX: Final = 1 << 20
"""Bytes of the log that are read in one step of deriving queues anew; each record counts as some more."""
_RECORD_EFFORT: Final = 4096
_unpack_places = struct_of("size", "queue_id", "queue_offset", "sys_flag", "body_bytes").unpack_from
"""Of a record with short hosts: size, queue id, queue offset, sysFlag, bytes of its body."""
_BODY_AT: Final = fixed_bytes()
_IPV6_FLAGS: Final = 0x30
_MULTI_DISPATCH_PREFIX: Final = "%LMQ%"
"""Units of such topics point at records of others: Apache's broker may have left some."""


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


class Recovery:
    """One opening of a store; it stays the doctor of queues that are looked at later."""

    def __init__(
        self, log: CommitLog, queues: QueueTable, codes: TagsCodes, rules: RecoveryRules, aside: Aside
    ) -> None:
        self._log, self._queues, self._codes, self._rules, self._aside = log, queues, codes, rules, aside
        self._begin = 0  # from here on, records are dispatched anew
        self._last: Record | None = None  # the one before
        self._is_anew = False  # all queues are cut and derived from the whole log, and no checkpoint knows that
        self.known_end = 0
        """Of queues that nobody has looked at, all records before this place of the log are known."""
        self._has_expired = False  # the log has lost files since the last clean stop, as it should
        self._searched: dict[
            tuple[ConsumeQueue, int], int
        ] = {}  # how far records were looked for that units should have
        self._synced_end = 0  # so much of the log was on disk when the ends of queues were written
        queues.doctor = self

    # --- the whole

    def look(self, checkpoint: Checkpoint, ends: QueueEnds | None, *, is_clean: bool) -> None:
        """See what there is, and where to begin; nothing is changed. `ends` is what the last clean stop knew.

        Raises `CorruptStoreError`, `OSError`.
        """
        log, queues = self._log, self._queues
        if ends is not None and ends.layout != queues.layout:
            ends = None
        _check_end(log, checkpoint, ends)
        log.damage.review(self._left_of)
        self.known_end = log.start
        self._has_expired = ends is not None and log.start > ends.log_start
        self._synced_end = ends.log_end if ends is not None else 0
        if ends is not None and is_clean and log.segments.starts and log.start > ends.log_start:
            # Files that expire do so while the broker runs, and it knew where its log began when it stopped.
            _log.error("log has lost its first files: their messages are gone", bytes=log.start - ends.log_start,
                       path=str(log.segments.path(ends.log_start)), log_start=log.start)  # fmt: skip
        if not log.segments.starts:
            queues.load()
            _check_nothing(log, checkpoint, queues)
        elif is_clean:
            self._begin, self._last = self._clean_begin(ends)
        else:
            self._begin = self._crash_begin(checkpoint.min_timestamp, ends)

    def run(self, checkpoint: Checkpoint) -> Recovered:
        """Make log and queues agree. Raises `OSError`."""
        log, queues, begin, last = self._log, self._queues, self._begin, self._last
        if not log.segments.starts:
            queues.begin_checks()
            return Recovered(0, 0, 0, 0)
        if self._is_anew:
            checkpoint.distrust_queues()
        for queue in queues.awake:
            queue.truncate(begin)
        derivation = _Derivation(log, queues, self._codes, begin)
        last = derivation.take_all(self._walk(derivation, begin, log.end, last)) or last
        derivation.finish()
        end = stop_of(log, begin if last is None else max(last.log_offset + last.size, begin))
        end = stop_of(log, self._proven_end(derivation, end, checkpoint))
        try:
            log.restart(begin, end, self._aside)
        except OSError as error:
            if not is_no_space(error):
                raise
        for queue in queues.awake:
            queue.truncate(end)
            queue.correct_min(log.start)
        for queue, known in queues.derived_though_known():
            self._complete(queue, known)
        queues.begin_checks()
        return Recovered(end, begin, last.log_offset if last else 0, last.store_ms if last else 0)

    def drop_rest(self) -> OSError | None:
        """Clear what follows the last good record, if that is not done; why it cannot be, if there is no room for a
        copy. Raises `OSError`."""
        if self._log.has_rest:
            try:
                self._log.drop_rest(self._aside)
            except OSError as error:
                if not is_no_space(error):
                    raise
                return error
        return None

    def _clean_begin(self, ends: QueueEnds | None) -> tuple[int, Record | None]:
        """Behind the last known record, and that one."""
        log, queues = self._log, self._queues
        if ends is not None:
            queues.put_to_sleep(ends.queues)
            self.known_end = ends.log_end
            return ends.log_end, self._last_at(ends.last_record, ends.log_end)
        is_sound = queues.load()
        if (known := max(map(self._end_beyond, queues.awake), default=0)) > log.segments.end:
            raise _missing(log, known)
        problems = [problem for queue in queues.awake if (problem := self.problem_of(queue)) is not None]
        last = max(queues.awake, key=lambda queue: queue.max_log_offset, default=None)
        if is_sound and not problems and last is not None and last.max_log_offset >= 0:
            unit = last.unit(last.max_offset - 1)
            if unit is not None and unit[0] >= log.start:
                return last.max_log_offset, self._last_at(unit[0], last.max_log_offset)
        if problems or not is_sound:
            problem = problems[0] if problems else "units follow on an end"
            _log.warning("queues do not agree with the log: reading the whole log", problem=problem)
            self._is_anew = True
        return log.start, None

    def _end_beyond(self, queue: Queue) -> int:
        """Where the log ended by the last two units of a queue, if both are of records behind its last file: one alone
        may be damaged, and lets the queue be derived anew. 0 if they are not."""
        log, end = self._log, 0
        for offset in (queue.max_offset - 2, queue.max_offset - 1):
            unit = queue.unit(offset)
            if unit is None:
                continue
            place, size, _ = unit
            if place < max(log.segments.end, end) or not RECORD_BYTES_MIN <= size <= log.segment_bytes:
                return 0
            end = place + size
        return end if end <= log.segments.end + _LOST_FILES_MAX * log.segment_bytes else 0

    def _last_at(self, position: int, end: int) -> Record | None:
        """The record that ended the log, which may be damaged."""
        log = self._log
        if not log.start <= position < end:
            return None  # nothing was ever written, or all of it has expired
        for record in scan(log, position, position + 1, check_crc=True):
            if record.log_offset == position:
                return record
        if log.damage.at(position) is None:
            self._note_damage(position, end, self._remains(position, end))
        return record_at(log, position)

    def _crash_begin(self, safe_store_ms: int, ends: QueueEnds | None) -> int:
        """The start of the newest file whose first record was stored before anything was in doubt."""
        log, begin = self._log, self._log.start
        for start in reversed(log.segments.starts):
            first = next(iter(scan(log, start, start + 1, check_crc=False)), None)
            if first is not None and 0 < first.store_ms <= safe_store_ms:
                begin = start
                break
        # What came after that stop is read below, all of it: queues that have nothing there are as they were.
        if ends is not None and begin <= ends.log_end:
            self._queues.put_to_sleep(ends.queues)
            self.known_end = ends.log_end
        else:
            self._queues.put_to_sleep(self._queues.listed())
        return begin

    # --- walking over damage

    def _left_of(self, span: DamagedSpan) -> DamagedSpan | None:
        """What an earlier life found damaged may be whole by now, and must not be hidden."""
        if span.end <= self._log.start:
            return None
        left = still_damaged(self._log, span, needs_append_crc=self._rules.needs_append_crc)
        if left != span:
            _log.warning("bytes of the log are damaged no more", log_offset=span.begin, bytes=span.end - span.begin,
                         left=left.end - left.begin if left is not None else 0)  # fmt: skip
        return left

    def _walk(self, derivation: _Derivation, begin: int, end: int, last: Record | None) -> Iterator[Record]:
        """The records from `begin` on, up to the last before `end` that goes on from those before it."""
        log, rules, position = self._log, self._rules, begin
        while True:
            for last in scan(log, position, end, check_crc=rules.check_crc, needs_append_crc=rules.needs_append_crc):
                if last.log_offset != position and log.damage:
                    self._tell_lost(derivation, position, last.log_offset)
                yield last
                position = last.log_offset + last.size
            stop = stop_of(log, position)
            self._tell_lost(derivation, position, stop)
            found = self._next_behind(derivation, stop, end, last) if stop < end else None
            if found is None:
                return
            remains = self._remains(stop, found)
            self._note_damage(stop, found, remains)
            derivation.lose(remains)
            position = found

    def _tell_lost(self, derivation: _Derivation, begin: int, end: int) -> None:
        """What known damage between two positions has taken from queues."""
        for span in self._log.damage.within(begin, end):
            derivation.lose(self._remains(*span))

    def _remains(self, begin: int, end: int) -> list[Record]:
        """Damaged records, as far as they follow on each other from `begin` on: their lengths agree, and they know
        their place, so they say which messages they were."""
        found: list[Record] = []
        while begin < end and (record := record_at(self._log, begin)) is not None and begin + record.size <= end:
            found.append(record)
            begin += record.size
        return found

    def _next_behind(self, derivation: _Derivation, position: int, end: int, last: Record | None) -> int | None:
        """Where the log goes on behind damage at `position`: with a record whose queue has not been further already."""
        log, rules = self._log, self._rules
        place: int | None = position
        while place is not None:
            place = next_record(log, place, end, check_crc=True, after=last, needs_append_crc=rules.needs_append_crc)
            if place is not None and (record := record_at(log, place)) is not None and derivation.goes_on(record):
                return place
        return None

    def _note_damage(self, begin: int, end: int, remains: list[Record]) -> None:
        log = self._log
        log.damage.add(begin, end)
        if end - begin < RECORD_BYTES_MIN and not end % log.segment_bytes:
            _log.warning("blank record at the end of a log file is lost", log_offset=begin)
            return
        file = str(log.segments.path(log.segments.start_of(begin)))
        _log.error("log is damaged: these bytes are passed over", log_offset=begin, bytes=end - begin, file=file,
                   messages=_told(remains))  # fmt: skip

    def _proven_end(self, derivation: _Derivation, end: int, checkpoint: Checkpoint) -> int:
        """Where the log ended, if a clean stop, units of queues or the checkpoint prove that it went on behind `end`.

        If nothing but zeros follows there is nothing to keep: so a crash leaves what it has kept from the disk. But
        what a clean stop has synced was there, whatever follows now.
        """
        log, known = self._log, checkpoint.logics_log_offset or -1
        if known >= end:
            _log.error("log has lost what followed its last good record", log_end=end, checkpoint=known)
        proven = max(self._synced_end, end)
        if log.segments.is_set_from(end):
            proven = max(
                proven, self._queues.prove(end, log.segments.end), self._end_of(known) if known >= end else end
            )
        if proven > end:
            remains = self._remains(end, proven)
            self._note_damage(end, proven, remains)
            derivation.lose(remains)
            derivation.finish()
        return proven

    def _end_of(self, position: int) -> int:
        """Where the record there ends, of which nothing may be left."""
        record = record_at(self._log, position)
        size = record.size if record is not None else RECORD_BYTES_MIN
        return min(position + size, self._log.segments.end)

    def _complete(self, queue: Queue, known: KnownQueue) -> None:
        """Let a queue end where it did, though the log has no whole record for its last units: their offsets are never
        given out again. Damage has them, or nobody."""
        log = self._log
        if queue.max_offset >= known.max_offset:
            return
        end = log.end if known.max_log_offset == UNDERIVED else known.max_log_offset
        # If nothing is left of it and the log has lost its beginning, that has taken what is missing.
        lost = log.damage.first_in(queue.max_log_offset, end) if queue.max_offset or not log.start else None
        if lost is None:
            _log.error("log has nothing of the last messages of a queue", topic=queue.topic, queue=queue.queue_id,
                       first_offset=queue.max_offset, next_offset=known.max_offset)  # fmt: skip
        elif isinstance(queue, ConsumeQueue):
            queue.keep_from_files(self._is_lost, log.segments.end)
        if queue.max_offset < known.max_offset:
            queue.end_at(known.max_offset, lost)

    def _is_lost(self, place: int) -> bool:
        return self._log.damage.at(place) is not None

    # --- what queues are compared with

    def problem_of(self, queue: Queue) -> str | None:
        """Why the first or last unit of a queue cannot be right, None if each points at a record of its own."""
        log = self._log
        queue.correct_min(log.start)
        if queue.topic.startswith(_MULTI_DISPATCH_PREFIX):
            return None
        for offset, log_offset, size in queue.end_units():
            if not self._is_right(queue, offset, log_offset, size):
                return f"unit {offset} of {queue} does not point at its record, but at {log_offset}"
        return None

    def examine(self, queue: Queue, known: KnownQueue) -> str | None:
        try:
            problem = self._unfounded(queue) if known.max_offset == UNKNOWN else queue.adopt(known)
        except CorruptStoreError as error:
            return str(error)
        # Not the first that can be read: records of a queue that slept may have gone since, and all of them were there.
        is_known = known.max_offset != UNKNOWN and not self._has_expired
        if problem is None and is_known and queue.first_kept > known.min_offset:
            problem = f"units from {known.min_offset} to {queue.first_kept - 1} are missing"
        return problem or self.problem_of(queue)

    def _unfounded(self, queue: Queue) -> str | None:
        """Open a queue of which nothing is known but its files; what is wrong with them.

        The log has none of its records from `begin` on but damaged ones, so neither has the queue. What came before is
        safe, so there is no hole in it. Raises `CorruptStoreError`.
        """
        if queue.load(is_clean=True):
            return f"something follows on {queue}"
        last = queue.unit(queue.max_offset - 1) if queue.max_log_offset > self._begin else None
        if last is not None and not self._is_lost(last[0]):
            return f"the last unit of {queue} points behind the last record that it can have"
        return None

    def settle(self, queue: ConsumeQueue) -> str | None:
        try:
            if self._log.damage:
                queue.keep_from_files(self._is_lost, self._log.segments.end)
            is_first = self._begin <= self._log.start and not self._log.damage
            problem, stale = queue.settle(is_first=is_first, derived_from=self._begin)
        except CorruptStoreError as error:
            return str(error)
        if stale:
            _log.error("queue knows messages that the log has lost", topic=queue.topic, queue=queue.queue_id,
                       first_offset=queue.max_offset, count=stale)  # fmt: skip
        return problem or self.problem_of(queue)

    def reopen(self, queue: BatchConsumeQueue, offset: int, begin: int) -> str | None:
        try:
            is_followed = queue.load(is_clean=True)
        except CorruptStoreError as error:
            return str(error)
        end = queue.end_before(begin)
        if begin > self._log.start and offset not in (0, end):
            return f"it ends at {end}, and the log goes on with {offset}"
        if is_followed:  # by what a crash has left of units that are derived now
            queue.load(is_clean=False)
        queue.truncate(begin)
        return self.problem_of(queue)

    def expected(self, queue: Queue, known: KnownQueue) -> KnownQueue:
        if known.max_offset != UNKNOWN:
            return known
        log = self._log
        end = queue.end_of_gone(
            lambda place, size: place + size <= log.start or (place < log.end and self._is_lost(place))
        )
        return KnownQueue(queue.is_batched, end, end, UNDERIVED)

    def derive_anew(self, damaged: Mapping[Queue, str], known: Mapping[Queue, KnownQueue]) -> Iterator[None]:
        log = self._log
        for queue, problem in damaged.items():
            copy = self._aside.move(queue.reset())
            _log.error("queue is derived anew from the log", topic=queue.topic, queue=queue.queue_id, problem=problem,
                       copy=copy and str(copy))  # fmt: skip
        derivation = _Derivation(log, self._queues, self._codes, log.start, damaged)
        records = self._walk(derivation, log.start, log.end, None)
        ends = [before.max_log_offset for before in known.values()]
        end = max(ends) if min(ends) >= 0 else log.end  # where their last records end, if that is known of all
        while (last := derivation.take_all(_portion(records))) is not None and last.log_offset + last.size < end:
            yield
        derivation.finish()
        for queue, before in known.items():
            self._complete(queue, before)
            queue.correct_min(log.start)

    # --- units that are read

    def check_units(self, queue: ConsumeQueue, offset: int, units: bytes) -> bytes:
        """Each unit must point at its own record. Nearly always all do, so that is seen at once for all of them."""
        log, count = self._log, len(units) // UNIT_BYTES
        places = struct.unpack(f">{'q12x' * count}", units)
        if not count or queue.topic.startswith(_MULTI_DISPATCH_PREFIX):
            return units
        start = log.segments.start_of(places[0])
        if log.start <= min(places) and max(places) < min(start + log.segment_bytes - RECORD_BYTES_MIN, log.end):
            sizes = struct.unpack(f">{'8xi8x' * count}", units)
            if _are_records(log.map_of(start), start, places, sizes, queue, offset):
                return units
        wrong = [
            number
            for number, (place, size, _) in enumerate(UNIT.iter_unpack(units))
            if not self._is_right(queue, offset + number, place, size)
        ]
        return self._mended(queue, offset, units, wrong) if wrong else units

    def problem_of_batches(self, queue: BatchConsumeQueue, units: Sequence[BatchUnit]) -> str | None:
        log, name = self._log, queue.topic.encode("utf-8", "replace")
        if queue.topic.startswith(_MULTI_DISPATCH_PREFIX):
            return None
        for number, unit in enumerate(units):
            if 0 <= unit.log_offset < log.start or self._is_lost(unit.log_offset):
                continue
            record = record_at(log, unit.log_offset)
            found = record and (record.size, record.topic, record.queue_id)
            # Queue offset and number of messages may be damaged in the record: then the units around it say so.
            is_behind = number > 0 and units[number - 1].end == unit.first
            is_before = number + 1 == len(units) or units[number + 1].first == unit.end
            if (
                record is None
                or found != (unit.size, name, queue.queue_id)
                or (record.queue_offset != unit.first and not is_behind)
                or (messages_in(record) != unit.messages and not is_before)
            ):
                return f"unit {unit.first} of {queue} does not point at its record, but at {unit.log_offset}"
        return None

    def _is_right(self, queue: Queue, offset: int, log_offset: int, size: int) -> bool:
        """The unit points at its record, or at one that is gone."""
        log = self._log
        if 0 <= log_offset < log.start or size == NO_SIZE or log.damage.at(log_offset) is not None:
            return True
        record, name = record_at(log, log_offset), queue.topic.encode("utf-8", "replace")
        if record is None or (record.size, record.topic, record.queue_id) != (size, name, queue.queue_id):
            return False
        # The queue offset in the record may be damaged; but not if the unit there has the record, too, or if the unit
        # stands elsewhere than its neighbours do.
        if record.queue_offset == offset:
            return True
        is_there = queue.place_in_files(record.queue_offset) == log_offset
        return not is_there and queue.is_between_others(offset, log_offset)

    def _mended(self, queue: ConsumeQueue, offset: int, units: bytes, wrong: list[int]) -> bytes:
        """Find the records of wrong units between those that their neighbours point at, and put the units right.

        Raises `OSError`, also if that takes too long for one call: the next one goes on where this stopped.
        """
        mended, left, unread = bytearray(units), _MENDED_BYTES_MAX, None
        for first, end in _runs(wrong):
            names = range(offset + first, offset + end)
            at = self._place_before(queue, offset, mended, first)
            stop = self._place_behind(queue, offset, len(units) // UNIT_BYTES, end, at)
            begin = max(self._searched.pop((queue, names.start), at), at)
            found, unread = self._find(queue, names, begin, stop, begin + left)
            for number in range(first, end):
                here = slice(number * UNIT_BYTES, (number + 1) * UNIT_BYTES)
                if (unit := found.get(offset + number)) is not None:
                    mended[here] = unit
                elif unread is None and not self._is_lost(UNIT.unpack(units[here])[0]):
                    mended[here] = self._lost_unit(at, stop)
            if unread is not None:
                self._searched[queue, names.start] = unread
                break
            left = max(left - (stop - begin), 0)
        if mended != units:
            self._replace(queue, offset, units, bytes(mended))
        if unread is not None:
            problem = f"units from {offset + wrong[0]} on of {queue} are damaged: their records are being looked for"
            raise OSError(errno.EAGAIN, problem, str(queue.folder))
        return bytes(mended)

    def _lost_unit(self, begin: int, end: int) -> bytes:
        """For a message whose record is not between two positions: damage there has taken it."""
        span = self._log.damage.first_in(begin, end)
        if span is None:
            return PRE_BLANK
        place = max(span.begin, begin)
        return UNIT.pack(place, min(span.end - place, NO_SIZE - 1), 0)

    def _replace(self, queue: ConsumeQueue, offset: int, units: bytes, mended: bytes) -> None:
        """Write units that were derived anew. Without room they are derived again by the next who reads them."""
        pairs = enumerate(zip(UNIT.iter_unpack(units), UNIT.iter_unpack(mended), strict=True))
        changed = [(number, unit) for number, (before, unit) in pairs if unit != before]
        lost = sum(size == NO_SIZE or self._is_lost(place) for _, (place, size, _) in changed)
        copy = None
        try:
            copy = self._aside.keep(units, queue.folder.relative_to(self._aside.root) / f"units-{offset}")
            queue.replace(offset, mended)
        except OSError as error:
            if not is_no_space(error):
                raise
        _log.error("units of a queue did not point at their records and were derived anew", topic=queue.topic,
                   queue=queue.queue_id, first_offset=offset + changed[0][0], count=len(changed), lost=lost,
                   copy=copy and str(copy))  # fmt: skip

    def _find(
        self, queue: ConsumeQueue, offsets: range, begin: int, end: int, until: int
    ) -> tuple[dict[int, bytes], int | None]:
        """The units of those messages whose records lie between `begin` and `end`; and where the reading stopped if it
        came as far as `until`, None if all was read."""
        found, name = dict[int, bytes](), queue.topic.encode("utf-8", "replace")
        for record in self._records(begin, end):
            if record.log_offset >= until:
                return found, record.log_offset
            if record.topic == name and record.queue_id == queue.queue_id and record.queue_offset in offsets:
                unit = UNIT.pack(record.log_offset, record.size, self._codes.of(record, queue.topic))
                found[record.queue_offset] = unit
                if len(found) == len(offsets):
                    break
        return found, None

    def _records(self, begin: int, end: int) -> Iterator[Record]:
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
            self._note_damage(stop, position, self._remains(stop, position))

    def _place_before(self, queue: ConsumeQueue, offset: int, units: bytes | bytearray, first: int) -> int:
        """Where the record of the last message before `first` of these units lies, or the log begins."""
        for number in range(first - 1, -2, -1):
            unit = UNIT.unpack_from(units, number * UNIT_BYTES) if number >= 0 else queue.unit_in_files(offset - 1)
            if unit is not None and unit[1] != NO_SIZE and self._is_right(queue, offset + number, *unit[:2]):
                return int(max(unit[0], self._log.start))
        return self._log.start

    def _place_behind(self, queue: ConsumeQueue, offset: int, count: int, end: int, begin: int) -> int:
        """Where the record of the next message behind the wrong ones, and behind `begin`, lies, or the log ends."""
        for number in range(end, count + _NEIGHBOURS_MAX):
            unit = queue.unit_in_files(offset + number)
            if unit is None:
                break
            if unit[1] != NO_SIZE and unit[0] > begin and self._is_right(queue, offset + number, *unit[:2]):
                return unit[0]
        return self._log.end


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Numbers that follow on each other, as the first and the one behind the last."""
    begin = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1:
            yield numbers[begin], numbers[at - 1] + 1
            begin = at


def _portion(records: Iterator[Record]) -> Iterator[Record]:
    """As many as a turn of the loop has time for."""
    effort = _EFFORT_MAX
    for record in records:
        yield record
        effort -= _RECORD_EFFORT + record.size
        if effort < 0:
            return


def _are_records(
    data: ReadOnlyMap, start: int, places: Sequence[int], sizes: Sequence[int], queue: ConsumeQueue, offset: int
) -> bool:
    """Whether records of a queue lie at these places of the file of the log that begins at `start`, with these sizes,
    one queue offset after the other. False if any is unusual."""
    topic, topic_bytes, queue_id = queue.topic_field, len(queue.topic_field), queue.queue_id
    for place, size in zip(places, sizes, strict=True):
        at = place - start
        found_size, found_id, found_offset, sys_flag, body_bytes = _unpack_places(data, at)
        topic_at = at + _BODY_AT + body_bytes
        if (
            (found_size, found_id, found_offset) != (size, queue_id, offset)
            or sys_flag & _IPV6_FLAGS
            or data[topic_at : topic_at + topic_bytes] != topic
        ):
            return False
        offset += 1
    return True


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


class _Derivation:
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


def _told(records: list[Record]) -> str:
    """Which messages these are."""
    places = [f"{one.topic.decode('utf-8', 'replace')}/{one.queue_id} offset {one.queue_offset}" for one in records]
    return ", ".join(places[:_TOLD_MAX]) + (" …" if len(places) > _TOLD_MAX else "") or "unknown"


def _check_end(log: CommitLog, checkpoint: Checkpoint, ends: QueueEnds | None) -> None:
    """A log that is shorter than it was has lost files. Raises `CorruptStoreError`."""
    places = checkpoint.logics_log_offset, checkpoint.confirm_log_offset
    known = max(*(place + 1 if place else 0 for place in places), ends.log_end if ends else 0)
    if known > log.segments.end:
        raise _missing(log, known)


def _missing(log: CommitLog, known: int) -> CorruptStoreError:
    return CorruptStoreError(
        str(log.segments.path(log.segments.start_of(known - 1))),
        f"missing: messages were written up to log offset {known}, and the files of the log go to "
        f"{log.segments.end}. Put it back, or run `rocketline store repair` to go on with what is left",
    )


def _check_nothing(log: CommitLog, checkpoint: Checkpoint, queues: QueueTable) -> None:
    """There is no file of the log: was there ever any? A disk that is not mounted must not cost the queues.

    Raises `CorruptStoreError`.
    """
    stored_ms = max(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp, checkpoint.index_msg_timestamp)
    known = max((queue.max_log_offset for queue in queues.awake), default=0)
    if stored_ms > 0 or known > 0:
        witness = (
            f"queues know messages up to log offset {known}" if known > 0 else "the checkpoint has the time of one"
        )
        raise CorruptStoreError(
            str(log.segments.folder),
            f"empty: it has no file of the log, but {witness}. Put its files back, or mount its disk; to begin anew, "
            "move consumequeue, batchconsumequeue, index and checkpoint away",
        )
