"""Java's values: how a property is read as a number, and how two values compare.

A property is text, here its UTF-8 bytes; a comparison reads it as whatever stands on the other side. What cannot be
read so is a `ValueError`, which fails the whole expression.
"""

from __future__ import annotations

import math
import re
import unicodedata
from functools import cache, lru_cache
from typing import Final, TypeAlias


class Int(int):
    """A number of 32 bits. Java: Integer."""


class Long(int):
    """A number of 64 bits. Java: Long."""


Number: TypeAlias = "Int | Long | float"
Value: TypeAlias = "bytes | bool | Int | Long | float | None"
"""Of a property or a literal. `None` is unknown, `bytes` is text."""

_DIGITS_MAX: Final = 19
_DOUBLE: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?)", re.ASCII
)
_HEX_DOUBLE: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?", re.ASCII
)
"""Neither goes back over what it has read, or thirty thousand digits with a letter behind them would take minutes."""
_READ_MAX: Final = 64
"""Of the messages' numbers the last so many are known: an expression may ask a hundred times for one, and they are as
long as properties."""
_SHORT_BYTES, _LONG_BYTES = 2000, 30_000
_JAVA_BLANKS: Final = bytes(range(0x21))


def to_int(text: bytes) -> int:
    """As Java's Integer.valueOf reads it.

    >>> to_int(b"-7"), to_int(b"+007"), to_int("٣".encode())
    (-7, 7, 3)
    """
    return _to_integer(text, 31)


def to_long(text: bytes) -> int:
    """As Java's Long.valueOf reads it."""
    return _to_integer(text, 63)


@lru_cache(_READ_MAX)
def _to_integer(text: bytes, bits: int) -> int:
    sign, digits = (text[:1], text[1:]) if text[:1] in (b"-", b"+") else (b"", text)
    if not digits.isdigit():
        digits = _ascii_digits(digits)
    digits = digits.lstrip(b"0") or b"0"
    if len(digits) > _DIGITS_MAX:
        raise ValueError("too many digits")
    number = -int(digits) if sign == b"-" else int(digits)
    if not -1 << bits <= number < 1 << bits:
        raise ValueError("too large")
    return number


def _ascii_digits(text: bytes) -> bytes:
    """Digits of any script that one of Java's characters holds, without the zeros before them."""
    digits = text.decode()  # bytes that are no UTF-8 are no digits, and their error is a ValueError
    if not digits.isdecimal():
        raise ValueError("no number")
    digits = digits.lstrip(_zeros())
    if len(digits) > _DIGITS_MAX or not all(digit <= "\uffff" for digit in digits):
        raise ValueError("too many digits, or one of two characters")
    return "".join([str(unicodedata.digit(digit)) for digit in digits]).encode()


@cache
def _zeros() -> str:
    """The zeros of all scripts."""
    return "".join([zero for zero in map(chr, range(0x10000)) if unicodedata.decimal(zero, 1) == 0])


@lru_cache(_READ_MAX)
def to_double(text: bytes) -> float:
    """As Java's Double.valueOf reads it.

    >>> to_double(b" 5. "), to_double(b"1e3f"), to_double(b"-Infinity"), to_double(b"0x1p3")
    (5.0, 1000.0, -inf, 8.0)
    """
    written = text.strip(_JAVA_BLANKS).decode("ascii")  # its error is a ValueError
    if _DOUBLE.fullmatch(written):
        return float(written.rstrip("fFdD") if written[-1] in "fFdD" else written)
    found = _HEX_DOUBLE.fullmatch(written)
    if found is None:
        raise ValueError("no number")
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return -math.inf if written.startswith("-") else math.inf


def to_bound(text: bytes) -> float:
    """The same for who compares it with a literal, which is finite: what is no number is greater than all, as in Java.

    >>> to_bound(b"NaN") > 5.0
    True
    """
    number = to_double(text)
    return math.inf if math.isnan(number) else number


def compare(left: Value, right: Value) -> int:
    """Less, equal or greater, as -1, 0 or 1, of two values that are known. Java: ComparisonExpression.__compare.

    Raises `ValueError` for what Java fails on.
    """
    if isinstance(left, bool):
        if isinstance(right, bytes):
            raise ValueError("true and false are compared with text from the right only")
        return _order(left, right) if isinstance(right, bool) else -1
    if isinstance(right, bool):
        return _order(left.lower() == b"true", right) if isinstance(left, bytes) else -1
    if isinstance(left, bytes):
        if isinstance(right, bytes):
            return _order(left, right)
        return _compare_numbers(_read_as(right, left), right)
    if isinstance(right, bytes):
        right = _read_as(left, right)
    return _compare_numbers(left, right)


def _order(left: bool | bytes, right: bool | bytes) -> int:
    return (left > right) - (left < right)  # type: ignore[operator]  # both are of one kind


def _read_as(like: Value, text: bytes) -> Value:
    if isinstance(like, float):
        return to_double(text)
    return Long(to_long(text)) if isinstance(like, Long) else Int(to_int(text))


def _compare_numbers(left: Value, right: Value) -> int:
    assert left is not None
    assert right is not None
    if isinstance(left, float) or isinstance(right, float):
        return compare_doubles(float(left), float(right))
    return (left > right) - (left < right)  # type: ignore[operator]  # both are integers by now


def compare_doubles(left: float, right: float) -> int:
    """Java: Double.compare. Zero is greater than minus zero, and what is no number is the greatest of all."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) - math.isnan(right)
    if left == right:
        return (math.copysign(1, left) > math.copysign(1, right)) - (math.copysign(1, left) < math.copysign(1, right))
    return 1 if left > right else -1


def equal(left: Value, right: Value) -> bool | None:
    """`left = right`. Java: ComparisonExpression.doCreateEqual.

    >>> equal(None, None), equal(None, b"x"), equal(b"x", None), equal(b"5", Int(5))
    (True, None, False, True)
    """
    if left is None or right is None:
        return True if left is right else None if left is None else False
    return compare(left, right) == 0


def contains(text: bytes, part: bytes) -> bool:
    """`part in text`, both UTF-8, in a time that grows with their lengths and not with the product of them.

    In long texts Python looks for parts so by itself, and nothing in UTF-8 has the byte that makes a text long.
    """
    return part in (text if len(text) <= _SHORT_BYTES else text.ljust(_LONG_BYTES, b"\xff"))


def order(left: Value, right: Value) -> int:
    """How two values stand to each other where `< <= > >=` compares them: texts are numbers then."""
    if isinstance(left, bytes) and isinstance(right, bytes):
        return compare_doubles(to_double(left), to_double(right))
    return compare(left, right)
