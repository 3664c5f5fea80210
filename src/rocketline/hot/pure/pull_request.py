"""Parses a PULL_MESSAGE (11): its frame and the fields of its header."""

from __future__ import annotations

from typing import Final, Protocol

from rocketline.hot.pure.headers import HeaderReaders, bodiless_parser, make_readers

PULL_START: Final = b'{"code":11,'
"""How the header of a pull begins, as clients write it."""


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


parse_pull: Final = bodiless_parser(read)
"""Where the pull that begins at `start` ends, and its header; None if it is unusual or cut short."""
