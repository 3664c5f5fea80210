"""`rocketline message`: find messages, look into them, have them consumed or sent again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rocketline.cli.messages import message_view, trace_view
from rocketline.cli.messages.send import GROUP
from rocketline.cli.shared.arguments import examples, parse_queue, time_argument
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import Output, output_options
from rocketline.model.names import TRACE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketline.client.received_message import ReceivedMessage


@click.group(
    short_help="Find messages and look into them.",
    epilog=examples(
        ("rocketline message find orders --key 42", "by key"),
        ("rocketline message find orders --begin 10m", "by time"),
        ("rocketline message get orders 7F0000010C1218B4AAC2", "by either id"),
        ("rocketline message at orders broker-a:0 17", "by place"),
        ("rocketline message trace 7F0000010C1218B4AAC2", "where it has been"),
    ),
)
def message() -> None:
    """Find messages, look into them, have them consumed or sent again."""


@message.command(short_help="A message by its id.")
@click.argument("topic")
@click.argument("message_id")
@click.option("--body", "is_body", is_flag=True, help="Only the body, byte by byte.")
@output_options
@connection_options
def get(connection: ClusterConnection, is_json: bool, topic: str, message_id: str, is_body: bool) -> None:
    """Show the message MESSAGE_ID of TOPIC, by the id that its producer gave it or that of its broker."""
    with connection.admin() as admin:
        found = admin.messages.get(topic, message_id)
    _show_one(found, is_json=is_json, is_body=is_body)


@message.command(short_help="A message by its place.")
@click.argument("topic")
@click.argument("queue", metavar="BROKER:NUMBER")
@click.argument("offset", type=int)
@click.option("--body", "is_body", is_flag=True, help="Only the body, byte by byte.")
@output_options
@connection_options
def at(connection: ClusterConnection, is_json: bool, topic: str, queue: str, offset: int, is_body: bool) -> None:
    """Show the message at OFFSET of a queue of TOPIC."""
    with connection.admin() as admin:
        found = admin.messages.at(parse_queue(topic, queue), offset)
    _show_one(found, is_json=is_json, is_body=is_body)


@message.command(
    short_help="Messages by key or time.",
    epilog=examples(
        ("rocketline message find orders --key 42", ""),
        ("rocketline message find orders --begin 2026-11-16T08:00 --limit 5", "from then on"),
        ("rocketline message find orders --begin 2h --end 1h --tags 'new || paid'", "of the hour before the last"),
    ),
)
@click.argument("topic")
@click.option("--key", help="By this key, from the brokers' index.")
@click.option("--begin", "begin_ms", type=time_argument, metavar="TIME", help="Stored then or later: 10m means ago.")
@click.option("--end", "end_ms", type=time_argument, metavar="TIME", help="Stored before.")
@click.option("--tags", help="Only with these tags; not with --key.")
@click.option("--limit", type=click.IntRange(1), default=64, show_default=True, help="How many at most.")
@output_options
@connection_options
def find(
    connection: ClusterConnection,
    is_json: bool,
    topic: str,
    key: str | None,
    begin_ms: int | None,
    end_ms: int | None,
    tags: str | None,
    limit: int,
) -> None:
    """Find messages of TOPIC by key, by the time at which they were stored, or both."""
    if key is None and begin_ms is None:
        raise click.UsageError("give --key, or --begin, or both")
    if key is not None and tags is not None:
        raise click.UsageError("--tags goes with times only")
    end = {} if end_ms is None else {"end_ms": end_ms}
    with connection.admin() as admin:
        if key is not None:
            found = admin.messages.by_key(topic, key, count_max=limit, begin_ms=begin_ms or 0, **end)
        else:
            found = admin.messages.between(topic, begin_ms or 0, selector=tags, count_max=limit, **end)
    _show_many(found[:limit], is_json=is_json)


@message.command(short_help="Send a message again.")
@click.argument("topic")
@click.argument("message_id")
@click.option("--to", metavar="TOPIC", help="To another topic; from %DLQ%group to the one that it was first sent to.")
@output_options
@connection_options
def resend(connection: ClusterConnection, is_json: bool, topic: str, message_id: str, to: str | None) -> None:
    """Send a copy of the message MESSAGE_ID of TOPIC: body, tags, keys and own properties; the id is a new one."""
    with connection.admin() as admin:
        receipt = admin.messages.resend(topic, message_id, to=to)
    queue = receipt.queue
    Output(is_json=is_json).done(
        f"sent as {receipt.message_id} to {queue.topic} ({queue.broker_name}:{queue.queue_id}, {receipt.queue_offset})",
        {
            "message_id": receipt.message_id,
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "queue_offset": receipt.queue_offset,
        },
    )


@message.command(
    short_help="Call a message back before its time.",
    epilog=examples(
        ("rocketline send orders hello --after 10m --json", "tells the handle"),
        ("rocketline message recall orders djEgb3JkZXJz…", ""),
    ),
)
@click.argument("topic")
@click.argument("handle")
@output_options
@connection_options
def recall(connection: ClusterConnection, is_json: bool, topic: str, handle: str) -> None:
    """Call back a message of TOPIC that waits for its time, by the HANDLE that sending it gave.

    The broker must allow it: recallMessageEnable=true.
    """
    from rocketline.client.sync.producer import Producer

    options = connection.options()
    with Producer(connection.name_servers, group=GROUP, send_timeout_s=connection.timeout_s, **options) as producer:
        message_id = producer.recall(topic, handle)
    Output(is_json=is_json).done(f"called back {message_id}", {"message_id": message_id, "topic": topic})


@message.command(
    short_help="Where a message has been.",
    epilog=examples(
        ("rocketline message trace 7F0000010C1218B4AAC2", "sent, stored, each delivery and what came of it"),
        ("rocketline message trace 7F0000010C1218B4AAC2 --trace-topic traces --json", "from a topic of one's own"),
    ),
)
@click.argument("message_id")
@click.option("--trace-topic", default=TRACE_TOPIC, show_default=True, help="Where its clients write traces.")
@click.option("--begin", "begin_ms", type=time_argument, metavar="TIME", help="Told then or later: 10m means ago.")
@click.option("--end", "end_ms", type=time_argument, metavar="TIME", help="Told before.")
@click.option("--limit", type=click.IntRange(1), default=64, show_default=True, help="Trace messages of each broker.")
@output_options
@connection_options
def trace(
    connection: ClusterConnection,
    is_json: bool,
    message_id: str,
    trace_topic: str,
    begin_ms: int | None,
    end_ms: int | None,
    limit: int,
) -> None:
    """Show what became of the message MESSAGE_ID, as those of its clients told that trace, in whatever language.

    Times are those of the clients' machines. A trace comes a few seconds late.
    """
    end = {} if end_ms is None else {"end_ms": end_ms}
    with connection.admin() as admin:
        found = admin.messages.trace(message_id, topic=trace_topic, count_max=limit, begin_ms=begin_ms or 0, **end)
    trace_view.show(found, Output(is_json=is_json))


@message.command(short_help="Have a consumer consume a message now.")
@click.argument("group")
@click.argument("client_id")
@click.argument("topic")
@click.argument("message_id")
@output_options
@connection_options
def consume(
    connection: ClusterConnection, is_json: bool, group: str, client_id: str, topic: str, message_id: str
) -> None:
    """Have the consumer CLIENT_ID of GROUP consume the message MESSAGE_ID of TOPIC, wherever the group is."""
    with connection.admin() as admin:
        result = admin.messages.consume_directly(group, client_id, topic, message_id)
    Output(is_json=is_json).record(
        {"result": result.consume_result, "took_s": result.spent_time_mills / 1000, "remark": result.remark}
    )


def _show_one(found: ReceivedMessage, *, is_json: bool, is_body: bool) -> None:
    if is_body:
        sys.stdout.buffer.write(found.body)
        sys.stdout.flush()
    else:
        Output(is_json=is_json).record(message_view.record(found))


def _show_many(found: Sequence[ReceivedMessage], *, is_json: bool) -> None:
    output = Output(is_json=is_json)
    if is_json:
        for each in found:
            output.record(message_view.record(each))
    else:
        output.table(message_view.COLUMNS, [message_view.row(each) for each in found], empty="no message in that time")
