"""Large bodies, read piece by piece: what `reading` makes in one go, with rests in between.

Maps with objects for keys are read in one go: only what is no standard JSON has them, and that is short.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import islice
from types import UnionType
from typing import Any, Final, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

from rocketline.errors import RemoteProtocolError
from rocketline.wire.bodies.coding.field_names import present, read_names
from rocketline.wire.bodies.coding.parts import is_small
from rocketline.wire.bodies.coding.reading import reader

ENTRIES_A_STEP: Final = 128
"""Entries of lists and maps, however nested, that are read in one step: a millisecond at most."""
_FEW: Final = 8
"""Entries of a map or list within an object that is read as one."""

_Counting: TypeAlias = Generator[int, None, Any]
"""Yields how many entries it has read since the last time, and returns what it has made of them."""


def read_in_steps(hint: Any, value: Any) -> Generator[None, None, Any]:
    """What `reader(hint)(value)` gives or raises, with a rest after every so many entries."""
    work, count = _read(hint, value), 0
    while True:
        try:
            count += next(work)
        except StopIteration as done:
            return done.value
        if count >= ENTRIES_A_STEP:
            count = 0
            yield


def _read(hint: Any, value: Any) -> _Counting:
    origin = get_origin(hint)
    if is_small(hint):
        return reader(hint)(value)
    if origin in (Union, UnionType):
        return (yield from _read(present(get_args(hint)), value))
    if origin is list and isinstance(value, list):
        return (yield from _read_list(hint, value))
    if origin is dict and isinstance(value, dict):
        return (yield from _read_map(hint, value))
    if is_dataclass(hint) and isinstance(value, dict) and not _is_light(hint, value):
        return (yield from _read_object(hint, value))
    return reader(hint)(value)  # it is one thing, or says what is wrong


def _read_list(hint: Any, value: list[Any]) -> _Counting:
    (entry_hint,), made = get_args(hint), []
    if is_small(entry_hint):
        for at in range(0, len(value), ENTRIES_A_STEP):
            some = value[at : at + ENTRIES_A_STEP]
            made += reader(hint)(some)
            yield len(some)
        return made
    for entry in value:
        if entry is not None:
            made.append((yield from _read(entry_hint, entry)))
        yield 1
    return made


def _read_map(hint: Any, value: dict[str, Any]) -> _Counting:
    key_hint, entry_hint = get_args(hint)
    items, made = iter(value.items()), dict[Any, Any]()
    if is_small(entry_hint):
        while some := dict(islice(items, ENTRIES_A_STEP)):
            made |= reader(hint)(some)
            yield len(some)
        return made
    for key, entry in items:
        if entry is not None:
            (read_key,) = reader(dict[key_hint, bool])({key: True})  # type: ignore[valid-type]
            made[read_key] = yield from _read(entry_hint, entry)
        yield 1
    return made


def _read_object(cls: Any, value: dict[str, Any]) -> _Counting:
    """Its large fields are left empty at first."""
    large = [(field, key) for field in _large_fields(cls) if (key := field.key_in(value)) is not None]
    made = reader(cls)(_hollow(cls, value))
    for field, key in large:
        try:
            field.put(made, (yield from _read(field.hint, value[key])))
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"{cls.__name__}.{key}: {error}") from None
    return made


def _hollow(hint: Any, value: Any) -> Any:
    """Without what its maps and lists hold."""
    if get_origin(hint) in (Union, UnionType):
        return _hollow(present(get_args(hint)), value)
    if not is_dataclass(hint):
        return type(value)()
    cls: Any = hint
    large = [(field.hint, key) for field in _large_fields(cls) if (key := field.key_in(value)) is not None]
    return {**value, **{key: _hollow(inner, value[key]) for inner, key in large}}


class _LargeField(NamedTuple):
    """A field of an object that holds maps or lists."""

    keys: tuple[str, ...]
    hint: Any
    put: Callable[[Any, Any], None]
    is_flat: bool
    """The value is a map or list of what holds neither."""

    def key_in(self, value: dict[str, Any]) -> str | None:
        """By which key it is there, as something that can be read in steps."""
        key = next((key for key in self.keys if value.get(key) is not None), None)
        return key if key is not None and isinstance(value[key], list | dict) else None


@cache
def _large_fields(cls: Any) -> list[_LargeField]:
    hints = get_type_hints(cls, include_extras=True)
    return [
        _LargeField(read_names(field), hint, getattr(cls, field.name).__set__, _is_flat(hint))
        for field in fields(cls)
        if not is_small(hint := hints[field.name])
    ]


def _is_flat(hint: Any) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return _is_flat(present(get_args(hint)))
    return get_origin(hint) in (list, dict) and is_small(get_args(hint)[-1])


def _is_light(cls: Any, value: dict[str, Any]) -> bool:
    """An object like most: what it holds is few, so that it counts as one."""
    for field in _large_fields(cls):
        key = field.key_in(value)
        if key is not None and not (field.is_flat and len(value[key]) <= _FEW):
            return False
    return True
