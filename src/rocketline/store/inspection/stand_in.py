"""Records that stand in for damaged ones, byte for byte as long, so that everybody who reads the log gets past them.

Apache's broker ends its recovery at the first record that it cannot read and drops whatever follows; so does any other
that walks over the log. Where topic, queue and queue offset of a damaged message are known, its place is taken by a
message that says so: queues stay without gaps, and consumers in any language get past it. Where they are not known, by
one of a transaction that was rolled back, which no broker puts into a queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple
from zlib import crc32

from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.model.sys_flags import TRANSACTION_ROLLBACK
from rocketline.wire.append_crc import APPEND_CRC_BYTES, format_append_crc
from rocketline.wire.message_codec import BLANK_BYTES_MIN, RECORD_BYTES_MIN, encode_blank, encode_record

DAMAGED: Final = "DAMAGED"
"""The property of a message that stands in for a damaged one."""
NOBODYS_TOPIC: Final = "rmq_sys_damaged"
_TEXT: Final = b"the message that stood here was damaged"
_RECORD_BYTES_MAX: Final = 4 << 20
"""Whoever recovers a log may read a record as a whole."""
_NOBODY: Final = HostAddress(bytes(4), 0)


class Lost(NamedTuple):
    """A message of which only this is known."""

    log_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    properties: Mapping[str, str]


class Filler(NamedTuple):
    """Bytes to be written to the log."""

    log_offset: int
    data: bytes


def spread(lost: Iterable[Lost]) -> list[Lost]:
    """The same in log order. Of those that share a place, because nobody knows theirs any more, each gets a part."""
    spread = list[Lost]()
    for _, group in groupby(sorted(lost, key=lambda one: one[:5]), key=lambda one: one.log_offset):
        shared = list(group)
        size = min(one.size for one in shared)
        part = max(size // len(shared), *(_least(one.topic) for one in shared))
        for number, one in enumerate(shared[: max(size // part, 1)]):
            spread.append(one._replace(log_offset=one.log_offset + number * part, size=min(part, size)))
    return spread


def _least(topic: str) -> int:
    return RECORD_BYTES_MIN + 1 + len(topic.encode("utf-8", "replace")) + APPEND_CRC_BYTES


def fill(
    begin: int, end: int, lost: Sequence[Lost], store_ms: int, *, is_to_file_end: bool, has_crc: bool
) -> list[Filler]:
    """What takes the place of the bytes from `begin` to `end`, which lie in one file of the log.

    `lost` are messages known to have been there, in order. `is_to_file_end`: a blank record may take what is left.
    """
    fillers = list[Filler]()
    position = begin
    for number, message in enumerate(lost):
        if message.log_offset < position or message.log_offset + message.size > end:
            continue
        fillers += _nobodys(position, message.log_offset, store_ms, has_crc=has_crc)
        following = lost[number + 1].log_offset if number + 1 < len(lost) else end
        is_last_of_file = is_to_file_end and following == end
        until = message.log_offset + message.size
        if not is_last_of_file and following - until < RECORD_BYTES_MIN + 1:
            until = following  # too short for a record of its own
        fillers.append(Filler(message.log_offset, _stand_in(message, until, store_ms, has_crc=has_crc)))
        position = until
    if is_to_file_end:
        return [*fillers, Filler(position, encode_blank(end - position))] if end - position >= BLANK_BYTES_MIN else []
    return fillers + _nobodys(position, end, store_ms, has_crc=has_crc)


def _stand_in(message: Lost, end: int, store_ms: int, *, has_crc: bool) -> bytes:
    """A message in that place, with as much of what it had as there is room for."""
    mark = {DAMAGED: "true"}
    for properties in ({**message.properties, **mark}, mark, dict[str, str]()):
        record = _sized(
            StoredMessage(
                message.topic,
                b"",
                properties,
                0,
                message.queue_id,
                QueueOffset(message.queue_offset),
                LogOffset(message.log_offset),
                0,
                store_ms,
                _NOBODY,
                store_ms,
                _NOBODY,
            ),
            end - message.log_offset,
            has_crc=has_crc,
        )
        if record is not None:
            return record
    raise AssertionError(f"{end - message.log_offset} bytes are too few for a record of {message.topic}")


def _nobodys(begin: int, end: int, store_ms: int, *, has_crc: bool) -> list[Filler]:
    fillers = list[Filler]()
    while begin < end:
        size = end - begin if end - begin <= 2 * _RECORD_BYTES_MAX else _RECORD_BYTES_MAX
        topic = NOBODYS_TOPIC[: max(size - RECORD_BYTES_MIN - (APPEND_CRC_BYTES if has_crc else 0), 1)]
        place = LogOffset(begin)
        nowhere = QueueOffset(0)
        record = _sized(
            StoredMessage(
                topic, b"", {}, 0, 0, nowhere, place, TRANSACTION_ROLLBACK, store_ms, _NOBODY, store_ms, _NOBODY
            ),
            size,
            has_crc=has_crc,
        )
        assert record is not None, f"{size} bytes at {begin} are too few for any record"
        fillers.append(Filler(begin, record))
        begin += size
    return fillers


def _sized(message: StoredMessage, size: int, *, has_crc: bool) -> bytes | None:
    """The record of `message` with a body that makes it so long; None if it is longer already."""
    room = size - len(encode_record(message)) - (APPEND_CRC_BYTES if has_crc else 0)
    if room < 0:
        return None
    message.body = _TEXT[:room].ljust(room)
    if not has_crc:
        return encode_record(message)
    # The sum covers the lengths, too: so the property is put in with any digits, and these are replaced.
    message.properties = dict(message.properties)
    name, value = format_append_crc(0)[:-1].decode().split("\x01")
    message.properties[name] = value
    summed = encode_record(message)[:-APPEND_CRC_BYTES]
    return summed + format_append_crc(crc32(summed) & 0x7FFFFFFF)
