"""Readers: from a parsed JSON value to the value that a type hint describes. They raise `RemoteProtocolError`."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from rocketline.errors import RemoteProtocolError
from rocketline.wire import fastjson
from rocketline.wire.bodies.coding.field_names import present, read_names
from rocketline.wire.fastjson.parser import Pairs

Read = Callable[[Any], Any]
_DIGITS_MAX = 19
"""Digits of an integer of 64 bits."""


@cache
def reader(hint: Any) -> Read:
    """The reader of a dataclass, an enum, a scalar, or a list, map or option of those."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SCALAR_READERS:
        return _SCALAR_READERS[hint]
    if origin is Annotated:
        return _integer_reader(arguments[1])
    if origin in (Union, UnionType):
        return _optional_reader(present(arguments))
    if origin is list:
        return _list_reader(reader(arguments[0]))
    if origin is dict:
        return _map_reader(*arguments)
    return _enum_reader(hint) if issubclass(hint, Enum) else _object_reader(hint)


def _object_reader(cls: Any) -> Read:
    hints = get_type_hints(cls, include_extras=True)
    # A frozen dataclass refuses assignment, its slots do not; and setting them takes half the time of its __init__.
    plan = [
        (*_keys(field), reader(hints[field.name]), getattr(cls, field.name).__set__, _default(field))
        for field in fields(cls)
    ]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _unexpected("an object", value)
        made, get = object.__new__(cls), value.get
        for key, others, read_field, put, default in plan:
            entry = get(key)
            if entry is None and others:
                key, entry = next(((k, value[k]) for k in others if get(k) is not None), (key, None))
            if entry is not None:
                try:
                    put(made, read_field(entry))
                except RemoteProtocolError as error:
                    raise RemoteProtocolError(f"{cls.__name__}.{key}: {error}") from None
            elif default is None:
                raise RemoteProtocolError(f"{cls.__name__} lacks {key}")
            else:
                put(made, default())
        return made

    return read


def _keys(field: Field[Any]) -> tuple[str, tuple[str, ...]]:
    key, *others = read_names(field)
    return key, tuple(others)


def _default(field: Field[Any]) -> Callable[[], Any] | None:
    """What makes the value of a field that is not there; None if it must be. Its metadata may say so under "absent"."""
    if "absent" in field.metadata:
        return lambda: field.metadata["absent"]
    if field.default_factory is not MISSING:
        return field.default_factory
    return None if field.default is MISSING else lambda: field.default


def _list_reader(read_entry: Read) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise _unexpected("a list", value)
        return [read_entry(entry) for entry in value if entry is not None]

    return read


def _map_reader(key_hint: Any, entry_hint: Any) -> Read:
    read_key, read_entry = reader(key_hint), reader(entry_hint)
    are_integers = all(hint is int or get_origin(hint) is Annotated for hint in (key_hint, entry_hint))
    if is_dataclass(key_hint):
        read_key = _object_key_reader(read_key)

    def read(value: Any) -> Any:
        if isinstance(value, dict):
            if are_integers and (whole := _whole_integers(value, read_key, read_entry)) is not None:
                return whole
            items: Any = value.items()
        elif isinstance(value, Pairs):
            items = value.items
        else:
            raise _unexpected("an object", value)
        return {read_key(key): read_entry(entry) for key, entry in items if entry is not None}

    return read


def _whole_integers(value: dict[str, Any], read_key: Read, read_entry: Read) -> dict[int, int] | None:
    """A map of integers read at once, if all of it is plain: there may be hundreds of thousands of them."""
    digits, lengths = "".join(value), set(map(len, value))
    is_plain = digits.isascii() and digits.isdigit() and min(lengths) > 0 and max(lengths) <= _DIGITS_MAX
    if not is_plain or set(map(type, value.values())) != {int}:
        return None
    made = dict(zip(map(int, value), value.values(), strict=True))
    read_key(max(made))
    read_entry(min(made.values()))
    read_entry(max(made.values()))
    return made


def _object_key_reader(read_object: Read) -> Read:
    """Peers that can write nothing but standard JSON put the text of the object into a string."""

    def read(key: Any) -> Any:
        return read_object(fastjson.parse(key.encode("utf-8", "replace")) if isinstance(key, str) else key)

    return read


def _enum_reader(cls: type[Enum]) -> Read:
    members = {member.name.casefold(): member for member in cls}
    by_position = list(cls)

    def read(value: Any) -> Any:
        if isinstance(value, str) and value.casefold() in members:
            return members[value.casefold()]
        if isinstance(value, int) and 0 <= value < len(by_position):
            return by_position[value]
        raise _unexpected(f"one of {', '.join(member.name for member in cls)}", value)

    return read


def _optional_reader(hint: Any) -> Read:
    """Java reads a constant that it does not know as null; so do we where null is foreseen."""
    read_present = reader(hint)
    if not (isinstance(hint, type) and issubclass(hint, Enum)):
        return read_present

    def read(value: Any) -> Any:
        try:
            return read_present(value)
        except RemoteProtocolError:
            return None

    return read


def _integer_reader(bits: int) -> Read:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)

    def read(value: Any) -> Any:
        number = value if type(value) is int else _as_integer(value)
        if number is None or not low <= number < high:
            raise _unexpected(f"an integer of {bits} bits", value)
        return number

    return read


def _as_integer(value: Any) -> int | None:
    """Of text or of a double without a fraction."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def _read_double(value: Any) -> float:
    if isinstance(value, int | float) or (isinstance(value, str) and _DOUBLE.fullmatch(value)):
        try:
            return float(value)
        except OverflowError:  # an integer beyond all doubles
            pass
    raise _unexpected("a number", value)


def _read_bool(value: Any) -> bool:
    if value is True or value is False:
        return value
    truth = _TRUTHS.get(str(value).lower()) if isinstance(value, str | int) else None
    if truth is None:
        raise _unexpected("true or false", value)
    return truth


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return fastjson.write(value).decode()
    raise _unexpected("text", value)


def _read_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(_read_text(value), validate=True)
    except ValueError:
        raise _unexpected("Base64", value) from None


def _unexpected(expected: str, value: Any) -> RemoteProtocolError:
    found = {dict: "an object", Pairs: "an object", list: "a list"}.get(type(value)) or repr(value)[:60]
    return RemoteProtocolError(f"expected {expected}, found {found}")


_INTEGER = re.compile(rf"[+-]?\d{{1,{_DIGITS_MAX}}}", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?+", re.ASCII)
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}
_SCALAR_READERS: dict[Any, Read] = {
    str: _read_text,
    int: _integer_reader(64),
    bool: _read_bool,
    float: _read_double,
    bytes: _read_base64,
}
