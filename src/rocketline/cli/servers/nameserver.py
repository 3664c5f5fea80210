"""`rocketline nameserver`: run a name server in the foreground."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rocketline.cli.servers.foreground import run_in_foreground, serve_until_stopped, warn_of_settings
from rocketline.cli.servers.logging_options import logging_options
from rocketline.cli.servers.settings_table import print_settings
from rocketline.logs import Log
from rocketline.nameserver.config import NameServerConfig, load_settings
from rocketline.nameserver.server import NameServer
from rocketline.settings import Flag, Settings

_EXAMPLES = """\b
Examples:
  rocketline nameserver                            port 9876, all addresses
  rocketline nameserver --host 127.0.0.1 --port 0  a free port, only from here
  rocketline nameserver -c namesrv.conf            Apache's own file, or TOML
  rocketline nameserver -c my.toml -p              what would be in force
  ROCKETLINE_NAMESERVER_LISTEN_PORT=9000 rocketline nameserver

\b
Each layer goes over those before it: defaults, the file, the environment
(ROCKETLINE_NAMESERVER_ and the key, as above), these options.
SIGTERM and Ctrl-C close it cleanly.
"""


@click.command(short_help="Run a name server.", epilog=_EXAMPLES)
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), metavar="FILE", help="Settings to load.")
@click.option("--host", metavar="HOST", help="Address to listen on (bindAddress).")
@click.option("--port", metavar="PORT", help="Port to listen on (listenPort); 0 takes a free one.")
@click.option("-p", "--print-config", is_flag=True, help="Show every setting and where it came from, then end.")
@logging_options
def nameserver(
    file: Path | None, host: str | None, port: str | None, print_config: bool, log_level: str, log_format: str
) -> None:
    """Run a name server: brokers register their topics with it, clients ask it for routes."""
    given = (("--host", "bindAddress", host), ("--port", "listenPort", port))
    flags = [Flag(option, key, text) for option, key, text in given if text is not None]
    settings = load_settings(file, environ=os.environ, flags=flags)
    if print_config:
        print_settings(settings)
        return
    run_in_foreground(_serve(settings), "choose another address with --host and --port", log_level, log_format)


async def _serve(settings: Settings[NameServerConfig]) -> None:
    log, serialize_type = Log("rocketline.nameserver"), settings.value.network.serialize_type
    warn_of_settings(settings, log)
    await serve_until_stopped(NameServer(settings), log, "name server", serialize=serialize_type.name)
