"""Java property text, as in Apache's `.conf` files and the bodies of the "get config" and "update config" requests.

Like `java.util.Properties`: `#` and `!` start a comment; `=`, `:` or a blank ends a key; a backslash escapes a
character, writes a control character (`\\t \\n \\r \\f`) or a UTF-16 unit (`\\u00e4`), or continues a line.
Differs: bytes are read as UTF-8 where they are valid UTF-8, and as ISO 8859-1 (Java's reading) otherwise. What we write
is plain ASCII, so both readings agree on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rocketline.errors import ConfigError

BYTES_MAX = 1024 * 1024
"""Settings are a few kilobytes. Whoever sends more over the network would only keep the server busy with it."""

_LINE_END = re.compile(r"\r\n|\n|\r")  # not str.splitlines: it also splits where Java does not
_BLANKS = " \t\f"
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNSAFE = re.compile(r"[\\\t\n\r\f]|^ |[^\x20-\x7e]")
_UNSAFE_IN_KEY = re.compile(r"[\\\t\n\r\f =:]|^[#!]|[^\x20-\x7e]")


class PropertyLine(NamedTuple):
    """One pair and the line it starts on, counted from 1."""

    key: str
    value: str
    line: int


def parse_properties(data: bytes) -> list[PropertyLine]:
    """Every pair in order; of a repeated key the last one counts.

    Raises `ConfigError` for a broken `\\u` escape, and for more than 1 MiB.

    >>> parse_properties(b"# a comment\\nlistenPort = 9876\\n")
    [PropertyLine(key='listenPort', value='9876', line=2)]
    """
    if len(data) > BYTES_MAX:
        raise ConfigError([f"{len(data)} bytes are too many: at most {BYTES_MAX} are read"])
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    return [_parse_line(content, line) for line, content in _logical_lines(text.removeprefix("\ufeff"))]


def format_properties(pairs: Mapping[str, str]) -> str:
    """`key=value` lines in the order of their keys, which `parse_properties` and Java read back to the same pairs.

    >>> format_properties({"b": "2", "a": "C:\\\\x"})
    'a=C:\\\\\\\\x\\nb=2\\n'
    """
    return "".join(f"{_UNSAFE_IN_KEY.sub(_escape, key)}={_UNSAFE.sub(_escape, pairs[key])}\n" for key in sorted(pairs))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their number: comments and empty ones left out, continued ones joined."""
    content, start, is_continued = "", 0, False
    for number, natural in enumerate(_LINE_END.split(text), 1):
        part = natural.lstrip(_BLANKS)
        if not (is_continued and content):
            content, start, is_continued = "", number, False
            if part.startswith(("#", "!")):
                continue
        is_continued = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        content += part[:-1] if is_continued else part
        if content and not is_continued:
            yield start, content
    if is_continued:
        yield start, content


def _parse_line(content: str, line: int) -> PropertyLine:
    key_end = _KEY.match(content).end()  # type: ignore[union-attr]  # matches the empty string too
    value_start = _SEPARATOR.match(content, key_end).end()  # type: ignore[union-attr]
    return PropertyLine(_unescape(content[:key_end], line), _unescape(content[value_start:], line), line)


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        unit, other = match.groups()
        if unit:
            return chr(int(unit, 16))
        if other == "u":
            raise ConfigError([f"line {line}: \\u must be followed by four hexadecimal digits"])
        return _CONTROLS.get(other, other)

    # Two escaped halves of a surrogate pair are one character; a half alone is none.
    return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    for name, control in _CONTROLS.items():
        if character == control:
            return "\\" + name
    if " " <= character <= "~":
        return "\\" + character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
