"""Apache's name server and broker as child processes on free loopback ports.

Home, store and logs stay under the folder handed in. The JVMs are small and start quickly; a benchmark that wants
them at their best passes its own `jvm` options.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rocketline.testing.apache.release import Release
from rocketline.testing.server_process import ServerProcess
from rocketline.wire import frame
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Quick to start and light on memory and cores."""

_LOOPBACK = "127.0.0.1"
_PORTS = range(20_000, 32_000, 4)
"""Below the ports that the kernel hands out by itself, so that no outgoing connection takes one before its server."""


def free_port() -> int:
    """A port that nobody listens on, and neither on the one two below and the one above it.

    A broker takes all three: its own, the "VIP" port and the one for replication. Blocks of four never overlap, so two
    ports from two calls do not get into each other's way.
    """
    for block in random.sample(_PORTS, len(_PORTS)):
        if all(_is_free(port) for port in (block, block + 2, block + 3)):
            return block + 2
    raise OSError(f"no free port between {_PORTS.start} and {_PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


class _ApacheServer(ServerProcess):
    """A JVM with one server in it, started from a properties file."""

    def __init__(
        self,
        release: Release,
        main_class: str,
        name: str,
        port: int,
        home: Path,
        settings: Mapping[str, str],
        heap: str,
        jvm: Sequence[str],
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        config = home / "server.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
        output = home / "output.txt"
        memory = [f"-Xms{heap}", f"-Xmx{heap}", f"-XX:MaxDirectMemorySize={heap}"]
        options = [*memory, f"-Duser.home={home}", f"-Drocketline.output={output}", *jvm]
        command = release.command("ServerLauncher", main_class, "-c", str(config), jvm=options)
        super().__init__(name, command, output=output, environment={"ROCKETMQ_HOME": str(home)})
        self.port, self.home = port, home
        self.address = f"{_LOOPBACK}:{port}"


class ApacheNameServer(_ApacheServer):
    """Apache's name server, answering when the constructor returns."""

    def __init__(
        self,
        release: Release,
        home: Path,
        *,
        settings: Mapping[str, str] | None = None,
        heap: str = "256m",
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        port = free_port()
        own = {"listenPort": str(port), "bindAddress": _LOOPBACK, "kvConfigPath": f"{home}/kvConfig.json"}
        main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"
        super().__init__(
            release, main_class, f"Apache's name server on {port}", port, home, own | dict(settings or {}), heap, jvm
        )
        self.wait_for_port(port)


class ApacheBroker(_ApacheServer):
    """Apache's broker, registered with all its name servers when `wait_until_registered` returns.

    Several brokers start faster side by side: make them all, then wait for each.
    """

    def __init__(
        self,
        release: Release,
        home: Path,
        *,
        name_servers: Sequence[str],
        broker_name: str = "broker-a",
        broker_id: int = 0,
        cluster: str = "DefaultCluster",
        settings: Mapping[str, str] | None = None,
        heap: str = "512m",
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        port = free_port()
        self.name_servers, self.broker_name, self.broker_id = tuple(name_servers), broker_name, broker_id
        own = {
            "brokerClusterName": cluster,
            "brokerName": broker_name,
            "brokerId": str(broker_id),
            "brokerIP1": _LOOPBACK,
            "brokerIP2": _LOOPBACK,
            "bindAddress": _LOOPBACK,
            "listenPort": str(port),
            "haListenPort": str(port + 1),
            "namesrvAddr": ";".join(name_servers),
            "storePathRootDir": f"{home}/store",
            "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
        }
        main_class = "org.apache.rocketmq.broker.BrokerStartup"
        label = f"Apache's broker {broker_name} ({broker_id}) on {port}"
        super().__init__(release, main_class, label, port, home, own | dict(settings or {}), heap, jvm)

    def wait_until_registered(self, *, timeout_s: float = 60) -> ApacheBroker:
        """Return once it listens and each of its name servers shows its address."""
        self.wait_for_port(self.port, timeout_s=timeout_s)
        for server in self.name_servers:
            self.wait_until(partial(self._is_shown_by, server), f"registered with {server}", timeout_s=timeout_s)
        return self

    def _is_shown_by(self, name_server: str) -> bool:
        return self.address in cluster_info(name_server)


def cluster_info(name_server: str) -> str:
    """The JSON text of GET_BROKER_CLUSTER_INFO from any name server."""
    host, _, port = name_server.rpartition(":")
    reader = frame.FrameReader()
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(frame.encode(Command(RequestCode.GET_BROKER_CLUSTER_INFO)))
        while (answer := reader.take()) is None:
            data = connection.recv(65_536)
            if not data:
                raise ConnectionError(f"{name_server} closed the connection instead of answering")
            reader.feed(data)
    return frame.decode(answer).body.decode("utf-8", "replace")
