"""Expressions in SQL and properties for them, made up: for comparisons with other evaluators."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

NAMES = ("a", "b", "c", "TAGS", "$d_1", "__class__", "v0")
TEXTS = (
    "x", "y", "true", "FALSE", "", "5", "05", "-5", "+5", "5.0", "5.5", "1e3", "1e400", "NaN", "-Infinity", "Infinity",
    "inf", "0x1p3", "5f", " 5 ", "5_0", "2147483647", "2147483648", "-2147483648", "9223372036854775807",
    "9223372036854775808", "9007199254740993", "0.0", "-0.0", "٥", "grün", "''", "it's", "x\x01y", "0", "1", "10",
    "\\", '"', "\n", "\r\n5", "') or exit() #", "{v0}", "5\x00", "\x0b5\x1f", "１２", "😀", "𝟓", "9" * 40,
    "+", "-", ".", "5.", ".5", "+-5", "1e-400", "-1e400", "1e", "0x", "0xFp0", "-0x.8p1d", "0x1p1024", "0x1p-1080",
    "infinity", "nan", "-NaN", "NaNf", "1e5D", "4.9e-324", "1.7976931348623159e308", "-9223372036854775808",
    "-9223372036854775809", "-2147483649", "0" * 30 + "7", "5L", "5\u00a0", "\u30005", "ＴＲＵＥ", "trüe", "\ufffd",
    "x\ufffd", "-" + "9" * 40,
)  # fmt: skip
NUMBERS = (
    "0", "1", "5", "5L", "10", "5.0", "5.5", "1e3", ".5", "2147483647", "2147483648", "9223372036854775807", "0l", "5l",
    "9223372036854775808", "05", "1.", "1e308", "1e309", "4.9e-324", "1e-400", "0.0", "0x5", "5f", "9007199254740993.0",
)  # fmt: skip
_SIGNS = ("=", "<>", ">", ">=", "<", "<=")
_FINDS = ("CONTAINS", "STARTSWITH", "ENDSWITH")


def made_properties(random: Random) -> dict[str, str]:
    values = [value for value in TEXTS if value]
    return {name: random.choice(values) for name in NAMES if random.random() < 0.75}


def laid_out(random: Random, properties: dict[str, str]) -> bytes:
    """The properties as a record has them; some as no client of ours would write them: named twice, empty, without a
    name, cut off, or no UTF-8."""
    items = [name.encode() + b"\x01" + value.encode("utf-8", "replace") for name, value in properties.items()]
    if random.random() < 0.3:
        name = random.choice(NAMES).encode()
        items.insert(random.randrange(len(items) + 1), random.choice(_ODD_ITEMS).replace(b"a", name))
    data = b"\x02".join(items)
    return data + b"\x02" if random.random() < 0.8 else data


_ODD_ITEMS = (
    b"a", b"a\x01", b"", b"\x01x", b"a\x01\xff", b"a\x01x\xe2\x82", b"a\x01\xf0\x9f\x98x", b"a\x01\xc0\x80", b"a\x01x",
    b"a\x015", b"xa\x015", b"a\x01a\x015", b"a \x015", b"\xffa\x015", b"a\x01\x015",
)  # fmt: skip


def made_expression(random: Random, depth: int = 3) -> str:
    """Most of them can be read; all kinds of comparisons are among them, with the odd operand."""
    if depth and random.random() < 0.55:
        left, right = made_expression(random, depth - 1), made_expression(random, depth - 1)
        return random.choice(
            (f"({left}) AND ({right})", f"({left}) OR ({right})", f"NOT ({left})", f"{left} AND {right}",
             f"({left}) = ({right})", f"({left}) <> {_operand(random)}", f"({left}) IS NULL", f"{left} OR {right}",
             f"-({left}) IS NOT NULL", f"({left}) CONTAINS {_text(random)}")
        )  # fmt: skip
    return _leaf(random)


def _leaf(random: Random) -> str:
    name, is_not = random.choice(NAMES), random.choice(("", "NOT "))
    kind = random.randrange(10)
    if kind < 3:
        return f"{name} {random.choice(_SIGNS)} {random.choice(('', '-', '+'))}{random.choice(NUMBERS)}"
    if kind == 3:
        return f"{name} {random.choice(('=', '<>'))} {_text(random)}"
    if kind == 4:
        return f"{_operand(random)} {random.choice(_SIGNS)} {_operand(random)}"
    if kind == 5:
        return f"{name} {is_not}BETWEEN {_number(random)} AND {_number(random)}"
    if kind == 6:
        texts = ", ".join(_text(random) for _ in range(random.randint(1, 7)))
        return f"{name} {is_not}IN ({texts})"
    if kind == 7:
        return f"{_operand(random)} {is_not}{random.choice(_FINDS)} {_text(random)}"
    if kind == 8:
        return f"{_operand(random)} IS {is_not}NULL"
    return random.choice((name, "TRUE", "FALSE", "NULL", f"NOT {name}", f"{name} = TRUE", f"FALSE = {name}"))


def _operand(random: Random) -> str:
    choices = (
        random.choice(NAMES),
        random.choice(NAMES),
        _number(random),
        _text(random),
        "TRUE",
        f"-{random.choice(NAMES)}",
    )
    return random.choice(choices)


def _number(random: Random) -> str:
    return random.choice(("", "", "-")) + random.choice(NUMBERS)


def _text(random: Random) -> str:
    return "'" + random.choice(TEXTS).replace("'", "''") + "'"


_seeds = st.integers(0, 2**64 - 1)
expressions = _seeds.map(lambda seed: made_expression(Random(seed)))
properties = _seeds.map(lambda seed: made_properties(Random(seed)))
