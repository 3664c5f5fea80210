"""Lets messages come again that were popped and not acknowledged in time: one queue of the revive topic.

The queue is read as far as it goes: checkpoints are kept in memory, acknowledgements cross messages off. Once a
checkpoint is so late that whatever was acknowledged in time has been read, its other messages go to the retry topic of
their group. How far the queue is done with is the offset of CID_RMQ_SYS_REVIVE_GROUP: that of the last record that
nobody needs any more. It never runs ahead of the disk: it is committed once the messages that came again are safe.
So a crash may have some come twice, and loses none.

Java: PopReviveService. Differs: what timers have delivered by now is asked of them, where Apache's broker goes by the
times of the records that it reads and waits for some seconds where there are none; a message that cannot be stored now
is tried until it can, unless its retry topic cannot be made: then it is noted for later, as Apache's does with any.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.topics import TopicTable, no_room
from rocketline.broker.pop.checks import MESSAGES_MAX
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.broker.stats.counters import BrokerStats
from rocketline.errors import IllegalMessageError, RemoteProtocolError, StoreError
from rocketline.logs import Throttle
from rocketline.model import names, property_names
from rocketline.model.ids import LogOffset
from rocketline.model.message import StoredMessage
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.pop import ACK_TAG, BATCH_ACK_TAG, CHECKPOINT_TAG, AckMsg, CheckpointKey, PopCheckPoint
from rocketline.wire.pop_handles import TopicKind

_RECORDS_A_STEP: Final = 32
_BYTES_A_STEP: Final = 256 * 1024
"""Of messages that come again: more is left to the next turn."""
_MARGIN_MS: Final = 2000
"""After its time, within which a checkpoint waits for acknowledgements that are on their way."""
_EARLY_MS: Final = 60_000
"""A checkpoint that is read so long before its time came here otherwise than through the timers."""
_TIMES_MAX: Final = 2**31 - 1
_AGAIN_S: Final = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""After which a message is tried anew that cannot come again now."""


@dataclass(slots=True, eq=False)
class _Open:
    """A checkpoint that was read and is not settled."""

    point: PopCheckPoint
    revive_offset: int
    offsets: list[int]
    left: int
    """Bit i: message i was not acknowledged."""


@dataclass(slots=True)
class ReviveTools:
    """What reviving works with."""

    store: MessageStore
    topics: TopicTable
    groups: GroupTable
    topic: ReviveTopic
    stats: BrokerStats
    settings: Settings[BrokerConfig]
    log: Throttle


class ReviveQueue:
    """What is under way in one queue of the revive topic."""

    def __init__(self, tools: ReviveTools, queue_id: int, done_to: int) -> None:
        """`done_to`: the last record that nobody needs any more; -1 if there is none. Raises `OSError`."""
        self._tools, self.queue_id = tools, queue_id
        self._next = min(done_to + 1, tools.store.max_offset(tools.topic.name, queue_id))
        self._open: dict[int, _Open] = {}
        """By their place in the queue, and in its order."""
        self._by_key: dict[CheckpointKey, list[_Open]] = {}
        """Mostly one for each key; Apache's broker gives two the same if all happens within a millisecond."""
        self._due: list[tuple[int, int]] = []
        """A heap: by when they come again."""
        self._seen_ms = 0
        """Whatever is due before this time and came by a timer lies before what is to be read next."""

    def __len__(self) -> int:
        """How many checkpoints wait to be settled."""
        return len(self._open)

    @property
    def done_to(self) -> int:
        """The last record that nobody needs any more."""
        first = next(iter(self._open.values()), None)
        return (first.revive_offset if first is not None else self._next) - 1

    @property
    def behind(self) -> int:
        """How many records are still to be read."""
        return max(self._tools.store.max_offset(self._tools.topic.name, self.queue_id) - self._next, 0)

    @property
    def oldest_ms(self) -> int | None:
        """For which moment the first checkpoint is that is not settled."""
        return self._due[0][0] if self._due else None

    # --- reading

    def read(self, delivered_ms: int) -> bool:
        """Read some records on; False at the end of the queue. Raises `OSError`.

        `delivered_ms`: timers had delivered whatever was due before that when this was called.
        """
        store, topic = self._tools.store, self._tools.topic.name
        queue = store.queue(topic, self.queue_id)
        if queue is None:
            return False
        self._next = max(self._next, queue.min_offset)
        units = store.units(topic, self.queue_id, self._next, _RECORDS_A_STEP)
        for log_offset, _, _ in units:
            self._take(store.message_at(log_offset))
            self._next += 1
        if not units and self._next < queue.max_offset:  # the queue's files have lost them
            self._next = queue.max_offset
        is_at_end = self._next >= queue.max_offset and queue.next_offset == queue.max_offset
        if is_at_end:
            self._seen_ms = max(self._seen_ms, delivered_ms)
        return self._next < queue.max_offset

    def _take(self, record: StoredMessage | None) -> None:
        tag = record.tag if record is not None else None
        try:
            if record is None or record.topic != self._tools.topic.name:
                raise RemoteProtocolError("it is damaged, or gone from the log")
            if tag == CHECKPOINT_TAG:
                self._take_checkpoint(decode(PopCheckPoint, record.body))
            elif tag in (ACK_TAG, BATCH_ACK_TAG):
                self._take_ack(decode(AckMsg, record.body))
            self._note_time(record)
        except RemoteProtocolError as error:
            self._tools.log.warning("record of a pop left behind", str(error), queue=self.queue_id, offset=self._next)

    def _note_time(self, record: StoredMessage) -> None:
        """Timers deliver in order: what this one did is all that was due before."""
        slot = record.properties.get(property_names.TIMER_OUT_MS, "")
        if slot.isascii() and slot.isdecimal() and len(slot) < 19:
            self._seen_ms = max(self._seen_ms, min(int(slot), record.store_ms))

    def _take_checkpoint(self, point: PopCheckPoint) -> None:
        count = point.count
        if not 0 < count <= MESSAGES_MAX or point.topic is None or point.consumer_group is None:
            raise RemoteProtocolError(f"a checkpoint of {count} messages of {point.consumer_group} in {point.topic}")
        now_ms = self._tools.store.store_clock.now_ms()
        if point.revive_ms > now_ms + _EARLY_MS:
            raise RemoteProtocolError(f"a checkpoint for {point.revive_ms}, which timers have not let go")
        alike = self._by_key.setdefault(self._tools.topic.key(point), [])
        if any(other.point == point for other in alike):  # timers deliver some messages twice after a crash
            return
        opened = self._open[self._next] = _Open(point, self._next, point.offsets(), (1 << count) - 1)
        alike.append(opened)
        heapq.heappush(self._due, (point.revive_ms, self._next))

    def _take_ack(self, ack: AckMsg) -> None:
        for opened in self._by_key.get(self._tools.topic.key(ack), ()):
            acked = set(ack.offsets())
            for index, offset in enumerate(opened.offsets):
                if offset in acked:
                    opened.left &= ~(1 << index)

    # --- reviving

    def revive_next(self) -> bool:
        """Settle the next checkpoint whose acknowledgements were all read, or a part of it; False if there is none.

        Raises `StoreError` or `OSError` if messages cannot be stored now: then it stays as it is.
        """
        margin_ms = max(_MARGIN_MS, self._tools.settings.value.store.timer_precision_ms)
        if not self._due or self._due[0][0] + margin_ms >= self._seen_ms:
            return False
        opened = self._open[self._due[0][1]]
        if not self._revive(opened):
            return True
        heapq.heappop(self._due)
        del self._open[opened.revive_offset]
        key = self._tools.topic.key(opened.point)
        self._by_key[key].remove(opened)
        if not self._by_key[key]:
            del self._by_key[key]
        return True

    def _revive(self, opened: _Open) -> bool:
        """Let what is left of it come again, as much as a turn of the loop has time for; False if there is more."""
        point, tools = opened.point, self._tools
        if not opened.left or not self._is_wanted(point):
            return True
        retry = self._retry_topic(point)
        if not tools.topics.ensure([TopicConfig(retry, 1, 1)]):
            self._put_off(opened, retry)
            return True
        messages, rest = self._some_of(opened, retry)
        for message, problem in zip(messages, tools.store.append_each(messages), strict=True):
            if isinstance(problem, IllegalMessageError):
                tools.log.error("popped message left behind", str(problem), topic=retry)
            else:
                tools.stats.put(retry, 0, 1, len(message.body))
        opened.left = rest
        return not rest

    def _some_of(self, opened: _Open, retry: str) -> tuple[list[StoredMessage], int]:
        """Messages that come again, up to some bytes, and the bits of those that are left then."""
        messages: list[StoredMessage] = []
        rest, size = opened.left, 0
        for index, offset in enumerate(opened.offsets):
            if not rest >> index & 1:
                continue
            if size >= _BYTES_A_STEP:
                break
            rest &= ~(1 << index)
            message = self._coming_again(opened.point, offset, retry)
            if message is not None:
                messages.append(message)
                size += len(message.body)
        return messages, rest

    def _is_wanted(self, point: PopCheckPoint) -> bool:
        """Topic and group are still there."""
        topic, group = point.topic or "", point.consumer_group or ""
        return self._tools.topics.get(topic) is not None and self._tools.groups.get(group) is not None

    def _retry_topic(self, point: PopCheckPoint) -> str:
        topic, group = point.topic or "", point.consumer_group or ""
        if names.is_retry_topic(topic):
            return topic
        is_v2 = self._tools.settings.value.enable_retry_topic_v2
        return (TopicKind.RETRY_V2 if is_v2 else TopicKind.RETRY_V1).store_topic(topic, group)

    def _coming_again(self, point: PopCheckPoint, offset: int, retry: str) -> StoredMessage | None:
        """The message as it is stored for the next attempt; None if it is gone. Java: reviveRetry."""
        store = self._tools.store
        units = store.units(point.topic or "", point.queue_id, offset, 1)
        message = store.message_at(units[0][0]) if units else None
        # In place of one that the log has lost, a unit leads elsewhere.
        place = point.topic, point.queue_id, offset
        if message is None or (message.topic, message.queue_id, message.queue_offset) != place:
            self._tools.log.warning("popped message left behind", "it is gone", topic=point.topic, offset=offset)
            return None
        properties = {**message.properties, property_names.ORIGIN_GROUP: point.consumer_group or ""}
        properties.setdefault(property_names.FIRST_POP_TIME, str(point.pop_time))
        return replace(
            message,
            topic=retry,
            queue_id=0,
            properties=properties,
            born_host=store.store_host,
            reconsume_times=min(message.reconsume_times + 1, _TIMES_MAX),
            prepared_log_offset=LogOffset(0),
            version=1,
        )

    def _put_off(self, opened: _Open, retry: str) -> None:
        """Note what is left of it once more, for later. Raises `StoreError`."""
        point, tools = opened.point, self._tools
        times = int(known) if (known := point.re_put_times or "").isdecimal() and len(known) < 10 else 0
        tools.log.warning("popped messages put off", no_room(retry), times=times)
        if times >= len(_AGAIN_S) and tools.settings.value.skip_when_ck_re_put_reach_max_times:
            return
        again_ms = _AGAIN_S[min(times, len(_AGAIN_S) - 1)] * 1000
        now_ms = tools.store.store_clock.now_ms()
        left = [offset for index, offset in enumerate(opened.offsets) if opened.left >> index & 1]
        later = replace(
            point,
            start_offset=left[0],
            pop_time=now_ms,
            invisible_time=again_ms,
            message_count=len(left),
            queue_offset_diff=[offset - left[0] for offset in left],
            re_put_times=str(times + 1),
            revive_time=now_ms + again_ms,
        )
        problem = tools.topic.put([tools.topic.checkpoint(later, self.queue_id)])
        if problem is not None:
            raise StoreError(problem)
