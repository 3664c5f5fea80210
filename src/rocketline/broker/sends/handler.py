"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320): a producer's messages.

Whether it is a batch is told by the header's field and not by the code. Plain ones rarely come here: the hot path
(`rocketline.broker.sends.hot_path`) takes them, and gives the same answers.

In topics with `queue.type=BatchCQ` a batch with a unique key of its own stays one record, which consumers take apart.

A batch of more than 2,000 messages is stored in pieces of so many, one in a turn of the loop.

Differs: a batch whose body cannot be taken apart, and a delay level that is no number, are told so; an oversize record
is refused (13) where Apache answers 0 and loses it. A delay of half a transaction begins when it is committed; Apache's
broker delays the half, and loses it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence

from rocketline.broker.clients.locks import LockTable
from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import LARGE_BODY_BYTES, LongWork, Steps, at_once
from rocketline.broker.metadata.attributes import CLEANUP_POLICY
from rocketline.broker.metadata.groups import GroupTable, retries_max
from rocketline.broker.metadata.topics import TopicTable, is_batched, no_room
from rocketline.broker.sends.batch_members import (
    MEMBERS_AT_ONCE,
    NOT_IN_A_BATCH,
    ended,
    may_be_special,
    stored_as_they_came,
)
from rocketline.broker.sends.checks import RefusalError, SendChecks
from rocketline.broker.stats.counters import DLQ_PUT_NUMS, BrokerStats
from rocketline.broker.storing.put import MessagePut, PutResult
from rocketline.clock import Clock
from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model import names, property_names
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.sys_flags import INNER_BATCH, NEED_UNWRAP, is_inner_batch
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.later_answer import LaterAnswer
from rocketline.settings import Settings
from rocketline.store.queues.batch_consume_queue import BATCH_MESSAGES_MAX
from rocketline.wire import headers
from rocketline.wire.batch import BatchEntry, split_some
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
    send_header_v1,
)
from rocketline.wire.properties import decode_properties, parse_properties
from rocketline.wire.recall_handle import RecallHandle
from rocketline.wire.unique_id import UniqueIdGenerator


class SendHandlers:
    """Checks a message, completes its properties, and stores it."""

    def __init__(
        self,
        put: MessagePut,
        topics: TopicTable,
        groups: GroupTable,
        locks: LockTable,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        store_host: HostAddress,
        clock: Clock,
        work: LongWork,
        *,
        on_half: Callable[[str], None],
        choose_queue: Callable[[int], int] = random.randrange,
    ) -> None:
        """`on_half` is told the topic of each half message that is stored."""
        self._work, self._on_half = work, on_half
        self._put, self._topics, self._groups, self._locks = put, topics, groups, locks
        self._stats, self._settings, self._store_host, self._clock = stats, settings, store_host, clock
        self._choose_queue = choose_queue
        self._checks = SendChecks(topics, settings, clock)
        self._id_prefix = (store_host.ip + store_host.port.to_bytes(4, "big")).hex().upper()
        self._unique_ids = UniqueIdGenerator(store_host.ip, os.getpid(), id(self), clock)

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.SEND_MESSAGE: self._send,
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
        }

    def _send(self, channel: Channel, request: Command) -> Outcome:
        asked = (
            headers.read(SendMessageRequestHeader, request.ext)
            if request.code == RequestCode.SEND_MESSAGE
            else send_header_v1(headers.read(SendMessageRequestHeaderV2, request.ext))
        )
        if asked.batch:
            steps = self._store_batch(channel, request, asked)
            is_large = len(request.body) >= LARGE_BODY_BYTES
            return self._work.begin(channel, request, steps, is_change=True) if is_large else at_once(steps)
        try:
            topic = self._topic_for(request, asked)
            message = self._message(channel, request, asked, topic)
            self._complete(message, topic)
        except RefusalError as refusal:
            return self._checks.with_region(refusal.answer)
        later = LaterAnswer(channel, request)
        queue_id, begin_s = message.queue_id, self._clock.monotonic()

        def stored(result: PutResult) -> None:
            later.give(self._answer(result, message, asked, queue_id, begin_s))

        def half_stored(result: PutResult) -> None:
            if result.status.is_stored:
                self._on_half(message.properties[property_names.REAL_TOPIC])
            stored(result)

        if _is_half(message):
            self._put.put_half(message, half_stored)
        else:
            self._put.put(message, stored)
        return later.outcome()

    def _store_batch(self, channel: Channel, request: Command, asked: SendMessageRequestHeader) -> Steps[Outcome]:
        """The same for a batch. All of it is looked at before any of it is stored."""
        try:
            topic = self._topic_for(request, asked)
            batch = self._message(channel, request, asked, topic)
            pieces = yield from self._complete_batch(batch, topic)
        except RefusalError as refusal:
            return self._checks.with_region(refusal.answer)
        later = LaterAnswer(channel, request)
        queue_id, begin_s = batch.queue_id, self._clock.monotonic()

        def stored(result: PutResult) -> None:
            later.give(self._answer(result, batch, asked, queue_id, begin_s))

        if pieces is None:
            self._put.put_as_it_is(batch, stored)
        else:
            for _ in self._put.put_batch(batch, pieces, stored):
                yield
                if self._topics.get(batch.topic) is not topic:
                    problem = f"the topic {batch.topic} was changed while a batch was stored in {len(pieces)} pieces"
                    return self._checks.with_region(response(ResponseCode.SYSTEM_ERROR, problem))
        return later.outcome()

    def _topic_for(self, request: Command, asked: SendMessageRequestHeader) -> TopicConfig:
        topic = self._checks.topic(asked)
        if not request.body:
            raise RefusalError(ResponseCode.SYSTEM_ERROR, "the message has no body; one byte at least is needed")
        return topic

    # --- messages

    def _message(
        self, channel: Channel, request: Command, asked: SendMessageRequestHeader, topic: TopicConfig
    ) -> StoredMessage:
        """The message, or the batch as one."""
        queue_id = asked.queue_id
        if queue_id < 0:
            if topic.write_queue_nums <= 0:
                raise RefusalError(ResponseCode.INVALID_PARAMETER, f"the topic {asked.topic} has no queue to write to")
            queue_id = self._choose_queue(topic.write_queue_nums)
        message = StoredMessage(
            asked.topic,
            request.body,
            self._checks.properties(asked),
            asked.flag,
            queue_id,
            QueueOffset(0),
            LogOffset(0),
            asked.sys_flag,
            asked.born_timestamp,
            HostAddress.parse(channel.peer),
            0,
            self._store_host,
            asked.reconsume_times or 0,
        )
        if not asked.batch and names.is_retry_topic(asked.topic):
            self._redirect_dead(message, asked, request.version)
        return message

    def _complete_batch(self, batch: StoredMessage, topic: TopicConfig) -> Steps[list[Sequence[BatchEntry]] | None]:
        """Its members in pieces, each with only its own properties; None if it stays one message, which consumers take
        apart."""
        if len(batch.topic) > names.TOPIC_LENGTH_MAX:
            raise RefusalError(ResponseCode.MESSAGE_ILLEGAL, f"the topic of a batch has {len(batch.topic)} characters")
        if names.is_retry_topic(batch.topic):
            raise RefusalError(ResponseCode.MESSAGE_ILLEGAL, f"{batch.topic}: a retry topic takes no batches")
        _refuse_special(batch.properties)
        pieces = yield from _split(batch.body)
        if is_batched(topic) and property_names.UNIQ_KEY in batch.properties:
            batch.properties[property_names.INNER_NUM] = str(sum(map(len, pieces)))
            batch.sys_flag |= NEED_UNWRAP | INNER_BATCH
            batch.properties.pop(property_names.POP_CK, None)
            self._add_origin(batch.properties)
            return None
        for number, piece in enumerate(pieces):
            if number:
                yield
            pieces[number] = stored_as_they_came(piece) or [
                (flag, body, _member_properties(properties)) for flag, body, properties in piece
            ]
        return pieces

    def _redirect_dead(self, message: StoredMessage, asked: SendMessageRequestHeader, version: int) -> None:
        """A message that was retried too often, or whose group consumes in order, goes to the dead letters.

        It is a copy that the consumer made, whose `reconsume_times` counts this failure already: so as many as there
        may be is not yet too often. `retries.send_back.is_dead` compares otherwise, because there it is not counted.
        """
        group_name = message.topic.removeprefix(names.RETRY_PREFIX)
        group = self._groups.find(group_name)
        if group is None:
            raise RefusalError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"the group {group_name} does not exist: create it"
            )
        times_max = retries_max(group, asked.max_reconsume_times, version)
        if message.reconsume_times > times_max or self._locks.holds_any(group_name):
            dead_letters = self._topics.ensure_dlq(group_name)
            if dead_letters is None:
                raise RefusalError(ResponseCode.SYSTEM_ERROR, no_room(names.dlq_topic(group_name)))
            message.topic, message.queue_id = dead_letters.topic_name, 0
            message.properties[property_names.DELAY] = "0"
            self._stats.add(DLQ_PUT_NUMS, f"{group_name}@{message.topic}", 1)

    def _complete(self, message: StoredMessage, topic: TopicConfig) -> None:
        """Add what the broker knows, after a look at what only some topics take."""
        config, properties = self._settings.value, message.properties
        if topic.attributes.get(CLEANUP_POLICY) == "COMPACTION" and not properties.get(property_names.KEYS, "").strip():
            raise RefusalError(ResponseCode.MESSAGE_ILLEGAL, f"{topic.topic_name} is compacted: its messages need KEYS")
        level = properties.get(property_names.DELAY, "0")
        if not _is_int32(level):
            raise RefusalError(ResponseCode.SYSTEM_ERROR, f"the delay level {level[:40]!r} is no number")
        if config.reject_transaction_message and _is_half(message):
            problem = f"broker {config.broker_name} takes no transactional messages: rejectTransactionMessage"
            raise RefusalError(ResponseCode.NO_PERMISSION, problem)
        properties.pop(property_names.POP_CK, None)
        properties.pop(property_names.CRC32, None)
        if not properties.get(property_names.UNIQ_KEY):
            properties[property_names.UNIQ_KEY] = self._unique_ids.make()
        self._add_origin(properties)

    def _add_origin(self, properties: dict[str, str]) -> None:
        config = self._settings.value
        properties[property_names.MSG_REGION] = config.region_id
        properties[property_names.TRACE_ON] = "true" if config.trace_on else "false"
        properties[property_names.CLUSTER] = config.broker_cluster_name

    # --- answers

    def _answer(
        self, result: PutResult, first: StoredMessage, asked: SendMessageRequestHeader, queue_id: int, begin_s: float
    ) -> Command:
        if not result.status.is_stored:
            self._stats.put_failed()
            return self._checks.with_region(response(result.status.code, f"{result.status.name}: {result.problem}"))
        config, took_ms = self._settings.value, int((self._clock.monotonic() - begin_s) * 1000)
        inner = is_inner_batch(first.sys_flag)
        count = int(first.properties[property_names.INNER_NUM]) if inner else len(result.places)
        self._stats.put(first.topic, first.queue_id, count, result.size, took_ms=took_ms)
        header = SendMessageResponseHeader(
            msg_id=",".join([f"{self._id_prefix}{place:016X}" for place in result.places]),
            queue_id=queue_id,
            queue_offset=first.queue_offset,
            transaction_id=self._transaction_id(asked, first),
            batch_uniq_id=first.properties.get(property_names.UNIQ_KEY) if inner else None,
            recall_handle=self._recall_handle(first),
            msg_region=config.region_id,
            trace_on=config.trace_on,
        )
        remark = f"{result.status.name}: {result.problem}" if result.problem else None
        return response(result.status.code, remark, ext=headers.encode(header))

    def _recall_handle(self, message: StoredMessage) -> str | None:
        """By what a timer message that was parked can be called back. Java: attachRecallHandle."""
        if message.topic != names.WHEEL_TIMER_TOPIC:
            return None
        properties = message.properties
        topic, slot_ms = properties[property_names.REAL_TOPIC], int(properties[property_names.TIMER_OUT_MS])
        if names.is_retry_topic(topic):
            return None
        try:  # a millisecond behind the slot's begin is surely within it
            unique_id = properties[property_names.UNIQ_KEY]
            return RecallHandle(topic, self._settings.value.broker_name, slot_ms + 1, unique_id).encode()
        except LocalProtocolError:  # a blank in the broker's name, or in a unique id that somebody made up
            return None

    def _transaction_id(self, asked: SendMessageRequestHeader, first: StoredMessage) -> str | None:
        if asked.batch:
            return parse_properties(asked.properties or "").get(property_names.UNIQ_KEY)
        return first.properties.get(property_names.UNIQ_KEY)


def _split(body: bytes) -> Steps[list[Sequence[BatchEntry]]]:
    """The messages of a batch, in pieces that can be stored in one go. Raises `RefusalError`."""
    pieces: list[Sequence[BatchEntry]] = []
    at = count = 0
    while at < len(body):
        if pieces:
            yield
        try:
            piece, at = split_some(body, at, MEMBERS_AT_ONCE)
        except RemoteProtocolError as error:
            raise RefusalError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        pieces.append(piece)
        count += len(piece)
        if count > BATCH_MESSAGES_MAX:
            raise RefusalError(
                ResponseCode.MESSAGE_ILLEGAL, f"a batch has at most {BATCH_MESSAGES_MAX} messages; this one has more"
            )
    return pieces


def _refuse_special(properties: Mapping[str, str]) -> None:
    """Neither a batch nor a message in it is delayed or part of a transaction."""
    for name in NOT_IN_A_BATCH:
        if name in property_names.TIMERS and property_names.TIMER_OUT_MS in properties:
            continue  # a timer let it go already
        if properties.get(name, "0") not in ("0", "false"):
            raise RefusalError(ResponseCode.MESSAGE_ILLEGAL, f"property {name}: such a message cannot be in a batch")


def _member_properties(properties: bytes) -> bytes:
    """The properties of a message in a batch, ended as they should be. Raises `RefusalError` if it has to go alone."""
    if may_be_special(properties):
        named = decode_properties(properties)
        _refuse_special(named)
        if property_names.INNER_NUM in named:
            raise RefusalError(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot hold a message that is one itself")
    return ended(properties)


def _is_half(message: StoredMessage) -> bool:
    """The message is half a transaction. One that an old consumer sends back, to be delayed, only was one; as is one
    that is a dead letter by then."""
    if message.properties.get(property_names.TRAN_MSG, "").lower() != "true":
        return False
    is_delayed = int(message.properties.get(property_names.DELAY, "0")) > 0
    return not (message.reconsume_times > 0 and (is_delayed or names.is_dlq_topic(message.topic)))


def _is_int32(text: str) -> bool:
    """Java's `Integer.parseInt` takes the text."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isdecimal() and len(digits) <= 10 and -(2**31) <= int(text) < 2**31
