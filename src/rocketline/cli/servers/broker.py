"""`rocketline broker`: run a broker in the foreground."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketline.cli.servers.foreground import run_in_foreground, serve_until_stopped, warn_of_settings
from rocketline.cli.servers.logging_options import logging_options

if TYPE_CHECKING:
    from rocketline.broker.config import BrokerConfig
    from rocketline.settings import Settings

_EXAMPLES = """\b
Examples:
  rocketline broker -n 127.0.0.1:9876        port 10911, store in ~/store
  rocketline broker -c broker.conf           Apache's own file, or TOML
  rocketline broker -c broker.conf -p        what would be in force
  rocketline broker -n 'ns1:9876;ns2:9876'   several name servers
  ROCKETLINE_BROKER_STORE_PATH_ROOT_DIR=/data/mq rocketline broker

\b
Each layer goes over those before it: defaults, the file, the environment
(ROCKETLINE_BROKER_ and the key, as above), these options. A key that Rocketline
does not implement and that concerns security, role, replication or the kind of
store stops the start; other keys without effect are named.
SIGTERM and Ctrl-C close it cleanly.
"""


@click.command(short_help="Run a broker.", epilog=_EXAMPLES)
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), metavar="FILE", help="Settings to load.")
@click.option(
    "-n", "--namesrv", "name_servers", metavar="NAMESERVERS", help="Name servers, host:port;host:port (namesrvAddr)."
)
@click.option("-p", "--print-config", is_flag=True, help="Show every setting and where it came from, then end.")
@logging_options
def broker(file: Path | None, name_servers: str | None, print_config: bool, log_level: str, log_format: str) -> None:
    """Run a broker: producers send it messages, it keeps them, consumers pull them."""
    from rocketline.broker.config import load_settings
    from rocketline.settings import Flag

    flags = [] if name_servers is None else [Flag("-n", "namesrvAddr", name_servers)]
    settings = load_settings(file, environ=os.environ, flags=flags)
    if print_config:
        from rocketline.cli.servers.settings_table import print_settings

        print_settings(settings)
        return
    remedy = "choose another address with bindAddress and listenPort"
    run_in_foreground(_serve(settings), remedy, log_level, log_format)


async def _serve(settings: Settings[BrokerConfig]) -> None:
    from rocketline.broker.server import Broker
    from rocketline.logs import Log

    log = Log("rocketline.broker")
    warn_of_settings(settings, log)
    if not settings.value.name_servers:
        log.warning("no name server: clients find this broker by its address only; name one with -n")
    await serve_until_stopped(Broker(settings), log, "broker", name=settings.value.broker_name)
