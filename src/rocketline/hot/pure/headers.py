"""Readers of request headers for hot paths: only the fields that one needs, and None for anything unusual.

With msgspec installed (extra `speed`) they are several times faster; both ways accept the same headers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from rocketline.wire.command import ONEWAY_FLAG, RESPONSE_FLAG


class _Header(Protocol):
    flag: int


H = TypeVar("H")
"""A header: `extFields`, whose fields have the names on the wire, `flag` and `opaque`."""
_H = TypeVar("_H", bound=_Header)

_NUMBERS: Final = ("flag", "opaque", "version")
_OPAQUE_MAX: Final = 2**31 - 1
_BODILESS_BYTES_MAX: Final = 4 * 1024
"""A frame without a body that is longer takes so long to read that it had better wait for its turn."""
_PREFIX: Final = struct.Struct(">II")


class HeaderReaders(NamedTuple, Generic[H]):
    """Two functions that say the same of every header."""

    read: Callable[[bytes], H | None]
    """The fastest that is to be had."""
    read_plain: Callable[[bytes], H | None]
    """The one of the standard library alone."""


def make_readers(required: Sequence[str], optional: Sequence[str], absent: str | None) -> HeaderReaders[Any]:
    """Readers of headers with these extension fields; an optional one that is missing is `absent`, and may be null only
    if that is None."""
    plain = _plain_reader(required, optional, absent)
    return HeaderReaders(_fast_reader(required, optional, absent) or plain, plain)


def _plain_reader(required: Sequence[str], optional: Sequence[str], absent: str | None) -> Callable[[bytes], Any]:
    names = (*required, *optional)
    fields_class: Any = type("Fields", (), {"__slots__": names})
    header_class: Any = type("Header", (), {"__slots__": ("extFields", *_NUMBERS)})

    def read_fields(given: dict[str, str]) -> Any:
        fields = fields_class()
        for name in names:
            value = given[name] if name in required else given.get(name, absent)
            if value is not None or absent is not None or name in required:
                str.encode(value)  # type: ignore[arg-type]  # raises if it is no text, or holds half a pair
            setattr(fields, name, value)
        return fields

    def read(data: bytes) -> Any:
        try:
            given = json.loads(data)
            header = header_class()
            header.extFields = read_fields(given["extFields"])
            for name in _NUMBERS:
                number = given.get(name, 0)
                if type(number) is not int:
                    return None
                setattr(header, name, number)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return header if abs(header.opaque) <= _OPAQUE_MAX else None

    return read


def _fast_reader(required: Sequence[str], optional: Sequence[str], absent: str | None) -> Callable[[bytes], Any] | None:
    try:
        import msgspec
    except ImportError:
        return None
    kind: Any = str | None if absent is None else str
    members: list[Any] = [*((name, str) for name in required), *((name, kind, absent) for name in optional)]
    fields = msgspec.defstruct("Fields", members, gc=False)
    header = msgspec.defstruct("Header", [("extFields", fields), *((name, int, 0) for name in _NUMBERS)], gc=False)
    decode, refusals = msgspec.json.Decoder(header).decode, (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

    def read(data: bytes) -> Any:
        try:
            found: Any = decode(data)
        except refusals:
            return None
        return found if -_OPAQUE_MAX <= found.opaque <= _OPAQUE_MAX else None

    return read


def bodiless_parser(read: Callable[[bytes], _H | None]) -> Callable[[bytes, int], tuple[int, _H] | None]:
    """A function that tells where the request without a body ends that begins at a place, and its header; None if it
    is unusual or cut short."""

    def parse(data: bytes, start: int) -> tuple[int, _H] | None:
        size, word = _PREFIX.unpack_from(data, start)
        end = start + 4 + size
        # A word of more than the header's length says that the header is not JSON.
        if end > len(data) or size > _BODILESS_BYTES_MAX or word + 4 != size:
            return None
        header = read(data[start + 8 : end])
        if header is None or header.flag & (ONEWAY_FLAG | RESPONSE_FLAG):
            return None
        return end, header

    return parse
