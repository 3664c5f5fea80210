"""Reading an expression: tokens in, a tree out, checked as Apache's parser checks it.

    any        := all { OR all }
    all        := equality { AND equality }
    equality   := comparison { (= | <>) comparison | IS [NOT] NULL }
    comparison := unary { (> | >= | < | <=) unary | [NOT] BETWEEN unary AND unary
                        | [NOT] IN ( string {, string} ) | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) string }
    unary      := { + | - | NOT } primary
    primary    := string | integer | float | TRUE | FALSE | NULL | name | ( any )

So NOT binds more tightly than a comparison: `NOT a = 1` is `(NOT a) = 1`. What follows a whole expression is not read.

Differs: what is nested more than 50 deep is refused, and so is what has more than 256 comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from rocketline.errors import ExpressionError
from rocketline.filter.syntax import (
    All,
    Any,
    Cast,
    Condition,
    Equal,
    Find,
    IsNull,
    Literal,
    Node,
    Not,
    Nothing,
    OneOf,
    Order,
    Property,
    is_condition,
    number_of,
)
from rocketline.filter.tokens import END, FLOAT, INTEGER, NAME, STRING, Token, Tokens
from rocketline.filter.values import Int, Long, compare

DEPTH_MAX: Final = 50
TERMS_MAX: Final = 256
"""More take longer than anybody else may wait: these are made a function in 20 ms at most."""
_SEARCHED_AT_ONCE: Final = 8
"""Bytes that CONTAINS looks for: where they nearly stand everywhere, so many take as long as another comparison."""
_INTEGER_DIGITS_MAX: Final = 19
_ORDER_SIGNS: Final = (">", ">=", "<", "<=")
_FINDS: Final = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


class Parsed(NamedTuple):
    """A tree; how many comparisons it has, and how much work they are at most; and what stands behind it in the text
    and means nothing."""

    tree: Condition
    terms: int
    effort: int
    rest: str


def parse(text: str) -> Parsed:
    """The tree of an expression. Raises `ExpressionError`."""
    parser = _Parser(text)
    tree = parser.whole()
    return Parsed(tree, parser.terms, parser.terms + parser.searched // _SEARCHED_AT_ONCE, text[parser.next.at :])


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = Tokens(text)
        self._parentheses = 0
        self.terms = self.searched = 0

    @property
    def next(self) -> Token:
        return self._tokens.next

    def whole(self) -> Condition:
        if self.next.kind == END:
            raise self._problem(0, "it is empty")
        at = self.next.at
        return self._condition(self._any(), at)

    # --- the grammar, from the outside to the inside

    def _any(self) -> Node:
        return self._joined("OR", self._all, Any)

    def _all(self) -> Node:
        return self._joined("AND", self._equality, All)

    def _joined(self, word: str, part: Callable[[], Node], join: type[All | Any]) -> Node:
        at = self.next.at
        left = part()
        if self.next.kind != word:
            return left
        parts = [self._condition(left, at)]
        while self.next.kind == word:
            self._tokens.take()
            at = self.next.at
            parts.append(self._condition(part(), at))
        return self._limited(join(tuple(parts)), at)

    def _equality(self) -> Node:
        at = self.next.at
        left = self._comparison()
        while True:
            kind = self.next.kind
            if kind == "IS":
                left = self._limited(self._is_null(left), at)
            elif kind in ("=", "<>"):
                self._tokens.take()
                right_at = self.next.at
                equal = self._equal(left, at, self._comparison(), right_at)
                left = self._limited(equal if kind == "=" else Not(equal), at)
            else:
                return left

    def _is_null(self, left: Node) -> Condition:
        self._tokens.take()
        is_not = self.next.kind == "NOT"
        if is_not:
            self._tokens.take()
        self._expect("NULL", "IS is followed by NULL or NOT NULL")
        self._count()
        return Not(IsNull(left)) if is_not else IsNull(left)

    def _comparison(self) -> Node:
        at, terms = self.next.at, self.terms
        left = self._unary()
        while True:
            kind = self.next.kind
            if kind in _ORDER_SIGNS:
                self._tokens.take()
                right_at = self.next.at
                left = self._order(left, at, kind, self._unary(), right_at)
            elif kind == "NOT" or kind == "BETWEEN" or kind == "IN" or kind in _FINDS:
                left = self._worded(left, at, terms)
            else:
                return left
            self._limited(left, at)

    def _worded(self, left: Node, at: int, terms: int) -> Condition:
        """`terms` were before the left side."""
        word = self._tokens.take()
        is_not = word.kind == "NOT"
        if is_not:
            word = self._tokens.take()
        if word.kind == "BETWEEN":
            self._count(self.terms - terms)  # it is compared with either bound, and so is what is nested in it
            return self._between(left, at, is_not)
        if word.kind == "IN":
            return self._one_of(left, at, is_not)
        if word.kind in _FINDS:
            self._count()
            text = self._string(f"{word.kind} needs a string to look for")
            self.searched += len(text)
            return Find(left, word.kind, text, is_not)
        raise self._problem(
            word.at, "NOT within a comparison stands before BETWEEN, IN, CONTAINS, STARTSWITH, ENDSWITH"
        )

    def _between(self, left: Node, at: int, is_not: bool) -> Condition:
        low_at = self.next.at
        low = self._unary()
        self._expect("AND", "BETWEEN needs two bounds with AND between them")
        high_at = self.next.at
        high = self._unary()
        if is_not:
            return Any((self._order(left, at, "<", low, low_at), self._order(left, at, ">", high, high_at)))
        inside = All((self._order(left, at, ">=", low, low_at), self._order(left, at, "<=", high, high_at)))
        if _is_plain(low, high) and compare(number_of(high), number_of(low)) < 0:
            raise self._problem(low_at, "no number is between these: the lower one comes first")
        return inside

    def _one_of(self, left: Node, at: int, is_not: bool) -> Condition:
        if not isinstance(left, Property):
            raise self._problem(at, "IN has the name of a property before it")
        self._count()
        self._expect("(", "IN is followed by strings in parentheses: IN ('a', 'b')")
        texts = {self._string("IN compares strings, in quotes even if they are numbers: IN ('1', '2')")}
        while self.next.kind == ",":
            self._tokens.take()
            texts.add(self._string("IN compares strings, in quotes even if they are numbers: IN ('1', '2')"))
        self._expect(")", "the strings of IN end with a parenthesis")
        one_of = OneOf(left, frozenset(texts))
        return Not(one_of) if is_not else one_of

    def _unary(self) -> Node:
        marks: list[Token] = []
        while self.next.kind in ("+", "-", "NOT"):
            marks.append(self._tokens.take())
            if len(marks) > DEPTH_MAX:
                raise self._too_much(marks[0].at, f"more than {DEPTH_MAX} signs and NOTs one after the other")
        at = self.next.at
        node = self._primary()
        for mark in reversed(marks):
            if mark.kind == "-":
                node = self._limited(_negative(node), mark.at)
            elif mark.kind == "NOT":
                node = self._limited(Not(self._condition(node, at)), mark.at)
            at = mark.at
        return node

    def _primary(self) -> Node:
        token = self._tokens.take() if self.next.kind != STRING else self.next
        if token.kind == STRING:
            return Literal(self._string(""))
        if token.kind == NAME:
            return Property(token.text)
        if token.kind == INTEGER:
            return Literal(self._integer(token))
        if token.kind == FLOAT:
            return Literal(self._float(token))
        if token.kind in _CONSTANTS:
            return Literal(_CONSTANTS[token.kind])
        if token.kind == "(":
            return self._in_parentheses(token)
        found = "it ends" if token.kind == END else f"{token.text!r} stands"
        raise self._problem(token.at, f"{found} where a property, a value or a parenthesis is needed")

    def _in_parentheses(self, opening: Token) -> Node:
        self._parentheses += 1
        if self._parentheses > DEPTH_MAX:
            raise self._too_much(opening.at, f"parentheses are more than {DEPTH_MAX} deep")
        node = self._any()
        self._expect(")", "a parenthesis is not closed")
        self._parentheses -= 1
        return node

    # --- values

    def _string(self, problem: str) -> bytes:
        token = self._expect(STRING, problem)
        try:
            return token.text[1:-1].replace("''", "'").encode()
        except UnicodeEncodeError:
            raise self._problem(token.at, "a string holds half of a pair of surrogates, as no property does") from None

    def _integer(self, token: Token) -> Int | Long:
        digits = token.text.rstrip("lL")
        number = int(digits) if len(digits) <= _INTEGER_DIGITS_MAX else 1 << 63
        if number >= 1 << 63:
            raise self._problem(token.at, f"the number is greater than {(1 << 63) - 1}")
        return Int(number) if number < 1 << 31 else Long(number)

    def _float(self, token: Token) -> float:
        number = float(token.text)
        if number == 0 or math.isinf(number):
            raise self._problem(token.at, f"{token.text[:40]} is too {'small' if number == 0 else 'large'}: zero is 0")
        return number

    # --- checks

    def _equal(self, left: Node, left_at: int, right: Node, right_at: int) -> Equal:
        for node, at in ((left, left_at), (right, right_at)):
            if isinstance(node, Literal) and node.is_plain and node.value is None:
                raise self._problem(at, "nothing equals NULL: write IS NULL or IS NOT NULL")
        if _is_plain(left, right) and is_condition(left) and not is_condition(right):
            raise self._problem(right_at, "TRUE and FALSE are compared with each other, or with a property")
        self._count()
        return Equal(left, right)

    def _order(self, left: Node, left_at: int, sign: str, right: Node, right_at: int) -> Order:
        for node, at in ((left, left_at), (right, right_at)):
            if isinstance(node, Literal) and number_of(node) is None:
                raise self._problem(at, f"{sign} compares numbers and properties; strings can be equal or not")
            if is_condition(node):
                raise self._problem(at, f"{sign} compares numbers and properties, and this is true or false already")
        self._count()
        return Order(left, sign, right)

    def _condition(self, node: Node, at: int) -> Condition:
        if isinstance(node, Property):
            self._count()
            return Cast(node)
        if is_condition(node):
            return cast("Condition", node)
        raise self._problem(at, "this is neither true nor false: compare it with something")

    def _limited(self, node: Condition | Nothing, at: int) -> Condition:
        if node.depth > DEPTH_MAX:
            raise self._too_much(at, f"comparisons are nested more than {DEPTH_MAX} deep")
        return cast("Condition", node)

    def _count(self, terms: int = 1) -> None:
        self.terms += terms
        if self.terms > TERMS_MAX:
            raise self._too_much(self.next.at, f"more than {TERMS_MAX} comparisons")

    def _expect(self, kind: str, problem: str) -> Token:
        if self.next.kind != kind:
            raise self._problem(self.next.at, problem)
        return self._tokens.take()

    def _too_much(self, at: int, problem: str) -> ExpressionError:
        return ExpressionError(self._text, at, problem, is_too_much=True)

    def _problem(self, at: int, problem: str) -> ExpressionError:
        return ExpressionError(self._text, at, problem)


def _is_plain(*nodes: Node) -> bool:
    return all(isinstance(node, Literal) and node.is_plain for node in nodes)


def _negative(node: Node) -> Literal | Nothing:
    number = number_of(node)
    return Nothing(node) if number is None else Literal(type(number)(-number), is_plain=False)
