"""Large bodies, written piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import chain, islice
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from rocketline.wire import fastjson
from rocketline.wire.bodies.coding.field_names import present, wire_name
from rocketline.wire.bodies.coding.writing import writer

_ENTRIES_MAX: Final = 128
"""Entries of a map or a list that make one piece."""


def parts(hint: Any, value: Any) -> Iterator[bytes]:
    """What the dialect writes for a value that `hint` describes, in pieces that are joined by nothing."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_small(hint):
        yield fastjson.write(writer(hint)(value))
    elif origin in (Union, UnionType):
        yield from parts(present(arguments), value)
    elif origin is list:
        yield from _between(b"[", _entries(hint, value, arguments[0]), b"]")
    elif origin is dict:
        yield from _between(b"{", _pairs(hint, value, arguments[1]), b"}")
    else:
        yield from _between(b"{", _fields(hint, value), b"}")


def _between(begin: bytes, pieces: Iterable[Iterator[bytes]], end: bytes) -> Iterator[bytes]:
    """The pieces of each entry, or of some, with commas between."""
    yield begin
    for number, entry in enumerate(pieces):
        if number:
            yield b","
        yield from entry
    yield end


def _entries(hint: Any, entries: list[Any], entry_hint: Any) -> Iterator[Iterator[bytes]]:
    if is_small(entry_hint):
        for at in range(0, len(entries), _ENTRIES_MAX):
            yield _inner(hint, entries[at : at + _ENTRIES_MAX])
    else:
        yield from (parts(entry_hint, entry) for entry in entries)


def _pairs(hint: Any, table: dict[Any, Any], entry_hint: Any) -> Iterator[Iterator[bytes]]:
    key_hint = get_args(hint)[0]
    is_sorted = key_hint is not str and not is_dataclass(key_hint)
    items = iter(sorted(table.items()) if is_sorted else table.items())
    if is_small(entry_hint):
        while some := dict(islice(items, _ENTRIES_MAX)):
            yield _inner(hint, some)
    else:
        for key, entry in items:
            name = fastjson.write(writer(key_hint)(key))
            yield chain((name + b":",), parts(entry_hint, entry))


def _inner(hint: Any, some: Any) -> Iterator[bytes]:
    """Some entries of a map or list, without what stands around them."""
    yield fastjson.write(writer(hint)(some))[1:-1]


def _fields(cls: Any, body: Any) -> Iterator[Iterator[bytes]]:
    for key, name, hint in _named_fields(cls):
        if (value := getattr(body, name)) is not None:
            yield chain((b'"%b":' % key.encode(),), parts(hint, value))


@cache
def _named_fields(cls: Any) -> list[tuple[str, str, Any]]:
    hints = get_type_hints(cls, include_extras=True)
    return sorted((wire_name(field), field.name, hints[field.name]) for field in fields(cls))


@cache
def is_small(hint: Any) -> bool:
    """A value of this type holds no map and no list, however deep."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (list, dict):
        return False
    if origin in (Union, UnionType):
        return is_small(present(arguments))
    if origin is Annotated or not is_dataclass(hint):
        return True
    cls: Any = hint
    return all(is_small(inner) for _, _, inner in _named_fields(cls))
