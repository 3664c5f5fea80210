"""Running a server in the foreground, until it is told to stop."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any

import click

from rocketline.cli.servers.logging_options import start_logging
from rocketline.errors import ListenError


def run_in_foreground(serving: Coroutine[Any, Any, None], remedy: str, log_level: str, log_format: str) -> None:
    """Run it to its end. If it cannot listen, `remedy` says what to do, and the process ends with status 1."""
    from rocketline.net.loop import run

    start_logging(log_level, log_format)
    try:
        run(serving)
    except ListenError as error:
        click.echo(f"rocketline: cannot listen on {error.address}: {error.problem}; {remedy}", err=True)
        sys.exit(1)
