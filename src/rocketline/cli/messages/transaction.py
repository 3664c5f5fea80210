"""`rocketline transaction`: which transactions are open, and those that were given up."""

from __future__ import annotations

import click

from rocketline.cli.shared.arguments import examples
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import Output, output_options
from rocketline.clock import SystemClock

_COLUMNS = ["topic", "producer_group", "age_s", "checks", "message_id", "broker", "offset_message_id"]


@click.group(
    short_help="Transactions that are open or were given up.",
    epilog=examples(
        ("rocketline transaction list", "who has not said yet whether a message counts"),
        ("rocketline transaction list --given-up", "of whom the brokers ask no more"),
        ("rocketline transaction resume 7F0000010C1218B4AAC2", "ask again"),
    ),
)
def transaction() -> None:
    """Look at transactions that are open, and take up again those that were given up."""


@transaction.command(
    "list",
    short_help="Open transactions.",
    epilog=examples(
        ("rocketline transaction list --limit 20", "the oldest of each broker"),
        ("rocketline transaction list --given-up --json", "for scripts"),
    ),
)
@click.option("--given-up", "is_given_up", is_flag=True, help="Those whose producers were asked often enough instead.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="How many of each broker.")
@output_options
@connection_options
def list_(connection: ClusterConnection, is_json: bool, is_given_up: bool, limit: int) -> None:
    """List the half messages that wait for their producers to commit or roll them back, oldest first.

    CHECKS says how often the broker has asked, AGE how long ago the message was sent. What ended in the last few
    seconds may still be there.
    """
    with connection.admin() as admin:
        transactions = admin.transactions
        found = transactions.given_up(count_max=limit) if is_given_up else transactions.open(count_max=limit)
    now_ms = SystemClock().wall_ms()
    rows = [
        (
            each.topic,
            each.group,
            max(now_ms - each.born_ms, 0) / 1000,
            each.checks,
            each.message_id,
            each.broker_name,
            each.offset_message_id,
        )
        for each in found
    ]
    Output(is_json=is_json).table(
        _COLUMNS, rows, empty="no transaction was given up" if is_given_up else "no transaction is open"
    )


@transaction.command(short_help="Ask again about a transaction that was given up.")
@click.argument("message_id")
@output_options
@connection_options
def resume(connection: ClusterConnection, is_json: bool, message_id: str) -> None:
    """Have the producers of MESSAGE_ID asked again, from the first time on.

    It is the id of a message that `rocketline transaction list --given-up` shows, the transaction's or the broker's.
    """
    with connection.admin() as admin:
        offset_id = admin.transactions.resume(message_id)
    Output(is_json=is_json).done(
        f"{message_id} is asked for again", {"message_id": message_id, "offset_message_id": offset_id}
    )
