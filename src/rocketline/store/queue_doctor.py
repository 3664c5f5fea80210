"""Comparing queues with the log, and deriving anew what does not agree with it. It works all day.

Units are compared with their records where they are read; a queue that slept when it wakes. Nearly always all of them
are right, and that is seen at once. Units that point elsewhere are mended where they lie; a queue whose ends cannot be
right is derived anew as a whole.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rocketline.errors import CorruptStoreError
from rocketline.logs import Log
from rocketline.store.derivation import Derivation
from rocketline.store.filesystem import ReadOnlyMap, is_no_space
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.damage import Aside
from rocketline.store.log.record_scan import Record, TagsCodes, messages_in, record_at
from rocketline.store.log.record_walk import RecordWalk
from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue, BatchUnit
from rocketline.store.queues.consume_queue import NO_SIZE, PRE_BLANK, UNIT, UNIT_BYTES, ConsumeQueue
from rocketline.store.queues.queue_ends import UNDERIVED, UNKNOWN, KnownQueue
from rocketline.store.queues.queue_table import Queue, QueueTable
from rocketline.wire.message_codec import RECORD_BYTES_MIN
from rocketline.wire.record_layout import fixed_bytes, struct_of

_log = Log(__name__)
_MENDED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of the log that one reader of damaged units reads: all others wait meanwhile."""
_NEIGHBOURS_MAX: Final = 200
"""Units behind those that were read which are looked at, for one that is right."""
_EFFORT_MAX: Final = 1 << 20
"""Bytes of the log that are read in one step of deriving queues anew; each record counts as some more."""
_RECORD_EFFORT: Final = 4096
_unpack_places = struct_of("size", "queue_id", "queue_offset", "sys_flag", "body_bytes").unpack_from
"""Of a record with short hosts: size, queue id, queue offset, sysFlag, bytes of its body."""
_BODY_AT: Final = fixed_bytes()
_IPV6_FLAGS: Final = 0x30
_MULTI_DISPATCH_PREFIX: Final = "%LMQ%"
"""Units of such topics point at records of others: Apache's broker may have left some."""


class QueueDoctor:
    """The `Doctor` of a store's queues."""

    def __init__(self, log: CommitLog, queues: QueueTable, codes: TagsCodes, walk: RecordWalk, aside: Aside) -> None:
        self._log, self._queues, self._codes, self._walk, self._aside = log, queues, codes, walk, aside
        self.derived_from = 0
        """From this log offset on, a recovery has given the queues their units."""
        self.has_expired = False
        """The log has lost files since the last clean stop, as it should."""
        self._searched: dict[
            tuple[ConsumeQueue, int], int
        ] = {}  # how far records were looked for that units should have

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
        is_known = known.max_offset != UNKNOWN and not self.has_expired
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
        last = queue.unit(queue.max_offset - 1) if queue.max_log_offset > self.derived_from else None
        if last is not None and not self._is_lost(last[0]):
            return f"the last unit of {queue} points behind the last record that it can have"
        return None

    def settle(self, queue: ConsumeQueue) -> str | None:
        try:
            if self._log.damage:
                queue.keep_from_files(self._is_lost, self._log.segments.end)
            is_first = self.derived_from <= self._log.start and not self._log.damage
            problem, stale = queue.settle(is_first=is_first, derived_from=self.derived_from)
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
        queue.rewind(begin)
        return self.problem_of(queue)

    def gap_before(self, queue: Queue, offset: int, begin: int) -> str | None:
        if begin <= self._log.start or offset <= queue.max_offset:
            return None
        return f"it ends with {queue.max_offset - 1}, and the log goes on with {offset}"

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
        derivation = Derivation(log, self._queues, self._codes, log.start, damaged)
        records = self._walk.follow(derivation, log.start, log.end, None)
        ends = [before.max_log_offset for before in known.values()]
        end = max(ends) if min(ends) >= 0 else log.end  # where their last records end, if that is known of all
        while (last := derivation.take_all(_portion(records))) is not None and last.log_offset + last.size < end:
            yield
        derivation.finish()
        for queue, before in known.items():
            self.complete(queue, before)
            queue.correct_min(log.start)

    def complete(self, queue: Queue, known: KnownQueue) -> None:
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
        else:
            queue.keep_from_files(self._is_lost, log.segments.end)
        if queue.max_offset < known.max_offset:
            queue.end_at(known.max_offset, lost)

    def _is_lost(self, place: int) -> bool:
        return self._log.damage.at(place) is not None

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
        for record in self._walk.between(begin, end):
            if record.log_offset >= until:
                return found, record.log_offset
            if record.topic == name and record.queue_id == queue.queue_id and record.queue_offset in offsets:
                unit = UNIT.pack(record.log_offset, record.size, self._codes.of(record, queue.topic))
                found[record.queue_offset] = unit
                if len(found) == len(offsets):
                    break
        return found, None

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
