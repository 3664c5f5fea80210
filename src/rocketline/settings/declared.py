"""One setting: how a configuration class declares it, and how its value is read from and written as text."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

T = TypeVar("T")

INT_MAX = 2**31 - 1
"""The greatest number of a Java int, which is what most of Apache's settings are."""

MASK = "******"
"""What is shown in place of a password."""

_NO_DEFAULT: Any = dataclasses.MISSING
_RULES = "rules"
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is known of a setting beside its type and default."""

    key: str
    help: str
    low: int
    high: int
    is_live: bool
    is_protected: bool
    is_own: bool
    is_secret: bool
    is_file_to_include: bool
    only_default: str
    concern: str
    environment: tuple[str, ...]
    has_effect: bool
    shown_default: str


def setting(
    default: T = _NO_DEFAULT,
    *,
    factory: Callable[[], T] | None = None,
    key: str,
    help: str,
    low: int = 0,
    high: int = INT_MAX,
    live: bool = False,
    protected: bool = False,
    own: bool = False,
    secret: bool = False,
    include: bool = False,
    only_default: str = "",
    concern: str = "",
    environment: tuple[str, ...] = (),
    effect: bool = True,
    shown_default: str = "",
) -> T:
    """A field of a configuration class. A default that depends on the machine is made by `factory`.

    `key` is Apache's name of it. `low` and `high` bound a number. A `live` setting takes effect when it is updated, any
    other at the next start. A `protected` one cannot be updated. One of our `own` is listed by "get config" only where
    it was set, and not updated by that route either: Apache's servers do not know it as a setting. A `secret` is shown
    masked. `include` says that the value names a further file of settings. `only_default` says why no other value than
    the default is supported, `concern` what it concerns that no update changes. `environment` holds Apache's own names
    of variables for it. Without `effect` it is read and listed for Apache's sake only. `shown_default` tells
    documentation how the machine makes the default.
    """
    rules = Rules(
        key=key, help=help, low=low, high=high, is_live=live, is_protected=protected, is_own=own, is_secret=secret,
        is_file_to_include=include, only_default=only_default, concern=concern,
        environment=environment, has_effect=effect, shown_default=shown_default,
    )  # fmt: skip
    given: dict[str, Any] = {"default_factory": factory} if factory else {"default": default}
    return cast("T", dataclasses.field(**given, metadata={_RULES: rules}, repr=not secret))


@dataclass(frozen=True, slots=True)
class Declared:
    """A setting found in a configuration class: where it sits in it, its type, its rules."""

    path: tuple[str, ...]
    type: Any
    rules: Rules

    @property
    def key(self) -> str:
        return self.rules.key

    @property
    def names(self) -> tuple[str, ...]:
        """What a file may call it: Apache's key, or its place as in `network.listen_port`."""
        return (self.key, ".".join(self.path))

    @property
    def allowed(self) -> str:
        """What a value must be, to complete the sentence "it must be …"."""
        if self.type is bool:
            return "true or false"
        if self.type is int:
            return f"a whole number from {self.rules.low} to {self.rules.high}"
        if self.type is float:
            return "a number"
        if issubclass(self.type, Enum):
            return "one of " + ", ".join(_enum_text(member) for member in self.type)
        return "a path" if self.type is Path else "a text"

    def parse(self, text: str) -> object:
        """The value that `text` means; a `ValueError` tells what is allowed."""
        text = text.strip()
        if self.type is bool:
            return self._parse_bool(text)
        if self.type is int:
            return self._parse_int(text)
        if issubclass(self.type, Enum):
            return self._parse_enum(text)
        if self.type is float:
            return self._parse_float(text)
        if self.type is Path and not text:
            raise ValueError(f"it must be {self.allowed}")
        return self.type(text)

    def parse_update(self, text: str) -> object:
        """As `parse`, but like Java: at run time every text other than "true" means false."""
        if self.type is bool:
            return text.strip().lower() == "true"
        return self.parse(text)

    def format(self, value: object) -> str:
        """The text that `parse` reads as `value`."""
        if isinstance(value, bool):
            return "true" if value else "false"
        return _enum_text(value) if isinstance(value, Enum) else str(value)

    def value_in(self, config: object) -> Any:
        for name in self.path:
            config = getattr(config, name)
        return config

    def _parse_bool(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"it must be {self.allowed}")
        return text.lower() == "true"

    def _parse_int(self, text: str) -> int:
        if not _WHOLE_NUMBER.fullmatch(text) or not self.rules.low <= int(text) <= self.rules.high:
            raise ValueError(f"it must be {self.allowed}")
        return int(text)

    def _parse_float(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"it must be {self.allowed}") from None

    def _parse_enum(self, text: str) -> Enum:
        for member in self.type:
            if _enum_text(member).lower() == text.lower():
                return cast("Enum", member)
        raise ValueError(f"it must be {self.allowed}")


@cache
def declared(cls: type) -> dict[str, Declared]:
    """Every setting of `cls` and its nested sections, by Apache's key."""
    return {found.key: found for found in _walk(cls, ())}


def _walk(cls: type, above: tuple[str, ...]) -> Iterator[Declared]:
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        hint, path = hints[field.name], (*above, field.name)
        if dataclasses.is_dataclass(hint):
            yield from _walk(cast("type", hint), path)
        else:
            assert hint in (bool, int, float, str, Path) or issubclass(hint, Enum), hint
            yield Declared(path, hint, field.metadata[_RULES])


def _enum_text(member: Enum) -> str:
    """Apache writes some choices as their value, others (its enums) by name."""
    return member.value if isinstance(member.value, str) else member.name
