"""What a pop takes: messages of one queue after the other, with a checkpoint for each. Java: PopMessageProcessor.

Differs: a queue is not locked while it is read, for there is one loop; nothing more is read for one answer once that
has half a megabyte.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import Wanted
from rocketline.broker.long_work import Steps
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.pop.merge import MergeBuffer
from rocketline.broker.pop.order_infos import OrderInfos
from rocketline.broker.pop.positions import PopPositions, Taken
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.broker.stats.counters import BrokerStats
from rocketline.clock import Clock
from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.filter import SqlFilter
from rocketline.model import property_names
from rocketline.model.ids import QueueOffset
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.store.reading import ReadResult, ReadStatus
from rocketline.wire.bodies.pop import PopCheckPoint
from rocketline.wire.message_codec import decode_record, encode_record, scan_records
from rocketline.wire.pop_handles import ORDER_REVIVE_QUEUE_ID, PopHandle, PopMessage, PopQueue, TopicKind
from rocketline.wire.record_layout import struct_of

INIT_MAX: Final = 1
"""Where a group that is new begins: with the newest messages. Java: ConsumeInitMode.MAX."""
_ANSWER_BYTES: Final = 512 * 1024
"""With which an answer has enough: one more read may bring as much as a frame carries."""
QUEUES_A_STEP: Final = 128
_QUEUE_OFFSET: Final = struct_of("queue_offset")
_MOVED: Final = (
    ReadStatus.OFFSET_TOO_SMALL,
    ReadStatus.OFFSET_OVERFLOW_BADLY,
    ReadStatus.OFFSET_FOUND_NULL,
    ReadStatus.MESSAGE_WAS_REMOVING,
)
"""The group stood where no message is: it goes on where the store says."""


class PopWish(NamedTuple):
    """What a pop asks for."""

    group: str
    topic: str
    queue_id: int
    """Negative: any."""
    messages: int
    invisible_ms: int
    init_mode: int
    wanted: Wanted
    is_order: bool = False
    attempt_id: str | None = None


@dataclass(slots=True)
class PopFound:
    """What one answer tells, as far as it is known."""

    pop_ms: int
    revive_queue_id: int
    records: list[bytes] = field(default_factory=list)
    starts: dict[PopQueue, QueueOffset] = field(default_factory=dict)
    offsets: dict[PopQueue, list[QueueOffset]] = field(default_factory=dict)
    count: int = 0
    bytes: int = 0
    counts: dict[PopQueue | PopMessage, int] = field(default_factory=dict)
    """For pops in order: how often queues, or messages, were popped before."""
    rest: int = 0
    """Messages that are left in the queues that were looked at."""
    has_moved: bool = False
    """The group has got on somewhere, so that another look may find more."""
    taken: list[Taken] = field(default_factory=list)
    """Which is safe once what is stored by now is; without what is kept in memory."""
    problem: str | None = None
    """Why nothing can be noted, and so nothing be handed out."""
    error: Exception | None = None
    """What the last queue that cannot be read had to say."""


class FilterBudget(Protocol):
    """How much work expressions may do in this turn of the loop."""

    @property
    def left(self) -> int: ...

    def spend(self, work: int, /) -> None: ...


class PopReading:
    """Takes messages for pops."""

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        positions: PopPositions,
        orders: OrderInfos,
        merge: MergeBuffer,
        revive: ReviveTopic,
        stats: BrokerStats,
        filter_work: FilterBudget,
        settings: Settings[BrokerConfig],
        clock: Clock,
    ) -> None:
        self._store, self._topics, self._offsets, self._positions = store, topics, offsets, positions
        self._orders, self._merge = orders, merge
        self._revive, self._stats, self._filter_work, self._settings = revive, stats, filter_work, settings
        self._now_s = clock.monotonic
        self._next_revive = 0
        self._random = random.random

    def begin(self, *, is_order: bool) -> PopFound:
        """An answer in which nothing is yet. Revive queues take turns."""
        if is_order:
            return PopFound(self._store.store_clock.now_ms(), ORDER_REVIVE_QUEUE_ID)
        revive_queue_id = self._next_revive
        self._next_revive = (revive_queue_id + 1) % self._settings.value.revive_queue_num
        return PopFound(self._store.store_clock.now_ms(), revive_queue_id)

    def put_back(self, found: PopFound) -> None:
        """Nothing came of the answer that was begun last: the next one is as this would have been."""
        self._next_revive = found.revive_queue_id

    def may_find(self, wish: PopWish, topic: TopicConfig) -> bool:
        """Messages lie ahead of the group in one of the topic's own queues. Raises `OSError`."""
        queue_ids = range(topic.read_queue_nums) if wish.queue_id < 0 else (wish.queue_id,)
        for queue_id in queue_ids:
            offset = self._positions.next_offset(wish.group, wish.topic, queue_id)
            if 0 <= offset < self._store.max_offset(wish.topic, queue_id):
                return True
        return False

    def take(self, wish: PopWish, topic: TopicConfig, found: PopFound) -> Steps[None]:
        """Take what there is, in steps of so many queues: those of the retry topics first or last."""
        retries = self._retry_topics(wish)
        is_retry_first = self._random() * 100 < self._settings.value.pop_from_retry_probability
        if is_retry_first:
            yield from self._take_retries(wish, retries, found)
        if wish.queue_id >= 0:
            self._take_of(wish, wish.topic, wish.queue_id, found)
        else:
            begin = int(self._random() * topic.read_queue_nums)
            for at in range(topic.read_queue_nums):
                if at and not at % QUEUES_A_STEP:
                    yield
                self._take_of(wish, wish.topic, (begin + at) % topic.read_queue_nums, found)
        if not is_retry_first:
            yield from self._take_retries(wish, retries, found)

    def is_full(self, wish: PopWish, found: PopFound) -> bool:
        """Nothing more is to be read."""
        return found.count >= wish.messages or found.bytes >= _ANSWER_BYTES or found.problem is not None

    def _retry_topics(self, wish: PopWish) -> list[str]:
        """Those where messages come again, as far as they are there and this pop looks at them."""
        if wish.is_order:
            return []
        config = self._settings.value
        kinds = [TopicKind.RETRY_V2 if config.enable_retry_topic_v2 else TopicKind.RETRY_V1]
        reads_both = config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1
        if reads_both and self._random() * 2 < 1:
            kinds.insert(0, TopicKind.RETRY_V1)
        named = (kind.store_topic(wish.topic, wish.group) for kind in kinds)
        return [name for name in named if self._topics.get(name) is not None]

    def _take_retries(self, wish: PopWish, retries: list[str], found: PopFound) -> Steps[None]:
        """They have one queue each, unless somebody has made them wider."""
        for name in retries:
            config = self._topics.get(name)
            for queue_id in range(config.read_queue_nums if config is not None else 0):
                if queue_id and not queue_id % QUEUES_A_STEP:
                    yield
                self._take_of(wish, name, queue_id, found)

    # --- one queue

    def _take_of(self, wish: PopWish, topic: str, queue_id: int, found: PopFound) -> None:
        """A queue that cannot be read keeps nobody from the others, nor from what was taken before."""
        try:
            self._take_from(wish, topic, queue_id, found)
        except Exception as error:  # noqa: BLE001  # told to the peer, if there is nothing else to hand out
            found.error = error

    def _take_from(self, wish: PopWish, topic: str, queue_id: int, found: PopFound) -> None:
        if self.is_full(wish, found):
            offset = max(self._positions.next_offset(wish.group, topic, queue_id), 0)
            found.rest += max(self._store.max_offset(topic, queue_id) - offset, 0)
            return
        if self._is_closed(wish, topic, queue_id):
            return
        begin = self._begin_offset(wish, topic, queue_id)
        if begin is None or (wish.is_order and not self._orders.has_room(topic, wish.group, queue_id)):
            found.problem = f"the offsets of {wish.group} cannot be kept: there are too many"
            return
        offset = begin
        begin_s = self._now_s()
        result = self._read(wish, topic, queue_id, offset, wish.messages - found.count)
        if result.status in _MOVED and not result.message_count:
            self._move(wish.group, topic, queue_id, result.next_offset, found)
            offset = result.next_offset
            result = self._read(wish, topic, queue_id, offset, wish.messages - found.count)
        found.rest += max(result.max_offset - result.next_offset, 0)
        if result.message_count:
            self._note(wish, topic, queue_id, offset, result, found)
            self._count(wish.group, topic, queue_id, result, begin_s)
        elif result.next_offset > offset:
            self._move(wish.group, topic, queue_id, result.next_offset, found)

    def _is_closed(self, wish: PopWish, topic: str, queue_id: int) -> bool:
        """Others of the group work at what they popped in order; unless it was sent elsewhere since."""
        if not wish.is_order or self._offsets.pending_reset(wish.group, topic, queue_id) is not None:
            return False
        return self._orders.is_closed(topic, wish.group, queue_id, wish.attempt_id)

    def _read(self, wish: PopWish, topic: str, queue_id: int, offset: int, messages: int) -> ReadResult:
        if isinstance(wish.wanted, SqlFilter):
            left = self._filter_work.left
            result, work = self._store.read_matching(topic, queue_id, offset, messages, wish.wanted, left)
            self._filter_work.spend(work)
            return result
        return self._store.read(topic, queue_id, offset, messages, wish.wanted)

    def _move(self, group: str, topic: str, queue_id: int, offset: int, found: PopFound) -> None:
        self._positions.move(group, topic, queue_id, offset)
        found.has_moved = True

    def _begin_offset(self, wish: PopWish, topic: str, queue_id: int) -> int | None:
        """Where the group goes on; None if that cannot be kept."""
        offsets = self._offsets
        reset = offsets.take_reset(wish.group, topic, queue_id)
        if reset is not None:
            self._positions.forget(wish.group, topic, queue_id)
            self._orders.forget(topic, wish.group, queue_id)
            offsets.commit(wish.group, topic, queue_id, reset)
            return reset
        known = self._positions.next_offset(wish.group, topic, queue_id)
        if known >= 0:
            return known
        if not offsets.has_room(wish.group, topic, queue_id):
            return None
        first = self.first_offset(topic, queue_id, wish.init_mode)
        offsets.commit(wish.group, topic, queue_id, first)
        return first

    def first_offset(self, topic: str, queue_id: int, init_mode: int) -> int:
        """Where a group begins that has never been at the queue. Java: getInitOffset."""
        low = self._store.min_offset(topic, queue_id)
        if init_mode != INIT_MAX or TopicKind.of(topic) is not TopicKind.NORMAL:
            return low
        is_young = self._settings.value.init_pop_offset_by_check_msg_in_mem
        if is_young and low <= 0 and self._store.is_in_memory(topic, queue_id, 0):
            return 0
        return max(self._store.max_offset(topic, queue_id) - 1, 0)

    def _count(self, group: str, topic: str, queue_id: int, result: ReadResult, begin_s: float) -> None:
        now_s = self._now_s()
        self._stats.get(
            group,
            topic,
            queue_id,
            result.message_count,
            result.byte_count,
            took_ms=(now_s - begin_s) * 1000,
            fall_bytes=self._store.max_log_offset - result.last_log_offset,
            next_offset=result.next_offset,
            read_s=now_s,
        )

    # --- what was found

    def _note(self, wish: PopWish, topic: str, queue_id: int, offset: int, result: ReadResult, found: PopFound) -> None:
        """Note that these messages were popped; only then they are part of the answer."""
        queue = PopQueue(TopicKind.of(topic), queue_id)
        records, offsets = result.records, list(map(QueueOffset, range(offset, result.next_offset)))
        if len(offsets) != result.message_count or queue.kind is not TopicKind.NORMAL:  # not all, or each by itself
            records = [data[at : at + size] for data in result.records for at, size in scan_records(data)]
            offsets = [QueueOffset(_QUEUE_OFFSET.unpack_from(record)[0]) for record in records]
        if wish.is_order:
            self._note_order(wish, queue, offset, offsets, found)
        else:
            point = self._checkpoint(wish, topic, queue_id, offset, offsets, found.pop_ms)
            if queue.kind is not TopicKind.NORMAL and not self._settings.value.pop_response_return_actual_retry_topic:
                shared = self._handle(wish, queue, point, found.revive_queue_id)
                records = [_under(wish.topic, shared, record) for record in records]
            if not self._keep(point, result.next_offset, found):  # the last that may fail: what is taken is handed out
                return
        found.starts[queue], found.offsets[queue] = QueueOffset(offset), offsets
        found.records += records
        found.count += len(offsets)
        found.bytes += sum(map(len, records))
        found.has_moved = True

    def _keep(self, point: PopCheckPoint, next_offset: int, found: PopFound) -> bool:
        """Keep the checkpoint in memory or in the store; False if there is no room for it."""
        place = point.consumer_group or "", point.topic or "", point.queue_id
        if self._merge.takes(point):
            self._merge.add(point, found.revive_queue_id, self._positions.take(*place, next_offset))
            return True
        found.problem = self._revive.put([self._revive.checkpoint(point, found.revive_queue_id)])
        if found.problem is None:
            found.taken.append(self._positions.take(*place, next_offset))
        return found.problem is None

    def _note_order(
        self, wish: PopWish, queue: PopQueue, offset: int, offsets: list[QueueOffset], found: PopFound
    ) -> None:
        """The queue is closed from now on. Messages count by themselves, and the queue as its least."""
        place = wish.topic, wish.group, queue.queue_id
        counts = self._orders.popped(place, offsets, found.pop_ms, wish.invisible_ms, wish.attempt_id)
        for each, count in counts.items():
            found.counts[PopMessage(*queue, QueueOffset(each))] = count
        found.counts[queue] = min(counts.values()) if len(counts) == len(offsets) else 0
        self._offsets.commit(wish.group, wish.topic, queue.queue_id, offset)

    def _checkpoint(
        self, wish: PopWish, topic: str, queue_id: int, offset: int, offsets: list[QueueOffset], pop_ms: int
    ) -> PopCheckPoint:
        return PopCheckPoint(
            topic=topic,
            consumer_group=wish.group,
            queue_id=queue_id,
            start_offset=offset,
            pop_time=pop_ms,
            invisible_time=wish.invisible_ms,
            message_count=len(offsets),
            queue_offset_diff=[each - offset for each in offsets],
            broker_name=self._revive.broker_name,
            revive_time=pop_ms + wish.invisible_ms,
        )

    def _handle(self, wish: PopWish, queue: PopQueue, point: PopCheckPoint, revive_queue_id: int) -> PopHandle:
        """Of the first message; the others have their own offset in it."""
        start = QueueOffset(point.start_offset)
        broker_name, kind, queue_id = self._revive.broker_name, queue.kind, queue.queue_id
        return PopHandle(start, point.pop_time, wish.invisible_ms, revive_queue_id, kind, broker_name, queue_id, start)


def _under(topic: str, shared: PopHandle, record: bytes) -> bytes:
    """A message of a retry topic as consumers get it: under its own topic, with its handle. One whose properties leave
    no room for that, or that cannot be read, stays as it is, which a client of Apache's takes as well."""
    try:
        message = decode_record(record)
    except RemoteProtocolError:
        return record
    handle = PopHandle(
        shared.start_offset,
        shared.pop_ms,
        shared.invisible_ms,
        shared.revive_queue_id,
        shared.kind,
        shared.broker_name,
        shared.queue_id,
        message.queue_offset,
    )
    message.topic, message.properties[property_names.POP_CK] = topic, handle.format()
    try:
        return encode_record(message)
    except LocalProtocolError:
        return record
