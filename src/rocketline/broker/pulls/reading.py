"""What a pull does once it is allowed: read its queue, and note where the group is."""

from __future__ import annotations

from typing import Final, Protocol

from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import Wanted
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.pulls.filter_work import FilterWork
from rocketline.broker.stats.counters import BrokerStats
from rocketline.clock import Clock
from rocketline.filter import SqlFilter
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.route import MASTER_ID
from rocketline.settings import Settings
from rocketline.store.reading import ReadResult, ReadStatus, Run
from rocketline.wire.codes import ResponseCode

_CODES: Final = {
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


def pull_code(status: ReadStatus, asked_offset: int) -> ResponseCode:
    """What a client is told. In a queue without messages only the offset 0 is right."""
    if status is ReadStatus.FOUND:  # nearly always, and an enum's hash takes its time
        return ResponseCode.SUCCESS
    code = _CODES.get(status)
    if code is None:
        return ResponseCode.PULL_OFFSET_MOVED if asked_offset else ResponseCode.PULL_NOT_FOUND
    return code


class Store(Protocol):
    """What pulls ask of the message store."""

    @property
    def max_log_offset(self) -> int: ...

    def min_offset(self, topic: str, queue_id: int, /) -> int: ...

    def max_offset(self, topic: str, queue_id: int, /) -> int: ...

    def read(
        self, topic: str, queue_id: int, offset: int, max_messages: int, wanted: frozenset[int] | None, /
    ) -> ReadResult: ...

    def read_matching(
        self, topic: str, queue_id: int, offset: int, max_messages: int, wanted: SqlFilter, work_max: int, /
    ) -> tuple[ReadResult, int]: ...

    def read_run(self, topic: str, queue_id: int, offset: int, max_messages: int, /) -> Run | None: ...

    def is_in_memory(self, topic: str, queue_id: int, offset: int, /) -> bool: ...


class PullReading:
    """Reads for pulls, shared by the handler and its fast twin."""

    def __init__(
        self,
        store: Store,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
        filter_work: FilterWork,
        settings: Settings[BrokerConfig],
        clock: Clock,
    ) -> None:
        self._store, self._offsets, self._stats, self._settings = store, offsets, stats, settings
        self._filter_work = filter_work
        self._now_s = clock.monotonic
        self._begin_s = 0.0
        """Start of the last read, for `note_read`, which follows at once: nothing else happens between the two."""

    def read(self, group: str, topic: str, queue_id: int, offset: int, max_messages: int, wanted: Wanted) -> ReadResult:
        """What the queue holds from `offset` on; the target of a reset, if one waits for this pull."""
        reset = self._offsets.take_reset(group, topic, queue_id)
        if reset is None:
            self._begin_s = self._now_s()
            if isinstance(wanted, SqlFilter):
                return self._read_matching(topic, queue_id, offset, max_messages, wanted)
            return self._store.read(topic, queue_id, offset, max_messages, wanted)
        low, high = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        return ReadResult(ReadStatus.OFFSET_RESET, reset, low, high)

    def _read_matching(
        self, topic: str, queue_id: int, offset: int, max_messages: int, wanted: SqlFilter
    ) -> ReadResult:
        work_max = self._filter_work.left
        result, work = self._store.read_matching(topic, queue_id, offset, max_messages, wanted, work_max)
        self._filter_work.spend(work)
        return result

    def read_run(self, group: str, topic: str, queue_id: int, offset: int, max_messages: int) -> Run | None:
        """The same for every message, if that is a run and no reset waits; nothing has happened if it is None."""
        if self._offsets.pending_reset(group, topic, queue_id) is not None:
            return None
        self._begin_s = self._now_s()
        return self._store.read_run(topic, queue_id, offset, max_messages)

    def nothing_yet(self, topic: str, queue_id: int, offset: int) -> ReadResult:
        """Tells a client to ask again from the same offset."""
        low, high = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        return ReadResult(ReadStatus.NO_MATCHED_MESSAGE, offset, low, high)

    def note(self, group: str, topic: str, queue_id: int, result: ReadResult, commit_offset: int | None) -> None:
        """Remember where the group is, and count what it gets. The offset of a reset is not overwritten."""
        if result.status is ReadStatus.OFFSET_RESET:
            commit_offset = None
        found = result.message_count, result.byte_count, result.last_log_offset
        self.note_read(group, topic, queue_id, result.next_offset, commit_offset, found)
        if result.status is ReadStatus.OFFSET_OVERFLOW_ONE:
            self._stats.caught_up(group, topic, queue_id)

    def note_read(
        self,
        group: str,
        topic: str,
        queue_id: int,
        next_offset: int,
        commit_offset: int | None,
        found: tuple[int, int, int],
    ) -> None:
        """The same by itself; `found` has the number of messages, their bytes and the log offset of the last that was
        looked at, which may be one that the group does not want."""
        self._offsets.set_pull_offset(group, topic, queue_id, next_offset)
        if commit_offset is not None:
            self._offsets.commit(group, topic, queue_id, commit_offset)
        count, size, last_log_offset = found
        if not count:
            self._stats.get_missed()
            if last_log_offset >= 0:
                fall_bytes = self._store.max_log_offset - last_log_offset
                self._stats.passed(group, topic, queue_id, fall_bytes, next_offset, self._now_s())
            return
        now_s = self._now_s()
        self._stats.get(
            group,
            topic,
            queue_id,
            count,
            size,
            took_ms=(now_s - self._begin_s) * 1000,
            fall_bytes=self._store.max_log_offset - last_log_offset,
            next_offset=next_offset,
            read_s=now_s,
        )

    def suggested_broker(self, group: SubscriptionGroupConfig, topic: str, queue_id: int, result: ReadResult) -> int:
        """Where the group had better pull next: a replica, if it is far behind and replicas may be read."""
        if not self._settings.value.slave_read_enable:
            return MASTER_ID
        is_far_behind = result.message_count and not self._store.is_in_memory(topic, queue_id, result.next_offset - 1)
        return group.which_broker_when_consume_slowly if is_far_behind else group.broker_id
