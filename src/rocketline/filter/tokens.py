"""Cutting an expression into its tokens, one at a time and only as far as the parser asks.

The longest token wins, and a word that is a keyword in any case is one. What the parser never asks for is never looked
at: Apache's reads no further than it must, so anything may stand behind a whole expression.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rocketline.errors import ExpressionError

KEYWORDS: Final = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)
NAME: Final = "name"
STRING: Final = "string"
INTEGER: Final = "integer"
FLOAT: Final = "float"
END: Final = "end"

_BLANK: Final = re.compile(r"(?:[ \t\n\r\f]+|--[^\n\r]*(?:\r\n|\n|\r)|/\*.*?\*/)*", re.DOTALL)
_BLANK_IN_LAST_LINE: Final = re.compile(r"(?:[ \t\f]+|/\*.*?\*/)*", re.DOTALL)
"""Two minus signs there begin no comment, as a comment ends with its line; nobody need look for that end each time."""
_TOKEN: Final = re.compile(
    r"""
    (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
  | (?P<string>'[^']*'(?:'[^']*')*)
  | (?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
  | (?P<integer>0|[1-9][0-9]*[lL]?)
  | (?P<sign><>|>=|<=|[=<>+\-(),])
    """,
    re.VERBOSE,
)
_TAUGHT: Final = {
    "!": "unequal is written <>",
    '"': "strings stand between single quotes: 'like this'",
    "'": "the string that begins here has no end: a quote closes it, and '' is one within it",
    "/": "a comment that begins with /* ends with */, and nothing can be divided",
    "*": "nothing can be multiplied here, and all messages are those of '*' in a subscription by tags",
    "%": "nothing can be computed here, and there is no LIKE: use CONTAINS, STARTSWITH or ENDSWITH",
}


class Token(NamedTuple):
    """`kind` is a keyword in capitals, a sign, or one of the kinds above; `text` is as it was written."""

    kind: str
    text: str
    at: int


class Tokens:
    """The tokens of one expression; the next one is known, as in `Tokens(text).next`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._last_line = max(text.rfind("\n"), text.rfind("\r")) + 1
        self._position = 0
        self.next = self._cut()

    def take(self) -> Token:
        """The next token, and go on to the one behind it. Raises `ExpressionError` if that is none."""
        taken = self.next
        self.next = self._cut()
        return taken

    def _cut(self) -> Token:
        blanks = _BLANK if self._position < self._last_line else _BLANK_IN_LAST_LINE
        blank = blanks.match(self.text, self._position)
        at = self._position if blank is None else blank.end()
        if at == len(self.text):
            self._position = at
            return Token(END, "", at)
        found = _TOKEN.match(self.text, at)
        if found is None:
            character = self.text[at]
            taught = _TAUGHT.get(character, "write the names of properties with letters of ASCII, digits, _ and $")
            raise ExpressionError(self.text, at, f"{character!r} begins nothing that is known here; {taught}")
        self._position = found.end()
        text, kind = found[0], found.lastgroup or ""
        if kind == NAME and (keyword := text.upper()) in KEYWORDS:
            kind = keyword
        return Token(text if kind == "sign" else kind, text, at)
