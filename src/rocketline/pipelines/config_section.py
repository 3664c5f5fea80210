"""Reading a table of a TOML or YAML file: every value checked, every problem noted with its place.

problems = Problems("orders.toml")
section = Section(problems, "steps.clean", {"form": "raw"})
section.text("from")          # notes: steps.clean.from is missing
section.finish()              # notes: there is no key steps.clean.form: did you mean from?
"""

from __future__ import annotations

import datetime as dt
import difflib
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

from rocketline.errors import ConfigError

Choice = TypeVar("Choice", bound=Enum)


class Problems:
    """All that is wrong with one file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: list[str] = []

    def add(self, place: str, text: str) -> None:
        self._found.append(f"{self._file}: {place}{': ' if place else ''}{text}")

    def finish(self) -> None:
        """Raise `ConfigError` if there are any."""
        if self._found:
            raise ConfigError(self._found)

    @property
    def is_empty(self) -> bool:
        """Nothing is wrong so far."""
        return not self._found


class Section:
    """One table. Each key that is asked for is known; `finish` notes those that were given and nobody knows."""

    def __init__(self, problems: Problems, place: str, given: object) -> None:
        self._problems, self.place = problems, place
        if not isinstance(given, Mapping):
            problems.add(place, f"a table is wanted, not {_shown(given)}")
            given = {}
        self.given: Mapping[str, object] = {str(key): value for key, value in given.items()}
        self._known: dict[str, None] = {}

    def problem(self, key: str, text: str) -> None:
        self._problems.add(self.at(key), text)

    def at(self, key: str) -> str:
        """The key with where it stands."""
        return f"{self.place}.{key}" if self.place and key else self.place or key

    def has(self, key: str) -> bool:
        self._known[key] = None
        return key in self.given

    def text(self, key: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        if not self.has(key):
            if default is None:
                self.problem(key, "is missing")
            return default or ""
        value = self.given[key]
        if not isinstance(value, str) or not value.strip():
            self.problem(key, f"a text is wanted, not {_shown(value)}")
            return ""
        return value.strip()

    def whole(self, key: str, default: int, *, low: int) -> int:
        value = self.given[key] if self.has(key) else default
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            self.problem(key, f"a whole number of at least {low} is wanted, not {_shown(value)}")
            return default
        return value

    def flag(self, key: str) -> bool:
        value = self.given[key] if self.has(key) else False
        if not isinstance(value, bool):
            self.problem(key, f"true or false is wanted, not {_shown(value)}")
        return value is True

    def texts(self, key: str, *, is_needed: bool = False) -> tuple[str, ...]:
        """A text or a list of texts."""
        if not self.has(key):
            if is_needed:
                self.problem(key, "is missing")
            return ()
        value = self.given[key]
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(each, str) and each.strip() for each in values):
            self.problem(key, f"a text or a list of texts is wanted, not {_shown(value)}")
            return ()
        return tuple(each.strip() for each in values)

    def choice(self, key: str, kind: type[Choice], default: Choice | None = None) -> Choice:
        """One of an enumeration's values, by its word."""
        words = [str(each.value) for each in kind]
        word = self.text(key, None if default is None else str(default.value))
        if word in words:
            return kind(word)
        if word:
            self.problem(key, f"{word!r} is none of {', '.join(words)}{_hint(word, words)}")
        return default or next(iter(kind))

    def options(self, key: str) -> dict[str, str]:
        """A table of Spark's options: what is no text becomes the text that Spark takes."""
        return option_texts(self.given[key]) if self.has(key) and self._is_table(key) else {}

    def section(self, key: str) -> Section | None:
        """A table below this one, if it is there."""
        if not self.has(key):
            return None
        return Section(self._problems, self.at(key), self.given[key])

    def sections(self, key: str) -> Iterator[tuple[str, Section]]:
        """The tables below this one that have names of the user's choice."""
        if self.has(key) and self._is_table(key):
            below = self.given[key]
            assert isinstance(below, Mapping)
            for name, value in below.items():
                yield str(name), Section(self._problems, self.at(f"{key}.{name}"), value)

    def each(self, key: str, *, word: str = "") -> Iterator[Section]:
        """The tables of a list, or the one that stands in its place. A text stands for a table with one key, `word`."""
        if not self.has(key):
            return
        value = self.given[key]
        rows = value if isinstance(value, list) else [value]
        for number, given in enumerate(rows, 1):
            row = {word: given} if word and isinstance(given, str) else given
            yield Section(self._problems, self.at(key if len(rows) == 1 else f"{key}[{number}]"), row)

    def finish(self) -> None:
        """Note the keys that nobody knows."""
        for key in [key for key in self.given if key not in self._known]:
            known = f"; known are {', '.join(self._known)}" if not _hint(key, self._known) else ""
            self.problem(key, f"there is no such key{_hint(key, self._known)}{known}")

    def _is_table(self, key: str) -> bool:
        if isinstance(self.given[key], Mapping):
            return True
        self.problem(key, f"a table is wanted, not {_shown(self.given[key])}")
        return False


def option_texts(given: object) -> dict[str, str]:
    """Options as Spark takes them: `true` for True, milliseconds for a time with its zone, JSON for tables and lists.

    >>> option_texts({"failOnDataLoss": False, "assign": {"orders": {"broker-a": [0]}}})
    {'failOnDataLoss': 'false', 'assign': '{"orders": {"broker-a": [0]}}'}
    """
    assert isinstance(given, Mapping)
    return {str(key): _option_text(value) for key, value in given.items()}


def _option_text(value: object) -> str:
    plain = _plain_time(value)
    return plain if isinstance(plain, str) else json.dumps(plain, default=_plain_time)


def _plain_time(value: object) -> object:
    """TOML and YAML know times, options do not: milliseconds, or without a zone the text, for the option to refuse."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return round(value.timestamp() * 1000)
    return value.isoformat() if isinstance(value, dt.date | dt.time) else value


def nearest(name: str, known: Iterator[str] | Mapping[str, Any] | list[str]) -> str | None:
    """The known name that was perhaps meant."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def _hint(name: str, known: Mapping[str, Any] | list[str]) -> str:
    meant = nearest(name, known)
    return f": did you mean {meant}?" if meant else ""


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:40]}…"
