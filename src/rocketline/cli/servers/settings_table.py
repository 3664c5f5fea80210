"""Settings for people to read: every value, and where it came from."""

from __future__ import annotations

import sys
from typing import Any

import click

from rocketline.settings import Layer, Row, Settings

_WIDTH_WITH_MEANING = 160


def print_settings(settings: Settings[Any]) -> None:
    """A table on a terminal; plain aligned text for a file or a pipe."""
    if _is_terminal():
        _print_table(settings.table())
    else:
        click.echo(_aligned(settings.table()))
    for item in settings.without_effect:
        click.echo(f"without effect: {item}", err=True)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _print_table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    columns = ["setting", "value", "from", "meaning"]
    shown = 4 if console.width >= _WIDTH_WITH_MEANING else 3
    table = Table(*columns[:shown], header_style="bold")
    for row in rows:
        style = "dim" if row.origin.layer is Layer.DEFAULT else "cyan"
        cells = [Text(row.key), Text(row.value), Text(str(row.origin), style=style), Text(row.help)]
        table.add_row(*cells[:shown])
    console.print(table)


def _aligned(rows: list[Row]) -> str:
    key_width = max(len(row.key) for row in rows)
    value_width = max(len(row.value) for row in rows)
    return "\n".join(f"{row.key:<{key_width}}  {row.value:<{value_width}}  {row.origin}" for row in rows)
