"""What consumers say of messages that they popped: ACK_MESSAGE (200051), BATCH_ACK_MESSAGE (200151) and
CHANGE_MESSAGE_INVISIBLETIME (200053).

Like Apache: an acknowledgement is answered 0 whether its checkpoint is still there or not, and counts if it is noted
before the checkpoint is settled; a new invisible time is a checkpoint of its own, and the old one is acknowledged.

Differs: a handle that names a revive queue that there is not, or a time beyond what timers take, is no handle of this
broker: of its acknowledgement nothing is stored, though it is answered 0 as by Apache's; another invisible time is
refused with code 13, where Apache's loses the message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import LongWork, Steps
from rocketline.broker.pop.checks import MESSAGES_MAX, PopChecks
from rocketline.broker.pop.merge import MergeBuffer
from rocketline.broker.pop.orderly_acks import OrderlyAcks
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.broker.request_body import read_body_in_steps
from rocketline.errors import RemoteProtocolError
from rocketline.model.message import StoredMessage
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.later_answer import LaterAnswer
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.wire import headers
from rocketline.wire.bodies.pop import AckMsg, BatchAck, BatchAckMessageRequestBody, PopCheckPoint, bits_of
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
)
from rocketline.wire.pop_handles import ORDER_REVIVE_QUEUE_ID, PopHandle, TopicKind

ACKS_A_STEP: Final = 64
"""Of a batch: what one turn of the loop notes takes some milliseconds."""
_ENTRIES_MAX: Final = 4096
"""In a batch, each of up to 32 messages."""


class AckHandlers:
    """Notes what was acknowledged, or put off."""

    def __init__(
        self,
        checks: PopChecks,
        store: MessageStore,
        revive: ReviveTopic,
        merge: MergeBuffer,
        in_order: OrderlyAcks,
        settings: Settings[BrokerConfig],
        work: LongWork,
    ) -> None:
        self._checks, self._store, self._revive, self._settings = checks, store, revive, settings
        self._merge, self._in_order, self._work = merge, in_order, work

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.ACK_MESSAGE: self._ack,
            RequestCode.BATCH_ACK_MESSAGE: self._ack_many,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self._change,
        }

    # --- one message

    def _ack(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(AckMessageRequestHeader, request.ext)
        if asked.lite_topic:
            return response(ResponseCode.INVALID_PARAMETER, "there are no lite topics here")
        handle = self._handle(asked, is_end_known=True)
        if isinstance(handle, Command):
            return handle
        if self._problem(handle.revive_queue_id, handle.pop_ms + handle.invisible_ms) is not None:
            return response(ResponseCode.SUCCESS)
        if handle.is_order:
            queue = asked.topic, asked.consumer_group, asked.queue_id
            return self._in_order.ack(queue, asked.offset, handle.pop_ms)
        ack, answer = _ack_of(asked, handle), response(ResponseCode.SUCCESS)
        if self._merge.ack(ack):
            return answer
        return self._stored(channel, request, [self._note(ack, handle)], answer)

    def _handle(
        self, asked: AckMessageRequestHeader | ChangeInvisibleTimeRequestHeader, *, is_end_known: bool
    ) -> PopHandle | Command:
        """What the message was handed out with; or what is wrong, in Apache's order. Raises `RemoteProtocolError`."""
        if (problem := self._checks.queue(asked.topic, asked.queue_id)) is not None:
            return problem
        low, high = self._bounds(asked.topic, asked.queue_id)
        if not low <= asked.offset < high + is_end_known:
            return response(
                ResponseCode.NO_MESSAGE,
                f"queue {asked.queue_id} of {asked.topic} has no message {asked.offset}: it has {low} to {high}",
            )
        return PopHandle.parse(asked.extra_info)

    def _bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        return self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)

    def _problem(self, revive_queue_id: int, revive_ms: int) -> str | None:
        """Why no pop of this broker can have given such a handle."""
        if revive_queue_id == ORDER_REVIVE_QUEUE_ID:
            return None
        queues = self._settings.value.revive_queue_num
        if not 0 <= revive_queue_id < queues:
            return f"the handle names revive queue {revive_queue_id}, of {queues}"
        if revive_ms - self._store.store_clock.now_ms() > self._revive.delay_ms_max:
            return f"the handle is for the moment {revive_ms}, later than timerMaxDelaySec allows"
        return None

    def _note(self, ack: AckMsg, handle: PopHandle) -> StoredMessage:
        return self._revive.ack(ack, handle.revive_queue_id, handle.pop_ms + handle.invisible_ms)

    def _stored(self, channel: Channel, request: Command, messages: list[StoredMessage], answer: Command) -> Outcome:
        """The answer, once all is as safe as the settings promise."""
        problem = self._revive.put(messages)
        if problem is not None:
            return response(ResponseCode.SYSTEM_ERROR, problem)
        return self._safe(channel, request, answer)

    def _safe(self, channel: Channel, request: Command, answer: Command) -> Outcome:
        """The answer, once all that was put is as safe as the settings promise."""
        later = LaterAnswer(channel, request)
        self._revive.wait(
            lambda problem: later.give(answer if problem is None else response(ResponseCode.SYSTEM_ERROR, problem))
        )
        return later.outcome()

    # --- many

    def _ack_many(self, channel: Channel, request: Command) -> Outcome:
        entries = request.body.count(b"{") - 1
        if entries > _ENTRIES_MAX:  # before they are read
            remark = f"a batch of {entries} acknowledgements: at most {_ENTRIES_MAX} are taken at once"
            return response(ResponseCode.INVALID_PARAMETER, remark)
        return self._work.begin(channel, request, self._noted(channel, request), is_change=True)

    def _noted(self, channel: Channel, request: Command) -> Steps[Outcome]:
        body = request.body
        asked = (yield from read_body_in_steps(BatchAckMessageRequestBody, body)) if body else None
        if asked is None or not asked.acks:
            return response(ResponseCode.NO_MESSAGE, "there is no acknowledgement in this batch")
        for begin in range(0, len(asked.acks), ACKS_A_STEP):
            if begin:
                yield
            problem = self.note_all(asked.acks[begin : begin + ACKS_A_STEP], asked.broker_name)
            if problem is not None:
                return response(ResponseCode.SYSTEM_ERROR, problem)
        return self._safe(channel, request, response(ResponseCode.SUCCESS))

    def note_all(self, batches: Iterable[BatchAck], broker_name: str | None) -> str | None:
        """Note what so many of a batch say; then what went wrong. Raises `RemoteProtocolError`."""
        notes: list[StoredMessage] = []
        for batch in batches:
            notes += self._notes(batch, broker_name)
        return self._revive.put(notes) if notes else None

    def _notes(self, batch: BatchAck, broker_name: str | None) -> list[StoredMessage]:
        """What is to be noted of messages of one pop and queue; those that there are not are passed over."""
        if batch.topic is None or batch.consumer_group is None:
            raise RemoteProtocolError("BatchAck lacks topic or consumerGroup")
        topic = _kind(batch.retry).store_topic(batch.topic, batch.consumer_group)
        revive_ms = batch.pop_time + batch.invisible_time
        if self._checks.queue(topic, batch.queue_id) is not None:
            return []
        if self._problem(batch.revive_queue_id, revive_ms) is not None:
            return []
        if int.from_bytes(batch.bit_set).bit_count() > MESSAGES_MAX:
            raise RemoteProtocolError(f"BatchAck of more than {MESSAGES_MAX} messages, which no pop hands out")
        low, high = self._bounds(topic, batch.queue_id)
        offsets = [batch.start_offset + bit for bit in bits_of(batch.bit_set)]
        offsets = [offset for offset in offsets if low <= offset <= high]
        if not offsets:
            return []
        if batch.revive_queue_id == ORDER_REVIVE_QUEUE_ID:
            for offset in offsets:
                self._in_order.ack((topic, batch.consumer_group, batch.queue_id), offset, batch.pop_time)
            return []
        ack = AckMsg(
            topic,
            batch.consumer_group,
            batch.queue_id,
            batch.start_offset,
            batch.pop_time,
            -1,
            broker_name or self._revive.broker_name,
            offsets,
        )
        return [] if self._merge.ack(ack) else [self._revive.ack(ack, batch.revive_queue_id, revive_ms)]

    # --- another time

    def _change(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(ChangeInvisibleTimeRequestHeader, request.ext)
        handle = self._changeable(asked)
        if isinstance(handle, Command):
            nothing = ChangeInvisibleTimeResponseHeader(pop_time=0, invisible_time=0, revive_qid=0)
            handle.ext |= headers.encode(nothing)
            return handle
        if handle.is_order:
            queue = asked.topic, asked.consumer_group, asked.queue_id
            return self._in_order.put_off(queue, asked.offset, handle.pop_ms, asked.invisible_time)
        return self._change_noted(channel, request, asked, handle)

    def _changeable(self, asked: ChangeInvisibleTimeRequestHeader) -> PopHandle | Command:
        handle = self._handle(asked, is_end_known=False)
        if isinstance(handle, Command):
            return handle
        bad = self._problem(handle.revive_queue_id, handle.pop_ms + handle.invisible_ms)
        if bad is not None:
            return response(ResponseCode.MESSAGE_ILLEGAL, bad)
        if asked.invisible_time > self._revive.delay_ms_max:
            return response(
                ResponseCode.SYSTEM_ERROR,
                f"invisibleTime {asked.invisible_time}: timerMaxDelaySec allows {self._revive.delay_ms_max} ms",
            )
        return handle

    def _change_noted(
        self, channel: Channel, request: Command, asked: ChangeInvisibleTimeRequestHeader, handle: PopHandle
    ) -> Outcome:
        # Later than the pop itself: of the same moment and message, nobody could tell the two checkpoints apart.
        pop_ms = max(self._store.store_clock.now_ms(), handle.pop_ms + 1)
        header = ChangeInvisibleTimeResponseHeader(
            pop_time=pop_ms, invisible_time=asked.invisible_time, revive_qid=handle.revive_queue_id
        )
        answer = response(ResponseCode.SUCCESS, ext=headers.encode(header))
        point = self._revive.checkpoint(self._renewed(asked, handle, pop_ms), handle.revive_queue_id)
        ack = _ack_of(asked, handle)
        if not self._merge.has(ack):
            return self._stored(channel, request, [point, self._note(ack, handle)], answer)
        problem = self._revive.put([point])  # the old one stays until the new one is there
        if problem is not None:
            return response(ResponseCode.SYSTEM_ERROR, problem)
        self._merge.ack(ack)
        return self._safe(channel, request, answer)

    def _renewed(self, asked: ChangeInvisibleTimeRequestHeader, handle: PopHandle, pop_ms: int) -> PopCheckPoint:
        return PopCheckPoint(
            topic=asked.topic,
            consumer_group=asked.consumer_group,
            queue_id=asked.queue_id,
            start_offset=asked.offset,
            pop_time=pop_ms,
            invisible_time=asked.invisible_time,
            message_count=1,
            queue_offset_diff=[0],
            broker_name=handle.broker_name,
            revive_time=pop_ms + asked.invisible_time,
            suspend=asked.suspend,
        )


def _ack_of(asked: AckMessageRequestHeader | ChangeInvisibleTimeRequestHeader, handle: PopHandle) -> AckMsg:
    return AckMsg(
        asked.topic,
        asked.consumer_group,
        asked.queue_id,
        handle.start_offset,
        handle.pop_ms,
        asked.offset,
        handle.broker_name,
    )


def _kind(retry: str | None) -> TopicKind:
    """Which topic they were popped from. Raises `RemoteProtocolError`."""
    if retry in ("1", "2"):
        return TopicKind(int(retry))
    if retry not in (None, "", "0"):
        raise RemoteProtocolError(f"BatchAck: kind of topic {retry[:40]!r}; 0, 1 and 2 are known")
    return TopicKind.NORMAL
