"""Transactions that are open or were given up, read from the brokers' own topics: on ours and on Apache's alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketline.admin.calls import Calls, together
from rocketline.admin.messages import Messages
from rocketline.admin.offsets import Offsets
from rocketline.admin.reading import TopicReading
from rocketline.admin.topics import Topics
from rocketline.admin.views import OpenTransaction
from rocketline.client.consumer.pulls import PullStatus
from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import NoMessageError, RouteError
from rocketline.model import names, property_names
from rocketline.model.ids import OffsetMessageId
from rocketline.model.queue import MessageQueue
from rocketline.wire.bodies.transactions import ended_in
from rocketline.wire.codes import RequestCode
from rocketline.wire.headers import ResumeCheckHalfMessageRequestHeader

_COUNT_MAX: Final = 1000


class Transactions:
    """`admin.transactions`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._topics, self._offsets, self._messages = Topics(calls), Offsets(calls), Messages(calls)

    async def open(self, *, count_max: int = _COUNT_MAX) -> list[OpenTransaction]:
        """The half messages that wait for their end, oldest first, up to `count_max` of each broker.

        One that ended in the last seconds may still be among them: brokers note ends a little later.
        """
        queues = await self._topics.readable_queues(names.HALF_TOPIC)
        found = await together(self._open_in(queue, count_max) for queue in queues)
        return _by_birth(found)

    async def given_up(self, *, count_max: int = _COUNT_MAX) -> list[OpenTransaction]:
        """The half messages whose producers were asked often enough, the newest `count_max` of each broker."""
        topic = names.TRANS_CHECK_MAX_TIME_TOPIC
        try:
            queues = await self._topics.readable_queues(topic)
        except RouteError:  # the topic comes with the first of them
            return []
        found = await together(self._last_of(queue, count_max) for queue in queues)
        return _by_birth(found)

    async def resume(self, message_id: str) -> str:
        """Have the producers of a half message that was given up asked again; its id at the broker.

        `message_id` is that of the broker, or the transaction's. Raises `NoMessageError`, and `ResponseError` if the
        broker refuses. Java: resumeCheckHalfMessage.
        """
        topic = names.TRANS_CHECK_MAX_TIME_TOPIC
        try:  # first, because a transaction's id may look like a broker's, and then of one that is nowhere
            found = await self._messages.by_unique_key(topic, message_id)
        except (NoMessageError, RouteError):
            found = await self._messages.by_offset_id(topic, message_id)
        offset_id = found.offset_message_id
        header = ResumeCheckHalfMessageRequestHeader(topic=topic, msg_id=offset_id)
        address = str(OffsetMessageId.parse(offset_id).store_host)
        await self._calls.ask(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
        return offset_id

    async def _open_in(self, queue: MessageQueue, count_max: int) -> list[OpenTransaction]:
        begin = await self._begin(queue)
        end = await self._offsets.max(queue)
        if begin >= end:
            return []
        ops = MessageQueue(names.OP_HALF_TOPIC, queue.broker_name, queue.queue_id)
        ended: set[int] = set()

        def take_op(op: ReceivedMessage) -> bool:
            ended.update(offset for offset in ended_in(op.tags, op.body) if offset >= begin)
            return False

        await self._read(ops, await self._begin(ops), await self._offsets.max(ops), take_op)
        found: dict[str, OpenTransaction] = {}

        def take(half: ReceivedMessage) -> bool:
            if half.queue_offset not in ended:
                found[half.message_id] = _view(half, queue)  # of those that were just copied, the copy
            return len(found) >= count_max

        await self._read(queue, begin, end, take)
        return list(found.values())

    async def _begin(self, queue: MessageQueue) -> int:
        """Where the broker's checks are in one of its two queues."""
        committed = await self._offsets.committed(names.TRANSACTION_GROUP, queue)
        low = await self._offsets.min(queue)
        return low if committed is None else max(committed, low)

    async def _last_of(self, queue: MessageQueue, count_max: int) -> list[OpenTransaction]:
        low, high = await self._offsets.min(queue), await self._offsets.max(queue)
        found: list[OpenTransaction] = []

        def take(half: ReceivedMessage) -> bool:
            found.append(_view(half, queue))
            return False

        await self._read(queue, max(low, high - count_max), high, take)
        return found

    async def _read(self, queue: MessageQueue, offset: int, end: int, take: Callable[[ReceivedMessage], bool]) -> None:
        """Hand over each message of a span until `take` has enough. No more than one answer is held in memory."""
        reading = TopicReading(self._calls.runtime, queue.topic)
        while offset < end:
            result = await reading.pull(queue, offset)
            for message in result.messages:
                if message.queue_offset >= end or take(message):
                    return
            if result.status is PullStatus.NO_NEW_MESSAGE or result.next_offset <= offset:
                return
            offset = result.next_offset


def _view(half: ReceivedMessage, queue: MessageQueue) -> OpenTransaction:
    properties = half.properties
    checks = properties.get(property_names.TRANSACTION_CHECK_TIMES, "0")
    return OpenTransaction(
        queue.broker_name,
        properties.get(property_names.REAL_TOPIC, ""),
        properties.get(property_names.PGROUP, ""),
        half.message_id,
        half.offset_message_id,
        half.born_ms,
        int(checks) if checks.isdecimal() and len(checks) <= 9 else 0,
    )


def _by_birth(found: list[list[OpenTransaction]]) -> list[OpenTransaction]:
    return sorted((each for of_queue in found for each in of_queue), key=lambda each: each.born_ms)
