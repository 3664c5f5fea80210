"""Reading the header of a SEND_MESSAGE_V2 (310) for the hot path."""

from __future__ import annotations

from typing import Final, Protocol

from rocketline.broker.hot_header import HeaderReaders, make_readers


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
