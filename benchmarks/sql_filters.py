"""What an expression in SQL costs for each message that is looked at: `python -m benchmarks.sql_filters`.

By itself, without a broker: the function that an expression becomes, over the properties of one message, of which there
are five, in every way in which it can end. Goal: at most 1 us for `a > 5 AND b = 'x'`. And what it takes to make the
function, once for each expression.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.table import Table

from rocketline.filter import compile_sql
from rocketline.wire.properties import encode_properties

_GOAL_US: Final = 1.0
_LOOKS: Final = 20_000
_EXPRESSIONS: Final = (
    "a > 5 AND b = 'x'",
    "b = 'x' AND a > 5",
    "a BETWEEN 6 AND 9 OR b = 'z'",
    "a IN ('5', '6', '7') AND b IS NOT NULL",
    "b CONTAINS 'x' AND NOT (a > 50)",
)
_OTHERS: Final = {"UNIQ_KEY": "7F00000100001B6BFFFF5A3C9E110001", "TAGS": "new", "region": "north"}
_MESSAGES: Final = {
    "wanted": {"a": "6", **_OTHERS, "b": "x"},
    "a too small": {"a": "5", **_OTHERS, "b": "x"},
    "another b": {"a": "6", **_OTHERS, "b": "y"},
    "neither is there": {"c": "6", **_OTHERS, "d": "x"},
    "a is no number": {"a": "six", **_OTHERS, "b": "x"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="that the medians are taken of")
    rounds = parser.parse_args().rounds
    table = Table(
        title=f"Microseconds a look, of a message with five properties (goal: {_GOAL_US:g} for the first row)"
    )
    table.add_column("expression")
    for column in (*_MESSAGES, "to make it"):
        table.add_column(column, justify="right")
    for expression in _EXPRESSIONS:
        matches = compile_sql(expression).matches
        looks = [_look_us(matches, encode_properties(each), rounds) for each in _MESSAGES.values()]
        table.add_row(expression, *(f"{look:.2f}" for look in looks), f"{_making_us(expression, rounds):.0f}")
    Console(width=140).print(table)


def _look_us(matches: Callable[[bytes], bool], properties: bytes, rounds: int) -> float:
    """The loop around it costs as much as a loop that does nothing, which is taken away."""

    def once() -> float:
        each = range(_LOOKS)
        begin_s = time.perf_counter()
        for _ in each:
            pass
        middle_s = time.perf_counter()
        for _ in each:
            matches(properties)
        return (time.perf_counter() - middle_s) - (middle_s - begin_s)

    return statistics.median(once() for _ in range(rounds)) / _LOOKS * 1e6


def _making_us(expression: str, rounds: int) -> float:
    def once() -> float:
        begin_s = time.perf_counter()
        assert not compile_sql(expression).matches(b"")
        return time.perf_counter() - begin_s

    return statistics.median(once() for _ in range(rounds)) * 1e6


if __name__ == "__main__":
    main()
