"""`rocketline send`: messages from the command line, a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from rocketline.cli.shared.arguments import examples, moment_argument, parse_pairs, parse_queue, span_argument
from rocketline.cli.shared.connection import ClusterConnection, connection_options
from rocketline.cli.shared.output import Output, output_options
from rocketline.clock import SystemClock
from rocketline.model.message import Message

if TYPE_CHECKING:
    from rocketline.client.producer.receipts import SendReceipt

GROUP: Final = "rocketline_cli"
_SHOWN_ALL: Final = 20
"""Receipts for people; of more messages only the sum is told."""
_COLUMNS: Final = ["message_id", "broker", "queue", "queue_offset", "status"]


@click.command(
    short_help="Send messages.",
    epilog=examples(
        ("rocketline send orders 'two teapots' --tag new --key 42", ""),
        ("rocketline send orders --file order.json --property color=red", ""),
        ("journalctl -f | rocketline send logs - --lines", "each line a message"),
        ("rocketline send orders hello --delay-level 3", "delivered after 10 s"),
        ("rocketline send orders hello --after 90m", "delivered then"),
        ("rocketline send orders hello --at 2026-11-20T08:00", "local time; with a zone: …T08:00Z"),
        ("rocketline send load x --count 10000", "with a progress bar"),
    ),
)
@click.argument("topic")
@click.argument("body", required=False)
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The body is in this file.")
@click.option("--lines", "is_lines", is_flag=True, help="Each line is a message of its own.")
@click.option("--tag", help="What consumers filter by.")
@click.option("--key", "keys", multiple=True, help="What it can be found by; may be repeated.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option("--delay-level", type=click.IntRange(0), default=0, help="1 to 18: delivered after 1 s to 2 h.")
@click.option("--at", "deliver_at", type=moment_argument, metavar="TIME", help="Delivered at this moment.")
@click.option("--after", "deliver_after", type=span_argument, metavar="SPAN", help="Delivered later: 90s, 10m, 2h, 3d.")
@click.option("--queue", metavar="BROKER:NUMBER", help="To this queue; in turn to all by default.")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Send it so many times.")
@click.option("--group", default=GROUP, show_default=True, help="The producer group.")
@output_options
@connection_options
def send(
    connection: ClusterConnection,
    is_json: bool,
    topic: str,
    body: str | None,
    file: Path | None,
    is_lines: bool,
    tag: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    delay_level: int,
    deliver_at: datetime | None,
    deliver_after: timedelta | None,
    queue: str | None,
    count: int,
    group: str,
) -> None:
    """Send BODY to TOPIC; `-` takes it from standard input. Each message waits for the one before to be stored."""
    from rocketline.client.sync.producer import Producer

    own = parse_pairs("--property", properties)
    place = None if queue is None else parse_queue(topic, queue)
    receipts = _Receipts(Output(is_json=is_json))
    clock = SystemClock()
    started_s = clock.monotonic()
    with (
        Producer(
            connection.name_servers, group=group, send_timeout_s=connection.timeout_s, **connection.options()
        ) as producer,
        _progress(count) as advance,
    ):
        for content in _bodies(body, file, is_lines=is_lines, count=count):
            made = Message(
                topic,
                content,
                tags=tag,
                keys=keys,
                properties=own,
                delay_level=delay_level,
                deliver_at=deliver_at,
                deliver_after=deliver_after,
            )
            receipts.add(producer.send(made, queue=place))
            advance()
    receipts.finish(clock.monotonic() - started_s)


def _bodies(body: str | None, file: Path | None, *, is_lines: bool, count: int) -> Iterator[bytes]:
    """What is sent, one after the other. A pipe is read as it comes."""
    if (body is None) == (file is None):
        raise click.UsageError("give BODY (or - for standard input), or --file")
    if not is_lines:
        content = file.read_bytes() if file else sys.stdin.buffer.read() if body == "-" else (body or "").encode()
        for _ in range(count):
            yield content
        return
    if count != 1:
        raise click.UsageError("--lines and --count exclude each other")
    if file is None and body != "-":
        raise click.UsageError("--lines goes with - or --file")
    with file.open("rb") if file else nullcontext(sys.stdin.buffer) as stream:
        for line in stream:
            if text := line.rstrip(b"\r\n"):
                yield text


class _Receipts:
    """JSON is one line each; people see each of a few, or the sum of many."""

    def __init__(self, output: Output) -> None:
        self._output, self._count = output, 0
        self._first: list[SendReceipt] = []

    def add(self, receipt: SendReceipt) -> None:
        self._count += 1
        if self._output.is_json:
            self._output.record(dict(zip(_columns(receipt), _row(receipt), strict=True)))
        elif self._count <= _SHOWN_ALL:
            self._first.append(receipt)

    def finish(self, elapsed_s: float) -> None:
        if self._output.is_json:
            return
        if self._count <= _SHOWN_ALL:
            columns = _columns(self._first[0]) if self._first else _COLUMNS
            self._output.table(columns, [_row(receipt) for receipt in self._first], empty="nothing to send")
        else:
            click.echo(f"{self._count} messages in {elapsed_s:.1f} s, {self._count / max(elapsed_s, 1e-9):.0f}/s")


def _columns(receipt: SendReceipt) -> list[str]:
    """Only a message that waits for its time can be called back."""
    return _COLUMNS if receipt.recall_handle is None else [*_COLUMNS, "recall_handle"]


def _row(receipt: SendReceipt) -> list[object]:
    queue = receipt.queue
    row = [receipt.message_id, queue.broker_name, queue.queue_id, receipt.queue_offset, receipt.status.name]
    return row if receipt.recall_handle is None else [*row, receipt.recall_handle]


@contextmanager
def _progress(count: int) -> Iterator[Callable[[], None]]:
    """What to call after each message: it moves a bar on standard error, if people watch and it takes a while."""
    if count <= _SHOWN_ALL or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sending", total=count)
        yield lambda: progress.advance(task)
