"""The one way by which a message gets into the store: checked, rewritten if it is to be delayed, appended, flushed.

Java: the put-message hooks and DefaultMessageStore.asyncPutMessage.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import Steps
from rocketline.broker.storing.flusher import Flushed, Flusher
from rocketline.broker.storing.timer_properties import asked_ms, slot_before
from rocketline.errors import IllegalMessageError, LocalProtocolError, RemoteProtocolError, StoreError
from rocketline.model import property_names
from rocketline.model.ids import LogOffset
from rocketline.model.message import StoredMessage
from rocketline.model.names import HALF_TOPIC, SCHEDULE_TOPIC, TOPIC_LENGTH_MAX, WHEEL_TIMER_TOPIC, is_retry_topic
from rocketline.model.sys_flags import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    is_inner_batch,
    with_transaction_type,
)
from rocketline.settings import Settings
from rocketline.store.message_store import Appended, MessageStore
from rocketline.store.queues.batch_consume_queue import BATCH_MESSAGES_MAX
from rocketline.wire.batch import BatchEntry, count_batch
from rocketline.wire.codes import ResponseCode
from rocketline.wire.properties import encode_properties, format_properties

_RECORD_BYTES_OVER_BODY_MAX: Final = 64 * 1024
NOT_YET_ON_DISK: Final = "the message is stored and not yet on disk"
_RETRY_TOPIC_BYTES_MAX: Final = 255
_FIXED_BYTES_MAX: Final = 116  # of a record with IPv6 hosts and a long topic
_HALF_PROPERTIES_BYTES_MAX: Final = 32_767 - 300
"""Of half a transaction: its copies get properties of their own, and so does one that waits for its time then."""
_OF_CHECKS: Final = (property_names.TRANSACTION_CHECK_TIMES, property_names.TRAN_PREPARED_QUEUE_OFFSET)
_TIMER_PROPERTIES_BYTES_MAX: Final = 32_767 - 100
"""Of a message that waits: when it is delivered, or parked anew, it gets up to three more, of 96 bytes."""


class PutStatus(Enum):
    """How storing a message ended. Java: PutMessageStatus."""

    PUT_OK = auto()
    FLUSH_DISK_TIMEOUT = auto()
    MESSAGE_ILLEGAL = auto()
    PROPERTIES_SIZE_EXCEEDED = auto()
    SERVICE_NOT_AVAILABLE = auto()
    WHEEL_TIMER_NOT_ENABLE = auto()
    WHEEL_TIMER_MSG_ILLEGAL = auto()
    WHEEL_TIMER_FLOW_CONTROL = auto()

    @property
    def code(self) -> ResponseCode:
        """What a producer is told."""
        return _CODES[self]

    @property
    def is_stored(self) -> bool:
        return self in (PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT)


_CODES = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.WHEEL_TIMER_NOT_ENABLE: ResponseCode.SYSTEM_ERROR,
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.WHEEL_TIMER_FLOW_CONTROL: ResponseCode.SYSTEM_ERROR,
}


@dataclass(frozen=True, slots=True)
class PutResult:
    """The status; where the messages are if they are stored; else what was wrong."""

    status: PutStatus
    places: Sequence[LogOffset] = ()
    """In the log: one, or one for each message of a batch."""
    problem: str | None = None
    size: int = 0
    """Bytes of the stored messages in the log."""


Done = Callable[[PutResult], None]


class TimerSlots(Protocol):
    """Who keeps messages until their time."""

    @property
    def precision_ms(self) -> int:
        """The step of their times."""
        ...

    def waiting_at(self, slot_ms: int) -> int:
        """How many messages are to be delivered in that step."""
        ...

    def expect(self) -> None:
        """A message comes to the timer topic."""
        ...


class MessagePut:
    """Stores messages and tells when, and whether, they are as safe as the settings promise."""

    def __init__(
        self,
        store: MessageStore,
        flusher: Flusher,
        settings: Settings[BrokerConfig],
        timers: TimerSlots | None = None,
    ) -> None:
        """Without `timers`, messages for any moment are refused."""
        self._store, self._flusher, self._settings = store, flusher, settings
        self._timers = timers
        self._random = random.random

    def put(self, message: StoredMessage, done: Done) -> None:
        """Store one message. `done` is called before this returns, or after the flush that the message waits for, which
        takes its body away meanwhile.

        A delayed message comes back with the place where it is parked, and its own topic in its properties.
        """
        problem = self._problem(message) or self._delay(message)
        if problem is not None:
            done(problem)
        else:
            self._append(message, done)

    def put_half(self, message: StoredMessage, done: Done) -> None:
        """Store half a transaction, where no consumer of its topic sees it: its topic and queue become properties.

        A delay counts from the moment that it is committed, and one that would be refused then is refused now. What the
        properties of another message said of its checks does not count. Java:
        TransactionalMessageBridge.parseHalfMessageInner.
        """
        properties = message.properties
        for name in _OF_CHECKS:
            properties.pop(name, None)
        if unique_key := properties.get(property_names.UNIQ_KEY):
            properties[property_names.TRANSACTION_ID] = unique_key
        properties[property_names.REAL_TOPIC] = message.topic
        properties[property_names.REAL_QID] = str(message.queue_id)
        message.topic, message.queue_id = HALF_TOPIC, 0
        message.sys_flag = with_transaction_type(message.sys_flag, 0)
        problem = self._problem(message) or self._timer_problem(properties)
        if problem is None and len(encode_properties(properties)) > _HALF_PROPERTIES_BYTES_MAX:
            text = f"half a transaction may have {_HALF_PROPERTIES_BYTES_MAX} bytes of properties"
            problem = PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, problem=text)
        if problem is not None:
            done(problem)
        else:
            self._append(message, done)

    def put_as_it_is(self, message: StoredMessage, done: Done) -> None:
        """Store one message that is neither to be delayed nor changed, whatever its properties say."""
        problem = self._problem(message)
        if problem is not None:
            done(problem)
        else:
            self._append(message, done)

    def put_batch(self, batch: StoredMessage, pieces: Sequence[Sequence[BatchEntry]], done: Done) -> Steps[None]:
        """Store a batch: the members of a piece next to each other, all or none, with what they share; a piece a step.

        Other messages may come between two pieces. If one of them is refused, those before it are stored all the same.
        """
        problem = self._problem(batch)
        if problem is not None:
            done(problem)
            return
        try:
            put = yield from self._append_pieces(batch, pieces)
        except StoreError as error:
            done(_refused(error))
        else:
            self._wait(batch, put, done)

    def _append_pieces(self, batch: StoredMessage, pieces: Sequence[Sequence[BatchEntry]]) -> Steps[Appended]:
        for members in pieces[1:]:  # nothing of it is stored if one of them is bad; the first is looked at anyway
            self._store.check_members(members)
            yield
        places, size = self._store.append_members(batch, pieces[0])
        first_offset = batch.queue_offset
        for members in pieces[1:]:
            yield
            more_places, more_bytes = self._store.append_members(batch, members)
            places += more_places
            size += more_bytes
        batch.queue_offset = first_offset
        return Appended(places, size)

    def _problem(self, message: StoredMessage) -> PutResult | None:
        """What forbids storing the message, whatever its kind."""
        body_bytes_max = self._settings.value.store.max_message_size
        topic_bytes = len(message.topic.encode("utf-8", "replace"))
        if topic_bytes > (_RETRY_TOPIC_BYTES_MAX if is_retry_topic(message.topic) else TOPIC_LENGTH_MAX):
            return _illegal(f"the topic has {topic_bytes} bytes")
        if len(message.body) > body_bytes_max:
            return _illegal(f"the body has {len(message.body)} bytes; maxMessageSize allows {body_bytes_max}")
        if message.sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
            # Recovery, and Apache's broker, give such a record no place in its queue: the next one would be a gap away.
            return _illegal(f"the sysFlag {message.sys_flag} is that of half a transaction, which has no queue")
        if message.sys_flag & INNER_BATCH or property_names.INNER_NUM in message.properties:
            problem = self._inner_batch_problem(message)
            if problem is not None:
                return _illegal(problem)
        try:
            properties_bytes = len(encode_properties(message.properties))
        except LocalProtocolError as error:
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, problem=str(error))
        record_bytes = _FIXED_BYTES_MAX + len(message.body) + topic_bytes + properties_bytes
        if record_bytes > body_bytes_max + _RECORD_BYTES_OVER_BODY_MAX:
            return _illegal(f"the message has {record_bytes} bytes in all")
        return None

    def _inner_batch_problem(self, message: StoredMessage) -> str | None:
        """What is wrong with a batch that is to stay one record: its queue would count, and clients read, otherwise."""
        if not self._store.queues.is_batched(message.topic):
            return f"it is marked as a batch within one record, which {message.topic} does not keep: no BatchCQ queues"
        if not is_inner_batch(message.sys_flag):
            return f"the sysFlag {message.sys_flag} and the property INNER_NUM contradict each other"
        try:
            count = count_batch(message.body)
        except RemoteProtocolError as error:
            return str(error)
        if count > BATCH_MESSAGES_MAX:
            return f"{count} messages; a batch has at most {BATCH_MESSAGES_MAX}"
        if message.properties.get(property_names.INNER_NUM) != str(count) or not count:
            return f"{count} messages, but INNER_NUM={message.properties.get(property_names.INNER_NUM)}"
        return None

    def _delay(self, message: StoredMessage) -> PutResult | None:
        """Send a message that is to be delayed to the topic where such ones wait. Java: handleScheduleMessage."""
        level = int(message.properties.get(property_names.DELAY, "0"))
        if level <= 0 and not _has_timer(message.properties):
            return None
        if message.sys_flag & INNER_BATCH:  # where messages wait each has a place of its own
            return _illegal("a batch within one record cannot be delayed")
        if level <= 0:
            return self._set_timer(message)
        self._set_level(message, level)
        return None

    def _set_level(self, message: StoredMessage, level: int) -> None:
        """Send it to the queue of its delay level."""
        properties = message.properties
        for name in property_names.TIMERS:
            properties.pop(name, None)
        level = self._store.levels.capped(level)
        properties[property_names.DELAY] = str(level)
        properties[property_names.REAL_TOPIC] = message.topic
        properties[property_names.REAL_QID] = str(message.queue_id)
        message.topic, message.queue_id = SCHEDULE_TOPIC, level - 1

    def _timer_problem(self, properties: Mapping[str, str]) -> PutResult | None:
        """Why half a transaction could never be delivered at the moment that it is for."""
        if int(properties.get(property_names.DELAY, "0")) > 0 or not _has_timer(properties):
            return None
        deliver_ms = self._deliver_ms(properties, self._store.store_clock.now_ms())
        return deliver_ms if isinstance(deliver_ms, PutResult) else None

    def _set_timer(self, message: StoredMessage) -> PutResult | None:
        """Send a message for a later moment to the timer topic, with its slot. Java: transformTimerMessage."""
        timers, properties = self._timers, message.properties
        now_ms = self._store.store_clock.now_ms()
        deliver_ms = self._deliver_ms(properties, now_ms)
        if isinstance(deliver_ms, PutResult):
            return deliver_ms
        if deliver_ms <= now_ms:
            return None  # it is delivered at once
        assert timers is not None, "without timers it is refused"
        slot_ms = slot_before(deliver_ms, timers.precision_ms)
        if self._is_congested(timers.waiting_at(slot_ms)):
            problem = f"too many messages are for the same moment (timerCongestNumEachSlot): {deliver_ms}"
            return PutResult(PutStatus.WHEEL_TIMER_FLOW_CONTROL, problem=problem)
        properties[property_names.TIMER_OUT_MS] = str(slot_ms)
        properties[property_names.REAL_TOPIC] = message.topic
        properties[property_names.REAL_QID] = str(message.queue_id)
        if len(format_properties(properties).encode("utf-8", "replace")) > _TIMER_PROPERTIES_BYTES_MAX:
            problem = (
                f"a message that waits may have {_TIMER_PROPERTIES_BYTES_MAX} bytes of properties, its own included"
            )
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, problem=problem)
        message.topic, message.queue_id = WHEEL_TIMER_TOPIC, 0
        timers.expect()
        return None

    def _deliver_ms(self, properties: Mapping[str, str], now_ms: int) -> int | PutResult:
        """For which moment a message with such properties is, if it can be."""
        config = self._settings.value.store
        if self._timers is None:
            problem = "this broker keeps no messages for later (timerWheelEnable=false): use a delay level"
            return PutResult(PutStatus.WHEEL_TIMER_NOT_ENABLE, problem=problem)
        deliver_ms = asked_ms(properties, now_ms, self._store.store_clock.lead_ms())
        if isinstance(deliver_ms, str):
            return PutResult(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, problem=deliver_ms)
        if deliver_ms <= now_ms and property_names.TIMER_DEL_UNIQKEY in properties:
            problem = "a message cannot be called back once its time has come"
            return PutResult(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, problem=problem)
        if deliver_ms - now_ms > config.timer_max_delay_sec * 1000:
            problem = (
                f"it is for {(deliver_ms - now_ms) // 1000} s from now; timerMaxDelaySec allows "
                f"{config.timer_max_delay_sec}: send it later, or raise that"
            )
            return PutResult(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, problem=problem)
        return deliver_ms

    def _is_congested(self, waiting: int) -> bool:
        """Beyond its bound, a slot takes the less the fuller it is, and nothing more beyond twice as much."""
        bound = self._settings.value.store.timer_congest_num_each_slot
        return waiting > bound and self._random() * bound < waiting - bound

    def _append(self, message: StoredMessage, done: Done) -> None:
        try:
            put = self._store.append_whole(message)
        except StoreError as error:
            done(_refused(error))
        else:
            self._wait(message, put, done)

    def _wait(self, message: StoredMessage, put: Appended, done: Done) -> None:
        """Tell that it is stored, after the flush if the message is to wait for it."""
        store = self._store
        if store.is_sync and message.properties.get(property_names.WAIT, "true").lower() == "true":
            message.body = b""  # it is in the log; a request of a hundred bytes may have copied megabytes there
            self._flusher.wait(store.max_log_offset, lambda flushed: done(self._after_flush(flushed, put)))
        else:
            done(PutResult(PutStatus.PUT_OK, put.places, size=put.size))

    def _after_flush(self, flushed: Flushed, put: Appended) -> PutResult:
        if flushed is Flushed.OK:
            return PutResult(PutStatus.PUT_OK, put.places, size=put.size)
        if flushed is Flushed.TIMEOUT:
            return PutResult(PutStatus.FLUSH_DISK_TIMEOUT, put.places, NOT_YET_ON_DISK, put.size)
        return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, problem=f"the store is read-only: {self._store.problem}")


def _has_timer(properties: Mapping[str, str]) -> bool:
    """The message is for a moment, and no timer let it go already."""
    return property_names.TIMER_OUT_MS not in properties and any(name in properties for name in property_names.TIMERS)


def _illegal(problem: str) -> PutResult:
    return PutResult(PutStatus.MESSAGE_ILLEGAL, problem=problem)


def _refused(error: StoreError) -> PutResult:
    if isinstance(error, IllegalMessageError):
        return _illegal(str(error))
    return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, problem=str(error))
