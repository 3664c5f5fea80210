"""Reading the header of a PULL_MESSAGE (11) for the hot path: only what it needs, and None for anything unusual.

With msgspec installed (extra `speed`) this is several times faster; both ways accept the same headers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Protocol

_NUMBER_MAX: Final = 2**31 - 1


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
    """Those of the fields that are there, as the extension fields of a command."""
    return {name: value for name in _NAMES if (value := getattr(fields, name)) is not None}


class _PlainFields:
    __slots__ = _NAMES

    def __init__(self, fields: dict[str, str]) -> None:
        for name in _NAMES:
            value = fields.get(name)
            if value is not None:
                str.encode(value)  # raises if it is no text, or holds half a pair
            setattr(self, name, value)


class _PlainHeader:
    __slots__ = ("extFields", "flag", "opaque", "version")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.extFields = _PlainFields(fields["extFields"])
        self.flag, self.opaque, self.version = (fields.get(name, 0) for name in ("flag", "opaque", "version"))
        if not all(type(number) is int for number in (self.flag, self.opaque, self.version)):
            raise TypeError("a field is no number")


def read_plain(header: bytes) -> PullHeader | None:
    """The header, by the standard library alone; None if it is unusual."""
    try:
        plain: Any = _PlainHeader(json.loads(header))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    found: PullHeader = plain
    return found if abs(found.opaque) <= _NUMBER_MAX else None


try:
    import msgspec
except ImportError:
    read = read_plain
else:
    _Fields = msgspec.defstruct("_Fields", [(name, str | None, None) for name in _NAMES], gc=False)
    _Header = msgspec.defstruct(
        "_Header", [("extFields", _Fields), ("flag", int, 0), ("opaque", int, 0), ("version", int, 0)], gc=False
    )
    _decoder: Any = msgspec.json.Decoder(_Header)
    _decode: Callable[[bytes], PullHeader] = _decoder.decode

    def read(header: bytes) -> PullHeader | None:
        """The header, None if it is unusual."""
        try:
            found = _decode(header)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return found if abs(found.opaque) <= _NUMBER_MAX else None
