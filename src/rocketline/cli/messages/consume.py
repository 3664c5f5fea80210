"""`rocketline consume`: messages of a topic as a member of a group, or popped for it; what was shown is consumed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import click

from rocketline.cli.messages.message_view import MessageLines
from rocketline.cli.shared.arguments import examples, filter_options, selector, time_argument
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import output_options
from rocketline.clock import SystemClock
from rocketline.model.subscription import ConsumeFromWhere

if TYPE_CHECKING:
    from rocketline.client.received_message import ReceivedMessage
    from rocketline.client.sync.lite_pull_consumer import LitePullConsumer
    from rocketline.client.sync.simple_consumer import SimpleConsumer

_POLL_S: Final = 1.0
_POPPED_MAX: Final = 32
"""What brokers hand out at once."""


@click.command(
    short_help="Consume a topic in a group.",
    epilog=examples(
        ("rocketline consume orders --group audit", "until Ctrl-C"),
        ("rocketline consume orders --group audit --limit 100 --from first", ""),
        ('rocketline consume orders --group audit --sql "price > 5"', "by their properties"),
        ("rocketline consume orders --group audit --idle 5 --json", "until nothing came for 5 s"),
        ("rocketline consume jobs --group workers --pop", "beside workers, without queues of its own"),
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
@click.option("--pop", "is_pop", is_flag=True, help="Pop messages as workers do (needs RocketMQ 5).")
@click.option(
    "--invisible", "invisible_s", type=click.FloatRange(1, 12 * 3600), default=60.0, show_default=True,
    metavar="SECONDS", help="With --pop: how long others do not get what was popped and could not be shown.",
)  # fmt: skip
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
    is_pop: bool,
    invisible_s: float,
) -> None:
    """Consume TOPIC as a member of a group. Messages that were shown are consumed for all of the group."""
    where, time_ms = _begin(begin)
    if is_pop and time_ms is not None:
        raise click.UsageError("--pop begins with --from first or --from last")
    lines, chosen = MessageLines(is_json=is_json, is_body=is_body), selector(tag, sql)
    with connection.admin() as admin:
        admin.topics.route(topic)  # a consumer would wait for a topic that does not exist
    source = (
        _Popped.open(connection, group, where, invisible_s)
        if is_pop
        else _Pulled.open(connection, group, where, time_ms)
    )
    with source.consumer as consumer:
        consumer.subscribe(topic, chosen)
        with suppress(KeyboardInterrupt):
            _show(source, lines, limit, idle_s)


def _begin(text: str) -> tuple[ConsumeFromWhere, int | None]:
    if text == "first":
        return ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, None
    if text == "last":
        return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, None
    return ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, time_argument(text)


class _Source(Protocol):
    """Where messages come from, and who is told what became of them."""

    def receive(self, wait_s: float, count_max: int | None) -> Sequence[ReceivedMessage]: ...

    def settle(self, shown: Sequence[ReceivedMessage], others: Sequence[ReceivedMessage]) -> None:
        """What was shown is consumed, and of what was received nothing else is."""


class _Pulled:
    """Messages of the queues that are ours: one poll, one queue."""

    def __init__(self, consumer: LitePullConsumer) -> None:
        self.consumer = consumer

    @classmethod
    def open(cls, connection: ClusterConnection, group: str, where: ConsumeFromWhere, time_ms: int | None) -> _Pulled:
        from rocketline.client.sync.lite_pull_consumer import LitePullConsumer

        return cls(
            LitePullConsumer(
                connection.name_servers,
                group=group,
                auto_commit=False,
                consume_from=where,
                consume_timestamp_ms=time_ms,
                **connection.options(),
            )
        )

    def receive(self, wait_s: float, count_max: int | None) -> Sequence[ReceivedMessage]:
        return self.consumer.poll(wait_s)[:count_max]

    def settle(self, shown: Sequence[ReceivedMessage], others: Sequence[ReceivedMessage]) -> None:
        if shown:
            self.consumer.commit({shown[-1].queue: shown[-1].queue_offset + 1})


class _Popped:
    """Messages of any queue, for us alone."""

    def __init__(self, consumer: SimpleConsumer) -> None:
        self.consumer = consumer

    @classmethod
    def open(cls, connection: ClusterConnection, group: str, where: ConsumeFromWhere, invisible_s: float) -> _Popped:
        from rocketline.client.sync.simple_consumer import SimpleConsumer

        return cls(
            SimpleConsumer(
                connection.name_servers,
                group=group,
                consume_from=where,
                invisible_s=invisible_s,
                **connection.options(),
            )
        )

    def receive(self, wait_s: float, count_max: int | None) -> Sequence[ReceivedMessage]:
        return self.consumer.receive(min(_POPPED_MAX, count_max or _POPPED_MAX), wait_s=wait_s)

    def settle(self, shown: Sequence[ReceivedMessage], others: Sequence[ReceivedMessage]) -> None:
        if shown:
            self.consumer.ack(shown)
        if others:
            self.consumer.nack(others, 0)


def _show(source: _Source, lines: MessageLines, limit: int | None, idle_s: float | None) -> None:
    """Show and settle, part by part."""
    clock = SystemClock()
    left, heard_s = limit, clock.monotonic()
    while left is None or left > 0:
        messages = source.receive(_POLL_S if idle_s is None else min(_POLL_S, idle_s), left)
        if messages:
            _show_part(source, lines, messages)
            heard_s = clock.monotonic()
            left = None if left is None else left - len(messages)
        elif idle_s is not None and clock.monotonic() - heard_s >= idle_s:
            return


def _show_part(source: _Source, lines: MessageLines, messages: Sequence[ReceivedMessage]) -> None:
    """Whoever ends it in the middle has seen some of them, and may see the others."""
    count = 0
    try:
        for message in messages:
            lines.show(message)
            count += 1
    finally:
        source.settle(messages[:count], messages[count:])
