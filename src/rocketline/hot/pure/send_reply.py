"""Writes the answers to sends, many at once, from where their messages were stored.

Nothing is written before the log has taken the messages: so an answer is made once, and says what has become of them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Final, NamedTuple, TypeAlias

from rocketline.wire.codes import CURRENT_VERSION, ResponseCode
from rocketline.wire.command import RESPONSE_FLAG

StoredSend: TypeAlias = "tuple[Sequence[int], int, int, int, str]"
"""Of a request whose messages are laid out: their log offsets, its opaque, the queue, the queue offset of the first
message, and the field with the unique key, empty if it has none."""

_PREFIX: Final = struct.Struct(">II")
_PREFIXES_MAX: Final = 4096
_END: Final = f',"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'


class ReplyTexts(NamedTuple):
    """What all answers of a broker have in common, as long as its settings stay what they are. All of it is ASCII."""

    id_prefix: str
    """How the ids of its messages begin: its address."""
    tail: str
    """What follows the fields of a single answer, up to the opaque."""


def reply_texts(store_host: bytes, region_id: str, trace_on: str) -> ReplyTexts | None:
    """None if the region cannot be written without a closer look."""
    region = encode_basestring(region_id)
    if not region.isascii():
        return None
    tail = f'"MSG_REGION":{region},"TRACE_ON":"{trace_on}"}},"flag":{RESPONSE_FLAG},"language":"PYTHON","opaque":'
    return ReplyTexts(store_host.hex().upper(), tail)


def transaction_field(unique_key: str) -> str:
    """How an answer gives the unique key back, which is ASCII."""
    return f'"transactionId":{encode_basestring(unique_key)},' if unique_key else ""


def stored_replies(
    texts: ReplyTexts, sends: Sequence[StoredSend], code: int = ResponseCode.SUCCESS, remark: str = ""
) -> bytes:
    """The frames that tell where messages were stored; with a code and a remark, that it did not end so well."""
    id_prefix, tail = texts
    head = f'{{"code":{code},"extFields":{{"msgId":"{id_prefix}'
    end = f',"remark":{encode_basestring_ascii(remark)}{_END}' if remark else _END
    return _frames(
        [
            f'{head}{_ids(id_prefix, places)}","queueId":"{queue_id}","queueOffset":"{queue_offset}",'
            f"{transaction}{tail}{opaque}{end}"
            for places, opaque, queue_id, queue_offset, transaction in sends
        ]
    )


def refusals(texts: ReplyTexts, opaques: Sequence[int], code: int, remark: str) -> bytes:
    """The frames that tell of messages which were not stored, and why."""
    end = f',"remark":{encode_basestring_ascii(remark)}{_END}'
    return _frames([f'{{"code":{code},"extFields":{{{texts.tail}{opaque}{end}' for opaque in opaques])


def _ids(id_prefix: str, places: Sequence[int]) -> str:
    """The ids of messages, without the prefix of the first."""
    if len(places) == 1:
        return f"{places[0]:016X}"
    return struct.pack(f">{len(places)}Q", *places).hex(",", 8).upper().replace(",", "," + id_prefix)


def _frames(headers: list[str]) -> bytes:
    """The frames of answers without a body. All text in them is ASCII, so a prefix may pose as text meanwhile."""
    if len(headers) == 1:
        return (_PREFIXES[len(headers[0])] + headers[0]).encode("latin-1")
    return "".join([_PREFIXES[len(header)] + header for header in headers]).encode("latin-1")


class _Prefixes(dict[int, str]):
    """What stands before a JSON header of so many bytes."""

    def __missing__(self, size: int) -> str:
        prefix = _PREFIX.pack(4 + size, size).decode("latin-1")
        if size < _PREFIXES_MAX:
            self[size] = prefix
        return prefix


_PREFIXES: Final = _Prefixes()
