"""How a header class is declared, read and written.

A header is a frozen dataclass whose annotations are the table: a field without a default is required, one that may be
None is left out when it is None, any other is always written. The name on the wire is the attribute in camelCase, or
what `wire` says. On the wire every value is text (`Command.ext`); a plain `int` has 64 bits, an `Int32` half of them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

from rocketline.errors import LocalProtocolError, RemoteProtocolError


class BoundaryType(StrEnum):
    """Which of the messages of one time is meant, the first or the last."""

    LOWER = "LOWER"
    UPPER = "UPPER"


_REQUIRED = dataclasses.MISSING


class _FieldType(NamedTuple):
    """How values travel as text; None where the text is the value. Both raise ValueError."""

    parse: Callable[[str], Any] | None
    format: Callable[[Any], str] | None
    expected: str


class _Reading(NamedTuple):
    """All that reading one field takes: nothing is looked up on the way."""

    name: str
    parse: Callable[[str], Any] | None
    put: Callable[[Any, Any], None]
    """Sets the slot. A frozen dataclass refuses assignment, its slots do not, and they are faster than its __init__."""
    default: Any
    expected: str
    absent: Any
    """What `read` takes for a required one that is missing, if anything will do."""


class _Writing(NamedTuple):
    """All that writing one field takes."""

    attribute: str
    name: str
    format: Callable[[Any], str] | None
    expected: str


class Header:
    """What all header classes are; made by the decorator `header`.

    The methods that a dataclass would get are written here once: generating and compiling them for each of some 120
    classes took four fifths of the time to import this package.
    """

    __slots__ = ("given",)
    given: Mapping[str, str]
    """What `read` was given, if it could not read all of it."""
    reading: ClassVar[tuple[_Reading, ...]] = ()
    writing: ClassVar[tuple[_Writing, ...]] = ()
    is_exact: ClassVar = False
    """A number that cannot be read spoils the whole header, also in Apache's broker. Java: FastCodesHeader."""
    is_guarded: ClassVar = False
    """A number that cannot be read never gets its default: something else would be changed than was meant."""

    def __init__(self, **values: Any) -> None:
        for read, write in zip(self.reading, self.writing, strict=True):
            value = values.pop(write.attribute, read.default)
            if value is _REQUIRED:
                raise TypeError(f"{type(self).__name__} needs the argument {write.attribute}")
            read.put(self, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(values))}")

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __getattr__(self, name: str) -> Any:
        """Only called for what is not there: a field that `read` could not read."""
        for read, write in zip(self.reading, self.writing, strict=True):
            if write.attribute == name:
                raise _unreadable(type(self), read, self.given)
        raise AttributeError(f"{type(self).__name__} has no field {name}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, write.attribute) for write in self.writing)

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        names = [write.attribute for write in self.writing if has(self, write.attribute)]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


AnyHeader = TypeVar("AnyHeader", bound=Header)


def wire(name: str | None = None, *, absent: Any = _REQUIRED, **options: Any) -> Any:
    """A field whose name on the wire is not its attribute in camelCase, or which is not missed by `read`.

    `absent` is what it takes a required field for that is missing. `options` are those of `dataclasses.field`.
    """
    return dataclasses.field(metadata={"wire": name, "absent": absent}, **options)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(wire,))
def header(cls: type[AnyHeader]) -> type[AnyHeader]:
    """Make `cls` a frozen, slotted, keyword-only dataclass with its fields compiled for `decode` and `encode`."""
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True, match_args=False)(cls)
    fields = [(field, _wire_name(field), _field_type(field)) for field in dataclasses.fields(made)]
    made.reading = tuple(
        _Reading(
            name,
            kind.parse,
            getattr(made, field.name).__set__,
            field.default,
            kind.expected,
            field.metadata.get("absent", _REQUIRED),
        )
        for field, name, kind in fields
    )
    made.writing = tuple(_Writing(field.name, name, kind.format, kind.expected) for field, name, kind in fields)
    return made  # type: ignore[no-any-return]


def _wire_name(field: dataclasses.Field[Any]) -> str:
    first, *rest = field.name.split("_")
    return field.metadata.get("wire") or first + "".join(word.capitalize() for word in rest)


def _field_type(field: dataclasses.Field[Any]) -> _FieldType:
    # Annotations are not evaluated, so a field's type is the text that its module has: "Int32 | None".
    return _FIELD_TYPES[str(field.type).removesuffix(" | None")]


def decode(cls: type[AnyHeader], ext: Mapping[str, str]) -> AnyHeader:
    """The header of class `cls` in the extension fields; those it does not know are left alone.

    Raises `RemoteProtocolError` that names the header and the field, if one is missing or is no number.

    >>> from rocketline.wire.headers import GetRouteInfoRequestHeader
    >>> decode(GetRouteInfoRequestHeader, {"topic": "T", "acceptStandardJsonOnly": "TRUE"}).accept_standard_json_only
    True
    """
    made = object.__new__(cls)
    get = ext.get
    for field in cls.reading:
        name, parse, put, default, _, _ = field
        text = get(name)
        if text is None:
            if default is _REQUIRED:
                raise _unreadable(cls, field, ext)
            put(made, default)
        elif parse is None:
            put(made, text)
        else:
            try:
                put(made, parse(text))
            except ValueError:
                raise _unreadable(cls, field, ext) from None
    return made


def read(cls: type[AnyHeader], ext: Mapping[str, str]) -> AnyHeader:
    """The same, as forgiving as Apache's broker: only who asks for a field that is missing gets to know.

    A number that cannot be read is as good as missing, unless the class is exact. A missing field has its default; a
    required one raises `RemoteProtocolError` when it is asked for, so nobody ever works with what is not there.

    >>> from rocketline.wire.headers import GetMaxOffsetRequestHeader
    >>> asked = read(GetMaxOffsetRequestHeader, {"topic": "T"})
    >>> asked.topic
    'T'
    >>> asked.queue_id
    Traceback (most recent call last):
    rocketline.errors.RemoteProtocolError: GetMaxOffsetRequestHeader: the field queueId is missing
    """
    made = object.__new__(cls)
    get = ext.get
    for field in cls.reading:
        name, parse, put, default, _, absent = field
        text = get(name)
        if text is not None:
            try:
                put(made, text if parse is None else parse(text))
                continue
            except ValueError:
                if cls.is_exact:
                    raise _unreadable(cls, field, ext) from None
        if default is not _REQUIRED and (text is None or not cls.is_guarded):
            put(made, default)
        elif absent is not _REQUIRED:
            put(made, absent)
        else:
            object.__setattr__(made, "given", ext)
    return made


def converted(cls: type[AnyHeader], other: Header) -> AnyHeader:
    """A header of class `cls` with what `other` has of it; what could not be read there cannot be read here."""
    made, known = object.__new__(cls), {field.attribute for field in other.writing}
    for field, (attribute, *_) in zip(cls.reading, cls.writing, strict=True):
        if attribute not in known:
            field.put(made, field.default)
        elif has(other, attribute):
            field.put(made, getattr(other, attribute))
        else:
            object.__setattr__(made, "given", other.given)
    return made


def has(header: Header, attribute: str) -> bool:
    """Whether the field could be read."""
    try:
        getattr(header, attribute)
    except RemoteProtocolError:
        return False
    return True


def _unreadable(cls: type[Header], field: _Reading, ext: Mapping[str, str]) -> RemoteProtocolError:
    text = ext.get(field.name)
    if text is None:
        return RemoteProtocolError(f"{cls.__name__}: the field {field.name} is missing")
    shown = text if len(text) <= 80 else text[:80] + "…"
    return RemoteProtocolError(f"{cls.__name__}: the field {field.name} is {shown!r}, not {field.expected}")


def encode(header: Header) -> dict[str, str]:
    """The extension fields of `header`; None is not written. Raises `LocalProtocolError` for a number out of range.

    >>> from rocketline.wire.headers import GetRouteInfoRequestHeader
    >>> encode(GetRouteInfoRequestHeader(topic="T", accept_standard_json_only=True))
    {'topic': 'T', 'acceptStandardJsonOnly': 'true'}
    """
    ext: dict[str, str] = {}
    for attribute, name, form, expected in header.writing:
        value = getattr(header, attribute)
        if value is None:
            continue
        try:
            ext[name] = value if form is None else form(value)
        except ValueError:
            problem = f"{type(header).__name__}: the field {name} is {value}, not {expected}"
            raise LocalProtocolError(problem) from None
    return ext


_is_signed_number = re.compile(r"[+-][0-9]+").fullmatch


def _integer_type(bits: int) -> _FieldType:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def parse(text: str) -> int:
        number = int(text)
        # int() also takes blanks, underscores and the digits of every script.
        if low <= number <= high and ((text.isdecimal() and text.isascii()) or _is_signed_number(text)):
            return number
        raise ValueError

    def form(number: int) -> str:
        if low <= number <= high:
            return str(number)
        raise ValueError

    return _FieldType(parse, form, f"a whole number of {bits} bits")


def _parse_bool(text: str) -> bool:
    """Java's rule: anything but true is false. So are the "1" and "0" of C++ clients, and Apache's servers agree."""
    return text == "true" or text.lower() == "true"


def _format_bool(value: bool) -> str:
    return "true" if value else "false"


def _parse_boundary(text: str) -> BoundaryType:
    return BoundaryType.UPPER if text.lower() == "upper" else BoundaryType.LOWER


_FIELD_TYPES = {
    "str": _FieldType(None, None, "text"),
    "Int32": _integer_type(32),
    "int": _integer_type(64),
    "bool": _FieldType(_parse_bool, _format_bool, "a boolean"),
    "BoundaryType": _FieldType(_parse_boundary, str, "a boundary type"),
}


@header
class RpcRequestHeader(Header):
    """What many requests may carry besides their own fields. Java: RpcRequestHeader."""

    namespace: str | None = wire("ns", default=None)
    is_namespaced: bool | None = wire("nsd", default=None)
    """The names in this request carry their namespace already."""
    target_broker: str | None = wire("bname", default=None)
    """The name of the broker that the sender means. Java: brokerName."""
    is_oneway: bool | None = wire("oway", default=None)


@header
class TopicRequestHeader(RpcRequestHeader):
    """An `RpcRequestHeader` about a topic. Java: TopicRequestHeader, TopicQueueRequestHeader."""

    is_logical: bool | None = wire("lo", default=None)
    """The queue is one of a static topic, to be mapped to a real one."""
