"""The options that every server has: what it logs, and how."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from rocketline.logs import LogFormat, configure

Command = TypeVar("Command", bound=Callable[..., Any])

_LEVELS = ("debug", "info", "warning", "error")


def logging_options(command: Command) -> Command:
    """Adds `--log-level` and `--log-format`."""
    level = click.option(
        "--log-level", type=click.Choice(_LEVELS), default="info", show_default=True, help="The least that is logged."
    )
    log_format = click.option(
        "--log-format",
        type=click.Choice([choice.value for choice in LogFormat]),
        default=LogFormat.TEXT.value,
        show_default=True,
        help="Lines for people, or JSON for machines.",
    )
    return level(log_format(command))


def start_logging(level: str, log_format: str) -> None:
    """Send logs to standard error, as the options say."""
    configure(level, LogFormat(log_format), sys.stderr)
