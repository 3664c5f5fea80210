"""Messages as consumers see them: one pull's bytes, indexed at once, and everything else read when it is touched.

Most consumers look at the body and perhaps the tags; decoding all of a record costs several times as much as finding
where it begins. So a message keeps the bytes of its pull, and its place in them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from rocketline.errors import RemoteProtocolError
from rocketline.model import property_names
from rocketline.model.ids import HostAddress, LogOffset, OffsetMessageId, QueueOffset
from rocketline.model.queue import MessageQueue
from rocketline.model.sys_flags import COMPRESSED, compression_type, is_inner_batch
from rocketline.wire.batch import decode_batch
from rocketline.wire.compression import decompress
from rocketline.wire.message_codec import (
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    decode_record,
    topic_span,
)
from rocketline.wire.namespaces import without_namespace
from rocketline.wire.properties import decode_properties
from rocketline.wire.record_layout import HOSTS, struct_of, struct_with_ports

_INDEX = struct_of("size", "magic", "body_crc", "queue_offset", "sys_flag", "body_bytes")
"""The last only if both hosts are IPv4, as `sys_flag` tells."""
_PREFIX = struct_of("size", "magic")
_LENGTH = struct.Struct(">i")
# All that has a fixed length, for each value of the two bits of sysFlag that tell the hosts' lengths; then its places.
_FIXED = tuple(struct_with_ports("size", "body_bytes", hosts) for hosts in HOSTS)
_QUEUE_ID, _FLAG, _LOG_OFFSET, _BORN_MS, _BORN_HOST, _STORE_MS, _STORE_HOST = 3, 4, 6, 8, 9, 11, 12
_RECONSUME_TIMES, _PREPARED_LOG_OFFSET = 14, 15
_BODY_AT = tuple(fixed.size for fixed in _FIXED)
"""Where in a record its body begins."""
_BODY_AT_IPV4 = _BODY_AT[0]
_UNUSUAL = 0xF0
"""The flags of IPv6 hosts and inner batches."""
_PORT_MAX = 65535


@dataclass(slots=True)
class PullOrigin:
    """What all messages of one pull have in common."""

    data: bytes
    queue: MessageQueue | None = None
    """The queue that was asked; None where messages of several were, as in a query by key."""
    broker_name: str = ""
    namespace: str = ""
    """Taken off the topics that the application sees."""
    min_offset: int = 0
    max_offset: int = 0


class ReceivedMessage:
    """A message that a broker delivered. Java: MessageExt.

    Whatever is asked for is read from the record then, and kept. A record that is broken inside (its body's CRC, its
    compression, its lengths) raises `RemoteProtocolError` when that part is touched: the messages around it are fine,
    and must not wait for it.

    A message holds on to the bytes of the pull that brought it, some hundred kilobytes: keep `body`, not messages.
    """

    __slots__ = (
        "_body",
        "_body_crc",
        "_body_start",
        "_fixed_fields",
        "_origin",
        "_properties",
        "_reconsume_times",
        "_start",
        "_sys_flag",
        "_topic",
        "body_bytes",
        "queue_offset",
    )

    def __init__(
        self,
        origin: PullOrigin,
        start: int,
        body_start: int,
        body_bytes: int,
        body_crc: int,
        queue_offset: QueueOffset,
        sys_flag: int,
    ) -> None:
        self._origin = origin
        self._start = start
        self._body_start = body_start
        self._body_crc = body_crc
        self._sys_flag = sys_flag
        self.queue_offset = queue_offset
        """Its index in its queue."""
        self.body_bytes = body_bytes
        """The length of the body as it is stored."""
        self._body: bytes | None = None
        self._properties: dict[str, str] | None = None
        self._topic: str | None = None
        self._fixed_fields: tuple[Any, ...] | None = None
        self._reconsume_times: int | None = None

    def __repr__(self) -> str:
        return f"<ReceivedMessage {self.message_id} of {self.queue} at {self.queue_offset}, {self.body_bytes} bytes>"

    # --- what the producer sent

    @property
    def body(self) -> bytes:
        """What was sent, expanded if it was compressed. Raises `RemoteProtocolError`, `MissingExtraError`."""
        body = self._body
        if body is None:
            start = self._body_start
            body = self._origin.data[start : start + self.body_bytes]
            if crc32(body) & 0x7FFFFFFF != self._body_crc:
                raise RemoteProtocolError(f"{self._place}: the body's CRC is not the one that was stored with it")
            if self._sys_flag & COMPRESSED and body:
                body = decompress(body, compression_type(self._sys_flag))
            self._body = body
        return body

    @property
    def stored_body(self) -> bytes:
        """The body as the broker has it: compressed or not, and unchecked."""
        if self._body is not None and not self._sys_flag & COMPRESSED:
            return self._body
        return self._origin.data[self._body_start : self._body_start + self.body_bytes]

    @property
    def topic(self) -> str:
        """The topic that it was sent to, without the client's namespace."""
        if self._topic is None:
            start, end, _ = self._topic_span()
            topic = str(self._origin.data[start:end], "utf-8", "replace")
            namespace = self._origin.namespace
            self._topic = without_namespace(topic, namespace) if namespace else topic
        return self._topic

    @topic.setter
    def topic(self, topic: str) -> None:
        """For consumers: what comes out of a retry topic gets the topic back that it was first sent to."""
        self._topic = topic

    @property
    def properties(self) -> dict[str, str]:
        """The application's and RocketMQ's own, by their names in `property_names`."""
        if self._properties is None:
            _, topic_end, end = self._topic_span()
            self._properties = decode_properties(self._origin.data[topic_end + 2 : end])
        return self._properties

    @property
    def tags(self) -> str | None:
        return self.properties.get(property_names.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """What the message can be found by in the broker's index."""
        return tuple(self.properties.get(property_names.KEYS, "").split())

    @property
    def flag(self) -> int:
        """The application's own number."""
        flag: int = self._fixed[_FLAG]
        return flag

    @property
    def delay_level(self) -> int:
        """The level that it was sent with; 0 if it was not delayed."""
        text = self.properties.get(property_names.DELAY, "")
        return int(text) if text.isascii() and text.isdigit() else 0

    @property
    def born_ms(self) -> int:
        """When the producer made it, by the producer's clock."""
        born_ms: int = self._fixed[_BORN_MS]
        return born_ms

    @property
    def born_host(self) -> HostAddress:
        """Whom the broker had it from."""
        return self._host(_BORN_HOST)

    # --- its names

    @property
    def message_id(self) -> str:
        """The id that the producer gave it, or else the broker's. Java: getMsgId."""
        return self.properties.get(property_names.UNIQ_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The broker's id: where it is stored."""
        return str(OffsetMessageId(self.store_host, self.log_offset))

    @property
    def transaction_id(self) -> str | None:
        """Of a message that was sent in a transaction: the id that its producer knows it by."""
        is_transactional = self.properties.get(property_names.TRAN_MSG, "").lower() == "true"
        return self.properties.get(property_names.UNIQ_KEY) if is_transactional else None

    # --- where and how it is stored

    @property
    def queue(self) -> MessageQueue:
        """The queue that it was read from."""
        origin = self._origin
        return origin.queue or MessageQueue(self.topic, origin.broker_name, self._fixed[_QUEUE_ID])

    @property
    def log_offset(self) -> LogOffset:
        """The first byte of its record in the broker's log. Java: getCommitLogOffset."""
        return LogOffset(self._fixed[_LOG_OFFSET])

    @property
    def sys_flag(self) -> int:
        """The bits of `sys_flags`; that of compression is cleared, because `body` is not compressed."""
        return self._sys_flag & ~COMPRESSED if self.body_bytes else self._sys_flag

    @property
    def store_ms(self) -> int:
        """When the broker stored it, by the broker's clock."""
        store_ms: int = self._fixed[_STORE_MS]
        return store_ms

    @property
    def store_host(self) -> HostAddress:
        """The broker that stored it."""
        return self._host(_STORE_HOST)

    @property
    def reconsume_times(self) -> int:
        """How often consuming it has failed before."""
        if self._reconsume_times is None:
            self._reconsume_times = self._fixed[_RECONSUME_TIMES]
        return self._reconsume_times

    @reconsume_times.setter
    def reconsume_times(self, times: int) -> None:
        """For consumers: some failures are counted by the client alone."""
        self._reconsume_times = times

    @property
    def prepared_log_offset(self) -> LogOffset:
        """Of a committed transaction: where its half message lies. Java: getPreparedTransactionOffset."""
        return LogOffset(self._fixed[_PREPARED_LOG_OFFSET])

    @property
    def queue_min_offset(self) -> int:
        """The least offset that its queue had when it was pulled. Java: the property MIN_OFFSET."""
        return self._origin.min_offset

    @property
    def queue_max_offset(self) -> int:
        """The next offset that its queue had to give when it was pulled. Java: the property MAX_OFFSET."""
        return self._origin.max_offset

    # --- reading the record

    @property
    def _fixed(self) -> tuple[Any, ...]:
        fields = self._fixed_fields
        if fields is None:
            fixed = _FIXED[self._sys_flag >> 4 & 3]
            fields = self._fixed_fields = fixed.unpack_from(self._origin.data, self._start)
        return fields

    def _topic_span(self) -> tuple[int, int, int]:
        """Where the topic begins and ends, and where the record does."""
        data, start = self._origin.data, self._start
        size, magic = _PREFIX.unpack_from(data, start)
        body_start, end = self._body_start, start + size
        return *topic_span(data, start, magic, body_start, body_start + self.body_bytes, end), end

    def _host(self, place: int) -> HostAddress:
        ip, port = self._fixed[place : place + 2]
        if not 0 <= port <= _PORT_MAX:
            raise RemoteProtocolError(f"{self._place}: port {port} does not exist")
        return HostAddress(ip, port)

    @property
    def _place(self) -> str:
        """The message, for errors: named by what cannot be broken any more."""
        queue = self._origin.queue
        return f"stored message {self.queue_offset} of {queue or 'a queue'}"


def decode_messages(
    data: bytes,
    queue: MessageQueue | None = None,
    *,
    broker_name: str = "",
    namespace: str = "",
    min_offset: int = 0,
    max_offset: int = 0,
    offset_delta: int = 0,
    first_offset: int = 0,
) -> list[ReceivedMessage]:
    """The messages in the body of an answer, in order; inner batches are taken apart.

    `offset_delta` is added to each queue offset (static topics). Members of an inner batch before `first_offset` are
    left out: a pull that begins inside a batch gets all of it. Raises `RemoteProtocolError` if the records do not
    follow each other to the end of `data`.
    """
    origin = PullOrigin(data, queue, broker_name, namespace, min_offset, max_offset)
    messages: list[ReceivedMessage] = []
    append, unpack, end, at = messages.append, _INDEX.unpack_from, len(data), 0
    while at < end:
        if end - at < RECORD_BYTES_MIN:
            raise RemoteProtocolError(f"stored message at {at}: {end - at} bytes are too few")
        size, magic, body_crc, queue_offset, sys_flag, body_bytes = unpack(data, at)
        is_usual = magic == MAGIC_V1 and not sys_flag & _UNUSUAL
        if is_usual and 0 <= body_bytes <= size - RECORD_BYTES_MIN and size <= end - at:
            append(ReceivedMessage(origin, at, at + _BODY_AT_IPV4, body_bytes, body_crc, queue_offset, sys_flag))
        else:
            messages += _decode_unusual(origin, at, first_offset - offset_delta)
        at += size
    if offset_delta:
        for message in messages:
            message.queue_offset = QueueOffset(message.queue_offset + offset_delta)
    return messages


def _decode_unusual(origin: PullOrigin, at: int, first_offset: int) -> list[ReceivedMessage]:
    """The same for one record of any kind: version 2, IPv6 hosts, inner batches; or broken."""
    data = origin.data
    size, magic, body_crc, queue_offset, sys_flag, _ = _INDEX.unpack_from(data, at)
    body_start = at + _BODY_AT[sys_flag >> 4 & 3]
    room_bytes = size - RECORD_BYTES_MIN + at + _BODY_AT_IPV4 - body_start
    is_whole = magic in (MAGIC_V1, MAGIC_V2) and room_bytes >= 0 and size <= len(data) - at
    body_bytes = _LENGTH.unpack_from(data, body_start - _LENGTH.size)[0] if is_whole else -1
    if not 0 <= body_bytes <= room_bytes:
        decode_record(data, at)  # raises the error that says what is wrong
        raise AssertionError(f"the record at {at} was found broken by one decoder and sound by the other")
    message = ReceivedMessage(origin, at, body_start, body_bytes, body_crc, queue_offset, sys_flag)
    if not is_inner_batch(sys_flag):
        return [message]
    return [inner for inner in _unwrapped(message) if inner.queue_offset >= first_offset]


def _unwrapped(batch: ReceivedMessage) -> list[ReceivedMessage]:
    """The messages inside an inner batch: flag, body and properties are theirs, the rest is the batch's."""
    if batch._sys_flag & COMPRESSED:
        raise RemoteProtocolError(f"{batch._place}: no writer compresses an inner batch")
    messages = []
    for index, inner in enumerate(decode_batch(batch.body, "")):
        offset = QueueOffset(batch.queue_offset + index)
        message = ReceivedMessage(
            batch._origin, batch._start, batch._body_start, len(inner.body), 0, offset, batch._sys_flag
        )
        message._topic, message._body, message._properties = batch.topic, inner.body, inner.properties
        message._fixed_fields = (*batch._fixed[:_FLAG], inner.flag, *batch._fixed[_FLAG + 1 :])
        messages.append(message)
    return messages
