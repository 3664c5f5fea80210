"""Where `rocketline demo` happens: a name server and a broker, on free ports and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rocketline.broker.config import load_settings as load_broker_settings
from rocketline.broker.server import Broker
from rocketline.clock import SystemClock
from rocketline.nameserver.config import load_settings as load_name_server_settings
from rocketline.nameserver.server import NameServer
from rocketline.settings import Flag
from rocketline.store.memory_filesystem import MemoryFileSystem

CLUSTER, BROKER = "DemoCluster", "broker-a"

_LOOPBACK = "127.0.0.1"
_MEMORY_BYTES = 256 * 1024**2
_SEGMENT_BYTES = 1024**2


def name_server(folder: Path) -> NameServer:
    """A name server on a free port."""
    flags = [
        Flag("demo", "bindAddress", _LOOPBACK),
        Flag("demo", "listenPort", "0"),
        Flag("demo", "kvConfigPath", str(folder / "kvConfig.json")),
        Flag("demo", "configStorePath", str(folder / "namesrv.properties")),
    ]
    return NameServer(load_name_server_settings(flags=flags))


@asynccontextmanager
async def broker(name_server: str) -> AsyncIterator[Broker]:
    """A broker on free ports that keeps its messages in memory, registered with the name server."""
    given = {
        "brokerClusterName": CLUSTER,
        "brokerName": BROKER,
        "bindAddress": _LOOPBACK,
        "brokerIP1": _LOOPBACK,
        "brokerIP2": _LOOPBACK,
        "listenPort": "0",
        "namesrvAddr": name_server,
        "storePathRootDir": "/demo",
        "mappedFileSizeCommitLog": str(_SEGMENT_BYTES),
        # Else a slow machine, on which the first sends wait for longer than 200 ms, would see them refused as busy.
        "brokerFastFailureEnable": "false",
    }
    settings = load_broker_settings(flags=[Flag("demo", key, text) for key, text in given.items()])
    async with Broker(settings, files=MemoryFileSystem(SystemClock(), capacity=_MEMORY_BYTES)) as running:
        yield running
