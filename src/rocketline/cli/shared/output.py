"""What commands print: tables for people, JSON for machines. Commands hand over values, and how they look is here.

A column is named like a field, with its unit, and JSON has that name; people see a time for `_ms`, a duration for `_s`
and a size for `_bytes`.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from rocketline.wire.codes import release_number

if TYPE_CHECKING:
    from rocketline.admin.views import Outcome

Command = TypeVar("Command", bound=Callable[..., Any])

_WIDTH = 10_000
"""Rich would cut or fold what does not fit; a terminal goes on in the next line, and copied text stays whole."""
_BREAKS = re.compile(r"[\t\n\r\u2028\u2029]+")
_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that move the cursor, or turn the direction of writing."""
NOTHING = "–"
"""Shown where there is no value."""


class Output:
    """Standard output, in one of the two ways."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "") -> None:
        """One row after the other; JSON is one object per line. `empty` is told, to people, in place of no rows."""
        if self.is_json:
            for row in rows:
                _write_json(dict(zip(columns, row, strict=True)))
            return
        kept = list(rows)
        if not kept and empty:
            click.echo(empty, err=True)
            return
        titles = [_title(name) for name in columns]
        cells = [[shown(name, value) for name, value in zip(columns, row, strict=True)] for row in kept]
        numbers = [bool(kept) and all(_is_number(row[at]) for row in kept) for at in range(len(columns))]
        if sys.stdout.isatty():
            _print_rich(titles, cells, numbers)
        else:
            click.echo(aligned([titles, *cells], numbers))

    def set_up(
        self,
        told: Mapping[str, object],
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        empty: str = "",
    ) -> None:
        """How each broker has something set up, and what belongs to it: the last of `told`, a list of names."""
        if self.is_json:
            self.record({**told, "brokers": [dict(zip(columns, row, strict=True)) for row in rows]})
            return
        self.table(columns, rows, empty=empty)
        name, others = list(told.items())[-1]
        click.echo(f"{name}: {' '.join(cast('Sequence[str]', others)) or 'none'}")

    def record(self, values: Mapping[str, object]) -> None:
        """One thing: a line for each of its fields, or one JSON object."""
        if self.is_json:
            _write_json(values)
        else:
            pairs = [[_title(name), shown(name, value)] for name, value in values.items()]
            click.echo(aligned(pairs, [False, False]))

    def done(self, sentence: str, values: Mapping[str, object]) -> None:
        """A change was made: a sentence for people, an object for machines."""
        if self.is_json:
            _write_json(values)
        else:
            click.echo(sentence)


def output_options(command: Command) -> Command:
    """Adds `--json`, given to the command as `is_json`."""
    return click.option("--json", "is_json", is_flag=True, help="Print JSON, one object per line.")(command)


def shown(name: str, value: object) -> str:
    """A value for people, by the unit that its name ends in. Texts are others': what would steer a terminal is not
    shown as it is.

    >>> shown("delay_s", 3725.0), shown("log_bytes", 1536), shown("tags", None), shown("lag", 12), shown("id", "a\x1bc")
    ('1h 2m', '1.5 KiB', '–', '12', 'a�c')
    """
    return _STEERING.sub("\ufffd", _BREAKS.sub(" ", _shown(name, value)))


def _shown(name: str, value: object) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if name.endswith("_ms"):
            return local_time(int(value))
        if name.endswith("_per_s"):
            return f"{value:.1f}"
        if name.endswith("_s"):
            return duration(float(value))
        if name.endswith("_bytes"):
            return size(int(value))
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Enum):
        return str(value.name)
    if isinstance(value, Mapping):
        return " ".join(f"{key}={each}" for key, each in value.items()) or NOTHING
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or NOTHING
    return str(value)


def local_time(time_ms: int) -> str:
    """In this machine's time zone."""
    return dt.datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")[:23]


def duration(seconds: float) -> str:
    """The two greatest parts.

    >>> duration(0.25), duration(42), duration(90061)
    ('250ms', '42s', '1d 1h')
    """
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    left, parts = round(seconds), []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def size(count: int) -> str:
    """Bytes in binary units.

    >>> size(1023), size(1536)
    ('1023 B', '1.5 KiB')
    """
    if count < 1024:
        return f"{count} B"
    exponent = (count.bit_length() - 1) // 10
    return f"{count / 1024**exponent:.1f} {'KMGTPE'[exponent - 1]}iB"


def aligned(rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
    """Columns of equal width, numbers at the right: plain text that other programs can cut.

    >>> print(aligned([["topic", "lag"], ["orders", "7"]], [False, True]))
    topic   lag
    orders    7
    """
    widths = [max(len(row[at]) for row in rows) for at in range(len(numbers))]
    lines = (
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, numbers, strict=True)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _print_rich(titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for title, is_number in zip(titles, numbers, strict=True):
        table.add_column(title, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False, width=_WIDTH).print(table)


def _title(name: str) -> str:
    for unit in ("_ms", "_bytes", "_per_s", "_s"):
        if name.endswith(unit):
            name = name.removesuffix(unit) + ("/s" if unit == "_per_s" else "")
            break
    return name.replace("_", " ")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _write_json(values: Mapping[str, object]) -> None:
    click.echo(json.dumps(values, ensure_ascii=False, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.name
    return str(value)


def report(output: Output, sentence: str, values: Mapping[str, object], outcome: Outcome) -> None:
    """What was done, where; then, on standard error, each broker that failed."""
    done = [broker.address for broker in outcome.done]
    failed = {broker.address: str(error) for broker, error in outcome.failed.items()}
    output.done(f"{sentence} on {', '.join(done)}", {**values, "done": done, "failed": failed})
    for address, problem in failed.items():
        click.echo(f"rocketline: not on {address}: {problem}", err=True)


def release_name(number: int) -> str:
    """What `release_number` made a number of; of releases before 4, the number.

    >>> release_name(513), release_name(401), release_name(63)
    ('5.5.0', '4.9.4', '63')
    """
    for major in (5, 4):
        first = release_number(major, 0, 0)
        if number >= first - 1:  # the one before is a release's own snapshot
            minor, patch = divmod((number - first + 1) // 2, 10)
            return f"{major}.{minor}.{patch}"
    return str(number)
