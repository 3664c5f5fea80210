"""Large JSON bodies read piece by piece, for whoever has others to serve in between.

The standard library reads a text in one go, 16 MiB of it in a quarter of a second. Here the entries of some objects
within the body are read one by one, and each is handed on at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from rocketline.errors import RemoteProtocolError

ENTRY_CHARACTERS_MAX: Final = 64 * 1024
"""Of one entry: what is read in one go."""
_WINDOW: Final = 4 * ENTRY_CHARACTERS_MAX
_QUOTED: Final = 32 * 1024
_INTEGER_KEY: Final = re.compile(r"(?<=[{,])(-?\d++)(?=:)", re.ASCII)
_BLANKS: Final = re.compile(r"[ \t\r\n]*+")
_read: Final = json.JSONDecoder(strict=False, parse_constant=lambda name: None).raw_decode


class Entry(NamedTuple):
    """One entry, and the keys of the objects that it stands in."""

    path: tuple[str, ...]
    key: str
    value: Any
    end: int
    """Where it ends in the text."""


class NotStandardError(ValueError):
    """`json` would not read the text either."""


Tables = Mapping[str, Any]
"""Keys of objects whose entries are read one by one, each with the same for what is in it."""


def entries(text: str, tables: Tables) -> Iterator[Entry]:
    """The entries of the object in `text` and of those in it that `tables` names.

    >>> [entry[:3] for entry in entries('{"a":1,"t":{"x":{"y":2}}}', {"t": {}})]
    [((), 'a', 1), (('t',), 'x', {'y': 2})]

    Raises `NotStandardError`, and `RemoteProtocolError` for an entry that is too long.
    """
    walk = _Walk(text)
    yield from walk.object((), tables)
    if walk.next():
        raise NotStandardError(f"more follows at character {walk.at}")


def quoted_integer_keys(text: str) -> Iterator[str]:
    """The text in pieces, with quotes around keys that are bare integers. Each piece but the first begins at a comma,
    so that none is cut in two."""
    at = 0
    while at < len(text):
        end = text.rfind(",", at + 1, at + _QUOTED) if at + _QUOTED < len(text) else len(text)
        end = end if end > 0 else min(at + _QUOTED, len(text))
        yield '"'.join(_INTEGER_KEY.split(text[at:end]))
        at = end


class _Walk:
    """From left to right; `at` is the next character.

    Values are read out of a window: `json` can be held to no length, and a text that ends where the window does is
    one that it refuses.
    """

    __slots__ = ("_base", "_text", "_window", "at")

    def __init__(self, text: str) -> None:
        self._text, self._window, self._base = text, text[:_WINDOW], 0
        self.at = 0

    def next(self) -> str:
        """The first character after blanks; "" at the end."""
        char = self._text[self.at : self.at + 1]
        if char in " \t\r\n" and char:
            blanks = _BLANKS.match(self._text, self.at)
            assert blanks is not None
            self.at = blanks.end()
            char = self._text[self.at : self.at + 1]
        return char

    def object(self, path: tuple[str, ...], tables: Tables) -> Iterator[Entry]:
        self._expect("{")
        if self.next() == "}":
            self.at += 1
            return
        while True:
            key = self._key()
            self._expect(":")
            if key in tables and self.next() == "{":
                yield from self.object((*path, key), tables[key])
            else:
                value = self._value()
                yield Entry(path, key, value, self.at)
            if self.next() != ",":
                break
            self.at += 1
        self._expect("}")

    def _key(self) -> str:
        if self.next() != '"':
            raise NotStandardError(f"no key at character {self.at}")
        return str(self._value())

    def _expect(self, char: str) -> None:
        if self.next() != char:
            raise NotStandardError(f"expected {char} at character {self.at}")
        self.at += 1

    def _value(self) -> Any:
        self.next()
        place = self.at - self._base
        if place + ENTRY_CHARACTERS_MAX >= len(self._window) and self._base + len(self._window) < len(self._text):
            self._base, self._window, place = self.at, self._text[self.at : self.at + _WINDOW], 0
        try:
            value, end = _read(self._window, place)
        except ValueError:
            raise NotStandardError(f"no value, or a very long one, at character {self.at}") from None
        except RecursionError:
            raise RemoteProtocolError(f"JSON body at character {self.at}: nested too deeply") from None
        if end - place > ENTRY_CHARACTERS_MAX:
            raise RemoteProtocolError(
                f"JSON body at character {self.at}: no value of at most {ENTRY_CHARACTERS_MAX} characters"
            )
        self.at = self._base + end
        return value
