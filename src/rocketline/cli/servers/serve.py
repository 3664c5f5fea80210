"""`rocketline serve`: a name server and a broker in one process, for development and small installations."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketline import __version__
from rocketline.cli.servers.logging_options import logging_options, start_logging
from rocketline.errors import ListenError

if TYPE_CHECKING:
    from rocketline.cli.servers.joint_settings import Wishes
    from rocketline.store.filesystem import FileSystem

_MEMORY_BYTES = 1024**3

_READY = f"""\
Rocketline {__version__} is ready.
  name server  {{name_server}}   (this is what clients need to know)
  broker       {{broker}}
  messages in  {{kept}}
Try: rocketline send -n {{name_server}} orders "two teapots"
Ctrl-C ends it."""

_EXAMPLES = """\b
Examples:
  rocketline serve                       name server 9876, broker 10911, loopback
  rocketline serve --memory              keep nothing: for tests and trials
  rocketline serve --dir ./mq            keep everything below ./mq
  rocketline serve --host 0.0.0.0        for other machines too
  rocketline serve -c broker.conf        with the settings of a broker

\b
Then point any RocketMQ client at 127.0.0.1:9876, for example:
  rocketline send orders "two teapots"
SIGTERM and Ctrl-C close it cleanly.
"""


@click.command(short_help="Run a name server and a broker together.", epilog=_EXAMPLES)
@click.option(
    "-c", "--config", "file", type=click.Path(path_type=Path), metavar="FILE", help="Settings of the broker to load."
)
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Where everything is kept. By default rocketline in the user's data folder.",
)  # fmt: skip
@click.option("--host", metavar="HOST", help="Address to listen on and to tell clients.  [default: 127.0.0.1]")
@click.option("--nameserver-port", type=click.IntRange(0, 65535), metavar="PORT", help="[default: 9876]")
@click.option("--broker-port", type=click.IntRange(0, 65535), metavar="PORT", help="[default: 10911]")
@click.option("--memory", "is_memory", is_flag=True, help="Keep everything in memory, and nothing after the end.")
@logging_options
def serve(
    file: Path | None,
    folder: Path | None,
    host: str | None,
    nameserver_port: int | None,
    broker_port: int | None,
    is_memory: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Run a name server and a broker in one process: all that clients need, on this machine only unless told otherwise.

    A port of 0 takes a free one.
    """
    from rocketline.cli.servers.joint_settings import Wishes
    from rocketline.net.loop import run
    from rocketline.settings.places import data_folder

    start_logging(log_level, log_format)
    with tempfile.TemporaryDirectory(prefix="rocketline-") as passing:
        given = Path(passing) if is_memory else folder
        wishes = Wishes(file, given, data_folder() / "rocketline", host, nameserver_port, broker_port, is_memory)
        try:
            run(_serve(wishes))
        except ListenError as error:
            remedy = "choose others with --host, --nameserver-port and --broker-port"
            click.echo(f"rocketline: cannot listen on {error.address}: {error.problem}; {remedy}", err=True)
            sys.exit(1)


async def _serve(wishes: Wishes) -> None:
    from rocketline.broker.server import Broker
    from rocketline.cli.servers.joint_settings import reachable
    from rocketline.cli.shared.signals import stop_signals
    from rocketline.logs import Log
    from rocketline.nameserver.server import NameServer

    log = Log("rocketline.serve")
    with stop_signals() as stop:
        async with NameServer(wishes.name_server_settings()) as name_server:
            found_at = reachable(name_server.address)
            settings = wishes.broker_settings(found_at)
            if settings.without_effect:
                log.warning("settings without effect", names="; ".join(settings.without_effect))
            async with Broker(settings, files=_memory() if wishes.is_memory else None) as broker:
                kept = "memory" if wishes.is_memory else str(settings.value.store.store_path_root_dir)
                click.echo(_READY.format(name_server=found_at, broker=broker.address, kept=kept))
                await stop.wait()
                log.info("closing")
    log.info("closed")


def _memory() -> FileSystem:
    from rocketline.clock import SystemClock
    from rocketline.store.memory_filesystem import MemoryFileSystem

    return MemoryFileSystem(SystemClock(), capacity=_MEMORY_BYTES)
