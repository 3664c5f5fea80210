"""Parses a POP_MESSAGE (200050): its frame and the fields of its header."""

from __future__ import annotations

from typing import Final, Protocol

from rocketline.hot.pure.headers import HeaderReaders, bodiless_parser, make_readers

POP_START: Final = b'{"code":200050,'
"""How the header of a pop begins, as clients write it."""


class PopFields(Protocol):
    """The extension fields of a pop, by their names on the wire. What is missing is None."""

    consumerGroup: str | None  # noqa: N815
    topic: str | None
    queueId: str | None  # noqa: N815
    maxMsgNums: str | None  # noqa: N815
    invisibleTime: str | None  # noqa: N815
    pollTime: str | None  # noqa: N815
    bornTime: str | None  # noqa: N815
    initMode: str | None  # noqa: N815
    expType: str | None  # noqa: N815
    exp: str | None
    order: str | None
    attemptId: str | None  # noqa: N815


class PopHeader(Protocol):
    """The header of a pop."""

    extFields: PopFields  # noqa: N815  # the name on the wire
    flag: int
    opaque: int


_NAMES: Final = tuple(PopFields.__annotations__)
_READERS: Final[HeaderReaders[PopHeader]] = make_readers((), _NAMES, absent=None)
read, read_plain = _READERS
parse_pop: Final = bodiless_parser(read)
"""Where the pop that begins at `start` ends, and its header; None if it is unusual or cut short."""


def present(fields: PopFields) -> dict[str, str]:
    """The fields that are there, as the extension fields of a command."""
    return {name: value for name in _NAMES if (value := getattr(fields, name)) is not None}
