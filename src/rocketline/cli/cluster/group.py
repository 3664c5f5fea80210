"""`rocketline group`: make, look at and delete consumer groups, and send them elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import click

from rocketline.cli.cluster.group_members import connections, producers, running
from rocketline.cli.cluster.group_pops import inflight, mode
from rocketline.cli.shared.arguments import examples, parse_queue, time_argument
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import Output, output_options, report
from rocketline.model.names import is_system_group
from rocketline.model.queue import MessageQueue

_LAG_COLUMNS = ["topic", "broker", "queue", "max_offset", "committed_offset", "lag", "in_flight", "delay_s",
                "last_consumed_ms"]  # fmt: skip


@click.group(
    short_help="Look at consumer groups, and send them elsewhere.",
    epilog=examples(
        ("rocketline group lag billing", "how far it is in each queue"),
        ("rocketline group connections billing", "who consumes in it"),
        ("rocketline group reset billing orders --to 2h", "consume the last two hours again"),
    ),
)
def group() -> None:
    """Make, look at and delete consumer groups, and send them elsewhere."""


@group.command("list", short_help="All groups.")
@click.option("--all", "is_all", is_flag=True, help="Also RocketMQ's own.")
@click.option("--cluster", help="Only those of this cluster.")
@output_options
@connection_options
def list_groups(connection: ClusterConnection, is_json: bool, is_all: bool, cluster: str | None) -> None:
    """Name all consumer groups that brokers know."""
    with connection.admin() as admin:
        names = admin.groups.names(cluster=cluster)
    rows = [[name] for name in names if is_all or not is_system_group(name)]
    Output(is_json=is_json).table(["group"], rows, empty="no groups yet: the first consumer makes its own")


@group.command(short_help="Make a group, or change it.")
@click.argument("name")
@click.option("--retry-max", type=int, default=16, show_default=True, help="Retries before a message is given up.")
@click.option("--retry-queues", type=click.IntRange(0), default=1, show_default=True)
@click.option("--disabled", is_flag=True, help="Let nobody consume in it.")
@click.option("--no-broadcast", is_flag=True, help="Let nobody consume in it as a broadcast.")
@click.option("--orderly", is_flag=True, help="Brokers hand its messages out in order (POP).")
@click.option("--cluster", help="Only on this cluster's brokers.")
@click.option("--broker", help="Only on this broker, by name or address.")
@output_options
@connection_options
def create(
    connection: ClusterConnection,
    is_json: bool,
    name: str,
    retry_max: int,
    retry_queues: int,
    disabled: bool,
    no_broadcast: bool,
    orderly: bool,
    cluster: str | None,
    broker: str | None,
) -> None:
    """Make the group NAME, or change it, on every master, unless told which."""
    with connection.admin() as admin:
        outcome = admin.groups.create(
            name,
            retry_max=retry_max,
            retry_queue_count=retry_queues,
            is_enabled=not disabled,
            may_broadcast=not no_broadcast,
            is_orderly=orderly,
            cluster=cluster,
            broker=broker,
        )
    report(Output(is_json=is_json), f"group {name} is there", {"group": name}, outcome)


@group.command(short_help="Delete a group.")
@click.argument("name")
@click.option("--keep-offsets", is_flag=True, help="A group of the same name goes on where this one was.")
@click.option("--cluster", help="Only on this cluster's brokers.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_options
@connection_options
def delete(
    connection: ClusterConnection, is_json: bool, name: str, keep_offsets: bool, cluster: str | None, yes: bool
) -> None:
    """Delete the group NAME with its offsets, its retry topic and its dead letters."""
    with connection.admin() as admin:
        if not admin.groups.config(name):
            raise click.ClickException(f"no broker knows the group {name}")
        if not yes:
            click.confirm(f"Delete group {name}, its retries and its dead letters?", abort=True, err=True)
        outcome = admin.groups.delete(name, with_offsets=not keep_offsets, cluster=cluster)
    report(Output(is_json=is_json), f"group {name} is deleted", {"group": name}, outcome)


@group.command(short_help="How a group is set up.")
@click.argument("name")
@output_options
@connection_options
def show(connection: ClusterConnection, is_json: bool, name: str) -> None:
    """Show how each broker has the group NAME set up, and what it consumes."""
    columns = ["broker", "address", "is_enabled", "may_broadcast", "is_orderly", "retry_max", "retry_queues"]
    with connection.admin() as admin:
        configs = admin.groups.config(name)
        topics = admin.groups.topics(name)
    rows = [
        [
            broker.name,
            broker.address,
            config.consume_enable,
            config.consume_broadcast_enable,
            config.consume_message_orderly,
            config.retry_max_times,
            config.retry_queue_nums,
        ]
        for broker, config in configs.items()
    ]
    told = {"group": name, "topics": topics}
    Output(is_json=is_json).set_up(told, columns, rows, empty=f"no broker knows the group {name}")


@group.command(
    short_help="How far groups are.",
    epilog=examples(
        ("rocketline group lag", "all groups, one line each"),
        ("rocketline group lag billing", "each queue"),
        ("rocketline group lag billing --topic orders", ""),
    ),
)
@click.argument("name", required=False)
@click.option("--topic", help="Only in this topic.")
@click.option("--cluster", help="Only on this cluster's brokers.")
@output_options
@connection_options
def lag(connection: ClusterConnection, is_json: bool, name: str | None, topic: str | None, cluster: str | None) -> None:
    """Show how many messages, and for how long, wait for the group NAME; or for all groups."""
    output = Output(is_json=is_json)
    with connection.admin() as admin:
        if name is None:
            lags = [
                each for each in admin.groups.lags(cluster=cluster) if each.queues or not is_system_group(each.group)
            ]
            rows = [[each.group, len(each.queues), each.lag, each.in_flight, each.consume_per_s] for each in lags]
            output.table(["group", "queues", "lag", "in_flight", "consume_per_s"], rows, empty="no groups yet")
            return
        found = admin.groups.lag(name, topic=topic, cluster=cluster)
    queues = [
        [
            each.queue.topic,
            each.queue.broker_name,
            each.queue.queue_id,
            each.max_offset,
            each.committed_offset,
            each.lag,
            each.in_flight,
            each.delay_s,
            each.last_consumed_ms,
        ]
        for each in found.queues
    ]
    output.table(_LAG_COLUMNS, queues, empty=f"group {name} has consumed nothing yet")
    if not is_json and queues:
        click.echo(f"lag: {found.lag}  in flight: {found.in_flight}  consumed: {found.consume_per_s:.1f}/s")


@group.command(
    short_help="Send a group to another place of a topic.",
    epilog=examples(
        ("rocketline group reset billing orders --to end", "skip what is there"),
        ("rocketline group reset billing orders --to begin", "everything again"),
        ("rocketline group reset billing orders --to 2026-11-16T08:00", "from then on"),
        ("rocketline group reset billing orders --to 30m", "the last half hour"),
        ("rocketline group reset billing orders --queue broker-a:3 --offset 42", "one queue"),
    ),
)
@click.argument("name")
@click.argument("topic")
@click.option("--to", metavar="begin|end|TIME", help="Where all queues go.")
@click.option("--queue", metavar="BROKER:NUMBER", help="One queue, with --offset.")
@click.option("--offset", type=click.IntRange(0), help="Where that queue goes.")
@output_options
@connection_options
def reset(
    connection: ClusterConnection,
    is_json: bool,
    name: str,
    topic: str,
    to: str | None,
    queue: str | None,
    offset: int | None,
) -> None:
    """Send the group NAME to another place of TOPIC. Consumers that run go there too."""
    if (to is None) == (queue is None) or (queue is None) != (offset is None):
        raise click.UsageError("give either --to, or --queue and --offset")
    with connection.admin() as admin:
        if queue is not None and offset is not None:
            wanted = parse_queue(topic, queue)
            admin.offsets.reset_to_offset(name, wanted, offset)
            made: Mapping[MessageQueue, int] = {wanted: offset}
        elif to == "begin":
            made = admin.offsets.reset_to_begin(name, topic)
        elif to == "end":
            made = admin.offsets.reset_to_end(name, topic)
        else:
            made = admin.offsets.reset_to_time(name, topic, time_argument(to or ""))
    _show_offsets(Output(is_json=is_json), made)


@group.command(short_help="Give a group the offsets of another.")
@click.argument("source")
@click.argument("target")
@click.argument("topic")
@output_options
@connection_options
def clone(connection: ClusterConnection, is_json: bool, source: str, target: str, topic: str) -> None:
    """Let the group TARGET go on in TOPIC where the group SOURCE is. TARGET must exist, and nobody consume in it."""
    with connection.admin() as admin:
        made = admin.offsets.clone(source, target, topic)
    _show_offsets(Output(is_json=is_json), made)


def _show_offsets(output: Output, offsets: Mapping[MessageQueue, int]) -> None:
    rows = [[queue.topic, queue.broker_name, queue.queue_id, offset] for queue, offset in sorted(offsets.items())]
    output.table(["topic", "broker", "queue", "offset"], rows)


for command in (connections, producers, running, mode, inflight):
    group.add_command(command)
