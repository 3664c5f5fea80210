"""Parses an ACK_MESSAGE (200051): its frame and the fields of its header."""

from __future__ import annotations

from typing import Final, Protocol

from rocketline.hot.pure.headers import HeaderReaders, bodiless_parser, make_readers

ACK_START: Final = b'{"code":200051,'
"""How the header of an acknowledgement begins, as clients write it."""


class AckFields(Protocol):
    """The extension fields of an acknowledgement, by their names on the wire. What is missing is None."""

    consumerGroup: str  # noqa: N815
    topic: str
    queueId: str  # noqa: N815
    extraInfo: str  # noqa: N815
    offset: str
    liteTopic: str | None  # noqa: N815


class AckHeader(Protocol):
    """The header of an acknowledgement."""

    extFields: AckFields  # noqa: N815  # the name on the wire
    flag: int
    opaque: int


_OPTIONAL: Final = ("liteTopic",)
_REQUIRED: Final = tuple(name for name in AckFields.__annotations__ if name not in _OPTIONAL)
_READERS: Final[HeaderReaders[AckHeader]] = make_readers(_REQUIRED, _OPTIONAL, absent=None)
read, read_plain = _READERS
parse_ack: Final = bodiless_parser(read)
"""Where the acknowledgement that begins at `start` ends, and its header; None if it is unusual or cut short."""
