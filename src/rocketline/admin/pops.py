"""POP: which groups pop, and what they were handed and have not acknowledged: on our brokers and on Apache's alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rocketline.admin.calls import Calls, together
from rocketline.admin.offsets import Offsets
from rocketline.admin.reading import TopicReading
from rocketline.admin.topics import Topics
from rocketline.admin.views import BrokerAddress, GroupInFlight, Outcome, QueueInFlight, RequestMode
from rocketline.client.pop.pops import COUNT_MAX
from rocketline.errors import RemoteProtocolError, TopicNotFoundError
from rocketline.model import property_names
from rocketline.model.names import REVIVE_GROUP, WHEEL_TIMER_TOPIC, revive_topic
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageRequestMode
from rocketline.wire.bodies import decode_answer, encode
from rocketline.wire.bodies.pop import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_TAG,
    AckMsg,
    CheckpointKey,
    MessageRequestModeTable,
    PopCheckPoint,
    SetMessageRequestModeRequestBody,
)
from rocketline.wire.codes import RequestCode

if TYPE_CHECKING:
    from rocketline.client.received_message import ReceivedMessage

_RECORDS_MAX: Final = 10_000


class GroupPops:
    """`admin.pops`."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self._topics, self._offsets = calls, Topics(calls), Offsets(calls)

    async def modes(self, group: str, topic: str) -> dict[BrokerAddress, RequestMode | None]:
        """How the group's push consumers get the messages of a topic, as each broker of it was told; None where it was
        told nothing, and its setting `defaultMessageRequestMode` counts. Raises `TopicNotFoundError`."""
        answers = await self._calls.each(
            await self._calls.holders(topic),
            lambda target: self._calls.ask(target.address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE),
        )
        return {
            target: _mode_in(decode_answer(MessageRequestModeTable, answer.body), group, topic)
            for target, answer in answers.items()
        }

    async def set_mode(
        self, group: str, topic: str, mode: MessageRequestMode, *, share_queue_count: int = 0
    ) -> Outcome:
        """Have the group's push consumers pull a topic, or pop it; those that run change over within 20 s.

        A member that pops gets its own queues and those of the next `share_queue_count` members; with 0, all queues.
        Java: setMessageRequestMode. Raises `TopicNotFoundError`, and `ResponseError` if there is no such group, and a
        broker makes none by itself.
        """
        asked = SetMessageRequestModeRequestBody(topic, group, mode, share_queue_count)
        return await self._calls.change(
            await self._calls.holders(topic),
            lambda target: self._calls.ask(target.address, RequestCode.SET_MESSAGE_REQUEST_MODE, body=encode(asked)),
        )

    async def in_flight(self, group: str, *, record_count_max: int = _RECORDS_MAX) -> GroupInFlight:
        """What the group's members were handed and have not acknowledged, and when it comes again.

        Told by the newest `record_count_max` records of each queue where brokers note pops and acknowledgements. What
        they do not note there is not told: pops in order, and for some seconds those of a broker that merges them in
        memory (`enablePopBufferMerge`).
        """
        clusters = {broker.cluster for broker in await self._calls.brokers()}
        revive_topics = frozenset(map(revive_topic, clusters))
        found = OpenCheckpoints(group, revive_topics, self._calls.runtime.clock.wall_ms())
        queues = await together(self._queues(topic) for topic in (WHEEL_TIMER_TOPIC, *sorted(revive_topics)))
        whole = await together(self._read(queue, found, record_count_max) for some in queues for queue in some)
        return GroupInFlight(group, tuple(found.queues()), is_complete=all(whole))

    async def _queues(self, topic: str) -> list[MessageQueue]:
        try:
            return await self._topics.readable_queues(topic)
        except TopicNotFoundError:  # no broker can be popped from
            return []

    async def _read(self, queue: MessageQueue, found: OpenCheckpoints, count_max: int) -> bool:
        """Whether nothing was left out."""
        low, high = await together([self._offsets.min(queue), self._offsets.max(queue)])
        if queue.topic != WHEEL_TIMER_TOPIC:
            done_to = await self._offsets.committed(REVIVE_GROUP, queue)  # the last that nobody needs any more
            low = max(low, -1 if done_to is None else done_to + 1)
        first = max(low, high - count_max)
        reading = TopicReading(self._calls.runtime, queue.topic, f"{CHECKPOINT_TAG} || {ACK_TAG} || {BATCH_ACK_TAG}")
        async for messages in reading.parts(queue, first, high):
            found.add(queue.broker_name, messages)
        return first == low


class OpenCheckpoints:
    """The checkpoints of one group, less what was acknowledged. Records may come in any order, and twice."""

    def __init__(self, group: str, revive_topics: frozenset[str], now_ms: int) -> None:
        self._group, self._revive_topics, self._now_ms = group, revive_topics, now_ms
        self._points: dict[CheckpointKey, list[PopCheckPoint]] = {}
        self._acked: dict[CheckpointKey, set[int]] = {}

    def add(self, broker_name: str, messages: Iterable[ReceivedMessage]) -> None:
        """Records of a revive topic, or on their way there. What cannot be read is passed over."""
        for message in messages:
            if message.properties.get(property_names.REAL_TOPIC, message.topic) not in self._revive_topics:
                continue
            try:
                if message.tags == CHECKPOINT_TAG:
                    self._add_point(
                        decode_answer(PopCheckPoint, message.body),
                        broker_name,
                        is_due=message.topic != WHEEL_TIMER_TOPIC,
                    )
                else:
                    self._add_ack(decode_answer(AckMsg, message.body), broker_name)
            except RemoteProtocolError:
                continue

    def _add_point(self, point: PopCheckPoint, broker_name: str, *, is_due: bool) -> None:
        """One that timers keep no longer than its time is due already: it has not come again yet if it is unread."""
        if point.consumer_group != self._group or not 0 < point.count <= COUNT_MAX:
            return
        if is_due or point.revive_ms > self._now_ms:
            alike = self._points.setdefault(CheckpointKey.of(point, broker_name), [])
            if point not in alike:
                alike.append(point)

    def _add_ack(self, ack: AckMsg, broker_name: str) -> None:
        offsets = ack.offsets()
        if ack.consumer_group == self._group and len(offsets) <= COUNT_MAX:
            self._acked.setdefault(CheckpointKey.of(ack, broker_name), set()).update(offsets)

    def queues(self) -> list[QueueInFlight]:
        """What is left of them, by where the messages are stored."""
        left: dict[MessageQueue, dict[int, PopCheckPoint]] = {}
        for key, points in self._points.items():
            acked = self._acked.get(key, ())
            for point in points:
                open_ones = dict.fromkeys((offset for offset in point.offsets() if offset not in acked), point)
                if open_ones:
                    left.setdefault(MessageQueue(key.topic, key.broker_name, key.queue_id), {}).update(open_ones)
        return [_view(queue, points.values()) for queue, points in sorted(left.items())]


def _view(queue: MessageQueue, points: Iterable[PopCheckPoint]) -> QueueInFlight:
    """Of a queue and the checkpoints of its messages."""
    each = list(points)
    times = [point.revive_ms for point in each]
    return QueueInFlight(queue, len(each), min(point.pop_time for point in each), min(times), max(times))


def _mode_in(table: MessageRequestModeTable, group: str, topic: str) -> RequestMode | None:
    told = table.message_request_mode_map.get(topic, {}).get(group)
    return None if told is None else RequestMode(told.mode, told.pop_share_queue_num)
