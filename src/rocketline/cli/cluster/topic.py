"""`rocketline topic`: make, look at and delete topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from rocketline.cli.shared.arguments import examples, parse_pairs
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import Output, output_options, report
from rocketline.model.names import is_dlq_topic, is_retry_topic, is_system_topic
from rocketline.model.route import PERM_INHERIT, PERM_READ, PERM_WRITE

if TYPE_CHECKING:
    from rocketline.admin.views import Cluster

PERMISSIONS: Final = {"rw": PERM_READ | PERM_WRITE, "r": PERM_READ, "w": PERM_WRITE}


def permission_text(permission: int) -> str:
    """Like `rw`, which `--permission` takes.

    >>> permission_text(6), permission_text(4), permission_text(7)
    ('rw', 'r', 'rwi')
    """
    letters = (("r", PERM_READ), ("w", PERM_WRITE), ("i", PERM_INHERIT))
    return "".join(letter for letter, bit in letters if permission & bit)


@click.group(
    short_help="Make, look at and delete topics.",
    epilog=examples(
        ("rocketline topic list", "the topics of the application"),
        ("rocketline topic create orders --queues 8", "on every broker"),
        ("rocketline topic queues orders", "what each queue holds"),
        ("rocketline topic delete orders", "asks first"),
    ),
)
def topic() -> None:
    """Make, look at and delete topics."""


@topic.command("list", short_help="All topics.")
@click.option("--all", "is_all", is_flag=True, help="Also retry and dead-letter topics and RocketMQ's own.")
@click.option("--cluster", help="Only those of this cluster.")
@output_options
@connection_options
def list_topics(connection: ClusterConnection, is_json: bool, is_all: bool, cluster: str | None) -> None:
    """Name all topics."""
    with connection.admin() as admin:
        names = admin.topics.names(cluster=cluster)
        own = _broker_topics(admin.brokers.clusters()) if not is_all else set()
    rows = [[name] for name in names if is_all or not (_is_hidden(name) or name in own)]
    Output(is_json=is_json).table(["topic"], rows, empty="no topics yet: rocketline topic create NAME makes one")


def _is_hidden(name: str) -> bool:
    return is_system_topic(name) or is_retry_topic(name) or is_dlq_topic(name) or name.endswith("_REPLY_TOPIC")


def _broker_topics(clusters: Sequence[Cluster]) -> set[str]:
    """Each broker has topics by its own name and its cluster's."""
    return {each.name for each in clusters} | {broker.name for each in clusters for broker in each.brokers}


@topic.command(
    short_help="Make a topic, or change it.",
    epilog=examples(
        ("rocketline topic create orders", "8 queues on each broker"),
        ("rocketline topic create orders -q 16 --broker broker-a", "on one broker"),
        ("rocketline topic create steps --ordered", "its queues never move"),
        ("rocketline topic create steps --attribute message.type=FIFO", ""),
    ),
)
@click.argument("name")
@click.option("-q", "--queues", type=click.IntRange(0), default=8, show_default=True, help="To write, on each broker.")
@click.option("--read-queues", type=click.IntRange(0), help="To read, if not as many.")
@click.option("--permission", type=click.Choice(list(PERMISSIONS)), default="rw", show_default=True)
@click.option("--ordered", "is_ordered", is_flag=True, help="Fix the number of queues in the name servers.")
@click.option("--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="Such as message.type=FIFO.")
@click.option("--cluster", help="Only on this cluster's brokers.")
@click.option("--broker", help="Only on this broker, by name or address.")
@output_options
@connection_options
def create(
    connection: ClusterConnection,
    is_json: bool,
    name: str,
    queues: int,
    read_queues: int | None,
    permission: str,
    is_ordered: bool,
    attributes: tuple[str, ...],
    cluster: str | None,
    broker: str | None,
) -> None:
    """Make the topic NAME, or change it, on every master, unless told which."""
    with connection.admin() as admin:
        outcome = admin.topics.create(
            name,
            queue_count=queues,
            read_queue_count=read_queues,
            permission=PERMISSIONS[permission],
            is_ordered=is_ordered,
            attributes=parse_pairs("--attribute", attributes),
            cluster=cluster,
            broker=broker,
        )
    report(Output(is_json=is_json), f"topic {name} is there", {"topic": name, "queues": queues}, outcome)


@topic.command(short_help="Delete a topic and its messages.")
@click.argument("name")
@click.option("--cluster", help="Only on this cluster's brokers.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_options
@connection_options
def delete(connection: ClusterConnection, is_json: bool, name: str, cluster: str | None, yes: bool) -> None:
    """Delete the topic NAME on all brokers and in all name servers. Its messages are gone."""
    with connection.admin() as admin:
        admin.topics.route(name)  # a name that does not exist is told before anything is asked
        if not yes:
            click.confirm(f"Delete topic {name} and all its messages?", abort=True, err=True)
        outcome = admin.topics.delete(name, cluster=cluster)
    report(Output(is_json=is_json), f"topic {name} is deleted", {"topic": name}, outcome)


@topic.command(short_help="How a topic is set up.")
@click.argument("name")
@output_options
@connection_options
def show(connection: ClusterConnection, is_json: bool, name: str) -> None:
    """Show how each broker has the topic NAME set up."""
    columns = ["broker", "address", "read_queues", "write_queues", "permission", "is_ordered", "attributes"]
    with connection.admin() as admin:
        configs = admin.topics.config(name)
        groups = admin.topics.groups(name)
    rows = [
        [
            broker.name,
            broker.address,
            config.read_queue_nums,
            config.write_queue_nums,
            permission_text(config.perm),
            config.order,
            config.attributes,
        ]
        for broker, config in configs.items()
    ]
    Output(is_json=is_json).set_up({"topic": name, "groups": groups}, columns, rows)


@topic.command(short_help="Where clients are told a topic is.")
@click.argument("name")
@output_options
@connection_options
def route(connection: ClusterConnection, is_json: bool, name: str) -> None:
    """Show the brokers of the topic NAME as a name server tells clients."""
    with connection.admin() as admin:
        found = admin.topics.route(name)
    queues = {data.broker_name: data for data in found.queue_datas}
    rows = [
        [
            data.cluster,
            data.broker_name,
            broker_id,
            address,
            queues[data.broker_name].read_queue_nums,
            queues[data.broker_name].write_queue_nums,
            permission_text(queues[data.broker_name].perm),
        ]
        for data in sorted(found.broker_datas, key=lambda each: each.broker_name)
        for broker_id, address in sorted(data.broker_addrs.items())
        if data.broker_name in queues
    ]
    columns = ["cluster", "broker", "broker_id", "address", "read_queues", "write_queues", "permission"]
    Output(is_json=is_json).table(columns, rows)


@topic.command("queues", short_help="What each queue holds.")
@click.argument("name")
@output_options
@connection_options
def show_queues(connection: ClusterConnection, is_json: bool, name: str) -> None:
    """Show what each queue of the topic NAME holds."""
    with connection.admin() as admin:
        status = admin.topics.status(name)
    rows = [
        [
            each.queue.broker_name,
            each.queue.queue_id,
            each.min_offset,
            each.max_offset,
            each.message_count,
            each.last_stored_ms,
        ]
        for each in status.queues
    ]
    Output(is_json=is_json).table(["broker", "queue", "min_offset", "max_offset", "messages", "last_stored_ms"], rows)


@topic.command(short_help="Change who may use a topic.")
@click.argument("name")
@click.argument("to", type=click.Choice(list(PERMISSIONS)))
@click.option("--cluster", help="Only on this cluster's brokers.")
@click.option("--broker", help="Only on this broker, by name or address.")
@output_options
@connection_options
def permission(
    connection: ClusterConnection, is_json: bool, name: str, to: str, cluster: str | None, broker: str | None
) -> None:
    """Let clients read (r), write (w) or do both (rw) to the topic NAME."""
    with connection.admin() as admin:
        outcome = admin.topics.set_permission(name, PERMISSIONS[to], cluster=cluster, broker=broker)
    report(Output(is_json=is_json), f"topic {name} has the permission {to}", {"topic": name, "permission": to}, outcome)
