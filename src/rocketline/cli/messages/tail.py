"""`rocketline tail`: the newest messages of a topic, and those that come."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from rocketline.cli.messages.message_view import MessageLines
from rocketline.cli.shared.arguments import examples, filter_options, selector
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import output_options

if TYPE_CHECKING:
    from rocketline.client.received_message import ReceivedMessage
    from rocketline.errors import RocketlineError
    from rocketline.model.queue import MessageQueue


@click.command(
    short_help="Watch a topic.",
    epilog=examples(
        ("rocketline tail orders", "the last ten messages"),
        ("rocketline tail orders --follow", "and all that come, until Ctrl-C"),
        ("rocketline tail orders -f --lines 0 --tag 'new || paid'", "only with these tags, only new ones"),
        ("rocketline tail orders -f --sql \"price > 5 AND region = 'north'\"", "by their properties"),
        ("rocketline tail orders -f --json | jq .body", "for machines"),
    ),
)
@click.argument("topic")
@click.option("-l", "--lines", "count", type=click.IntRange(0), default=10, show_default=True, help="How many.")
@click.option("-f", "--follow", "is_following", is_flag=True, help="Go on with what comes.")
@filter_options
@click.option("--body", "is_body", is_flag=True, help="Only the bodies.")
@output_options
@connection_options
def tail(
    connection: ClusterConnection,
    is_json: bool,
    topic: str,
    count: int,
    is_following: bool,
    tag: str | None,
    sql: str | None,
    is_body: bool,
) -> None:
    """Show the newest messages of TOPIC. Nobody's offsets change, and no group is needed."""
    lines, chosen = MessageLines(is_json=is_json, is_body=is_body), selector(tag, sql)

    def show(messages: Iterable[ReceivedMessage]) -> None:
        for message in messages:
            lines.show(message)

    def complain(queue: MessageQueue, error: RocketlineError) -> None:
        click.echo(f"rocketline: {queue.broker_name}:{queue.queue_id}: {error}", err=True)

    with connection.admin() as admin:
        if not is_following:
            show(admin.messages.last(topic, count, selector=chosen))
            return
        with suppress(KeyboardInterrupt):
            admin.messages.follow(topic, show, count=count, selector=chosen, complain=complain)
