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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rocketline.errors import CorruptStoreError
from rocketline.logs import Log
from rocketline.store.derivation import Derivation
from rocketline.store.end_proof import EndProof
from rocketline.store.files.checkpoint import Checkpoint
from rocketline.store.filesystem import is_no_space, last_set
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.damage import Aside
from rocketline.store.log.record_scan import Record, TagsCodes, is_blank_at, record_at, scan, stop_of
from rocketline.store.log.record_walk import RecordWalk, RecoveryRules
from rocketline.store.queue_doctor import QueueDoctor
from rocketline.store.queues.queue_ends import QueueEnds
from rocketline.store.queues.queue_table import Queue, QueueTable
from rocketline.wire.message_codec import BLANK_BYTES_MIN, RECORD_BYTES_MIN

_log = Log(__name__)
_LOST_FILES_MAX: Final = 1024
"""Units that point further behind the log are damaged."""
_TAIL_BYTES: Final = 64 * 1024 * 1024
"""Of a file of the log, where the blank record is looked for that says that it is full."""


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


class Recovery:
    """One opening of a store. It leaves the queues a `QueueDoctor`, who looks at them from then on."""

    def __init__(
        self, log: CommitLog, queues: QueueTable, codes: TagsCodes, rules: RecoveryRules, aside: Aside
    ) -> None:
        self._log, self._queues, self._codes, self._aside = log, queues, codes, aside
        self._walk = RecordWalk(log, rules)
        self._doctor = queues.looks.doctor = QueueDoctor(log, queues, codes, self._walk, aside)
        self._begin = 0  # from here on, records are dispatched anew
        self._last: Record | None = None  # the one before
        self._is_anew = False  # all queues are cut and derived from the whole log, and no checkpoint knows that
        self.known_end = 0
        """Up to this place of the log, what is known of sleeping queues covers all of their records."""
        self._is_unproven = False  # nobody has noted how queues ended of which the log has nothing from there on
        self._synced_end = 0  # so much of the log was on disk when the ends of queues were written

    # --- the whole

    def look(self, checkpoint: Checkpoint, ends: QueueEnds | None, *, is_clean: bool) -> None:
        """See what there is, and where to begin; nothing is changed. `ends` is what the last clean stop knew.

        Raises `CorruptStoreError`, `OSError`.
        """
        log, queues = self._log, self._queues
        if ends is not None and ends.layout != queues.layout:
            ends = None
        _check_end(log, checkpoint, ends)
        log.damage.review(self._walk.left_of)
        self.known_end = log.start
        self._doctor.has_expired = ends is not None and log.start > ends.log_start
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
            if self._is_full():
                self._check_units(queues.in_files())
        self._doctor.derived_from = self._begin

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
        derivation = Derivation(log, queues, self._codes, begin)
        last = derivation.take_all(self._walk.follow(derivation, begin, log.end, last)) or last
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
            self._doctor.complete(queue, known)
        queues.begin_checks()
        if self._is_unproven and log.start < begin:
            _log.info("nobody has noted how queues ended: the log is compared with them", bytes=begin - log.start)
            queues.looks.proof = EndProof(log, self._walk, queues, begin)
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
        self._is_unproven = True
        is_sound = queues.load()
        self._check_units(queues.awake)
        problems = [problem for queue in queues.awake if (problem := self._doctor.problem_of(queue)) is not None]
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

    def _is_full(self) -> bool:
        """The last file of the log ends with a blank record: there may have been another."""
        log = self._log
        start, file = log.segments.starts[-1], log.segments.file_of(log.segments.starts[-1])
        blank_at = last_set(file, max(file.size - _TAIL_BYTES, 0)) - BLANK_BYTES_MIN
        return blank_at >= 0 and is_blank_at(log, start + blank_at)

    def _check_units(self, queues: Iterable[Queue]) -> None:
        """A log has lost its last file if queues know of records there. Raises `CorruptStoreError`, `OSError`."""
        if (known := max(map(self._end_beyond, queues), default=0)) > self._log.segments.end:
            raise _missing(self._log, known)

    def _end_beyond(self, queue: Queue) -> int:
        """Where the log ended by the last two units of a queue, if both are of records behind its last file: one alone
        may be damaged, and lets the queue be derived anew, unless it is where that file began. 0 if they are not."""
        places = queue.last_places()
        if not places or not self._is_beyond(*places[-1]):
            return 0
        (before, before_bytes), (last, last_bytes) = places[0], places[-1]
        is_first = last == self._log.segments.end or len(places) == 1
        if not is_first and not (self._is_beyond(before, before_bytes) and before + before_bytes <= last):
            return 0
        return last + last_bytes

    def _is_beyond(self, place: int, size: int) -> bool:
        log = self._log
        is_near = 0 <= place - log.segments.end <= _LOST_FILES_MAX * log.segment_bytes
        return is_near and RECORD_BYTES_MIN <= size <= log.segment_bytes

    def _last_at(self, position: int, end: int) -> Record | None:
        """The record that ended the log, which may be damaged."""
        log = self._log
        if not log.start <= position < end:
            return None  # nothing was ever written, or all of it has expired
        for record in scan(log, position, position + 1, check_crc=True):
            if record.log_offset == position:
                return record
        if log.damage.at(position) is None:
            self._walk.note_damage(position, end, self._walk.remains(position, end))
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
            self._is_unproven = True
            self._queues.put_to_sleep(self._queues.listed())
        return begin

    def _proven_end(self, derivation: Derivation, end: int, checkpoint: Checkpoint) -> int:
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
            remains = self._walk.remains(end, proven)
            self._walk.note_damage(end, proven, remains)
            derivation.lose(remains)
            derivation.finish()
        return proven

    def _end_of(self, position: int) -> int:
        """Where the record there ends, of which nothing may be left."""
        record = record_at(self._log, position)
        size = record.size if record is not None else RECORD_BYTES_MIN
        return min(position + size, self._log.segments.end)


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
