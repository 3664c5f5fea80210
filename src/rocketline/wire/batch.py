"""The body of a batch: several messages of one topic, one after the other.

    size (4) | magic 0 (4) | body CRC 0 (4) | flag (4) | body length (4), body | properties length (2), properties

The same layout is sent by producers and kept, as it is, in the body of an inner batch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model import property_names
from rocketline.model.message import Message
from rocketline.model.names import is_retry_topic
from rocketline.wire.properties import decode_properties, encode_properties

_FIXED = struct.Struct(">iiiii")
_SHORT = struct.Struct(">h")
ENTRY_BYTES_MIN = _FIXED.size + _SHORT.size
"""What a message takes beside its body and its properties."""
_SIZES = struct.Struct(">i8xii").unpack_from
_SHORT_AT = _SHORT.unpack_from

_NEVER_IN_A_BATCH = (property_names.DELAY, *property_names.TIMERS, property_names.TRAN_MSG)


BatchEntry: TypeAlias = tuple[int, bytes, bytes]
"""The flag, the body and the properties of one message."""


def encode_batch(messages: Sequence[Message]) -> bytes:
    """The body that carries `messages`. Raises `LocalProtocolError` for a batch that no broker would take.

    >>> [m.body for m in decode_batch(encode_batch([Message("T", b"a"), Message("T", b"bb")]), "T")]
    [b'a', b'bb']
    """
    _check_alike(messages)
    return b"".join([_encode_entry(message) for message in messages])


def _check_alike(messages: Sequence[Message]) -> None:
    if not messages:
        raise LocalProtocolError("a batch needs at least one message")
    first = messages[0]
    if is_retry_topic(first.topic):
        raise LocalProtocolError(f"{first.topic}: messages to a retry topic cannot be sent as a batch")
    for message in messages:
        if message.topic != first.topic:
            raise LocalProtocolError(f"a batch has one topic, not both {first.topic} and {message.topic}")
        if message.properties.get(property_names.WAIT) != first.properties.get(property_names.WAIT):
            raise LocalProtocolError(f"all messages of a batch have the same property {property_names.WAIT}")
        for name in _NEVER_IN_A_BATCH:
            if name in message.properties:
                raise LocalProtocolError(f"property {name}: such a message cannot be sent in a batch; send it alone")


def _encode_entry(message: Message) -> bytes:
    return encode_entry(message.flag, message.body, encode_properties(message.properties))


def encode_entry(flag: int, body: bytes, properties: bytes) -> bytes:
    """One message of a batch. Raises `LocalProtocolError` if a number does not fit."""
    size = ENTRY_BYTES_MIN + len(body) + len(properties)
    try:
        fixed = _FIXED.pack(size, 0, 0, flag, len(body))
    except struct.error:
        raise LocalProtocolError(f"flag {flag} or the size {size} does not fit 32 bits") from None
    return b"".join((fixed, body, _SHORT.pack(len(properties)), properties))


def decode_batch(data: bytes, topic: str) -> list[Message]:
    """The messages in a batch's body; `topic` is that of the request. Raises `RemoteProtocolError`.

    Magic and CRC are not looked at: every known writer leaves them zero, and no reader minds.
    """
    return [
        Message.of(topic, body, decode_properties(properties), flag) for flag, body, properties in split_batch(data)
    ]


def split_batch(data: bytes) -> list[BatchEntry]:
    """The same, with the properties as they came."""
    return split_some(data, 0, len(data))[0]


def split_some(data: bytes, at: int, count_max: int) -> tuple[list[BatchEntry], int]:
    """At most `count_max` of them, from the one that begins at `at`; and where the next begins."""
    entries: list[BatchEntry] = []
    size_of_all, fixed_bytes, least = len(data), _FIXED.size, ENTRY_BYTES_MIN
    while at < size_of_all and len(entries) < count_max:
        size, flag, body_bytes = _SIZES(data, at) if size_of_all - at >= least else (0, 0, 0)
        body_at, end = at + fixed_bytes, at + size
        body_end = body_at + body_bytes
        properties = data[body_end + 2 : end]
        # One look at all that may be wrong; `_entry_at` says what it is.
        if not 0 <= body_bytes <= size - least or end > size_of_all or len(properties) != _SHORT_AT(data, body_end)[0]:
            _entry_at(data, at)
        entries.append((flag, data[body_at:body_end], properties))
        at = end
    return entries, at


def count_batch(data: bytes) -> int:
    """How many messages a batch's body holds, without a look at their properties. Raises `RemoteProtocolError`."""
    count = at = 0
    while at < len(data):
        _, _, at = _entry_at(data, at)
        count += 1
    return count


def _entry_at(data: bytes, start: int) -> tuple[int, int, int]:
    """The flag of the message there, where its body ends, and where it ends itself."""
    left = len(data) - start
    if left < ENTRY_BYTES_MIN:
        raise RemoteProtocolError(f"batch: {left} bytes at {start} are too few for a message")
    size, _, _, flag, body_bytes = _FIXED.unpack_from(data, start)
    if not ENTRY_BYTES_MIN <= size <= left:
        raise RemoteProtocolError(f"batch: message of {size} bytes announced at {start}, {left} left")
    if not 0 <= body_bytes <= size - ENTRY_BYTES_MIN:
        raise RemoteProtocolError(f"batch: body of {body_bytes} bytes in the message of {size} at {start}")
    body_end = start + _FIXED.size + body_bytes
    (properties_bytes,) = _SHORT.unpack_from(data, body_end)
    if body_end + _SHORT.size + properties_bytes != start + size:
        raise RemoteProtocolError(f"batch: properties of {properties_bytes} bytes do not end the message at {start}")
    return flag, body_end, start + size
