"""The message store as a whole: log, queues, index, and what keeps them in agreement. Java: DefaultMessageStore.

It runs on one thread and does no waiting of its own. Whoever owns it (`broker.storing.flusher`) calls `begin_flush` and
`finish_flush` around a sync that may run elsewhere, `beginning_queue_flush` every second or so with
`finish_queue_flush` behind it, `drop_expired` and `cleaning` every ten, and after a start `look_on` and `catch_up` as
long as they have more to do. `begin_space` and `finish_space` are for those who can make space for the log elsewhere,
too; without them it is made when it is needed. A job between a begin and its finish holds all that it needs, and
touches no state of the store.

An append is written, then dispatched: its queue gets a unit, its keys go into the index, whoever waits is told. With
SYNC_FLUSH the dispatch waits for the flush, so nobody ever reads what a crash could take back.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from rocketline.clock import Clock
from rocketline.errors import (
    IllegalMessageError,
    LocalProtocolError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from rocketline.logs import Log, Throttle
from rocketline.model import property_names
from rocketline.model.delay_levels import DelayLevels
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.java_hash import tags_code
from rocketline.model.message import StoredMessage
from rocketline.model.names import SCHEDULE_TOPIC
from rocketline.model.sys_flags import is_inner_batch
from rocketline.store.config import FlushDiskType, StoreConfig
from rocketline.store.files.checkpoint import Checkpoint
from rocketline.store.filesystem import FileSystem, Lock, is_no_space, told
from rocketline.store.index.index_keys import index_keys
from rocketline.store.index_builder import IndexBuilder
from rocketline.store.log import damage, record_scan
from rocketline.store.log.commit_log import CommitLog, FlushJob
from rocketline.store.log.log_space import SpaceJob
from rocketline.store.log.record_scan import SECTOR_BYTES
from rocketline.store.log.record_walk import RecoveryRules
from rocketline.store.log_writer import FIXED_BYTES_MAX, DispatchEntry, LogWriter
from rocketline.store.queue_flush import EndsJob, QueueFlushJob
from rocketline.store.queues.batch_consume_queue import BATCH_MESSAGES_MAX
from rocketline.store.queues.queue_ends import QueueEnds
from rocketline.store.queues.queue_table import IsBatched, Queue, QueueTable
from rocketline.store.recovery import Recovery
from rocketline.store.retention import UNMEASURED, Decision, Retention, is_expired
from rocketline.store.store_clock import StoreClock
from rocketline.store.store_hooks import StoreHooks
from rocketline.store.store_reader import StoreReader
from rocketline.store.sweeping import SweepJob
from rocketline.wire.batch import BatchEntry
from rocketline.wire.properties import encode_properties

_log = Log(__name__)

_QUEUES_AT_START: Final = 500
"""So many are compared with the log before the first request, which takes a moment; the others soon after."""
_STEPS_AT_START: Final = 200
"""So much of the log is read for queues that must be derived anew: all of a small one."""
_CLEANED_A_STEP: Final = 32
"""Queues, each with files to look into: two milliseconds."""
_STALL_S_MIN: Final = 0.01
"""Writes that take less are not even compared with the setting: there is one for each batch."""


class Appended(NamedTuple):
    """Where records begin in the log, and how many bytes they have there."""

    places: list[LogOffset]
    size: int


class MessageStore(StoreReader):
    """An open store. Java's file formats, byte for byte; see `open`."""

    def __init__(
        self,
        config: Callable[[], StoreConfig],
        fs: FileSystem,
        clock: Clock,
        store_host: HostAddress,
        memory_bytes: int,
    ) -> None:
        start = config()
        self._fs, self._clock = fs, clock
        self.store_clock = StoreClock(clock)
        """By which messages are stored, and delayed ones are due."""
        self.root = start.store_path_root_dir
        self.is_sync = start.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self.levels = DelayLevels.parse(start.message_delay_level)
        log = CommitLog(fs, start.commit_log_path, start.mapped_file_size_commit_log)
        queues = QueueTable(fs, self.root, start.consume_queue_file_bytes, start.batch_consume_queue_file_bytes)
        super().__init__(config, log, queues, IndexBuilder(start, fs, clock, log, self.root / "index"), memory_bytes)
        self.writer = LogWriter(
            self.log,
            store_host.ip + store_host.port.to_bytes(4, "big"),
            now_ms=self.store_clock.now_ms,
            has_crc=start.enabled_append_prop_crc,
        )
        self.store_host = store_host
        self._looks = self.queues.looks
        self.checkpoint = Checkpoint(fs, self.root / "checkpoint")
        self._hooks = StoreHooks()
        self._told = Throttle(clock, name=__name__)
        self._retention = Retention()
        self._dropped: list[Path] = []  # files that the log let go of, and that may still be on disk
        self._cleaned_to = 0  # where the log began when queues and index were last cleaned
        self.problem: str | None = None
        """Why nothing is written any more; None while all is well."""
        self.shortage: str | None = None
        """Why queues or index wait in memory: there is no room for them. Nothing is appended until they are written."""
        self.is_disk_full = False
        """Set by cleaning while the disk is fuller than allowed."""
        self.stall_end_s = float("-inf")
        """When a write ended that took longer than osPageCacheBusyTimeOutMills: what was read before is stale."""
        self._is_refusing = False
        self._undispatched: deque[DispatchEntry] = deque()
        self._last_dispatched = (0, 0)  # log offset and store time
        self._flushing_ms = 0
        self._ends_end = 0  # so far `queue_ends.json` goes
        self._ends_failures = 0  # so many queues had failed to be read when it was written
        self._written_ends: EndsJob | None = None  # which are to take its place
        self._flushing_mends = 0  # how often queues had been mended when a flush of them began
        self._lock: Lock | None = None
        self._recovery: Recovery | None = None

    @classmethod
    def open(
        cls,
        config: Callable[[], StoreConfig],
        fs: FileSystem,
        clock: Clock,
        store_host: HostAddress,
        memory_bytes: int,
        load_topics: Callable[[], IsBatched] | None = None,
    ) -> MessageStore:
        """Load and recover the store in `storePathRootDir`, or begin a new one.

        `load_topics` is called once the store is ours, and what it gives is asked for the kind of a topic's queues.
        Raises `StoreLockedError`, `CorruptStoreError`, `OSError`.
        """
        store = cls(config, fs, clock, store_host, memory_bytes)
        for folder in (store.root, store.log.segments.folder):
            fs.make_folder(folder)
        ends = store.queues.ends_file.load()
        store._lock = fs.lock(store.root / "lock")
        try:
            if load_topics is not None:
                store.queues.is_batched = load_topics()
            store._load(ends)
        except BaseException:
            store._let_go()
            raise
        return store

    def connect(self, hooks: StoreHooks) -> None:
        """Tell these from now on, and nobody else."""
        self._hooks = hooks
        self.log.space.on_low, self.index.on_behind = hooks.on_low, hooks.on_behind
        self._looks.on_broken = hooks.on_broken

    @property
    def _abort_path(self) -> Path:
        return self.root / "abort"

    def _load(self, ends: QueueEnds | None) -> None:
        is_clean = not self._fs.exists(self._abort_path)
        config = self._config()
        self.log.load()
        self.log.damage.load(self._fs, self.root / damage.FILE_NAME)
        self.checkpoint.load()
        rules = RecoveryRules(check_crc=config.check_crc_on_recover, needs_append_crc=config.force_verify_prop_crc)
        codes, aside = record_scan.TagsCodes(self.levels), damage.Aside(self._fs, self.root)
        recovery = Recovery(self.log, self.queues, codes, rules, aside)
        recovery.look(self.checkpoint, ends, is_clean=is_clean)
        # Before anything is changed: should recovery be cut short, the next start must not take this for a clean store.
        self._mark_open()
        found = recovery.run(self.checkpoint)
        self._recovery = recovery
        self._save_damage()
        self.index.load(self.checkpoint, found.derived_from, is_clean=is_clean)
        last_ms = found.store_ms or self.checkpoint.physic_msg_timestamp  # where both speak, the log is right
        self._last_dispatched = (found.last_record, last_ms)
        self._ends_end = recovery.known_end
        self._looks.before_mending = self._prepare_mending
        self.look_on(_QUEUES_AT_START, _STEPS_AT_START)
        self.queues.write_behind()
        self._save_damage()
        self._note_shortage(self.queues.shortage or recovery.drop_rest())
        self.checkpoint.confirm_log_offset = found.last_record
        # What lay behind the end is gone, and has been told of.
        self.checkpoint.logics_log_offset = min(self.checkpoint.logics_log_offset, found.last_record)
        self.checkpoint.physic_msg_timestamp = min(self.checkpoint.physic_msg_timestamp, last_ms)
        self.writer.store_ms = last_ms
        self.store_clock.begin_at(last_ms)
        _log.info("store open", end=self.log.end, clean=is_clean, read_from=found.derived_from)

    def _mark_open(self) -> None:
        """Make the abort file. What counts is that it is there: on a full disk it may be empty."""
        try:
            self._fs.write_file(self._abort_path, str(os.getpid()).encode())
        except OSError as error:
            if not (is_no_space(error) and self._fs.exists(self._abort_path)):
                raise
        self._fs.sync_folder(self.root)

    def _save_damage(self) -> None:
        """Let the next start know which bytes of the log are damaged, if it does not. Without room it is tried again.

        Raises `OSError`.
        """
        if self.log.damage.is_unsaved:
            try:
                self.log.damage.save(self._fs, self.root / damage.FILE_NAME)
            except OSError as error:
                if not is_no_space(error):
                    raise
                self._told.warning("list of damaged bytes not saved", told(error))

    # --- state

    @property
    def is_writable(self) -> bool:
        return self.problem is None and self.shortage is None and not self.is_disk_full

    def check_writable(self) -> None:
        """Raises `StoreReadOnlyError` or `StoreFullError` if nothing may be appended now."""
        if self.problem is not None:
            raise StoreReadOnlyError(f"the store is read-only: {self.problem}")
        if self.is_disk_full:
            raise StoreFullError(f"the disk of {self.root} is fuller than diskSpaceWarningLevelRatio allows")
        if self.shortage is not None:
            raise StoreFullError(f"no disk space for queues or index: {self.shortage}")

    def fail(self, problem: str) -> None:
        """Something could not be written or synced: from now on nothing is, until the store is opened anew."""
        if self.problem is None:
            self.problem = problem
            self._undispatched.clear()
            _log.error("store is read-only", problem=problem)

    def _derived_failed(self, what: str, error: OSError) -> None:
        """Queues or index could not be written. Without room they wait; after anything else they cannot follow."""
        if is_no_space(error):
            self._note_shortage(error)
        else:
            self.fail(f"{what} failed: {told(error)}")

    def _note_shortage(self, error: OSError | None) -> None:
        shortage = None if error is None else told(error)
        if (shortage is None) != (self.shortage is None):
            if shortage is None:
                self._told.warning("messages are taken again", "queues and index are written")
            else:
                self._told.warning("messages are refused", f"no disk space for queues or index: {shortage}")
        self.shortage = shortage

    @property
    def min_log_offset(self) -> int:
        return self.log.start

    @property
    def max_log_offset(self) -> int:
        return self.log.end

    @property
    def flushed_log_offset(self) -> int:
        return self.log.flushed

    @property
    def confirm_log_offset(self) -> int:
        """Up to here messages can be read. Java: getConfirmOffset."""
        return self.log.flushed if self.is_sync else self.log.end

    @property
    def undispatched_bytes(self) -> int:
        """How far reading is behind writing. Java: dispatchBehindBytes."""
        return self.log.end - self._undispatched[0][1] if self._undispatched else 0

    # --- appending

    def append(self, message: StoredMessage) -> StoredMessage:
        """Write one message; it comes back with its places and its store time.

        Raises `StoreReadOnlyError`, `StoreFullError`, `IllegalMessageError`; `OSError` if its queue cannot be read.
        """
        self.append_whole(message)
        return message

    def append_whole(self, message: StoredMessage) -> Appended:
        """The same, and where it is."""
        self.check_writable()
        queue = self.queues.make(message.topic, message.queue_id)  # whose failure is none of the log's
        with self.batch() as writer:
            self._add(writer, queue, message, encode_properties(message.properties))
            return Appended([message.log_offset], writer.position - message.log_offset)

    def append_each(self, messages: Sequence[StoredMessage]) -> list[IllegalMessageError | None]:
        """Write messages together, each for itself; what is wrong with it, None if it is stored.

        Raises as `append` does for what concerns all of them; then any part of them may be stored.
        """
        self.check_writable()
        queues = [self.queues.make(message.topic, message.queue_id) for message in messages]
        problems: list[IllegalMessageError | None] = []
        with self.batch() as writer:
            for queue, message in zip(queues, messages, strict=True):
                try:
                    self._add(writer, queue, message, encode_properties(message.properties))
                except IllegalMessageError as error:
                    problems.append(error)
                except LocalProtocolError as error:  # properties that became too many on the way
                    problems.append(IllegalMessageError(str(error)))
                else:
                    problems.append(None)
        return problems

    def append_members(self, batch: StoredMessage, members: Sequence[BatchEntry]) -> Appended:
        """Write the messages of a producer's batch as neighbours, all or none.

        What they share is the batch's, which comes back with the places of the first. Raises as `append` does.
        """
        self.check_writable()
        queue = self.queues.make(batch.topic, batch.queue_id)
        self.check_members(members)
        member_bytes = sum(len(body) + len(properties) for _, body, properties in members)
        born_host = batch.born_host.ip + batch.born_host.port.to_bytes(4, "big")
        shared = born_host, batch.sys_flag, batch.born_ms, batch.reconsume_times
        with self.batch() as writer:
            writer.make_room((FIXED_BYTES_MAX + len(queue.topic_field)) * len(members) + member_bytes)
            batch.queue_offset, batch.store_ms = QueueOffset(queue.next_offset), writer.store_ms
            places = writer.add_members(queue, members, *shared)
            batch.log_offset, batch.store_host = places[0], self.store_host
            return Appended(places, writer.position - places[0])

    def check_members(self, members: Sequence[BatchEntry]) -> None:
        """Raises `IllegalMessageError` for messages of a batch that `append_members` would refuse."""
        for _, _, properties in members:
            if len(properties) >= SECTOR_BYTES:
                self.writer.check_properties(properties)

    def _add(self, writer: LogWriter, queue: Queue, message: StoredMessage, properties: bytes) -> None:
        count = 1
        if queue.is_batched and is_inner_batch(message.sys_flag):
            count = _count_told(message.properties)
            message.properties[property_names.INNER_BASE] = str(queue.next_offset)
            properties = encode_properties(message.properties)
        message.queue_offset, message.store_ms = QueueOffset(queue.next_offset), writer.store_ms
        message.store_host = self.store_host
        log_offset = writer.add(
            queue,
            message.body,
            properties,
            self.tags_code_of(message.topic, message.properties),
            index_keys(message.properties),
            message.born_host.ip + message.born_host.port.to_bytes(4, "big"),
            message.sys_flag,
            message.born_ms,
            message.flag,
            message.reconsume_times,
            message.prepared_log_offset,
            count,
        )
        message.log_offset = LogOffset(log_offset)

    def tags_code_of(self, topic: str, properties: Mapping[str, str]) -> int:
        """What the queue keeps of a message of the current batch: its tag's hash, or when it is due if delayed."""
        if topic == SCHEDULE_TOPIC and property_names.DELAY in properties:
            level = self.levels.capped(int(properties[property_names.DELAY]))
            return self.writer.store_ms + self.levels.delay_ms(level)
        return tags_code(properties.get(property_names.TAGS, ""))

    def batch(self) -> AppendBatch:
        """Several records, written together when the batch is closed. Use the writer in between.

        There is one at a time: who leaves one open longer than its own call closes it when `StoreHooks.settle` asks.
        """
        self._hooks.settle()
        return AppendBatch(self)

    def commit(self, batch: AppendBatch) -> None:
        """Write what the writer holds, and dispatch what is written. Raises `StoreFullError`, `StoreReadOnlyError`."""
        begin_s = self._clock.monotonic()
        try:
            self.writer.write()
        except StoreFullError as error:
            self.note_full(error)
            raise
        except OSError as error:
            raise self.write_failed(error) from error
        finally:
            self._note_time(begin_s)
            batch.end = self.log.end
            self._take_written()

    def _note_time(self, begin_s: float) -> None:
        end_s = self._clock.monotonic()
        took_s = end_s - begin_s
        if took_s > _STALL_S_MIN and took_s * 1000 > self._config().os_page_cache_busy_time_out_mills:
            self.stall_end_s = end_s

    def write_failed(self, error: OSError) -> StoreReadOnlyError:
        """Become read-only, and what to tell those whose messages were not written."""
        self.fail(f"writing to the log failed: {told(error)}")
        return StoreReadOnlyError(f"the store is read-only: {self.problem}")

    def note_full(self, error: StoreFullError) -> None:
        """Tell the log, once until messages are taken again, that there is no space for them."""
        if not self._is_refusing:
            self._is_refusing = True
            self._told.warning("messages are refused", str(error))

    def _take_written(self) -> None:
        written = self.writer.take_written()
        if written and self._is_refusing:
            self._is_refusing = False
            self._told.warning("messages are taken again", "there is disk space for the log")
        if self.is_sync:
            self._undispatched.extend(written)
            self._hooks.on_written()
        else:
            self._dispatch(written)

    def _dispatch(self, entries: Collection[DispatchEntry]) -> None:
        """Let written records be found: units in their queues, keys in the index; then tell who waits."""
        if not entries:
            return
        fields: dict[Queue, list[int]] = {}
        for queue, log_offset, size, code, store_ms, _, count in entries:
            units = fields.get(queue)
            if units is None:
                units = fields[queue] = []
            units += (log_offset, size, code, store_ms, count) if queue.is_batched else (log_offset, size, code)
        self._last_dispatched = (log_offset, store_ms)
        arrivals = {queue: queue.extend(units) for queue, units in fields.items()}
        try:
            self.queues.touched(arrivals)
            self.index.add(entries)
        except OSError as error:  # they are in the log, so they count
            self._derived_failed("writing to queues or index", error)
        if self.queues.shortage is not None:
            self._note_shortage(self.queues.shortage)
        self._hooks.on_arrival(arrivals)

    # --- flushing

    def begin_flush(self) -> FlushJob | None:
        """What to sync, off the loop, for all that is written; None if there is nothing, or no sense in it."""
        if self.problem is not None:
            return None
        self._flushing_ms = self.writer.store_ms
        return self.log.begin_flush()

    def finish_flush(self, job: FlushJob, error: OSError | None = None) -> None:
        """The job ran. A sync that failed once must not be tried again: the system has dropped the bytes."""
        if error is not None:
            self.fail(f"syncing the log failed: {told(error)}")
            return
        if self.problem is not None:
            return
        self.log.finish_flush(job)
        self.checkpoint.physic_msg_timestamp = self._flushing_ms
        waiting, flushed = self._undispatched, []
        while waiting and waiting[0][1] < job.end:
            flushed.append(waiting.popleft())
        self._dispatch(flushed)

    def write_behind(self) -> None:
        """Bring units and index entries that wait in memory into their files, or as many as there is room for."""
        for _ in self.writing_behind():
            pass

    def writing_behind(self) -> Iterator[None]:
        """The same, some queues in each step: thousands may have new units."""
        try:
            yield from self.queues.writing_behind()
            self.index.write_behind()
            self._save_damage()
            unfinished = self._recovery.drop_rest() if self.log.has_rest and self._recovery is not None else None
        except OSError as error:
            self._derived_failed("writing to queues or index", error)
        else:
            self._note_shortage(self.queues.shortage or unfinished)

    def begin_queue_flush(self, *, is_thorough: bool) -> QueueFlushJob:
        """What to do off the loop after `write_behind`: save the checkpoint, and if thorough sync the queues first."""
        return self._queue_flush(self._covered(is_thorough=is_thorough))

    def beginning_queue_flush(self, *, is_thorough: bool) -> Generator[None, None, QueueFlushJob]:
        """`write_behind` and `begin_queue_flush` in steps. What is written meanwhile counts the next time."""
        covered = self._covered(is_thorough=is_thorough)
        yield from self.writing_behind()
        return self._queue_flush(covered)

    def _covered(self, *, is_thorough: bool) -> _Covered | None:
        """What a thorough flush can say once all units that wait now are in files; None if it is none."""
        self._put_ends()
        if not is_thorough or self._looks.is_unsettled:
            return None
        ends = self._begin_ends() if self.shortage is None and not self._looks.is_broken else None
        return _Covered(self._last_dispatched, ends, self._looks.mend_count)

    def _queue_flush(self, covered: _Covered | None) -> QueueFlushJob:
        if covered is None or self._looks.is_unsettled:
            return QueueFlushJob(self._fs, [], self.checkpoint, self.index.begin_sync(), None)
        self._flushing_mends = covered.mend_count
        is_whole = self.shortage is None and not self._looks.is_broken
        last, ends = (covered.last, covered.ends) if is_whole else (None, None)
        paths = self.queues.take_unsynced()
        return QueueFlushJob(self._fs, paths, self.checkpoint, self.index.begin_sync(), last, ends)

    def _begin_ends(self) -> EndsJob | None:
        """Ends of queues to write, None if none are due, or if somebody has yet to look at some queues."""
        is_known = self._looks.is_proven and not self._looks.is_unknown
        if self._are_ends_behind(self._dispatched_end) and self._written_ends is None and is_known:
            return EndsJob(self.queues.ends_file, self._known_ends(), self._ends_version, self._looks.failure_count)
        return None

    def _are_ends_behind(self, log_offset: int) -> bool:
        """After a crash the log is read from the beginning of a file. All that came before must be in them."""
        has_failed = self._looks.failure_count > self._ends_failures  # and units since then are in no file
        return has_failed or self.log.segments.start_of(log_offset) > self._ends_end

    @property
    def _ends_version(self) -> int:
        return self.queues.removal_count + self._looks.mend_count

    @property
    def _dispatched_end(self) -> int:
        """Queues have all records that are before it."""
        return self._undispatched[0][1] if self._undispatched else self.log.end

    def _known_ends(self) -> QueueEnds:
        last_record = self._last_dispatched[0] if self.log.segments.starts else 0
        places = self.log.start, self._dispatched_end, last_record
        return QueueEnds(*places, self.queues.layout, self.queues.known())

    def _put_ends(self) -> None:
        """Let ends that were written count, once the log is durable as far as they go."""
        job = self._written_ends
        if job is None or (job.ends.log_end > self.log.flushed and job.version == self._ends_version):
            return
        self._written_ends = None
        if job.version == self._ends_version:
            try:
                self.queues.ends_file.put()
            except OSError as error:
                _log.warning("ends of queues not saved", problem=told(error))
            else:
                self._ends_end, self._ends_failures = job.ends.log_end, job.failure_count

    def _prepare_mending(self) -> None:
        """Files of queues are about to be moved away: whatever happens, the next start must know that there were some.

        Raises `OSError`.
        """
        self.checkpoint.distrust_queues()
        ends = self._known_ends()
        # The log was on disk as far as it says, and no further: the next start takes it for damaged if it is not there.
        ends = replace(ends, log_end=min(ends.log_end, self.log.flushed))
        self.queues.ends_file.save(ends)
        self._ends_end, self._ends_failures = ends.log_end, self._looks.failure_count

    def finish_queue_flush(self, job: QueueFlushJob, error: OSError | None = None) -> None:
        """The job ran. The next one saves what it achieved."""
        if error is not None:
            self.fail(f"syncing the queues failed: {told(error)}")
            return
        if job.ends is not None and job.ends.is_written:
            self._written_ends = job.ends
        self._put_ends()
        is_mended = self._flushing_mends != self._looks.mend_count  # and the checkpoint is not to be relied on since
        if job.last is not None and not is_mended and not self._are_ends_behind(job.last[0]):
            self.checkpoint.logics_log_offset, self.checkpoint.logics_msg_timestamp = job.last
        if job.index is not None:
            self.checkpoint.index_msg_timestamp = self.index.finish_sync(job.index)

    def begin_space(self) -> SpaceJob | None:
        """Space for the log to reserve off the loop; None if none is due. `StoreHooks.on_low` tells when to ask.

        It must not be the reason why files are deleted that should be kept for longer, or messages are refused.
        """
        if self.problem is not None or not self._fs.may_wait:
            return None
        try:
            usage = self._fs.usage(self.log.segments.folder)
        except OSError:
            return None
        return self.log.space.begin(self.log.end, usage.bytes_below(self._config().disk_clean_forcibly_percent))

    def finish_space(self, job: SpaceJob, error: OSError | None = None) -> None:
        """The job ran. A failure is no failure of the store."""
        self.log.space.finish(job, error)

    def look_on(self, queues_max: int, steps_max: int = 1) -> bool:
        """Compare the next queues with the log behind the running broker; whether there is more to do.

        What cannot be read or mended now is tried again when somebody asks for it, or after `retry_looks`.
        """
        if self.problem is not None:
            return False
        is_more = self._looks.look_on(queues_max, steps_max)
        if not is_more and self._looks.failures:
            (topic, queue_id), error = next(iter(self._looks.failures.items()))
            self._told.error("failed looks", "queues cannot be compared with the log", count=len(self._looks.failures),
                             topic=topic, queue=queue_id, problem=told(error))  # fmt: skip
        if not is_more and (failure := self._looks.proof_failure) is not None:
            self._told.error("failed reading", "log cannot be compared with its queues", problem=told(failure))
        return is_more

    def retry_looks(self) -> bool:
        """Let the next looks come to what could not be read or mended; whether there is anything."""
        has_failed = bool(self._looks.failures) or self._looks.proof_failure is not None
        self._looks.retry_failures()
        return has_failed

    def catch_up(self, effort_max: int) -> bool:
        """Take a step of bringing the index up to date; whether there is more to do. None is taken while there is
        no room for what waits."""
        if self.problem is None and self.shortage is None:
            try:
                return self.index.catch_up(effort_max, self.confirm_log_offset)
            except OSError as error:
                self._derived_failed("rebuilding the index", error)
        return self.problem is None and self.index.is_behind

    def close(self) -> None:
        """Finish everything and let go. A store that failed, or has no room for its queues or index, keeps its abort
        file, so that the next start looks closely and derives again what could not be written."""
        self._hooks.settle()
        self.write_behind()
        try:
            if self.problem is None:
                self._close_clean()
        except OSError as error:
            self._derived_failed("closing", error)
        self._let_go()

    def _let_go(self) -> None:
        self.index.close(is_clean=False)
        self.log.close()
        self.queues.close()
        self.checkpoint.close()
        if self._lock is not None:
            self._lock.release()

    def _close_clean(self) -> None:
        self._looks.settle_all()
        self.queues.write_behind()
        self._save_damage()
        if (job := self.begin_flush()) is not None:
            job.run()
            self.finish_flush(job)
            self.write_behind()
        queue_job = self.begin_queue_flush(is_thorough=True)
        queue_job.run()
        self.finish_queue_flush(queue_job)
        self.checkpoint.save()
        self.log.space.drop_next()
        if self.problem is None and self.shortage is None and self._looks.is_proven:
            self.queues.ends_file.save(self._known_ends())
        if self.problem is None and self.shortage is None and not self.index.is_behind and not self._looks.is_broken:
            self.index.close(is_clean=True)
            self._fs.remove(self._abort_path)
            self._fs.sync_folder(self.root)

    # --- removing

    def clean(self) -> list[Path]:
        """`drop_expired` and `clean_queues` in one go."""
        paths = self.drop_expired()
        for _ in self.cleaning():
            pass
        return paths

    def drop_expired(self) -> list[Path]:
        """Look at disk and age; what to unlink of the log, off the loop and in this order. Called every ten seconds.

        What could not be unlinked is named again: a file that stays must not be followed by a gap.
        """
        config, now_ms = self._config(), self._clock.wall_ms()
        try:
            decision = self._look_at_disk(config, now_ms)
            self._set_disk_full(decision.is_disk_full)
            self._dropped = [path for path in self._dropped if self._fs.exists(path)]
            if decision.deletes_expired:
                self._drop_log_files(decision.deletes_any, now_ms)
        except OSError as error:
            _log.warning("cleaning failed", problem=told(error))
        return list(self._dropped)

    def cleaning(self) -> Iterator[None]:
        """What follows: `clean_queues`, some queues in each step. What fails is tried again the next time."""
        try:
            yield from self.cleaning_queues()
        except OSError as error:
            _log.warning("cleaning failed", problem=told(error))

    def _look_at_disk(self, config: StoreConfig, now_ms: int) -> Decision:
        try:
            log_ratio, queue_ratio = (self._fs.usage(path).ratio for path in (self.log.segments.folder, self.root))
        except OSError as error:
            _log.warning("disk cannot be measured", problem=str(error))
            return UNMEASURED
        return self._retention.decide(config, log_ratio=log_ratio, queue_ratio=queue_ratio, now_ms=now_ms)

    def _set_disk_full(self, is_full: bool) -> None:
        if is_full != self.is_disk_full:
            self.is_disk_full = is_full
            _log.warning("disk is too full: messages are refused" if is_full else "disk has room again")

    def _drop_log_files(self, deletes_any: bool, now_ms: int) -> None:
        """Let go of the oldest files of the log, never of the one being written."""
        config, starts = self._config(), self.log.segments.starts
        for _ in range(config.delete_file_batch_max):
            if len(starts) < 2 or starts[1] > self.log.flushed:
                break
            modified_ms = self._fs.modified_ms(self.log.segments.path(starts[0]))
            if not deletes_any and (self._hooks.is_needed() or not is_expired(modified_ms, config, now_ms)):
                break
            self._dropped.append(self.log.drop_first())

    def unlink(self, paths: Iterable[Path]) -> None:
        """Delete files that `clean` named, the oldest first; may be called off the loop. Raises `OSError`."""
        for path in paths:
            self._fs.remove(path)

    def begin_sweep(self) -> SweepJob | None:
        """A part of what deleted topics left behind, to delete off the loop; None if nothing is left."""
        doomed = self.queues.doomed()
        return SweepJob(self._fs, doomed[0]) if doomed else None

    def delete_expired(self) -> None:
        """Delete expired files of the log at the next looks, whatever the hour. Java: executeDeleteFilesManually."""
        self._retention.delete_soon()

    def clean_queues(self) -> None:
        """Delete what queues and index keep of messages that are gone from the log. Raises `OSError`."""
        for _ in self.cleaning_queues():
            pass

    def cleaning_queues(self) -> Iterator[None]:
        """The same in steps: there may be tens of thousands of queues. A queue that fails holds up none of the others.

        Raises `OSError`.
        """
        log_start, failure = self.log.start, None
        if log_start == self._cleaned_to:  # whoever asks all the time finds nothing to do
            return
        self.log.damage.forget_before(log_start)
        self._save_damage()
        for number, queue in enumerate(list(self.queues.awake), 1):
            try:
                if self.queues.is_awake(queue):
                    queue.remove_before(log_start)
                    queue.correct_min(log_start)
            except OSError as error:
                failure = failure or error
            if number % _CLEANED_A_STEP == 0:
                yield
        if failure is not None:
            raise failure
        self.index.remove_before(log_start)
        self._cleaned_to = log_start

    def delete_topics(self, topics: Collection[str]) -> None:
        """Delete the queues of these topics; their messages stay in the log until it is cleaned.

        Raises `StoreError` once all were tried; what is left of them goes when they are deleted or made again.
        """
        failed: dict[str, OSError] = {}
        for topic in topics:
            try:
                self.queues.remove(topic)
            except OSError as error:
                failed[topic] = error
        if failed:
            first = next(iter(failed.values()))
            raise StoreError(f"queues of {', '.join(failed)} cannot be deleted: {first.strerror or first}") from first


def _count_told(properties: Mapping[str, str]) -> int:
    """How many messages are in a batch that stays one record. Raises `IllegalMessageError` if it does not say so: what
    waited in Apache's store was looked at by nobody."""
    number = properties.get(property_names.INNER_NUM, "")
    if not (number.isascii() and number.isdecimal() and len(number) <= 5 and 0 < int(number) <= BATCH_MESSAGES_MAX):
        raise IllegalMessageError(f"it is marked as a batch within one record, of INNER_NUM={number[:40]!r} messages")
    return int(number)


class _Covered(NamedTuple):
    """What was so when units began to be written that waited then."""

    last: tuple[int, int]
    """The last record that queues knew: its log offset and store time."""
    ends: EndsJob | None
    mend_count: int


class AppendBatch:
    """Records between `open` and `close`, or in a `with` block, are written and dispatched together."""

    __slots__ = ("_store", "end")

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self.end = 0
        """Where the log ended after the last record of the batch. Others may have written since: whoever was waiting
        for messages is told while the batch is dispatched."""

    def open(self) -> LogWriter:
        """Begin; the records get the store time of now."""
        self._store.writer.begin()
        return self._store.writer

    def close(self, error: BaseException | None = None) -> None:
        """Write what was laid out; `error` ended the laying out. Raises `StoreFullError`, `StoreReadOnlyError`."""
        if isinstance(error, StoreFullError):
            self._store.note_full(error)
        if isinstance(error, OSError):
            self._store.writer.discard()
            self._store.commit(self)
            raise self._store.write_failed(error) from error
        self._store.commit(self)

    def __enter__(self) -> LogWriter:
        return self.open()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(error)
