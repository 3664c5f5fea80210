"""Running a server in the foreground, until it is told to stop."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, Self

import click

from rocketline import __version__
from rocketline.cli.servers.logging_options import start_logging
from rocketline.errors import ListenError

if TYPE_CHECKING:
    from rocketline.logs import Log
    from rocketline.settings import Settings


class Listening(Protocol):
    """A server, which listens from its beginning as a context to its end."""

    @property
    def address(self) -> str: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *details: object) -> None: ...


def run_in_foreground(serving: Coroutine[Any, Any, None], remedy: str, log_level: str, log_format: str) -> None:
    """Run it to its end. If it cannot listen, `remedy` says what to do, and the process ends with status 1."""
    from rocketline.net.loop import run

    start_logging(log_level, log_format)
    try:
        run(serving)
    except ListenError as error:
        click.echo(f"rocketline: cannot listen on {error.address}: {error.problem}; {remedy}", err=True)
        sys.exit(1)


async def serve_until_stopped(server: Listening, log: Log, what: str, **told: object) -> None:
    """Start it, say in the log `what` is ready, and close it when a signal comes."""
    from rocketline.cli.shared.signals import stop_signals

    with stop_signals() as stop:
        async with server:
            log.info(f"{what} ready", address=server.address, **told, version=__version__)
            await stop.wait()
            log.info(f"{what} closing")
    log.info(f"{what} closed")


def warn_of_settings(settings: Settings[Any], log: Log) -> None:
    if settings.without_effect:
        log.warning("settings without effect", names="; ".join(settings.without_effect))
