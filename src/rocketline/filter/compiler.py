"""An expression, ready for messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

from rocketline.errors import ExpressionError
from rocketline.filter.code import FunctionWriter
from rocketline.filter.parser import TERMS_MAX, Parsed, parse

EXPRESSION_MAX: Final = 32 * 1024
"""Characters: thousands of strings after IN. Apache's broker takes whatever fits in a header."""
_CLOSE_EFFORT: Final = 16
_CHARACTER_BYTES: Final = 16
_TERM_BYTES: Final = 1600
_TERM_CHARACTERS: Final = 8
"""There is no shorter one, but for the last."""


def memory_of(expression: str) -> int:
    """About how many bytes its filter takes at most, the function included."""
    terms = min(1 + len(expression) // _TERM_CHARACTERS, TERMS_MAX)
    return _CHARACTER_BYTES * len(expression) + _TERM_BYTES * terms


class SqlFilter:
    """An expression that was read and found right. `matches` is made when it is needed first."""

    def __init__(self, expression: str, parsed: Parsed) -> None:
        self.expression = expression
        self.terms = parsed.terms
        """How many comparisons it has."""
        self.effort = parsed.effort
        """What a look at a byte of properties costs at most, once `matches` was made: usually a unit a comparison."""
        self.ignored = parsed.rest
        """What stands behind the whole expression and has no effect, as with Apache's parser; nearly always a fault."""
        self._tree = parsed.tree

    def __repr__(self) -> str:
        return f"SqlFilter({self.expression[:80]!r})"

    @property
    def is_ready(self) -> bool:
        """The function was made. To make it takes half a millisecond, and for the longest expressions twenty."""
        return "matches" in self.__dict__

    @cached_property
    def matches(self) -> Callable[[bytes], bool]:
        """Whether a message is wanted, told by its properties as records have them. Never raises."""
        writer = FunctionWriter(self._tree)
        made = writer.matches()
        if writer.is_close:
            self.effort += _CLOSE_EFFORT
        return made

    @cached_property
    def evaluate(self) -> Callable[[bytes], bool | None]:
        """The same with all that Apache's library knows: None for unknown, `ValueError` if it fails."""
        return FunctionWriter(self._tree).evaluate()


def compile_sql(expression: str) -> SqlFilter:
    """Read an expression. Raises `ExpressionError`, which says where it cannot be read, and why.

    >>> wanted = compile_sql("price > 5 AND region = 'north'")
    >>> wanted.matches(b"price\\x017\\x02region\\x01north\\x02"), wanted.matches(b"price\\x017\\x02")
    (True, False)
    >>> compile_sql("price != 5")
    Traceback (most recent call last):
    rocketline.errors.ExpressionError: line 1, column 7, near '!= 5': '!' begins nothing that is known here; ...
    """
    if len(expression) > EXPRESSION_MAX:
        problem = f"it has {len(expression)} characters, at most {EXPRESSION_MAX} are read"
        raise ExpressionError(expression, EXPRESSION_MAX, problem, is_too_much=True)
    return SqlFilter(expression, parse(expression))
