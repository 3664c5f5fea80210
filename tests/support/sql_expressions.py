"""Expressions in SQL and properties for them, made up: for comparisons with other evaluators."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

NAMES = ("a", "b", "c", "TAGS", "$d_1")
TEXTS = (
    "x", "y", "true", "FALSE", "", "5", "05", "-5", "+5", "5.0", "5.5", "1e3", "1e400", "NaN", "-Infinity", "Infinity",
    "inf", "0x1p3", "5f", " 5 ", "5_0", "2147483647", "2147483648", "-2147483648", "9223372036854775807",
    "9223372036854775808", "9007199254740993", "0.0", "-0.0", "٥", "grün", "''", "it's", "x\x01y", "0", "1", "10",
)  # fmt: skip
NUMBERS = ("0", "1", "5", "5L", "10", "5.0", "5.5", "1e3", ".5", "2147483647", "2147483648", "9223372036854775807")
_SIGNS = ("=", "<>", ">", ">=", "<", "<=")
_FINDS = ("CONTAINS", "STARTSWITH", "ENDSWITH")


def made_properties(random: Random) -> dict[str, str]:
    values = [value for value in TEXTS if value]
    return {name: random.choice(values) for name in NAMES if random.random() < 0.75}


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
