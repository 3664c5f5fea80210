"""`rocketline demo`: what Rocketline does, shown on this machine: servers and clients, then a pipeline on Spark."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketline.cli.shared.client_log import client_log

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rocketline import aio
    from rocketline.admin.views import BrokerAddress
    from rocketline.client.producer.receipts import SendReceipt
    from rocketline.client.received_message import ReceivedMessage

_TOPIC = "deliveries"
_ORDERS = (
    ("order-1", "paid", "two teapots"),
    ("order-2", "open", "a samovar"),
    ("order-3", "paid", "nine cups"),
)
_PAID = sum(tag == "paid" for _, tag, _ in _ORDERS)
_TIMEOUT_S = 10.0

_NEXT = """\
[bold]Try next[/bold]
  [cyan]{command} serve[/cyan]                a name server and a broker, to stay
  [cyan]{command} send orders teapots[/cyan]  a message to them
  [cyan]{command} tail orders[/cyan]          what is there
Python, and the clients and mqadmin of Apache RocketMQ, need its address only:
  [cyan]with Producer("127.0.0.1:9876", group="shop") as producer: …[/cyan]"""


@click.command(short_help="See Rocketline at work.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Where tables and report are kept.")
@click.option("--no-spark", is_flag=True, help="Servers and clients only: takes a second and leaves nothing.")
def demo(folder: Path | None, no_spark: bool) -> None:
    """Start a name server and a broker, send messages, consume them, and have a pipeline on Spark land them.

    Takes about a minute. Tables and report are left in a folder that is named at the end; nothing else is.
    """
    from rich.console import Console

    from rocketline.net.loop import run

    console = Console(highlight=False, soft_wrap=True)
    with client_log(), tempfile.TemporaryDirectory(prefix="rocketline-demo-") as scratch:
        run(_play(console, Path(scratch), folder, with_spark=not no_spark))


async def _play(console: Console, scratch: Path, folder: Path | None, *, with_spark: bool) -> None:
    from rocketline import aio
    from rocketline.cli.demo import servers as scene

    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(scene.name_server(scratch))
        await stack.enter_async_context(scene.broker(name_server.address))
        admin = await stack.enter_async_context(aio.Admin(name_server.address))
        console.print(f"[bold]1.[/bold] A name server listens on {name_server.address}; a broker registered with it.")
        console.print(_broker_table(await admin.brokers.addresses()))

        receipts = await _send(name_server.address)
        console.print(f"[bold]2.[/bold] A producer sent {len(receipts)} messages to {_TOPIC}, which made that topic.")
        console.print(_receipt_table(receipts))

        consumed = await _consume(name_server.address)
        console.print("[bold]3.[/bold] A push consumer was brought those with the tag [italic]paid[/italic].")
        console.print(_message_table(consumed))
        if with_spark:
            await _play_pipeline(console, admin, name_server.address, folder)
    console.print("All closed cleanly. The messages were kept in memory.\n")
    console.print(_NEXT.format(command=_own_command()))


async def _play_pipeline(console: Console, admin: aio.Admin, name_server: str, folder: Path | None) -> None:
    from rocketline.cli.demo import pipeline as demo_pipeline
    from rocketline.pipelines.examples.orders import REJECTED_TOPIC, REVENUE_TOPIC, TOPIC

    if problem := demo_pipeline.is_possible():
        console.print(problem, markup=False)
        return
    for topic in (TOPIC, REVENUE_TOPIC, REJECTED_TOPIC):
        await admin.topics.create(topic)
    kept = folder or Path(tempfile.mkdtemp(prefix="rocketline-orders-"))
    # Spark waits for its own work: in a thread, so that the servers, which live on this loop, can serve it.
    await asyncio.to_thread(demo_pipeline.play, console, name_server, kept)


async def _send(name_server: str) -> list[SendReceipt]:
    from rocketline import aio

    async with aio.Producer(name_server, group="demo-producers") as producer:
        return [
            await producer.send(aio.Message(_TOPIC, body.encode(), tags=tag, keys=[key])) for key, tag, body in _ORDERS
        ]


async def _consume(name_server: str) -> list[ReceivedMessage]:
    """What the handler is called with, until it has seen all that it wants."""
    from rocketline import aio

    consumed: list[ReceivedMessage] = []

    async def handle(message: ReceivedMessage) -> None:
        consumed.append(message)
        if len(consumed) == _PAID:
            await consumer.close()

    async with asyncio.timeout(_TIMEOUT_S), aio.PushConsumer(name_server, group="demo-consumers") as consumer:
        consumer.subscribe(_TOPIC, "paid", handle)
        await consumer.run()
    return consumed


def _own_command() -> str:
    """How to call us again: by name, or from a virtual environment that is not active by path."""
    return "rocketline" if shutil.which("rocketline") else os.path.relpath(sys.argv[0])


def _table(columns: Collection[str], rows: Iterable[Collection[str]]) -> Table:
    from rich.table import Table

    table = Table(*columns, header_style="bold")
    for row in rows:
        table.add_row(*row)
    return table


def _broker_table(brokers: Iterable[BrokerAddress]) -> Table:
    return _table(("cluster", "broker", "address"), ((each.cluster, each.name, each.address) for each in brokers))


def _receipt_table(receipts: Iterable[SendReceipt]) -> Table:
    return _table(
        ("message id", "queue", "offset"),
        ((each.message_id, str(each.queue.queue_id), str(each.queue_offset)) for each in receipts),
    )


def _message_table(messages: Iterable[ReceivedMessage]) -> Table:
    return _table(
        ("key", "tag", "body", "queue", "offset"),
        (
            (" ".join(each.keys), each.tags or "", each.body.decode(), str(each.queue.queue_id), str(each.queue_offset))
            for each in sorted(messages, key=lambda message: message.keys)
        ),
    )
