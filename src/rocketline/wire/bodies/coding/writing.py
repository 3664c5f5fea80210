"""Writers: from the value that a type hint describes to one that `fastjson` can write."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from rocketline.wire.bodies.coding.field_names import present, wire_name
from rocketline.wire.fastjson.parser import Pairs

Write = Callable[[Any], Any]


@cache
def writer(hint: Any) -> Write:
    """The writer of a dataclass, an enum, a scalar, or a list, map or option of those."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SCALAR_WRITERS:
        return _SCALAR_WRITERS[hint]
    if origin is Annotated:
        return _unchanged
    if origin in (Union, UnionType):
        return writer(present(arguments))
    if origin is list:
        write_entry = writer(arguments[0])
        return lambda entries: [write_entry(entry) for entry in entries]
    if origin is dict:
        return _map_writer(arguments[0], writer(arguments[1]))
    return _write_enum if issubclass(hint, Enum) else _object_writer(hint)


def _object_writer(cls: Any) -> Write:
    hints = get_type_hints(cls, include_extras=True)
    writers = sorted((wire_name(field), field.name, writer(hints[field.name])) for field in fields(cls))

    def write(body: Any) -> Any:
        return {
            key: write_field(value) for key, name, write_field in writers if (value := getattr(body, name)) is not None
        }

    return write


def _map_writer(key_hint: Any, write_entry: Write) -> Write:
    if is_dataclass(key_hint):
        hint: Any = key_hint
        write_key = writer(hint)
        return lambda entries: Pairs([(write_key(key), write_entry(entry)) for key, entry in entries.items()])
    if key_hint is str:
        return lambda entries: {key: write_entry(entry) for key, entry in entries.items()}
    return lambda entries: {key: write_entry(entries[key]) for key in sorted(entries)}


def _unchanged(value: Any) -> Any:
    return value


def _write_enum(value: Any) -> Any:
    return value.name


def _write_base64(value: Any) -> Any:
    return base64.b64encode(value).decode()


_SCALAR_WRITERS: dict[Any, Write] = {
    str: _unchanged,
    int: _unchanged,
    bool: _unchanged,
    float: float,
    bytes: _write_base64,
}
