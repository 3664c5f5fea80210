"""What a producer writes down of its messages if it traces. Java: SendMessageTraceHookImpl and its neighbours.

A `TracedCore` stands in for the `ProducerCore` of a producer that does not, whose messages pay nothing for it. Both
shells, and whatever sends without waiting, read each answer by `receipt`: so each attempt is noted that brought one.
Oneway messages have no answer, and no record. Java notes a batch as one message with the ids of all; here each has a
record of its own, which can be found by its id.
"""

from __future__ import annotations

from typing import Any, Final

from rocketline.client.producer.core import ProducerCore
from rocketline.client.producer.receipts import DEFAULT_REGION, SendReceipt, SendStatus, read_receipt
from rocketline.client.producer.send_request import SendRequest, SendRequests
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.namespaced import as_seen
from rocketline.client.trace.buffer import TraceBuffer
from rocketline.client.trace.records import (
    DELAYED,
    HALF,
    NORMAL,
    NOTHING,
    encode_ended,
    encode_recalled,
    encode_sent,
)
from rocketline.clock import Clock
from rocketline.model import property_names
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.model.sys_flags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from rocketline.wire.command import Command

_STATES: Final = {TRANSACTION_COMMIT: "COMMIT_MESSAGE", TRANSACTION_ROLLBACK: "ROLLBACK_MESSAGE", 0: "UNKNOW"}
"""Java's names, by what brokers are told."""
_SEND_OK: Final = SendStatus.SEND_OK


class SendTrace:
    """The records of one producer, for `buffer`. Any thread may call it."""

    def __init__(self, group: str, trace_topic: str, clock: Clock) -> None:
        """`group` is as the application knows it."""
        self._group, self._trace_topic, self._wall_ms = group, trace_topic, clock.wall_ms
        self.buffer = TraceBuffer()
        self._add = self.buffer.add

    def sent(self, request: SendRequest, receipt: SendReceipt, address: str) -> None:
        """An attempt brought a receipt. Nothing is noted if the broker wants nothing noted, nor of trace messages."""
        if not receipt.is_traced or request.topic == self._trace_topic:
            return
        if request.batch_id is not None:
            self._sent_batch(request, receipt, address)
            return
        message, message_id, sent_ms = request.messages[0], request.message_id, request.sent_ms
        tags, keys, kind, found_by = NOTHING, NOTHING, NORMAL, message_id
        if properties := message.properties:
            tags, keys, kind, found_by = _marks(properties, message_id)
        # What `encode_sent` makes, written out: each call more is felt by a caller who waits.
        text = (
            f"Pub\x01{sent_ms}\x01{receipt.region}\x01{self._group}\x01{message.topic}\x01{message_id}\x01{tags}"
            f"\x01{keys}\x01{address}\x01{len(request.body)}\x01{self._wall_ms() - sent_ms}\x01{kind}"
            f"\x01{receipt.offset_message_id}\x01{'true' if receipt.status is _SEND_OK else 'false'}\x02"
        )
        self._add(text, found_by)

    def _sent_batch(self, request: SendRequest, receipt: SendReceipt, address: str) -> None:
        sent_ms, region, is_ok = request.sent_ms, receipt.region, receipt.status is _SEND_OK
        cost_ms = self._wall_ms() - sent_ms
        ids, offset_ids = request.message_id.split(","), receipt.offset_message_id.split(",")
        if len(offset_ids) != len(ids):  # the broker keeps the batch in one piece
            offset_ids = offset_ids[:1] * len(ids)
        for message, message_id, offset_id in zip(request.messages, ids, offset_ids, strict=False):
            tags, keys, kind, found_by = _marks(message.properties, message_id)
            text = encode_sent(
                sent_ms, region, self._group, message.topic, message_id, tags, keys, address, len(message.body),
                cost_ms, kind, offset_id, is_ok,
            )  # fmt: skip
            self._add(text, found_by)

    def ended(self, message: Message, receipt: SendReceipt, address: str, state: int) -> None:
        """A broker is told what became of a transaction: `state` is what it is told."""
        if receipt.is_traced:
            ids = receipt.message_id, receipt.transaction_id or receipt.message_id
            self._note_ended(message, ids, DEFAULT_REGION, address, state, is_check=False)

    def answered(self, message: ReceivedMessage, transaction_id: str | None, address: str, state: int) -> None:
        """The same, because the broker asked."""
        properties = message.properties
        if properties.get(property_names.TRACE_ON) != "false":
            ids = message.message_id, transaction_id or message.message_id
            region = properties.get(property_names.MSG_REGION) or DEFAULT_REGION
            self._note_ended(message, ids, region, address, state, is_check=True)

    def _note_ended(
        self,
        message: Message | ReceivedMessage,
        ids: tuple[str, str],
        region: str,
        address: str,
        state: int,
        *,
        is_check: bool,
    ) -> None:
        if message.topic == self._trace_topic:
            return
        message_id, transaction_id = ids
        tags, keys, _, found_by = _marks(message.properties, message_id)
        text = encode_ended(
            self._wall_ms(), region, self._group, message.topic, message_id, tags, keys, address, transaction_id,
            _STATES[state], is_check,
        )  # fmt: skip
        self._add(text, found_by)

    def recalled(self, topic: str, message_id: str) -> None:
        """A timer message was called back."""
        text = encode_recalled(self._wall_ms(), DEFAULT_REGION, self._group, topic, message_id, is_ok=True)
        self._add(text, message_id)


def _marks(properties: dict[str, str], message_id: str) -> tuple[str, str, int, str]:
    """Tags, keys and kind of a message, and by what its record is found."""
    tags, keys = properties.get(property_names.TAGS) or NOTHING, properties.get(property_names.KEYS) or NOTHING
    kind = DELAYED if property_names.DELAY in properties else NORMAL
    if properties.get(property_names.TRAN_MSG) == "true":
        kind = HALF
    return tags, keys, kind, message_id if keys is NOTHING else f"{message_id} {keys}"


class _TracedRequests(SendRequests):
    """Requests that know when they were sent. (Called for each message: `super()` would take a tenth of a µs more.)"""

    def command(self, request: SendRequest, queue: MessageQueue, broker_name: str, born_ms: int) -> Command:
        request.sent_ms = born_ms
        return super().command(request, queue, broker_name, born_ms)

    def frame(
        self, request: SendRequest, queue: MessageQueue, broker_name: str, born_ms: int, opaque: int, flag: int = 0
    ) -> bytes:
        request.sent_ms = born_ms
        return SendRequests.frame(self, request, queue, broker_name, born_ms, opaque, flag)


class TracedCore(ProducerCore):
    """The core of a producer that traces."""

    requests_kind = _TracedRequests
    trace: SendTrace

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.trace = SendTrace(self.group, self.options.trace_topic, self.clock)
        self._sent = self.trace.sent

    def receipt(self, answer: Command, request: SendRequest, queue: MessageQueue, address: str) -> SendReceipt:
        # As without trace, and written out for the same reason.
        if self.namespace:
            queue = as_seen(self.namespace, queue)
        receipt = read_receipt(answer, request.message_id, request.batch_id, queue, address, request.code)
        self._sent(request, receipt, address)
        return receipt
