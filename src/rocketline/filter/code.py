"""Writing one function for an expression, in Python's own code: no tree is walked for a message.

`a > 5 AND b = 'x'` becomes

    def matches(properties):
        p = b"\\x02" + properties
        try:
            return (p.rfind(X0) >= 0 and (v0 := …) == X1) and ((v1 := …) is not None and (int(v1) if … ) > 5)
        except ValueError:
            return False

Nothing of an expression's text gets into the code: names and strings are constants beside it, and numbers are written
by us. A property is looked for when it is needed first, by what stands before its name and behind it in the bytes.

An expression is true, false or unknown, or fails. A message is wanted if it is true, so for the most part we ask only
whether a condition *is* what we want it to be, true or (below NOT) false; then unknown is as good as the opposite, and
`and` and `or` of Python are those of the expression. Two places need care, because a failure fails all of the
expression: Java evaluates `B` of `A AND B` if `A` is unknown, so `B` may fail where we would not have looked. Where a
failure decides nothing that "no" would not (`lenient`), that is all the same, and even the order is ours to choose.
Elsewhere the condition is worked out with three values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any as Anything
from typing import Final, NamedTuple, cast

from rocketline.filter import values
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
    number_of,
)
from rocketline.filter.values import Long, Number

_NAME_END: Final = b"\x01"
_ITEM: Final = b"\x02"
"""What stands behind a property's name, and behind its value: that is how records have them (`wire.properties`)."""
_OPPOSITE: Final = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "==": "!="}
_TURNED: Final = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
_SHORT_PART: Final = 16
"""Bytes that Python finds soon, or not, in texts of any length."""
_EARLIER_MAX: Final = 64
_UNSEEN: Final = "\ufffd"
"""What bytes that are no UTF-8 look like. Only expressions that ask for it need properties to be read that closely."""


class _Piece(NamedTuple):
    """An expression of Python's, and the properties that were looked for whenever it was evaluated."""

    code: str
    found: frozenset[str] = frozenset()


_NONE_FOUND: Final[frozenset[str]] = frozenset()


class FunctionWriter:
    """Writes functions for one tree."""

    def __init__(self, tree: Condition) -> None:
        self._tree = tree
        self._variables: dict[str, str] = {}
        self._constants: dict[str, Anything] = {
            "M": _ITEM,
            "contains": values.contains,
            "earlier": _earlier,
            "equal": values.equal,
            "order": values.order,
            "to_int": values.to_int,
            "to_long": values.to_long,
            "to_bound": values.to_bound,
        }
        self._temporaries = 0
        self.is_close = False
        """Properties are looked through for bytes that are no UTF-8, which takes its time if there are many."""

    def matches(self) -> Callable[[bytes], bool]:
        """Whether the expression is true of a message's properties; if it fails, it is not."""
        piece = self._test(self._tree, True, lenient=True, found=_NONE_FOUND)
        return cast(
            "Callable[[bytes], bool]", self._function(f"  return {piece.code}\n except ValueError:\n  return False")
        )

    def evaluate(self) -> Callable[[bytes], bool | None]:
        """What the expression is of a message's properties. The function raises `ValueError` where it fails."""
        piece = self._value(self._tree, _NONE_FOUND)
        return cast(
            "Callable[[bytes], bool | None]", self._function(f"  return {piece.code}\n except ValueError:\n  raise")
        )

    def _function(self, body: str) -> Callable[[bytes], object]:
        read = 'p = str(p, "utf-8", "replace").encode()\n ' if self.is_close else ""
        source = f"def function(properties):\n p = M + properties\n {read}try:\n{body}\n"
        made: dict[str, Anything] = {**self._constants, "__builtins__": _BUILTINS}
        exec(compile(source, "<filter>", "exec"), made)  # noqa: S102  # all of it is ours, see above
        return cast("Callable[[bytes], object]", made["function"])

    # --- is it what we want?

    def _test(self, node: Condition, want: bool, *, lenient: bool, found: frozenset[str]) -> _Piece:
        """True if the condition is `want`, False if it is not or unknown. `found` was looked for before."""
        if isinstance(node, Not):
            return self._test(node.of, not want, lenient=lenient, found=found)
        if isinstance(node, (All, Any)):
            if isinstance(node, All) is want:
                return self._test_each(node, want, lenient=lenient, found=found)
            return self._test_some(node.parts, want, lenient=lenient, found=found)
        if isinstance(node, Literal):
            return _Piece(repr(node.value is want))
        if isinstance(node, Cast):
            return _Piece("False") if want else self._known(node.of, "is not None", found)
        if isinstance(node, IsNull) and isinstance(node.of, Property):
            return self._known(node.of, "is None" if want else "is not None", found)
        if isinstance(node, Find) and isinstance(node.of, Property) and node.text:
            return self._test_find(node, node.of, want, found)
        if isinstance(node, Equal) and want and found.isdisjoint(_names(node.left)):
            text = _text_of(node)
            if text is not None:
                return self._test_text(cast("Property", node.left), text)
        compared = self._compared(node, want)
        if compared is None:
            piece = self._value(node, found)
            return _Piece(f"({piece.code} is {want})", piece.found)
        of, comparison = compared
        fetched, variable = self._fetch(of, found)
        return _Piece(f"({fetched} is not None and {comparison(variable)})", frozenset((of.name,)))

    def _test_each(self, node: All | Any, want: bool, *, lenient: bool, found: frozenset[str]) -> _Piece:
        """All parts must be what is wanted."""
        parts: Sequence[Condition] = node.parts
        if lenient:
            parts = sorted(parts, key=_effort)
        elif _is_order_seen(parts):
            piece = self._value(node, found)
            return _Piece(f"({piece.code} is {want})", piece.found)
        return self._joined(" and ", ((part, lenient) for part in parts), want, found)

    def _test_some(self, parts: Sequence[Condition], want: bool, *, lenient: bool, found: frozenset[str]) -> _Piece:
        """One part must be. A failure of any but the last means something else than "no"."""
        last = len(parts) - 1
        return self._joined(" or ", ((part, lenient and at == last) for at, part in enumerate(parts)), want, found)

    def _joined(self, word: str, parts: Iterable[tuple[Condition, bool]], want: bool, found: frozenset[str]) -> _Piece:
        pieces: list[_Piece] = []
        for part, lenient in parts:
            piece = self._test(part, want, lenient=lenient, found=found)
            found |= piece.found
            pieces.append(piece)
        return _Piece(f"({word.join([piece.code for piece in pieces])})", pieces[0].found)

    def _test_text(self, of: Property, text: bytes) -> _Piece:
        """Most messages do not have it, and that is seen at a glance."""
        begin = self._constant(_mark(of.name) + text)
        fetched, _ = self._fetch(of, _NONE_FOUND)
        return _Piece(f"(p.rfind({begin}) >= 0 and {fetched} == {self._constant(text)})")

    def _test_find(self, node: Find, of: Property, want: bool, found: frozenset[str]) -> _Piece:
        fetched, variable = self._fetch(of, found)
        search = self._search(node, variable)
        if want is node.is_not:
            search = f"not {search}"
        known = f"{fetched} is not None and" if want else f"{fetched} is None or"
        return _Piece(f"({known} {search})", frozenset((of.name,)))

    def _known(self, of: Property, test: str, found: frozenset[str]) -> _Piece:
        fetched, _ = self._fetch(of, found)
        return _Piece(f"({fetched} {test})", frozenset((of.name,)))

    # --- what is it?

    def _value(self, node: Node, found: frozenset[str]) -> _Piece:
        """True, False or None; text, a number or None for what is no condition."""
        if isinstance(node, Property):
            fetched, _ = self._fetch(node, found)
            return _Piece(fetched, frozenset((node.name,)))
        if isinstance(node, Literal):
            return _Piece(self._literal(node))
        if isinstance(node, (All, Any)):
            return self._value_of_all(node, found)
        if isinstance(node, Not):
            piece, at = self._value(node.of, found), self._temporary()
            return _Piece(f"(None if ({at} := {piece.code}) is None else not {at})", piece.found)
        if isinstance(node, Nothing):
            return self._instead(node.of, "None", found)
        if isinstance(node, Cast):
            return self._known_or(node.of, "False", found)
        if isinstance(node, IsNull):
            piece = self._value(node.of, found)
            return _Piece(f"({piece.code} is None)", piece.found)
        if isinstance(node, Find):
            return self._value_of_find(node, found)
        compared = self._compared(node, True)
        if compared is not None:
            of, comparison = compared
            return self._known_or(of, comparison(self._variable(of)), found)
        assert isinstance(node, (Equal, Order))
        return self._value_of_two(node, found)

    def _value_of_all(self, node: All | Any, found: frozenset[str]) -> _Piece:
        decides = not isinstance(node, All)
        pieces: list[_Piece] = []
        for part in node.parts:
            piece = self._value(part, found)
            found |= piece.found
            pieces.append(piece)
        names = [self._temporary() for _ in pieces]
        tests = " or ".join([f"({at} := {piece.code}) is {decides}" for at, piece in zip(names, pieces, strict=True)])
        unknown = " or ".join([f"{at} is None" for at in names])
        return _Piece(f"({decides} if {tests} else None if {unknown} else {not decides})", pieces[0].found)

    def _value_of_find(self, node: Find, found: frozenset[str]) -> _Piece:
        if not node.text:
            return _Piece("False")
        if isinstance(node.of, Property):
            return self._test_find(node, node.of, True, found)
        if isinstance(node.of, Literal) and isinstance(node.of.value, bytes):
            search = self._search(node, self._constant(node.of.value))
            return _Piece(f"(not {search})" if node.is_not else search)
        return self._instead(node.of, "False", found)

    def _value_of_two(self, node: Equal | Order, found: frozenset[str]) -> _Piece:
        left = self._value(node.left, found)
        if isinstance(node, Equal):
            right = self._value(node.right, found | left.found)
            self.is_close = True
            return _Piece(f"equal({left.code}, {right.code})", left.found | right.found)
        right = self._value(node.right, found | left.found)
        one, other = self._temporary(), self._temporary()
        known = f"({one} := {left.code}) is None or ({other} := {right.code}) is None"
        return _Piece(f"(None if {known} else order({one}, {other}) {node.sign} 0)", left.found)

    def _instead(self, node: Node, code: str, found: frozenset[str]) -> _Piece:
        """Evaluated because it may fail, and for nothing else."""
        if not _may_fail(node):
            return _Piece(code)
        piece = self._value(node, found)
        return _Piece(f"[{piece.code}, {code}][1]", piece.found)

    def _known_or(self, of: Property, code: str, found: frozenset[str]) -> _Piece:
        fetched, _ = self._fetch(of, found)
        return _Piece(f"(None if {fetched} is None else {code})", frozenset((of.name,)))

    # --- a property beside a literal

    def _compared(self, node: Condition, want: bool) -> tuple[Property, Callable[[str], str]] | None:
        """What is looked at if this compares a property with something, and how; None if it is not as simple."""
        if isinstance(node, OneOf):
            texts = self._constant(node.texts, *node.texts)
            return node.of, lambda at: f"{at} {'in' if want else 'not in'} {texts}"
        if isinstance(node, Order):
            return self._compared_numbers(node, want)
        if not isinstance(node, Equal) or not isinstance(node.left, Property) or not isinstance(node.right, Literal):
            return None
        sign, value, number = "==" if want else "!=", node.right.value, number_of(node.right)
        if number is not None:
            return node.left, lambda at: f"{_read(at, number)} {sign} {number!r}"
        if isinstance(value, bool):
            return node.left, lambda at: f"({at}.lower() == b'true') {sign} {value}"
        text = self._constant(value, cast("bytes", value))
        return node.left, lambda at: f"{at} {sign} {text}"

    def _compared_numbers(self, node: Order, want: bool) -> tuple[Property, Callable[[str], str]] | None:
        left, right, sign = node.left, node.right, node.sign
        if isinstance(right, Property):
            left, right, sign = right, left, _TURNED[sign]
        number = number_of(right)
        if not isinstance(left, Property) or number is None:
            return None
        if not want:
            sign = _OPPOSITE[sign]
        return left, lambda at: f"{_read(at, number)} {sign} {number!r}"

    def _search(self, node: Find, at: str) -> str:
        text = self._constant(node.text, node.text)
        if node.how == "CONTAINS":
            return f"contains({at}, {text})" if len(node.text) > _SHORT_PART else f"({text} in {at})"
        return f"{at}.{node.how.lower()}({text})"

    # --- names

    def _fetch(self, of: Property, found: frozenset[str]) -> tuple[str, str]:
        """The code that looks for a property, unless that was done, and the variable in which it is then."""
        variable = self._variable(of)
        if of.name in found:
            return variable, variable
        mark = self._constant(_mark(of.name))
        look = f"t[2].partition(M)[0] or earlier(p, {mark}) if (t := p.rpartition({mark}))[1] else None"
        return f"({variable} := {look})", variable

    def _variable(self, of: Property) -> str:
        return self._variables.setdefault(of.name, f"v{len(self._variables)}")

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"w{self._temporaries}"

    def _constant(self, value: object, *texts: bytes) -> str:
        """Its name. `texts` are what properties are compared with."""
        if any(_UNSEEN.encode() in text for text in texts):
            self.is_close = True
        name = f"X{len(self._constants)}"
        self._constants[name] = value
        return name

    def _literal(self, node: Literal) -> str:
        if node.value is None or isinstance(node.value, bool):
            return repr(node.value)
        return self._constant(node.value)


_BUILTINS: Final = {"int": int, "float": float, "len": len, "str": str, "ValueError": ValueError}


def _mark(name: str) -> bytes:
    return _ITEM + name.encode() + _NAME_END


@lru_cache(_EARLIER_MAX)  # an expression may ask a hundred times, and a message say thousands of times nothing
def _earlier(properties: bytes, mark: bytes) -> bytes | None:
    """The last value that is not empty: those who write one that is have said nothing."""
    empty, rest = mark + _ITEM, properties + _ITEM
    while empty in rest:  # each time half of those that are neighbours go, and there may be thousands
        rest = rest.replace(empty, _ITEM)
    return rest.rpartition(mark)[2].partition(_ITEM)[0] or None


def _read(at: str, like: Number) -> str:
    """The property as a number of that kind: most are a few digits, which need no close look."""
    if isinstance(like, float):
        return f"(float({at}) if {at}.isdigit() else to_bound({at}))"
    digits, read = (19, "to_long") if isinstance(like, Long) else (10, "to_int")
    return f"(int({at}) if len({at}) < {digits} and {at}.isdigit() else {read}({at}))"


def _names(node: Node) -> frozenset[str]:
    return frozenset((node.name,)) if isinstance(node, Property) else _NONE_FOUND


def _text_of(node: Equal) -> bytes | None:
    """What a property must be, if a glance at the bytes can tell."""
    if not isinstance(node.left, Property) or not isinstance(node.right, Literal):
        return None
    text = node.right.value
    return text if isinstance(text, bytes) and text and _UNSEEN.encode() not in text else None


def _is_order_seen(parts: Sequence[Condition]) -> bool:
    """Some part may fail that comes after one which may be unknown."""
    is_unknown = False
    for part in parts:
        if is_unknown and _may_fail(part):
            return True
        is_unknown = is_unknown or _may_be_unknown(part)
    return False


def _may_be_unknown(node: Condition) -> bool:
    if isinstance(node, Literal):
        return node.value is None
    if isinstance(node, Not):
        return _may_be_unknown(node.of)
    return not isinstance(node, (IsNull, Find))


def _may_fail(node: Node) -> bool:
    if isinstance(node, (Property, Literal, OneOf, Cast)):
        return False
    if isinstance(node, (IsNull, Find, Not, Nothing)):
        return _may_fail(node.of)
    if isinstance(node, (All, Any)):
        return any(map(_may_fail, node.parts))
    if isinstance(node, Equal):
        sides = node.left, node.right
        return not all(
            isinstance(side, Property) or (isinstance(side, Literal) and isinstance(side.value, bytes))
            for side in sides
        )
    return True


def _effort(node: Condition) -> int:
    """How long a look takes, roughly: texts are compared sooner than numbers are read."""
    if isinstance(node, (All, Any)):
        return sum(map(_effort, node.parts))
    if isinstance(node, Not):
        return _effort(node.of)
    if isinstance(node, Equal):
        return 1 if _text_of(node) is not None else 3
    return 3 if isinstance(node, Order) else 2
