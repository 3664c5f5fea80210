"""The store's read side: queues and their bounds, spans of messages, single records, times and keys."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final

from rocketline.errors import RemoteProtocolError
from rocketline.filter import SqlFilter
from rocketline.model.message import StoredMessage
from rocketline.store.config import StoreConfig
from rocketline.store.filtered_reading import read_matching
from rocketline.store.index_builder import IndexBuilder
from rocketline.store.log import record_scan
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.record_scan import Record, whole_record
from rocketline.store.queues.batch_consume_queue import BatchConsumeQueue
from rocketline.store.queues.consume_queue import UNIT, UNIT_BYTES, ConsumeQueue
from rocketline.store.queues.queue_table import Queue, QueueTable
from rocketline.store.reading import (
    ReadLimits,
    ReadResult,
    ReadStatus,
    Run,
    first_at_or_after,
    read_batches,
    read_run,
    read_span,
)
from rocketline.wire.frame import FRAME_BYTES_MAX
from rocketline.wire.headers import BoundaryType
from rocketline.wire.message_codec import decode_record
from rocketline.wire.record_layout import struct_of

_LOG_OFFSET: Final = struct_of("log_offset")
_QUERY_ROUNDS: Final = 3
_QUERY_MAX: Final = 64


class StoreReader:
    """Looks things up and changes nothing. Files that cannot be read raise `OSError` everywhere."""

    def __init__(
        self,
        config: Callable[[], StoreConfig],
        log: CommitLog,
        queues: QueueTable,
        index: IndexBuilder,
        memory_bytes: int,
    ) -> None:
        self._config, self._memory_bytes = config, memory_bytes
        self._limited_by = config()
        self._kept_limits = self._limits_of(self._limited_by)
        self.log, self.queues, self.index = log, queues, index

    @property
    def confirm_log_offset(self) -> int:
        """Up to here records can be read. Java: getConfirmOffset."""
        return self.log.end

    # --- queues

    def queue(self, topic: str, queue_id: int) -> Queue | None:
        return self.queues.get(topic, queue_id)

    def queues_of(self, topic: str) -> Mapping[int, Queue]:
        return self.queues.of(topic)

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.get(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.get(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> list[tuple[int, int, int]]:
        """Log offset, record size and tags code of each record from `queue_offset` on, as many as there are."""
        queue = self.queues.get(topic, queue_id)
        found: list[tuple[int, int, int]] = []
        if isinstance(queue, BatchConsumeQueue):
            while queue.min_offset <= queue_offset < queue.max_offset and len(found) < count:
                batches = queue.units(queue_offset, count - len(found))
                if not batches:
                    break
                found += [unit[:3] for unit in batches]
                queue_offset = batches[-1].end
            return found
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
        if self.queues.looks.proof is not None:
            queue = self.queues.reaching(topic, queue_id, queue_offset)
        if queue is None:
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if isinstance(queue, BatchConsumeQueue):
            return read_batches(self.log, queue, queue_offset, max_messages, wanted, self._limits())
        return read_span(self.log, queue, queue_offset, max_messages, wanted, self._limits())

    def read_matching(
        self, topic: str, queue_id: int, queue_offset: int, max_messages: int, wanted: SqlFilter, work_max: int
    ) -> tuple[ReadResult, int]:
        """The same for an expression, and the work that it took: see `filtered_reading`."""
        queue = self.queues.get(topic, queue_id)
        if self.queues.looks.proof is not None:
            queue = self.queues.reaching(topic, queue_id, queue_offset)
        if queue is None:
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0), 0
        return read_matching(self.log, queue, queue_offset, max(1, max_messages), wanted, self._limits(), work_max)

    def read_run(self, topic: str, queue_id: int, queue_offset: int, max_messages: int) -> Run | None:
        """What `read` finds of every message, if that is a run; None leaves it to `read`."""
        queue, limits = self.queues.get(topic, queue_id), self._limits()
        if not isinstance(queue, ConsumeQueue) or not 0 < max_messages <= limits.count_always:
            return None
        return read_run(self.log, queue, queue_offset, max_messages, limits.bytes_always)

    def _limits(self) -> ReadLimits:
        config = self._config()
        if config is not self._limited_by:
            self._limited_by, self._kept_limits = config, self._limits_of(config)
        return self._kept_limits

    def _limits_of(self, config: StoreConfig) -> ReadLimits:
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
        if not 0 <= log_offset < self.confirm_log_offset or self.log.damage.at(log_offset) is not None:
            return None
        size = self.log.record_bytes_at(log_offset)
        record = self.log.read(log_offset, size)
        if record is None or _LOG_OFFSET.unpack_from(record)[0] != log_offset:
            return None  # a record knows its place: this is the inside of another
        return record

    def is_damaged_at(self, log_offset: int) -> bool:
        """The offset lies in damage of the log that is known."""
        return self.log.damage.at(log_offset) is not None

    def message_at(self, log_offset: int) -> StoredMessage | None:
        """The message that begins there, None if none does, if it is not confirmed yet, or if its body is not the one
        that was stored: whoever stores it anew would give that a check sum that is right."""
        record = self.record_at(log_offset)
        try:
            return decode_record(record, check_crc=True) if record is not None else None
        except RemoteProtocolError:
            return None

    def scanned_at(self, log_offset: int) -> Record | None:
        """The same without the body and what nobody needs who only looks: its properties stay bytes."""
        data = self.record_at(log_offset)
        return whole_record(data, log_offset) if data is not None else None

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str | None = None
    ) -> list[bytes]:
        """Records of `topic` that the index has under `key`, in log order, as many as a frame carries; hashes may
        collide. Java: queryMessage."""
        steps = self.query_steps(topic, key, max_count, begin_ms, end_ms, index_type)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: list[bytes] = end.value
                return found

    def query_steps(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str | None = None
    ) -> Generator[None, None, list[bytes]]:
        """The same with pauses, for who must not take long."""
        count = min(max_count, _QUERY_MAX)
        for _ in range(_QUERY_ROUNDS):
            offsets = sorted((yield from self.index.find(topic, key, count, begin_ms, end_ms, index_type)))
            if records := list(self._records_at(offsets)):
                return records
            if not offsets:
                break
            end_ms = record_scan.store_ms_at(self.log, offsets[0])
            if end_ms < begin_ms:
                break
        return []

    def _records_at(self, offsets: Iterable[int]) -> Iterator[bytes]:
        """The records that are there; no more once there are more bytes than anybody can be sent."""
        size = 0
        for at in offsets:
            if size < FRAME_BYTES_MAX and (record := self.record_at(at)) is not None:
                size += len(record)
                yield record
