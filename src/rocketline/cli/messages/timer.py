"""`rocketline timer`: messages that wait for their time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import click

from rocketline.cli.shared.arguments import examples
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import Output, duration, local_time, output_options
from rocketline.clock import SystemClock

_COLUMNS: Final = ["broker", "topic", "waiting"]
_BARS: Final = 15
_WIDTH: Final = 50
_STEPS_S: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


@click.group(
    short_help="Messages that wait for their time.",
    epilog=examples(
        ("rocketline timer status", "how many, for which topics, and when they are due"),
        ("rocketline timer status --broker broker-a --json", ""),
        ("rocketline send orders hello --after 10m", "sends one"),
    ),
)
def timer() -> None:
    """Messages that wait for their time. They are sent with `rocketline send --at` or `--after`."""


@timer.command(
    short_help="How many wait, and until when.",
    epilog=examples(
        ("rocketline timer status", ""),
        ("rocketline timer status --limit 100000", "looks at more of them for the plot"),
    ),
)
@click.option("--broker", help="Of this broker only.")
@click.option(
    "--limit", type=click.IntRange(1), default=10_000, show_default=True, help="Messages looked at for the plot."
)
@output_options
@connection_options
def status(connection: ClusterConnection, is_json: bool, broker: str | None, limit: int) -> None:
    """Show how many messages wait by broker and topic, and how many of them are due when."""
    output = Output(is_json=is_json)
    with connection.admin() as admin:
        waiting = admin.timers.waiting(broker=broker)
        moments = admin.timers.moments(broker=broker, count_max=limit)
    rows = [
        (target.name, topic, count) for target, topics in waiting.items() for topic, count in topics.items() if count
    ]
    output.table(_COLUMNS, rows, empty="no message waits for its time")
    spans = list(plotted(moments.due_ms, SystemClock().wall_ms()))
    if is_json:
        output.table(["begin_ms", "end_ms", "waiting"], spans)
        return
    if spans:
        click.echo("")
        for line in plot(spans):
            click.echo(line)
    if not moments.is_complete:
        click.echo(f"only the newest {limit} messages of each broker were looked at: raise --limit", err=True)


def plotted(due_ms: Sequence[int], now_ms: int) -> Iterator[tuple[int, int, int]]:
    """Equal spans of time from now to the last message, each with how many are due in it.

    >>> list(plotted([1500, 1600, 9000], 1000))
    [(1000, 2000, 2), (2000, 3000, 0), (3000, 4000, 0), (4000, 5000, 0), (5000, 6000, 0), (6000, 7000, 0), \
(7000, 8000, 0), (8000, 9000, 0), (9000, 10000, 1)]
    """
    if not due_ms:
        return
    left_s = (max(due_ms) - now_ms) / 1000
    step_ms = next((step for step in _STEPS_S if left_s / step <= _BARS), int(left_s / _BARS) + 1) * 1000
    begin = now_ms // step_ms
    counts = [0] * (max(due_ms) // step_ms - begin + 1)
    for time_ms in due_ms:
        counts[max(time_ms // step_ms - begin, 0)] += 1
    for number, count in enumerate(counts, begin):
        yield number * step_ms, (number + 1) * step_ms, count


def plot(spans: Sequence[tuple[int, int, int]]) -> Iterator[str]:
    """A bar for each span.

    >>> list(plot([(0, 60_000, 10), (60_000, 120_000, 5)]))[2][-28:]
    ' █████████████████████████ 5'
    """
    most, (begin_ms, end_ms, _) = max(count for *_, count in spans), spans[0]
    yield f"due, each bar {duration((end_ms - begin_ms) / 1000)}:"
    for begin_ms, _, count in spans:
        bar = "█" * (-(-count * _WIDTH // most) if most else 0)
        yield f"  {local_time(begin_ms)} {bar} {count}".rstrip() if count else f"  {local_time(begin_ms)}"
