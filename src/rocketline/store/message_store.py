"""The message store as a whole: log, queues, index, and what keeps them in agreement. Java: DefaultMessageStore.

It runs on one thread and does no waiting of its own. Whoever owns it calls `begin_flush` and `finish_flush` around a
sync that may run elsewhere, `write_behind` every second or so, and `clean` every ten.

An append is written, then dispatched: its queue gets a unit, its keys go into the index, whoever waits is told. With
SYNC_FLUSH the dispatch waits for the flush, so nobody ever reads what a crash could take back.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from rocketline.clock import Clock
from rocketline.errors import RemoteProtocolError, StoreError, StoreFullError, StoreReadOnlyError
from rocketline.logs import Log
from rocketline.model import property_names
from rocketline.model.delay_levels import DelayLevels
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.java_hash import tags_code
from rocketline.model.message import StoredMessage
from rocketline.model.names import SCHEDULE_TOPIC
from rocketline.store import record_scan
from rocketline.store.checkpoint import Checkpoint
from rocketline.store.commit_log import CommitLog, FlushJob
from rocketline.store.config import FlushDiskType, StoreConfig
from rocketline.store.consume_queue import UNIT, UNIT_BYTES, ConsumeQueue
from rocketline.store.filesystem import FileSystem, Lock
from rocketline.store.index_builder import IndexBuilder
from rocketline.store.log_writer import Entry, IndexKeys, LogWriter
from rocketline.store.queue_table import QueueTable
from rocketline.store.reading import ReadLimits, ReadResult, ReadStatus, first_at_or_after, read_span
from rocketline.store.recovery import RecoveryRules, recover
from rocketline.wire.headers import BoundaryType
from rocketline.wire.message_codec import decode_record
from rocketline.wire.properties import encode_properties

_log = Log(__name__)

Arrivals: TypeAlias = "dict[ConsumeQueue, list[int]]"
"""Queues that got messages, and the tags codes of these."""

_QUERY_ROUNDS: Final = 3
_QUERY_MAX: Final = 64


class MessageStore:
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
        self._config, self._fs, self._clock, self._memory_bytes = config, fs, clock, memory_bytes
        self.root = start.store_path_root_dir
        self.is_sync = start.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self.levels = DelayLevels.parse(start.message_delay_level)
        self.log = CommitLog(fs, start.commit_log_path, start.mapped_file_size_commit_log)
        self.queues = QueueTable(fs, self.root / "consumequeue", start.mapped_file_size_consume_queue)
        self.writer = LogWriter(
            self.log,
            store_host.ip + store_host.port.to_bytes(4, "big"),
            now_ms=clock.wall_ms,
            has_crc=start.enabled_append_prop_crc,
        )
        self.store_host = store_host
        self.checkpoint = Checkpoint(fs, self.root / "checkpoint")
        self.index = IndexBuilder(start, fs, clock, self.log, self.root / "index")
        self.on_arrival: Callable[[Arrivals], None] = lambda arrivals: None
        """Told after each dispatch; set by whoever lets clients wait for messages."""
        self.problem: str | None = None
        """Why nothing is written any more; None while all is well."""
        self.is_disk_full = False
        """Set by cleaning while the disk is fuller than allowed."""
        self.stall_end_s = float("-inf")
        """When a write ended that took longer than osPageCacheBusyTimeOutMills: what was read before is stale."""
        self._undispatched: deque[Entry] = deque()
        self._last_dispatched = (0, 0)  # log offset and store time
        self._flushing_ms = 0
        self._lock: Lock | None = None

    @classmethod
    def open(
        cls, config: Callable[[], StoreConfig], fs: FileSystem, clock: Clock, store_host: HostAddress, memory_bytes: int
    ) -> MessageStore:
        """Load and recover the store in `storePathRootDir`, or begin a new one.

        Raises `StoreLockedError`, `CorruptStoreError`, `OSError`.
        """
        store = cls(config, fs, clock, store_host, memory_bytes)
        fs.make_folder(store.root)
        lock = fs.lock(store.root / "lock")
        try:
            store._load()
        except BaseException:
            store.log.close()
            store.queues.close()
            lock.release()
            raise
        store._lock = lock
        return store

    @property
    def _abort_path(self) -> Path:
        return self.root / "abort"

    def _load(self) -> None:
        is_clean = not self._fs.exists(self._abort_path)
        config = self._config()
        self.log.load()
        self.queues.load(is_clean=is_clean)
        self.checkpoint.load()
        rules = RecoveryRules(check_crc=config.check_crc_on_recover, needs_append_crc=config.force_verify_prop_crc)
        codes = record_scan.TagsCodes(self.levels)
        safe_ms = self.checkpoint.min_timestamp
        found = recover(self.log, self.queues, codes, rules, is_clean=is_clean, safe_store_ms=safe_ms)
        self.index.load(self.checkpoint, found.derived_from, is_clean=is_clean)
        self.queues.write_behind()
        self.checkpoint.confirm_log_offset = found.last_record
        last_ms = max(found.store_ms, self.checkpoint.physic_msg_timestamp)
        self._last_dispatched = (found.last_record, last_ms)
        self.writer.store_ms = last_ms
        self._fs.write_file(self._abort_path, str(os.getpid()).encode())
        self._fs.sync_folder(self.root)
        _log.info("store open", end=self.log.end, clean=is_clean, read_from=found.derived_from)

    # --- state

    @property
    def is_writable(self) -> bool:
        return self.problem is None and not self.is_disk_full

    def check_writable(self) -> None:
        """Raises `StoreReadOnlyError` or `StoreFullError` if nothing may be appended now."""
        if self.problem is not None:
            raise StoreReadOnlyError(f"the store is read-only: {self.problem}")
        if self.is_disk_full:
            raise StoreFullError(f"the disk of {self.root} is fuller than diskSpaceWarningLevelRatio allows")

    def fail(self, problem: str) -> None:
        """Something could not be written or synced: from now on nothing is, until the store is opened anew."""
        if self.problem is None:
            self.problem = problem
            self._undispatched.clear()
            _log.error("store is read-only", problem=problem)

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

        Raises `StoreReadOnlyError`, `StoreFullError`, `IllegalMessageError`.
        """
        self.check_writable()
        with self.batch() as writer:
            self._add(writer, message)
        return message

    def append_batch(self, messages: Sequence[StoredMessage]) -> None:
        """Write messages of one queue as neighbours, all or none. Raises as `append` does."""
        self.check_writable()
        with self.batch() as writer:
            writer.make_room(sum(record_bytes_of(message) for message in messages))
            for message in messages:
                self._add(writer, message)

    def _add(self, writer: LogWriter, message: StoredMessage) -> None:
        queue = self.queues.make(message.topic, message.queue_id)
        message.queue_offset, message.store_ms = QueueOffset(queue.next_offset), writer.store_ms
        message.store_host = self.store_host
        log_offset = writer.add(
            queue,
            message.body,
            encode_properties(message.properties),
            self.tags_code_of(message.topic, message.properties),
            IndexKeys.of(message.properties),
            message.born_host.ip + message.born_host.port.to_bytes(4, "big"),
            message.sys_flag,
            message.born_ms,
            message.flag,
            message.reconsume_times,
            message.prepared_log_offset,
        )
        message.log_offset = LogOffset(log_offset)

    def tags_code_of(self, topic: str, properties: Mapping[str, str]) -> int:
        """What the queue keeps of a message of the current batch: its tag's hash, or when it is due if delayed."""
        if topic == SCHEDULE_TOPIC and property_names.DELAY in properties:
            level = self.levels.capped(int(properties[property_names.DELAY]))
            return self.writer.store_ms + self.levels.delay_ms(level)
        return tags_code(properties.get(property_names.TAGS, ""))

    def batch(self) -> AppendBatch:
        """Several records, written together when the block is left. Use the writer inside."""
        return AppendBatch(self)

    def commit(self) -> None:
        """Write what the writer holds, and dispatch what is written. Raises `StoreFullError`, `StoreReadOnlyError`."""
        begin_s = self._clock.monotonic()
        try:
            self.writer.write()
        except OSError as error:
            raise self.write_failed(error) from error
        finally:
            self._note_time(begin_s)
            self._take_written()

    def _note_time(self, begin_s: float) -> None:
        end_s = self._clock.monotonic()
        if (end_s - begin_s) * 1000 > self._config().os_page_cache_busy_time_out_mills:
            self.stall_end_s = end_s

    def write_failed(self, error: OSError) -> StoreReadOnlyError:
        """Become read-only, and what to tell those whose messages were not written."""
        self.fail(f"writing to the log failed: {error.strerror or error}")
        return StoreReadOnlyError(f"the store is read-only: {self.problem}")

    def _take_written(self) -> None:
        written = self.writer.take_written()
        if self.is_sync:
            self._undispatched.extend(written)
        else:
            self._dispatch(written)

    def _dispatch(self, entries: Collection[Entry]) -> None:
        """Let written records be found: units in their queues, keys in the index; then tell who waits."""
        if not entries:
            return
        arrivals: Arrivals = {}
        add_keys = self.index.add
        for queue, log_offset, size, code, store_ms, keys in entries:
            queue.append(log_offset, size, code)
            codes = arrivals.get(queue)
            if codes is None:
                arrivals[queue] = [code]
            else:
                codes.append(code)
            if keys is not None:
                add_keys(queue.topic, keys, log_offset, store_ms)
        self._last_dispatched = (log_offset, store_ms)
        try:
            self.queues.touched(arrivals)
        except OSError as error:  # they are in the log, so they count; but the queues can no longer follow it
            self.fail(f"writing to a queue failed: {error.strerror or error}")
        self.on_arrival(arrivals)

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
            self.fail(f"syncing the log failed: {error.strerror or error}")
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
        """Bring units and index entries that wait in memory into their files."""
        try:
            self.queues.write_behind()
            self.index.write_behind()
        except OSError as error:
            self.fail(f"writing to queues or index failed: {error.strerror or error}")

    def begin_queue_flush(self, *, is_thorough: bool) -> QueueFlushJob:
        """What to do off the loop after `write_behind`: save the checkpoint, and if thorough sync the queues first."""
        paths = self.queues.take_unsynced() if is_thorough else []
        return QueueFlushJob(self._fs, paths, self.checkpoint, self._last_dispatched if is_thorough else None)

    def finish_queue_flush(self, job: QueueFlushJob, error: OSError | None = None) -> None:
        """The job ran. The next one saves what it achieved."""
        if error is not None:
            self.fail(f"syncing the queues failed: {error.strerror or error}")
        elif job.last is not None:
            self.checkpoint.logics_log_offset, self.checkpoint.logics_msg_timestamp = job.last

    def catch_up(self, records_max: int) -> bool:
        """Take a step of rebuilding the index after a crash; whether there is more to do."""
        try:
            return self.problem is None and self.index.catch_up(records_max, self.confirm_log_offset)
        except OSError as error:
            self.fail(f"rebuilding the index failed: {error.strerror or error}")
            return False

    def close(self) -> None:
        """Finish everything and let go. A store that failed keeps its abort file, so that the next start looks closely.

        What cannot be written now is derived again by that start.
        """
        self.write_behind()
        try:
            if self.problem is None:
                self._close_clean()
        except OSError as error:
            self.fail(f"closing failed: {error.strerror or error}")
        is_clean = self.problem is None and not self.index.is_behind
        self.index.close(is_clean=is_clean)
        if is_clean:
            self._fs.remove(self._abort_path)
            self._fs.sync_folder(self.root)
        self.log.close()
        self.queues.close()
        self.checkpoint.close()
        if self._lock is not None:
            self._lock.release()

    def _close_clean(self) -> None:
        if (job := self.begin_flush()) is not None:
            job.run()
            self.finish_flush(job)
            self.write_behind()
        queue_job = self.begin_queue_flush(is_thorough=True)
        queue_job.run()
        self.finish_queue_flush(queue_job)
        self.checkpoint.save()

    # --- queues

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self.queues.get(topic, queue_id)

    def queues_of(self, topic: str) -> Mapping[int, ConsumeQueue]:
        return self.queues.of(topic)

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.get(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.get(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> list[tuple[int, int, int]]:
        """Log offset, record size and tags code of each message from `queue_offset` on, as many as there are."""
        queue = self.queues.get(topic, queue_id)
        found: list[tuple[int, int, int]] = []
        while queue is not None and queue_offset >= queue.min_offset and len(found) < count:
            more = queue.units(queue_offset + len(found), count - len(found))
            if not more:
                break
            found += UNIT.iter_unpack(more)
        return found

    def read(
        self, topic: str, queue_id: int, queue_offset: int, max_messages: int, wanted: frozenset[int] | None
    ) -> ReadResult:
        """Messages of one queue, as a pull gets them. Java: getMessage."""
        queue = self.queues.get(topic, queue_id)
        if queue is None:
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        return read_span(self.log, queue, queue_offset, max_messages, wanted, self._limits())

    def _limits(self) -> ReadLimits:
        config = self._config()
        return ReadLimits(
            config.max_transfer_count_on_message_in_memory,
            config.max_transfer_bytes_on_message_in_memory,
            config.max_transfer_count_on_message_in_disk,
            config.max_transfer_bytes_on_message_in_disk,
            self._memory_bytes * config.access_message_in_memory_max_ratio // 100,
            config.max_filter_message_size // UNIT_BYTES,
        )

    # --- time

    def store_ms_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """When the message there was stored, -1 if there is none."""
        queue = self.queues.get(topic, queue_id)
        unit = queue.unit(queue_offset) if queue is not None and queue_offset >= queue.min_offset else None
        return record_scan.store_ms_at(self.log, unit[0]) if unit is not None else -1

    def earliest_store_ms(self, topic: str, queue_id: int) -> int:
        return self.store_ms_at(topic, queue_id, self.min_offset(topic, queue_id))

    @property
    def earliest_log_ms(self) -> int:
        """When the oldest message that is kept was stored, -1 if there is none."""
        return record_scan.store_ms_at(self.log, self.log.start) if self.log.end > self.log.start else -1

    def offset_at_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: BoundaryType = BoundaryType.LOWER
    ) -> int:
        """The first message stored at that time or later, or with UPPER the last one stored until then.

        Beyond the last message it is the queue's end, or with UPPER that message. 0 if there is no such queue.
        """
        queue = self.queues.get(topic, queue_id)
        if queue is None or queue.min_offset == queue.max_offset:
            return 0 if queue is None else queue.max_offset

        def store_ms_of(offset: int) -> int:
            return self.store_ms_at(topic, queue_id, offset)

        if boundary is BoundaryType.LOWER:
            return first_at_or_after(queue, store_ms_of, timestamp_ms)
        last = first_at_or_after(queue, store_ms_of, timestamp_ms + 1) - 1
        return max(last, queue.min_offset)

    def is_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """The message exists and lies so near the log's end that it is likely in the system's cache."""
        queue = self.queues.get(topic, queue_id)
        unit = queue.unit(queue_offset) if queue is not None and queue_offset >= queue.min_offset else None
        return unit is not None and self.log.end - unit[0] <= self._limits().memory_bytes

    # --- single records

    def record_at(self, log_offset: int) -> bytes | None:
        """The whole record that begins there, None if none does, or if it is not confirmed yet."""
        if not 0 <= log_offset < self.confirm_log_offset:
            return None
        size = self.log.record_bytes_at(log_offset)
        record = self.log.read(log_offset, size)
        if record is None or int.from_bytes(record[28:36], "big") != log_offset:
            return None  # a record knows its place: this is the inside of another
        return record

    def message_at(self, log_offset: int) -> StoredMessage | None:
        record = self.record_at(log_offset)
        try:
            return decode_record(record) if record is not None else None
        except RemoteProtocolError:
            return None

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str | None = None
    ) -> list[bytes]:
        """Records of `topic` that the index has under `key`, in log order; hashes may collide. Java: queryMessage."""
        for _ in range(_QUERY_ROUNDS):
            offsets = sorted(self.index.find(topic, key, min(max_count, _QUERY_MAX), begin_ms, end_ms, index_type))
            records = [record for at in offsets if (record := self.record_at(at)) is not None]
            if records or not offsets:
                return records
            end_ms = record_scan.store_ms_at(self.log, offsets[0])
            if end_ms < begin_ms:
                break
        return []

    # --- removing

    def delete_topics(self, topics: Collection[str]) -> None:
        """Delete the queues of these topics; their messages stay in the log until it is cleaned."""
        try:
            for topic in topics:
                self.queues.remove(topic)
        except OSError as error:
            raise StoreError(f"queues of {', '.join(topics)} cannot be deleted: {error.strerror or error}") from error

    def keep_only(self, topics: Collection[str]) -> list[str]:
        """Delete the queues of all other topics; which these were. Java: cleanUnusedTopic."""
        unused = [topic for topic in self.queues.topics if topic not in topics]
        self.delete_topics(unused)
        return unused


def record_bytes_of(message: StoredMessage) -> int:
    """No less than the record of `message` has, whatever its hosts and options."""
    return len(message.body) + len(message.topic.encode()) + len(encode_properties(message.properties)) + 136


class QueueFlushJob:
    """Queue files to sync, off the loop, and the checkpoint to save."""

    def __init__(self, fs: FileSystem, paths: list[Path], checkpoint: Checkpoint, last: tuple[int, int] | None) -> None:
        self._fs, self._paths, self._checkpoint = fs, paths, checkpoint
        self.last = last
        """Log offset and store time of the last record whose unit is durable then, if the queues are synced."""

    def run(self) -> None:
        """Raises `OSError`. A file that was deleted meanwhile needs no sync."""
        for path in self._paths:
            try:
                file = self._fs.open(path)
            except FileNotFoundError:
                continue
            try:
                file.sync()
            finally:
                file.close()
        self._checkpoint.save()


class AppendBatch:
    """A block in which the writer may be used; leaving it writes and dispatches."""

    __slots__ = ("_store",)

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def __enter__(self) -> LogWriter:
        self._store.writer.begin()
        return self._store.writer

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            self._store.writer.discard()
            self._store.commit()
            raise self._store.write_failed(error) from error
        self._store.commit()
