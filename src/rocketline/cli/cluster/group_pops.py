"""The commands of `rocketline group` that are about popping: who pops, and what is out."""

from __future__ import annotations

import click

from rocketline.cli.shared.arguments import examples
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import Output, output_options, report
from rocketline.model.subscription import MessageRequestMode

_FLIGHT_COLUMNS = ["topic", "broker", "queue", "in_flight", "popped_ms", "visible_ms", "last_visible_ms"]


@click.command(
    short_help="Whether a group pulls a topic, or pops it.",
    epilog=examples(
        ("rocketline group mode billing orders", "what each broker was told"),
        ("rocketline group mode billing orders pop", "messages go to whoever has time"),
        ("rocketline group mode billing orders pull", "each queue to one consumer"),
    ),
)
@click.argument("name")
@click.argument("topic")
@click.argument("mode", required=False, type=click.Choice(["pull", "pop"]))
@click.option(
    "--share",
    "share_count",
    type=click.IntRange(0),
    help="Whoever pops shares its queues with so many; 0: all with all.",
)
@output_options
@connection_options
def mode(
    connection: ClusterConnection, is_json: bool, name: str, topic: str, mode: str | None, share_count: int | None
) -> None:
    """Show how push consumers of the group NAME get the messages of TOPIC, or have them pull or pop it.

    Consumers that leave it to brokers change over within 20 s. Where a broker was told nothing, its setting
    defaultMessageRequestMode counts.
    """
    if share_count is not None and mode != "pop":
        raise click.UsageError("--share is for those that pop: write it after pop")
    output = Output(is_json=is_json)
    with connection.admin() as admin:
        if mode is None:
            told = admin.pops.modes(name, topic)
            rows = [
                [broker.name, broker.address, each and each.mode.name.lower(), each and each.share_queue_count]
                for broker, each in told.items()
            ]
            output.table(["broker", "address", "mode", "share"], rows)
            return
        outcome = admin.pops.set_mode(name, topic, MessageRequestMode[mode.upper()], share_queue_count=share_count or 0)
    report(output, f"group {name} is told to {mode} {topic}", {"group": name, "topic": topic, "mode": mode}, outcome)


@click.command(
    short_help="What a group has popped and not acknowledged.",
    epilog=examples(
        ("rocketline group inflight billing", "how many messages of which queue, and when they come again"),
        ("rocketline group inflight billing --limit 100000 --json", "looks at more of the brokers' records"),
    ),
)
@click.argument("name")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Records looked at in each queue of them.",
)
@output_options
@connection_options
def inflight(connection: ClusterConnection, is_json: bool, name: str, limit: int) -> None:
    """Show what consumers of the group NAME have popped and not acknowledged, and when it comes again.

    Pops in order are not among it, nor for some seconds those that a broker merges in memory (enablePopBufferMerge):
    brokers keep no records of them.
    """
    with connection.admin() as admin:
        found = admin.pops.in_flight(name, record_count_max=limit)
    rows = [
        [
            each.queue.topic,
            each.queue.broker_name,
            each.queue.queue_id,
            each.message_count,
            each.popped_ms,
            each.visible_ms,
            each.last_visible_ms,
        ]
        for each in found.queues
    ]
    output = Output(is_json=is_json)
    output.table(_FLIGHT_COLUMNS, rows, empty=f"group {name} has popped nothing that is not acknowledged")
    if not is_json and rows:
        click.echo(f"in flight: {found.message_count}")
    if not found.is_complete:
        click.echo(f"only the newest {limit} records of each queue were looked at: raise --limit", err=True)
