"""`rocketline consume`: messages of a topic as a member of a group, whose offsets move on."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from rocketline.cli.messages.message_view import MessageLines
from rocketline.cli.shared.arguments import examples, filter_options, selector, time_argument
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import output_options
from rocketline.clock import SystemClock
from rocketline.model.subscription import ConsumeFromWhere

if TYPE_CHECKING:
    from rocketline.client.sync.lite_pull_consumer import LitePullConsumer

_POLL_S: Final = 1.0


@click.command(
    short_help="Consume a topic in a group.",
    epilog=examples(
        ("rocketline consume orders --group audit", "until Ctrl-C"),
        ("rocketline consume orders --group audit --limit 100 --from first", ""),
        ('rocketline consume orders --group audit --sql "price > 5"', "by their properties"),
        ("rocketline consume orders --group audit --idle 5 --json", "until nothing came for 5 s"),
    ),
)
@click.argument("topic")
@click.option("--group", required=True, help="The group; its members share the topic's queues.")
@filter_options
@click.option("--limit", type=click.IntRange(1), help="End after so many.")
@click.option(
    "--idle", "idle_s", type=click.FloatRange(0.001), metavar="SECONDS", help="End when nothing came so long."
)
@click.option(
    "--from", "begin", default="last", show_default=True, metavar="first|last|TIME",
    help="Where a group begins that has not consumed the topic before.",
)  # fmt: skip
@click.option("--body", "is_body", is_flag=True, help="Only the bodies.")
@output_options
@connection_options
def consume(
    connection: ClusterConnection,
    is_json: bool,
    topic: str,
    group: str,
    tag: str | None,
    sql: str | None,
    limit: int | None,
    idle_s: float | None,
    begin: str,
    is_body: bool,
) -> None:
    """Consume TOPIC as a member of a group. Messages that were shown are consumed for all of the group."""
    from rocketline.client.sync.lite_pull_consumer import LitePullConsumer

    where, time_ms = _begin(begin)
    lines, chosen = MessageLines(is_json=is_json, is_body=is_body), selector(tag, sql)
    with connection.admin() as admin:
        admin.topics.route(topic)  # a consumer would wait for a topic that does not exist
    with LitePullConsumer(
        connection.name_servers,
        group=group,
        auto_commit=False,
        consume_from=where,
        consume_timestamp_ms=time_ms,
        **connection.options(),
    ) as consumer:
        consumer.subscribe(topic, chosen)
        with suppress(KeyboardInterrupt):
            _show(consumer, lines, limit, idle_s)


def _begin(text: str) -> tuple[ConsumeFromWhere, int | None]:
    if text == "first":
        return ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, None
    if text == "last":
        return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, None
    return ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, time_argument(text)


def _show(consumer: LitePullConsumer, lines: MessageLines, limit: int | None, idle_s: float | None) -> None:
    """Show and commit, poll by poll: what was shown is consumed, and nothing else is."""
    clock = SystemClock()
    left, heard_s = limit, clock.monotonic()
    while left is None or left > 0:
        messages = consumer.poll(_POLL_S if idle_s is None else min(_POLL_S, idle_s))[:left]
        for message in messages:
            lines.show(message)
        if messages:
            heard_s = clock.monotonic()
            consumer.commit({messages[-1].queue: messages[-1].queue_offset + 1})  # one poll, one queue
            left = None if left is None else left - len(messages)
        elif idle_s is not None and clock.monotonic() - heard_s >= idle_s:
            return
