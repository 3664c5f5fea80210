"""`rocketline demo`: what Rocketline does, shown in a few seconds on this machine."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from rocketline.cli.demo_scene import BROKERS, CLUSTER, TOPICS, ask_clusters, ask_route, ask_until_gone, register
from rocketline.model.route import MASTER_ID, TopicRouteData
from rocketline.nameserver.config import load_settings
from rocketline.nameserver.server import NameServer
from rocketline.net.loop import run
from rocketline.net.remote import Remote
from rocketline.settings import Flag
from rocketline.wire.bodies.routes import ClusterInfo

_NEXT = """\
[bold]Try next[/bold]
  [cyan]{command} nameserver[/cyan]        a name server on port 9876
  [cyan]{command} nameserver -p[/cyan]     every setting, and where it came from
Apache's brokers, clients and mqadmin work with it as with their own:
  [cyan]mqbroker -n 127.0.0.1:9876[/cyan]
  [cyan]mqadmin clusterList -n 127.0.0.1:9876[/cyan]"""


@click.command(short_help="See Rocketline at work, in seconds.")
def demo() -> None:
    """Start a name server, register brokers with it, and ask it for routes. Takes a second and leaves nothing."""
    with tempfile.TemporaryDirectory(prefix="rocketline-demo-") as folder:
        run(_play(Console(highlight=False), Path(folder)))


async def _play(console: Console, folder: Path) -> None:
    flags = [
        Flag("demo", "bindAddress", "127.0.0.1"),
        Flag("demo", "listenPort", "0"),
        Flag("demo", "kvConfigPath", str(folder / "kvConfig.json")),
        Flag("demo", "configStorePath", str(folder / "namesrv.properties")),
    ]
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(NameServer(load_settings(flags=flags)))
        console.print(f"[bold]1.[/bold] A name server listens on {server.address}.")

        client = await stack.enter_async_context(Remote(server.address))
        connections = [await stack.enter_async_context(Remote(server.address)) for _ in BROKERS]
        for broker, connection in zip(BROKERS, connections, strict=True):
            await register(connection, broker)
        names = " and ".join(topic.topic_name for topic in TOPICS)
        console.print(f"[bold]2.[/bold] {len(BROKERS)} made-up brokers of {CLUSTER} registered the topics {names}.")
        console.print(_cluster_table(await ask_clusters(client)))

        topic = TOPICS[0].topic_name
        console.print(f"[bold]3.[/bold] A client asked where the topic {topic} is.")
        console.print(_route_table(await ask_route(client, topic)))

        gone = BROKERS[-1].name
        await connections[-1].close()
        console.print(f"[bold]4.[/bold] The connection of {gone} broke. The client asked again.")
        console.print(_route_table(await ask_until_gone(client, topic, gone)))
    console.print(_NEXT.format(command=_own_command()))


def _own_command() -> str:
    """How to call us again: by name, or from a virtual environment that is not active by path."""
    return "rocketline" if shutil.which("rocketline") else os.path.relpath(sys.argv[0])


def _cluster_table(info: ClusterInfo) -> Table:
    table = Table("cluster", "broker", "id", "address", header_style="bold")
    for cluster, names in sorted(info.cluster_addr_table.items()):
        for name in sorted(names):
            for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items()):
                table.add_row(cluster, name, _role(broker_id), address)
    return table


def _route_table(route: TopicRouteData) -> Table:
    addresses = {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}
    table = Table("broker", "write to", "queues", "read from", "queues", header_style="bold")
    for queues in sorted(route.queue_datas, key=lambda queues: queues.broker_name):
        readers = [address for _, address in sorted(addresses[queues.broker_name].items())]
        writer = addresses[queues.broker_name].get(MASTER_ID, "nobody")
        write, read = f"0–{queues.write_queue_nums - 1}", f"0–{queues.read_queue_nums - 1}"
        table.add_row(queues.broker_name, writer, write, "\n".join(readers), read)
    return table


def _role(broker_id: int) -> str:
    return f"{broker_id} (master)" if broker_id == MASTER_ID else f"{broker_id} (slave)"
