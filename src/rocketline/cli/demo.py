"""`rocketline demo`: what Rocketline does, shown in a few seconds on this machine."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rocketline.model.message import StoredMessage
    from rocketline.model.route import TopicRouteData
    from rocketline.wire.bodies.routes import ClusterInfo

_ORDERS = (
    ("order-1", "paid", "two teapots"),
    ("order-2", "open", "a samovar"),
    ("order-3", "paid", "nine cups"),
)

_NEXT = """\
[bold]Try next[/bold]
  [cyan]{command} serve[/cyan]             a name server and a broker, to stay
  [cyan]{command} broker -p[/cyan]         every setting, and where it came from
Apache's clients and mqadmin work with them as with their own:
  [cyan]mqadmin clusterList -n 127.0.0.1:9876[/cyan]"""


@click.command(short_help="See Rocketline at work, in seconds.")
def demo() -> None:
    """Start a name server and a broker, send messages and read them back. Takes a second and leaves nothing."""
    from rich.console import Console

    from rocketline.net.loop import run

    with tempfile.TemporaryDirectory(prefix="rocketline-demo-") as folder:
        run(_play(Console(highlight=False), Path(folder)))


async def _play(console: Console, folder: Path) -> None:
    from rocketline.cli import demo_scene as scene
    from rocketline.net.remote import Remote

    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(scene.name_server(folder))
        broker = await stack.enter_async_context(scene.broker(name_server.address))
        console.print(f"[bold]1.[/bold] A name server listens on {name_server.address}; a broker registered with it.")
        client = await stack.enter_async_context(Remote(name_server.address))
        console.print(_cluster_table(await scene.ask_clusters(client)))

        producer = await stack.enter_async_context(Remote(broker.address))
        for queue_id, order in enumerate(_ORDERS):
            await scene.send(producer, queue_id, *order)
        console.print(
            f"[bold]2.[/bold] A producer sent {len(_ORDERS)} messages to {scene.TOPIC}, which made that topic."
        )
        console.print(_route_table(await scene.ask_until_known(client, scene.TOPIC)))

        consumer = await stack.enter_async_context(Remote(broker.address))
        pulled = [message for queue in range(scene.QUEUES) for message in await scene.pull(consumer, queue, "paid")]
        console.print("[bold]3.[/bold] A consumer pulled those with the tag [italic]paid[/italic] from all queues.")
        console.print(_message_table(pulled))
    console.print("[bold]4.[/bold] Both closed cleanly. The messages were kept in memory, so nothing is left.\n")
    console.print(_NEXT.format(command=_own_command()))


def _own_command() -> str:
    """How to call us again: by name, or from a virtual environment that is not active by path."""
    return "rocketline" if shutil.which("rocketline") else os.path.relpath(sys.argv[0])


def _table(*columns: str) -> Table:
    from rich.table import Table

    return Table(*columns, header_style="bold")


def _cluster_table(info: ClusterInfo) -> Table:
    table = _table("cluster", "broker", "address")
    for cluster, names in sorted(info.cluster_addr_table.items()):
        for name in sorted(names):
            for address in info.broker_addr_table[name].broker_addrs.values():
                table.add_row(cluster, name, address)
    return table


def _route_table(route: TopicRouteData) -> Table:
    table = _table("broker", "queues to write", "queues to read")
    for queues in route.queue_datas:
        table.add_row(queues.broker_name, f"0–{queues.write_queue_nums - 1}", f"0–{queues.read_queue_nums - 1}")
    return table


def _message_table(messages: list[StoredMessage]) -> Table:
    table = _table("queue", "offset", "key", "tag", "body")
    for message in messages:
        place = str(message.queue_id), str(message.queue_offset)
        table.add_row(*place, " ".join(message.keys), message.tag, message.body.decode())
    return table
