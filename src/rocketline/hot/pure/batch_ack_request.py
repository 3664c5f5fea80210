"""Parses a BATCH_ACK_MESSAGE (200151): its frame, and what its body says in the names that clients write."""

from __future__ import annotations

import binascii
import json
import re
import struct
from collections.abc import Callable
from typing import Any, Final, Protocol

from rocketline.hot.pure.headers import HeaderReaders, make_readers
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG

BATCH_ACK_START: Final = b'{"code":200151,'
"""How the header of such a request begins, as clients write it."""
_FRAME_BYTES_MAX: Final = 4 * 1024
_BITS_TEXT_MAX: Final = 64
"""Messages of a pop are mostly neighbours."""
_PREFIX: Final = struct.Struct(">II")
_is_base64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?").fullmatch


class AckEntry(Protocol):
    """Acknowledgements of one checkpoint, by their names on the wire."""

    b: str
    """A bit for each message from `so` on, in base64."""
    c: str
    """Group."""
    it: int
    """Invisible time."""
    pt: int
    """Time of the pop."""
    q: int
    """Queue."""
    r: str
    """Kind of topic."""
    rq: int
    """Revive queue."""
    so: int
    """Start of the checkpoint."""
    t: str
    """Topic."""


class BatchAcks(Protocol):
    """The body."""

    acks: list[AckEntry]
    brokerName: str  # noqa: N815  # the name on the wire


class _Header(Protocol):
    flag: int
    opaque: int


_TEXTS: Final = ("b", "c", "r", "t")
_NUMBERS: Final = ("it", "pt", "q", "rq", "so")
_NAMES: Final = (*_TEXTS, *_NUMBERS)
_HEADERS: Final[HeaderReaders[_Header]] = make_readers((), (), absent=None)


def _read_plain(data: bytes) -> BatchAcks | None:
    """A body that has these fields, each of its type, and no others."""
    entry_class: Any = type("Entry", (), {"__slots__": _NAMES})
    body_class: Any = type("Body", (), {"__slots__": ("acks", "brokerName")})
    try:
        given = json.loads(data.decode())
        if given.keys() != {"acks", "brokerName"} or type(given["acks"]) is not list:
            return None
        body: BatchAcks = body_class()
        body.acks, body.brokerName = [], given["brokerName"]
        texts = [body.brokerName]
        for said in given["acks"]:
            if said.keys() != set(_NAMES) or {type(said[name]) for name in _NUMBERS} != {int}:
                return None
            texts += [said[name] for name in _TEXTS]
            entry = entry_class()
            for name in _NAMES:
                setattr(entry, name, said[name])
            body.acks.append(entry)
        for text in texts:
            str.encode(text)  # raises if it is no text, or holds half a pair
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return body


def _fast_reader() -> Callable[[bytes], BatchAcks | None] | None:
    try:
        import msgspec
    except ImportError:
        return None
    members = [*((name, str) for name in _TEXTS), *((name, int) for name in _NUMBERS)]
    entry = msgspec.defstruct("Entry", members, gc=False, forbid_unknown_fields=True)
    members = [("acks", list[entry]), ("brokerName", str)]  # type: ignore[valid-type]
    decode = msgspec.json.Decoder(msgspec.defstruct("Body", members, forbid_unknown_fields=True)).decode
    refusals = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

    def read(data: bytes) -> Any:
        try:
            return decode(data)
        except refusals:
            return None

    return read


read_plain: Final = _read_plain
read: Final = _fast_reader() or _read_plain


def parse_batch_ack(data: bytes, start: int) -> tuple[int, int, BatchAcks] | None:
    """Where the request that begins at `start` ends, its opaque and its body; None if it is unusual or cut short."""
    if len(data) - start < 8:
        return None
    size, word = _PREFIX.unpack_from(data, start)
    end, body_start = start + 4 + size, start + 8 + word
    # A word of more than the header's length says that the header is not JSON.
    if end > len(data) or size > _FRAME_BYTES_MAX or word + 4 >= size:
        return None
    header = _HEADERS.read(data[start + 8 : body_start])
    if header is None or header.flag & (ONEWAY_FLAG | RESPONSE_FLAG):
        return None
    body = read(data[body_start:end])
    return (end, header.opaque, body) if body is not None else None


def bit_set(bits: str) -> bytes | None:
    """What the text of a bit set says; None if it is written otherwise than clients do, or longer than usual."""
    return binascii.a2b_base64(bits) if len(bits) <= _BITS_TEXT_MAX and _is_base64(bits) else None
