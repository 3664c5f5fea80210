"""The tolerant parser of the dialect: what `json` refuses and fastjson reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from rocketline.errors import RemoteProtocolError

DEPTH_MAX = 100
"""Objects within objects that the parser follows. RocketMQ's own bodies have fewer than ten."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """An object that has objects among its keys. They cannot be hashed, so the entries stand in a list."""

    items: list[tuple[Any, Any]]


def parse_standard(text: str) -> Any:
    """The value in `text` by the standard library; control characters in strings are let through, as in Java.

    Raises `ValueError`, or `RecursionError` for deep nesting.
    """
    return _STANDARD.decode(text)


def _no_number(name: str) -> None:
    """NaN and the infinities. Java writes null in their place, so that is how they are read as well."""


_STANDARD = json.JSONDecoder(strict=False, parse_constant=_no_number)


def parse_tolerantly(text: str) -> Any:
    """The one value that `text` is, references unresolved. Raises `RemoteProtocolError`."""
    return _Parser(text).document()


_CONSTANTS = {"true": True, "false": False, "null": None, "NaN": None, "Infinity": None, "undefined": None}

# The possessive quantifiers (`*+`) keep a string that never ends from costing more than one look at each character.
_BLANKS = re.compile(r"(?:[ \t\r\n\f\b]++|//[^\n]*+|/\*(?s:.)*?\*/)*+")
_DOUBLE_QUOTED = re.compile(r'"([^"\\]*+(?:\\(?s:.)[^"\\]*+)*+)"')
_SINGLE_QUOTED = re.compile(r"'([^'\\]*+(?:\\(?s:.)[^'\\]*+)*+)'")
_FLAT_OBJECT = re.compile(r'\{"[^{}\[]*+\}')
_WORD = re.compile(r"[A-Za-z_$][\w$]*+", re.ASCII)
_NUMBER = re.compile(r"([+-]?)(Infinity|(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?+)[BSLFD]?+", re.ASCII)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(?s:(.)))")
_ESCAPED = dict(zip("\"'\\/bfnrtvF01234567", "\"'\\/\b\f\n\r\t\v\f\0\1\2\3\4\5\6\7", strict=True))


class _Parser:
    """One pass over the text, from left to right; `_at` is the next character."""

    __slots__ = ("_at", "_depth", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def document(self) -> Any:
        value = self._value(self._next())
        if self._next():
            self._fail("expected the end")
        return value

    def _next(self) -> str:
        """The first character after blanks and comments; "" at the end."""
        text, at = self._text, self._at
        char = text[at : at + 1]
        if char in " \t\r\n\f\b/" and char:
            match = _BLANKS.match(text, at)
            assert match is not None
            self._at = at = match.end()
            char = text[at : at + 1]
        return char

    def _value(self, char: str) -> Any:
        if char == '"' or char == "'":
            return self._string(char)
        if char == "{":
            return self._flat_object() or self._nested(self._object)
        if char == "[":
            return self._nested(self._array)
        if match := _NUMBER.match(self._text, self._at):
            return self._number(match)
        match = _WORD.match(self._text, self._at)
        if match is None or match[0] not in _CONSTANTS:
            self._fail("expected a value")
        self._at = match.end()
        return _CONSTANTS[match[0]]

    def _flat_object(self) -> dict[str, Any] | None:
        """An object without others in it, if it is standard JSON. Keys mostly are, and here `json` is much faster."""
        match = _FLAT_OBJECT.match(self._text, self._at)
        try:
            value: dict[str, Any] | None = parse_standard(match[0]) if match else None
        except ValueError:
            return None
        self._at = match.end() if match else self._at
        return value

    def _nested(self, read: Callable[[], Any]) -> Any:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._fail(f"nested deeper than {DEPTH_MAX} levels")
        self._at += 1
        value = read()
        self._at += 1
        self._depth -= 1
        return value

    def _array(self) -> list[Any]:
        values: list[Any] = []
        while (char := self._next()) != "]":
            values.append(self._value(char))
            self._skip_comma("]")
        return values

    def _object(self) -> dict[str, Any] | Pairs:
        items: list[tuple[Any, Any]] = []
        has_object_key = False
        while (char := self._next()) != "}":
            key = self._key(char)
            has_object_key = has_object_key or not isinstance(key, str)
            if self._next() != ":":
                self._fail("expected a colon after the key")
            self._at += 1
            items.append((key, self._value(self._next())))
            self._skip_comma("}")
        return Pairs(items) if has_object_key else dict(items)

    def _key(self, char: str) -> Any:
        if char == '"' or char == "'":
            return self._string(char)
        if char == "{" or char == "[":
            return self._value(char)
        match = _NUMBER.match(self._text, self._at) or _WORD.match(self._text, self._at)
        if match is None:
            self._fail("expected a key")
        self._at = match.end()
        return match[0]

    def _skip_comma(self, closing: str) -> None:
        char = self._next()
        if char == ",":
            self._at += 1
        elif char != closing:
            self._fail(f"expected a comma or {closing}")

    def _string(self, quote: str) -> str:
        match = (_DOUBLE_QUOTED if quote == '"' else _SINGLE_QUOTED).match(self._text, self._at)
        if match is None:
            self._fail("text without an end")
        raw = match[1]
        text = _unescape(raw) if "\\" in raw else raw
        if text is None:
            self._fail("text with an escape that does not exist")
        self._at = match.end()
        return text

    def _number(self, match: re.Match[str]) -> Any:
        sign, digits = match.groups()
        try:
            value = None if digits == "Infinity" else int(sign + digits) if digits.isdigit() else float(sign + digits)
        except ValueError:
            self._fail(f"a number of {len(digits)} digits")
        self._at = match.end()
        return value

    def _fail(self, problem: str) -> NoReturn:
        found = repr(self._text[self._at : self._at + 20]) if self._at < len(self._text) else "the end"
        raise RemoteProtocolError(f"JSON body at character {self._at}: {problem}, found {found}")


def _unescape(raw: str) -> str | None:
    """`raw` with its escapes replaced; None if one does not exist. Escaped halves of a surrogate pair are joined."""
    unknown = False

    def replace(match: re.Match[str]) -> str:
        nonlocal unknown
        code = match[1] or match[2]
        if code:
            return chr(int(code, 16))
        unknown = unknown or match[3] not in _ESCAPED
        return _ESCAPED.get(match[3], "")

    text = _ESCAPE.sub(replace, raw)
    return None if unknown else text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
