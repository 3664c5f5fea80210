"""Parses a PULL_MESSAGE (11): its frame and the fields of its header."""

from __future__ import annotations

import struct
from typing import Final, Protocol

from rocketline.hot.pure.headers import HeaderReaders, make_readers
from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG

PULL_START: Final = b'{"code":11,'
"""How the header of a pull begins, as clients write it."""
_FRAME_BYTES_MAX: Final = 4 * 1024
"""A pull has no body. What is longer takes so long to read that it had better wait for its turn."""
_PREFIX: Final = struct.Struct(">II")


class PullFields(Protocol):
    """The extension fields of a pull, by their names on the wire. What is missing is None."""

    consumerGroup: str | None  # noqa: N815
    topic: str | None
    queueId: str | None  # noqa: N815
    queueOffset: str | None  # noqa: N815
    maxMsgNums: str | None  # noqa: N815
    sysFlag: str | None  # noqa: N815
    commitOffset: str | None  # noqa: N815
    suspendTimeoutMillis: str | None  # noqa: N815
    subscription: str | None
    subVersion: str | None  # noqa: N815
    expressionType: str | None  # noqa: N815
    maxMsgBytes: str | None  # noqa: N815
    requestSource: str | None  # noqa: N815


class PullHeader(Protocol):
    """The header of a pull."""

    extFields: PullFields  # noqa: N815  # the name on the wire
    flag: int
    opaque: int


_NAMES: Final = tuple(PullFields.__annotations__)


def present(fields: PullFields) -> dict[str, str]:
    """The fields that are there, as the extension fields of a command."""
    return {name: value for name in _NAMES if (value := getattr(fields, name)) is not None}


_READERS: Final[HeaderReaders[PullHeader]] = make_readers((), _NAMES, absent=None)
read, read_plain = _READERS


def parse_pull(data: bytes, start: int) -> tuple[int, PullHeader] | None:
    """Where the pull that begins at `start` ends, and its header; None if it is unusual or cut short."""
    size, word = _PREFIX.unpack_from(data, start)
    end = start + 4 + size
    # A pull has no body; a word of more than the header's length says that the header is not JSON.
    if end > len(data) or size > _FRAME_BYTES_MAX or word + 4 != size:
        return None
    header = read(data[start + 8 : end])
    if header is None or header.flag & (ONEWAY_FLAG | RESPONSE_FLAG):
        return None
    return end, header
