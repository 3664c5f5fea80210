"""Stored messages: the records of a commit log, which brokers also deliver as they are, one after the other.

    size, magic, body CRC, queue id, flag (5 × 4)  |  queue offset, log offset (2 × 8)  |  sysFlag (4)  |  born time (8)
    born host (8 or 20)  |  store time (8)  |  store host (8 or 20)  |  reconsume times (4)  |  prepared offset (8)
    body length (4), body  |  topic length (1, or 2 in version 2), topic  |  properties length (2), properties

A host is an IP address of 4 or 16 bytes, as sysFlag says, and a port of 4. In a log file a blank record fills the end.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.sys_flags import (
    BORN_HOST_IS_IPV6,
    COMPRESSED,
    STORE_HOST_IS_IPV6,
    compression_type,
    is_compressed,
    is_inner_batch,
)
from rocketline.wire import record_layout
from rocketline.wire.batch import decode_batch
from rocketline.wire.compression import EXPANDED_BYTES_MAX, decompress
from rocketline.wire.properties import decode_properties, encode_properties
from rocketline.wire.record_layout import HOSTS

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194
"""Of the blank record: the file ends here, the log goes on in the next one."""

BLANK_BYTES_MIN = 8
RECORD_BYTES_MIN = 91
"""A record of version 1 with IPv4 hosts and no body, topic or properties."""

_TOPIC_BYTES_MAX_V1 = 127
_TOPIC_BYTES_MAX_V2 = 32767
_PORT_MAX = 65535

_PREFIX = record_layout.struct_of("size", "magic")
RECORD_HEAD = record_layout.struct_between("size", "born_ms")
RECORD_MIDDLES = tuple(record_layout.struct_with_ports("born_host", "body_bytes", hosts) for hosts in HOSTS)
_SHORT = struct.Struct(">h")


def body_crc(body: bytes) -> int:
    """The check sum of a body as stored, compressed or not. The sign bit is cut off, because Java has no unsigned int.

    >>> body_crc(b"123456789")
    1274296614
    """
    return zlib.crc32(body) & 0x7FFFFFFF


# --- walking over records


def scan_records(data: bytes | memoryview, start: int = 0) -> list[tuple[int, int]]:
    """Start and size of each record from `start` on, by their first eight bytes alone. Raises `RemoteProtocolError`.

    A blank record ends the walk: it takes the rest of a log file, whose bytes mean nothing.
    """
    spans: list[tuple[int, int]] = []
    while start < len(data):
        size, magic = _record_prefix(data, start)
        if magic == MAGIC_BLANK:
            break
        spans.append((start, size))
        start += size
    return spans


def is_blank_record(data: bytes | memoryview, start: int = 0) -> bool:
    """A blank record begins at `start`."""
    return len(data) - start >= BLANK_BYTES_MIN and _PREFIX.unpack_from(data, start)[1] == MAGIC_BLANK


def _record_prefix(data: bytes | memoryview, start: int) -> tuple[int, int]:
    left = len(data) - start
    if left < _PREFIX.size:
        raise RemoteProtocolError(f"stored message at {start}: {left} bytes are too few")
    size, magic = _PREFIX.unpack_from(data, start)
    if magic not in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK):
        raise RemoteProtocolError(f"stored message at {start}: magic {magic:#010x} is none of a record")
    if not (BLANK_BYTES_MIN if magic == MAGIC_BLANK else RECORD_BYTES_MIN) <= size <= left:
        raise RemoteProtocolError(f"stored message at {start}: {size} bytes announced, {left} left")
    return size, magic


# --- decoding


def decode_messages(
    data: bytes | memoryview, *, check_crc: bool = False, expanded_bytes_max: int = EXPANDED_BYTES_MAX
) -> list[StoredMessage]:
    """What an application sees of a pull's body: bodies expanded, inner batches taken apart.

    `expanded_bytes_max` bounds all compressed bodies of `data` together. Raises `RemoteProtocolError`, and
    `MissingExtraError` for a body whose compression is not installed.
    """
    messages: list[StoredMessage] = []
    at = 0
    while at < len(data):
        stored, at = _decode_record(data, at, check_crc, is_as_stored=False)
        message = expanded(stored, expanded_bytes_max)
        if message is not stored:
            expanded_bytes_max -= len(message.body)
        messages += unwrapped(message) if is_inner_batch(message.sys_flag) else (message,)
    return messages


def decode_records(data: bytes | memoryview, *, check_crc: bool = False) -> list[StoredMessage]:
    """Every record of `data` as it is stored, properties without a value included: encoding gives the same bytes.

    Raises `RemoteProtocolError` for anything else, a blank record too.
    """
    messages: list[StoredMessage] = []
    at = 0
    while at < len(data):
        message, at = _decode_record(data, at, check_crc, is_as_stored=True)
        messages.append(message)
    return messages


def decode_record(data: bytes | memoryview, start: int = 0, *, check_crc: bool = False) -> StoredMessage:
    """The record that begins at `start`, as it is stored; more may follow. Raises `RemoteProtocolError`."""
    return _decode_record(data, start, check_crc, is_as_stored=True)[0]


def _decode_record(
    data: bytes | memoryview, start: int, check_crc: bool, is_as_stored: bool
) -> tuple[StoredMessage, int]:
    size, magic = _record_prefix(data, start)
    if magic == MAGIC_BLANK:
        raise RemoteProtocolError(f"stored message at {start}: a blank record, which is never delivered")
    _, _, crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_ms = RECORD_HEAD.unpack_from(data, start)
    middle = RECORD_MIDDLES[sys_flag >> 4 & 3]
    end, body_start = start + size, start + RECORD_HEAD.size + middle.size
    if body_start > end:
        raise RemoteProtocolError(f"stored message at {start}: {size} bytes are too few for its IPv6 hosts")
    born_ip, born_port, store_ms, store_ip, store_port, reconsume_times, prepared, body_bytes = middle.unpack_from(
        data, start + RECORD_HEAD.size
    )
    if not (0 <= born_port <= _PORT_MAX and 0 <= store_port <= _PORT_MAX):
        raise RemoteProtocolError(f"stored message at {start}: port {born_port} or {store_port} does not exist")
    body_end = body_start + body_bytes
    topic_start, topic_end = topic_span(data, start, magic, body_start, body_end, end)
    body = bytes(data[body_start:body_end])
    if check_crc and body_crc(body) != crc:
        raise RemoteProtocolError(f"stored message at {start}: its body's CRC is {body_crc(body)}, {crc} was stored")
    message = StoredMessage(
        str(data[topic_start:topic_end], "utf-8", "replace"),
        body,
        decode_properties(data[topic_end + 2 : end], keep_empty=is_as_stored),
        flag,
        queue_id,
        QueueOffset(queue_offset),
        LogOffset(log_offset),
        sys_flag,
        born_ms,
        HostAddress(born_ip, born_port),
        store_ms,
        HostAddress(store_ip, store_port),
        reconsume_times,
        LogOffset(prepared),
        1 if magic == MAGIC_V1 else 2,
    )
    return message, end


def topic_span(
    data: bytes | memoryview, start: int, magic: int, body_start: int, body_end: int, end: int
) -> tuple[int, int]:
    """Where the topic lies, after all three lengths were found to fill the record exactly."""
    topic_start = body_end + (1 if magic == MAGIC_V1 else 2)
    if not body_start <= body_end <= topic_start <= end - 2:
        raise RemoteProtocolError(f"stored message at {start}: a body of {body_end - body_start} bytes does not fit")
    topic_bytes_max = _TOPIC_BYTES_MAX_V1 if magic == MAGIC_V1 else _TOPIC_BYTES_MAX_V2
    topic_bytes = int.from_bytes(data[body_end:topic_start], "big")
    topic_end = topic_start + topic_bytes
    if topic_bytes > topic_bytes_max or topic_end > end - 2:
        raise RemoteProtocolError(f"stored message at {start}: a topic of {topic_bytes} bytes does not fit")
    (properties_bytes,) = _SHORT.unpack_from(data, topic_end)
    if topic_end + 2 + properties_bytes != end:
        raise RemoteProtocolError(
            f"stored message at {start}: properties of {properties_bytes} bytes where {end - topic_end - 2} are left"
        )
    return topic_start, topic_end


def expanded(message: StoredMessage, expanded_bytes_max: int = EXPANDED_BYTES_MAX) -> StoredMessage:
    """`message` with its body expanded and the flag that said so cleared; itself if it was not compressed.

    Like Java we leave an empty body alone and keep the bits that name the type.
    """
    if not (is_compressed(message.sys_flag) and message.body):
        return message
    if is_inner_batch(message.sys_flag):
        raise RemoteProtocolError(f"stored message at {message.log_offset}: no writer compresses an inner batch")
    body = decompress(message.body, compression_type(message.sys_flag), expanded_bytes_max)
    return replace(message, body=body, sys_flag=message.sys_flag & ~COMPRESSED)


def unwrapped(message: StoredMessage) -> list[StoredMessage]:
    """The messages inside an inner batch: flag, body and properties are theirs, the rest is the batch's.

    Their queue offsets count up from that of the batch.
    """
    return [
        replace(
            message,
            body=inner.body,
            properties=inner.properties,
            flag=inner.flag,
            queue_offset=QueueOffset(message.queue_offset + index),
        )
        for index, inner in enumerate(decode_batch(message.body, message.topic))
    ]


# --- encoding


def encode_record(message: StoredMessage) -> bytes:
    """The record of `message`; its CRC and the flags of its hosts are set here. Raises `LocalProtocolError`.

    A topic of more than 127 bytes makes it version 2, whatever the message says.
    """
    topic = message.topic.encode("utf-8", "replace")
    if len(topic) > _TOPIC_BYTES_MAX_V2:
        raise LocalProtocolError(f"topic of {len(topic)} bytes: a record carries at most {_TOPIC_BYTES_MAX_V2}")
    is_v1 = message.version == 1 and len(topic) <= _TOPIC_BYTES_MAX_V1
    properties = encode_properties(message.properties)
    tail = b"".join((
        message.body,
        len(topic).to_bytes(1 if is_v1 else 2, "big"),
        topic,
        _SHORT.pack(len(properties)),
        properties,
    ))  # fmt: skip
    try:
        return _encode_fixed(message, MAGIC_V1 if is_v1 else MAGIC_V2, len(tail)) + tail
    except struct.error as error:
        raise LocalProtocolError(
            f"a field of the message for {message.topic} does not fit its place: {error}"
        ) from None


def _encode_fixed(message: StoredMessage, magic: int, tail_bytes: int) -> bytes:
    born, store = message.born_host, message.store_host
    for host in (born, store):
        if len(host.ip) not in (4, 16) or not 0 <= host.port <= _PORT_MAX:
            raise LocalProtocolError(f"a record cannot carry the host {host.ip.hex()} with port {host.port}")
    sys_flag = message.sys_flag & ~(BORN_HOST_IS_IPV6 | STORE_HOST_IS_IPV6)
    sys_flag |= BORN_HOST_IS_IPV6 * born.is_ipv6 | STORE_HOST_IS_IPV6 * store.is_ipv6
    middle = RECORD_MIDDLES[sys_flag >> 4 & 3]
    head = RECORD_HEAD.pack(
        RECORD_HEAD.size + middle.size + tail_bytes,
        magic,
        body_crc(message.body),
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.log_offset,
        sys_flag,
        message.born_ms,
    )
    return head + middle.pack(
        born.ip,
        born.port,
        message.store_ms,
        store.ip,
        store.port,
        message.reconsume_times,
        message.prepared_log_offset,
        len(message.body),
    )


def encode_blank(size: int) -> bytes:
    """The first bytes of the blank record that fills the last `size` bytes of a log file."""
    assert size >= BLANK_BYTES_MIN
    return _PREFIX.pack(size, MAGIC_BLANK)
