"""`rocketline cluster`: brokers and name servers, how they do and how they are set up."""

from __future__ import annotations

import click

from rocketline.cli.shared.arguments import examples
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import Output, output_options, report

_CLEANINGS = ("expired-queues", "expired-logs", "unused-topics")


@click.group(
    short_help="Look at brokers and name servers.",
    epilog=examples(
        ("rocketline cluster show", "who is there and what they do"),
        ("rocketline cluster stats broker-a", "everything that a broker tells"),
        ("rocketline cluster config broker-a flushDiskType", "a setting in force"),
        ("rocketline cluster set broker-a flushDiskType SYNC_FLUSH", ""),
    ),
)
def cluster() -> None:
    """Look at brokers and name servers, and change how they are set up."""


@cluster.command(short_help="Who is there and what they do.")
@click.option("--cluster", "name", help="Only this cluster.")
@output_options
@connection_options
def show(connection: ClusterConnection, is_json: bool, name: str | None) -> None:
    """Show all brokers: their release, how much they do, how full they are."""
    columns = ["cluster", "broker", "broker_id", "address", "version", "in_per_s", "out_per_s", "in_today", "out_today",
               "log_bytes", "disk_percent", "oldest_message_ms", "problem"]  # fmt: skip
    with connection.admin() as admin:
        found = admin.brokers.status(cluster=name)
    rows = [
        [
            each.broker.cluster, each.broker.name, each.broker.broker_id, each.broker.address, each.version,
            each.puts.last_10_s, each.gets.last_10_s, each.put_today, each.get_today, each.log_bytes,
            round(100 * each.disk_used, 1), each.oldest_message_ms, each.problem,
        ]
        for each in found
    ]  # fmt: skip
    if not is_json:  # people have less room
        columns, rows = columns[:-2], [row[:-2] for row in rows]
    Output(is_json=is_json).table(columns, rows)
    for each in found:
        if each.problem is not None and not is_json:
            click.echo(f"rocketline: {each.broker.name}: {each.problem}", err=True)


@cluster.command(short_help="Which brokers there are.")
@output_options
@connection_options
def brokers(connection: ClusterConnection, is_json: bool) -> None:
    """Name all brokers and their addresses, as name servers know them; nobody else is asked."""
    with connection.admin() as admin:
        found = admin.brokers.clusters()
    rows = [
        [each.name, broker.name, broker.broker_id, broker.address, "master" if broker.is_master else "slave"]
        for each in found
        for broker in each.brokers
    ]
    columns = ["cluster", "broker", "broker_id", "address", "role"]
    Output(is_json=is_json).table(columns, rows, empty="no broker is registered")


@cluster.command(short_help="Everything that a broker tells.")
@click.argument("broker")
@output_options
@connection_options
def stats(connection: ClusterConnection, is_json: bool, broker: str) -> None:
    """Show all figures of BROKER, a name or an address, by Apache's names of them."""
    with connection.admin() as admin:
        found = admin.brokers.figures(broker)
    _show_pairs(is_json, {each.address: table for each, table in found.items()})


@cluster.command(short_help="The settings in force.")
@click.argument("broker")
@click.argument("keys", nargs=-1)
@output_options
@connection_options
def config(connection: ClusterConnection, is_json: bool, broker: str, keys: tuple[str, ...]) -> None:
    """Show the settings of BROKER, a name or an address; only KEYS if some are given."""
    with connection.admin() as admin:
        found = admin.brokers.config(broker=broker)
    unknown = [key for key in keys if not any(key in table for table in found.values())]
    if unknown:
        raise click.ClickException(f"broker {broker} has no setting {', '.join(unknown)}")
    _show_pairs(
        is_json,
        {
            each.address: {key: value for key, value in table.items() if not keys or key in keys}
            for each, table in found.items()
        },
    )


@cluster.command("set", short_help="Change a setting.")
@click.argument("broker")
@click.argument("key")
@click.argument("value")
@output_options
@connection_options
def set_config(connection: ClusterConnection, is_json: bool, broker: str, key: str, value: str) -> None:
    """Set KEY to VALUE on BROKER, a name or an address, until it is set again."""
    with connection.admin() as admin:
        outcome = admin.brokers.set_config({key: value}, broker=broker)
    report(Output(is_json=is_json), f"{key} is {value}", {"key": key, "value": value}, outcome)


@cluster.command(short_help="Delete what is past its time.")
@click.argument("what", type=click.Choice(_CLEANINGS))
@click.option("--cluster", "name", help="Only on this cluster's brokers.")
@click.option("--broker", help="Only on this broker, by name or address.")
@output_options
@connection_options
def clean(connection: ClusterConnection, is_json: bool, what: str, name: str | None, broker: str | None) -> None:
    """Delete log files past their time, queue entries of what is gone, or queues of topics that are."""
    with connection.admin() as admin:
        clean_up = {
            "expired-queues": admin.brokers.clean_expired_queues,
            "expired-logs": admin.brokers.delete_expired_logs,
            "unused-topics": admin.brokers.clean_unused_topics,
        }[what]
        outcome = clean_up(cluster=name, broker=broker)
    report(Output(is_json=is_json), f"{what} cleaned", {"what": what}, outcome)


@cluster.command(short_help="Keep producers from a broker, or not.")
@click.argument("broker")
@click.argument("how", type=click.Choice(["forbid", "allow"]))
@output_options
@connection_options
def writes(connection: ClusterConnection, is_json: bool, broker: str, how: str) -> None:
    """Let name servers hide the queues of BROKER, a name, from producers, as before its end; or show them again."""
    with connection.admin() as admin:
        names = admin.name_servers
        changed = names.forbid_writes(broker) if how == "forbid" else names.allow_writes(broker)
    Output(is_json=is_json).table(["name_server", "topics"], [[address, count] for address, count in changed.items()])


@cluster.command("name-servers", short_help="Name servers and their settings.")
@click.argument("keys", nargs=-1)
@output_options
@connection_options
def name_servers(connection: ClusterConnection, is_json: bool, keys: tuple[str, ...]) -> None:
    """Show the settings of all name servers; only KEYS if some are given."""
    with connection.admin() as admin:
        found = admin.name_servers.config()
    _show_pairs(
        is_json,
        {
            address: {key: value for key, value in table.items() if not keys or key in keys}
            for address, table in found.items()
        },
    )


@cluster.command(short_help="Texts that name servers keep.")
@click.argument("namespace")
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--delete", "is_delete", is_flag=True, help="Forget KEY.")
@output_options
@connection_options
def kv(
    connection: ClusterConnection, is_json: bool, namespace: str, key: str | None, value: str | None, is_delete: bool
) -> None:
    """Show the texts of NAMESPACE, or that of KEY; or keep VALUE under KEY in all name servers."""
    if is_delete and (key is None or value is not None):
        raise click.UsageError("--delete goes with NAMESPACE and KEY")
    output = Output(is_json=is_json)
    with connection.admin() as admin:
        if is_delete and key is not None:
            admin.name_servers.delete_value(namespace, key)
            output.done(f"{namespace} {key} is forgotten", {"namespace": namespace, "key": key, "value": None})
        elif key is not None and value is not None:
            admin.name_servers.set_value(namespace, key, value)
            output.done(f"{namespace} {key} is {value}", {"namespace": namespace, "key": key, "value": value})
        else:
            kept = admin.name_servers.values(namespace)
            chosen = {name: text for name, text in kept.items() if key in (None, name)}
            output.table(["key", "value"], sorted(chosen.items()), empty=f"{namespace} has no such text")


def _show_pairs(is_json: bool, tables: dict[str, dict[str, str]]) -> None:
    """JSON is one object for each address; people see a line for each key."""
    output = Output(is_json=is_json)
    if is_json:
        for address, table in tables.items():
            output.record({"address": address, **table})
        return
    rows = [[address, key, value] for address, table in tables.items() for key, value in sorted(table.items())]
    output.table(["address", "key", "value"], rows)
