"""The group of all commands, and how their failures are told."""

from __future__ import annotations

import errno

import click

from rocketline import __version__
from rocketline.cli.broker import broker
from rocketline.cli.cluster import cluster
from rocketline.cli.consume import consume
from rocketline.cli.demo import demo
from rocketline.cli.group import group
from rocketline.cli.message import message
from rocketline.cli.nameserver import nameserver
from rocketline.cli.pipeline import pipeline
from rocketline.cli.send import send
from rocketline.cli.serve import serve
from rocketline.cli.tail import tail
from rocketline.cli.topic import topic
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
  rocketline broker -c broker.conf       with Apache's own configuration file
"""


class Commands(click.Group):
    """A failure is a line on standard error: status 2 for wrong settings (one line each), 1 for everything else."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
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
            click.echo(f"rocketline: {(error.strerror or str(error)).lower()}", err=True)
            ctx.exit(1)


@click.group(cls=Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def rocketline() -> None:
    """Apache RocketMQ in Python."""


for command in (broker, cluster, consume, demo, group, message, nameserver, pipeline, send, serve, tail, topic):
    rocketline.add_command(command)
