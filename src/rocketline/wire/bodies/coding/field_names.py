"""What a field is called on the wire, and which part of an optional type is there when it is not null."""

from __future__ import annotations

from dataclasses import Field
from typing import Any


def wire_name(field: Field[Any]) -> str:
    """The key to write: the field's name in camel case, unless its metadata has another under "java"."""
    head, *tail = field.name.split("_")
    name: str = field.metadata.get("java") or head + "".join(word.capitalize() for word in tail)
    return name


def read_names(field: Field[Any]) -> tuple[str, ...]:
    """All keys to read: that one, and those of other peers and releases under "also"."""
    return (wire_name(field), *field.metadata.get("also", ()))


def present(arguments: tuple[Any, ...]) -> Any:
    """The type that is optional."""
    (hint,) = [argument for argument in arguments if argument is not type(None)]
    return hint
