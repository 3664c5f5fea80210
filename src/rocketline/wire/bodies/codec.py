"""Bodies from and to dataclasses: a reader and a writer, put together once per class from its fields' types.

A field `broker_name` is the wire's `brokerName`. Where Java's name follows another rule, the field's metadata has it
under "java", and further names to accept under "also". Like Java we skip unknown keys, take null as absent, give
absent fields their defaults, read quoted numbers, and know enums by name or position; we write keys in alphabetical
order, leave nulls out, and keep maps as they are except that integer keys are sorted.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, TypeVar, get_args

from rocketline.errors import RemoteProtocolError
from rocketline.wire import fastjson
from rocketline.wire.bodies.coding.parts import parts
from rocketline.wire.bodies.coding.reading import reader
from rocketline.wire.bodies.coding.reading_in_steps import read_in_steps
from rocketline.wire.bodies.coding.writing import writer

Body = TypeVar("Body")


def decode(cls: type[Body], data: bytes, *, tolerated_max: int | None = fastjson.TOLERATED_CHARACTERS_MAX) -> Body:
    """The body in `data`: a dataclass, or `list[…]` of one. Raises `RemoteProtocolError` that names class and field.

    What only Python can read is read up to `tolerated_max` characters; see `fastjson.parse`.
    """
    try:
        return from_value(cls, fastjson.parse(data, tolerated_max=tolerated_max))
    except RemoteProtocolError as error:
        raise _unreadable(cls, data, error) from None


def decode_in_steps(cls: type[Body], data: bytes, *, tolerated_max: int) -> Generator[None, None, Body]:
    """The same for a stranger's large body, with rests in between. Beyond `tolerated_max` it must be standard JSON."""
    hint: Any = cls
    try:
        body: Body = yield from read_in_steps(hint, fastjson.parse_quickly(data, tolerated_max=tolerated_max))
    except RemoteProtocolError as error:
        raise _unreadable(cls, data, error) from None
    return body


def _unreadable(cls: type[Any], data: bytes, error: RemoteProtocolError) -> RemoteProtocolError:
    name = f"list of {get_args(cls)[0].__name__}" if get_args(cls) else cls.__name__
    return RemoteProtocolError(f"{name} of {len(data)} bytes cannot be read: {error}")


def decode_answer(cls: type[Body], data: bytes) -> Body:
    """What a server answered to a question of ours, as much as a frame carries. Raises `RemoteProtocolError`."""
    return decode(cls, data, tolerated_max=None)


def from_value(cls: type[Body], value: Any) -> Body:
    """The body that a parsed JSON value says. Raises `RemoteProtocolError`."""
    hint: Any = cls
    body: Body = reader(hint)(value)
    return body


def encode(body: object) -> bytes:
    """A dataclass, or a list of them, as Java writes it."""
    return fastjson.write(to_value(body))


def encode_in_parts(body: object) -> Iterator[bytes]:
    """The pieces of `encode(body)`, each of a few hundred entries at most: for whoever must not stop for all of it."""
    return parts(type(body), body)


def encode_strict(body: object) -> bytes:
    """The same in standard JSON, for peers that read nothing else."""
    return fastjson.write_strict(to_value(body))


def to_value(body: object) -> Any:
    """What the JSON text of `body` says, in the terms of `fastjson`."""
    if isinstance(body, list):
        return [to_value(entry) for entry in body]
    hint: Any = type(body)
    return writer(hint)(body)
