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
message, and the unique key, in ASCII, empty if it has none."""

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


def stored_replies(
    texts: ReplyTexts, sends: Sequence[StoredSend], code: int = ResponseCode.SUCCESS, remark: str = ""
) -> list[str]:
    """The frames that tell where messages were stored; with a code and a remark, that it did not end so well.

    They are text whose characters stand for bytes (`encoded`), since they are put together from texts.
    """
    id_prefix, tail = texts
    head = f'{{"code":{code},"extFields":{{"msgId":"{id_prefix}'
    end = f',"remark":{encode_basestring_ascii(remark)}{_END}' if remark else _END
    frames = []
    for places, opaque, queue_id, queue_offset, key in sends:
        ids = f"{places[0]:016X}" if len(places) == 1 else _more_ids(id_prefix, places)
        unique_key = f'"transactionId":{encode_basestring(key)},' if key else ""
        header = f'{head}{ids}","queueId":"{queue_id}","queueOffset":"{queue_offset}",{unique_key}{tail}{opaque}{end}'
        frames.append(_PREFIXES[len(header)] + header)
    return frames


def refusals(texts: ReplyTexts, opaques: Sequence[int], code: int, remark: str) -> list[str]:
    """The frames that tell of messages which were not stored, and why."""
    end = f',"remark":{encode_basestring_ascii(remark)}{_END}'
    headers = [f'{{"code":{code},"extFields":{{{texts.tail}{opaque}{end}' for opaque in opaques]
    return [_PREFIXES[len(header)] + header for header in headers]


def encoded(frames: list[str]) -> bytes:
    """The bytes of frames. All text in them is ASCII, and a prefix poses as text meanwhile."""
    return (frames[0] if len(frames) == 1 else "".join(frames)).encode("latin-1")


def _more_ids(id_prefix: str, places: Sequence[int]) -> str:
    """The ids of a batch's messages, without the prefix of the first."""
    return struct.pack(f">{len(places)}Q", *places).hex(",", 8).upper().replace(",", "," + id_prefix)


class _Prefixes(dict[int, str]):
    """What stands before a JSON header of so many bytes."""

    def __missing__(self, size: int) -> str:
        prefix = _PREFIX.pack(4 + size, size).decode("latin-1")
        if size < _PREFIXES_MAX:
            self[size] = prefix
        return prefix


_PREFIXES: Final = _Prefixes()
