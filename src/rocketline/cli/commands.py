"""The group of all commands, and how their failures are told."""

from __future__ import annotations

import errno
from importlib import import_module
from typing import Final

import click

from rocketline import __version__
from rocketline.cli.entry import INTERRUPTED
from rocketline.errors import ConfigError, RocketlineError

_EXAMPLES = """\b
Examples:
  rocketline demo                        see it work
  rocketline serve                       name server and broker on this machine
  rocketline send orders 'two teapots'   a message; the topic comes with it
  rocketline tail orders --follow        watch a topic
  rocketline group lag                   how far all groups are
  rocketline cluster show                who is there and what they do
  rocketline pipeline run orders.toml    topics to tables and back, on Spark
  rocketline store check ~/store         are the files of a broker whole?
  rocketline broker -c broker.conf       with Apache's own configuration file
"""


_COMMANDS: Final = {
    "broker": "servers.broker",
    "cluster": "cluster.cluster",
    "consume": "messages.consume",
    "demo": "demo.command",
    "group": "cluster.group",
    "message": "messages.message",
    "nameserver": "servers.nameserver",
    "pipeline": "pipeline.commands",
    "send": "messages.send",
    "serve": "servers.serve",
    "store": "servers.store",
    "tail": "messages.tail",
    "timer": "messages.timer",
    "topic": "cluster.topic",
    "transaction": "messages.transaction",
}
"""Where each is, as a function of its own name."""


class Commands(click.Group):
    """Loads a command when it is asked for: those of servers and of clients need little of each other.

    A failure is a line on standard error: status 2 for wrong settings (one line each), 1 for everything else, and
    after a Ctrl-C that a command was not meant to end by what shells give.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"rocketline.cli.{_COMMANDS[cmd_name]}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("rocketline: interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except ConfigError as error:
            for problem in error.problems:
                click.echo(f"rocketline: {problem}", err=True)
            ctx.exit(2)
        except RocketlineError as error:
            click.echo(f"rocketline: {error}", err=True)
            ctx.exit(1)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # Click ends quietly when nobody reads on
            click.echo(f"rocketline: {_told(error)}", err=True)
            ctx.exit(1)


def _told(error: OSError) -> str:
    """What is wrong, with which file, and what to do about it if that is plain."""
    where = f"{error.filename}: " if error.filename else ""
    remedy = "; free some disk space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return f"{where}{(error.strerror or str(error)).lower()}{remedy}"


@click.group(cls=Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def rocketline() -> None:
    """Apache RocketMQ in Python."""
