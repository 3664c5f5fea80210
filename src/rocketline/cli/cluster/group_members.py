"""The commands of `rocketline group` that are about who is online."""

from __future__ import annotations

import click

from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import Output, output_options, release_name


@click.command(short_help="Who consumes in a group.")
@click.argument("name")
@output_options
@connection_options
def connections(connection: ClusterConnection, is_json: bool, name: str) -> None:
    """Show the consumers of the group NAME that are online, and what they subscribe to."""
    with connection.admin() as admin:
        found = admin.clients.consumers(name)
    members = [
        [client.client_id, client.client_addr, client.language, release_name(client.version)]
        for client in found.members
    ]
    columns = ["client_id", "address", "language", "version"]
    output = Output(is_json=is_json)
    if is_json:
        output.record({
            "group": name,
            "consume_type": found.consume_type and found.consume_type.name,
            "message_model": found.message_model and found.message_model.name,
            "subscriptions": {topic: data.sub_string for topic, data in found.subscriptions.items()},
            "members": [dict(zip(columns, row, strict=True)) for row in members],
        })  # fmt: skip
        return
    output.table(columns, members, empty=f"nobody consumes in group {name} now")
    if found.consume_type is not None and found.message_model is not None:
        click.echo(f"{found.consume_type.name}, {found.message_model.name}")
        for topic, data in found.subscriptions.items():
            click.echo(f"  {topic}  {data.sub_string}")


@click.command(short_help="Who produces.")
@click.argument("name", required=False)
@output_options
@connection_options
def producers(connection: ClusterConnection, is_json: bool, name: str | None) -> None:
    """Show the producers of the producer group NAME that are online, or of all."""
    with connection.admin() as admin:
        if name is None:
            rows = [
                [group, each.client_id, each.remote_ip, each.language, release_name(each.version)]
                for group, members in admin.clients.all_producers().items()
                for each in members
            ]
        else:
            rows = [
                [name, each.client_id, each.client_addr, each.language, release_name(each.version)]
                for each in admin.clients.producers(name)
            ]
    columns = ["group", "client_id", "address", "language", "version"]
    Output(is_json=is_json).table(columns, rows, empty="no producer is online")


@click.command(short_help="What a consumer does.")
@click.argument("name")
@click.argument("client_id")
@click.option("--stacks", is_flag=True, help="Also what its threads are doing.")
@output_options
@connection_options
def running(connection: ClusterConnection, is_json: bool, name: str, client_id: str, stacks: bool) -> None:
    """Ask the consumer CLIENT_ID of the group NAME for its queues, its rates and its options."""
    with connection.admin() as admin:
        info = admin.clients.running_info(name, client_id, with_stacks=stacks)
    queues = [
        [queue.topic, queue.broker_name, queue.queue_id, at.commit_offset, at.cached_msg_count,
         at.last_pull_timestamp or None, at.last_consume_timestamp or None]
        for queue, at in sorted(info.mq_table.items())
    ]  # fmt: skip
    rates = [
        [topic, at.pull_tps, at.pull_rt, at.consume_ok_tps, at.consume_failed_tps, at.consume_rt]
        for topic, at in sorted(info.status_table.items())
    ]
    queue_columns = ["topic", "broker", "queue", "commit_offset", "cached", "last_pull_ms", "last_consume_ms"]
    rate_columns = [
        "topic",
        "pulled_per_s",
        "pull_time_millis",
        "consumed_per_s",
        "failed_per_s",
        "consume_time_millis",
    ]
    output = Output(is_json=is_json)
    if is_json:
        output.record({
            "options": info.properties,
            "subscriptions": {each.topic: each.sub_string for each in info.subscription_set},
            "queues": [dict(zip(queue_columns, row, strict=True)) for row in queues],
            "rates": [dict(zip(rate_columns, row, strict=True)) for row in rates],
            "stacks": info.jstack,
        })  # fmt: skip
        return
    output.table(queue_columns, queues, empty="it has no queues")
    output.table(rate_columns, rates, empty="it has not consumed yet")
    output.record(info.properties)
    if info.jstack:
        click.echo(info.jstack)
