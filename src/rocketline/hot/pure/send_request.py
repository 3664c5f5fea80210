"""Parses a SEND_MESSAGE_V2 (310) or SEND_BATCH_MESSAGE (320): its frame and the fields of its header."""

from __future__ import annotations

import struct
from typing import Final, Protocol

from rocketline.hot.pure.headers import HeaderReaders, make_readers
from rocketline.wire.command import RESPONSE_FLAG
from rocketline.wire.header_bounds import UNCOUNTED_BYTES_MAX

SEND_STARTS: Final = (b'{"code":310,', b'{"code":320,')
"""How the header of a send begins, as clients write it."""
_PREFIX: Final = struct.Struct(">II")


class SendFields(Protocol):
    """The extension fields of a plain send, by their letters on the wire. What is missing is empty."""

    b: str
    """Topic."""
    e: str
    """Queue id."""
    f: str
    """System flag."""
    g: str
    """Born time."""
    h: str
    """The application's flag."""
    i: str
    """Properties."""
    j: str
    """Reconsume times."""
    m: str
    """Whether it is a batch."""


class SendHeader(Protocol):
    """The header of a plain send."""

    extFields: SendFields  # noqa: N815  # the name on the wire
    flag: int
    opaque: int


_READERS: Final[HeaderReaders[SendHeader]] = make_readers("abcdefgh", "ijklmn", absent="")
read, read_plain = _READERS


def parse_send(data: bytes, start: int, body_bytes_max: int) -> tuple[int, SendHeader, bytes] | None:
    """Where the send that begins at `start` ends, its header and its body; None if it is unusual or cut short."""
    if len(data) - start < 8:
        return None
    size: int
    word: int
    size, word = _PREFIX.unpack_from(data, start)
    end, body_start = start + 4 + size, start + 8 + word
    # A word of more than the header's length says that the header is not JSON.
    if end > len(data) or word > UNCOUNTED_BYTES_MAX or not 0 < end - body_start <= body_bytes_max:
        return None
    header = read(data[start + 8 : body_start])
    if header is None or header.flag & RESPONSE_FLAG:
        return None
    return end, header, data[body_start:end]
