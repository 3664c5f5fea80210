"""Apache's name server, broker and gRPC proxy as child processes on free ports, for clients on loopback.

Home, store and logs stay under the folder handed in. The JVMs are small and start quickly; a benchmark that wants
them at their best passes its own `jvm` options.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rocketline.settings.properties import format_properties
from rocketline.testing.apache.release import Release
from rocketline.testing.broker import broker_settings, wait_until_registered
from rocketline.testing.server_process import LOOPBACK, ServerFailedError, ServerProcess, free_port

SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Dtls.server.mode=disabled")
"""Quick to start and light on memory and cores. Without TLS, because to make up a certificate takes seconds."""


class _ApacheServer(ServerProcess):
    """A JVM with one server in it; `arguments` are its main class and what that takes."""

    def __init__(
        self,
        name: str,
        release: Release,
        *arguments: str,
        home: Path,
        port: int,
        properties: Mapping[str, str] | None,
        heap: str,
        jvm: Sequence[str],
    ) -> None:
        output = home / "output.txt"
        memory = [f"-Xms{heap}", f"-Xmx{heap}", f"-XX:MaxDirectMemorySize={heap}"]
        own = {"user.home": str(home), "rocketline.output": str(output), **(properties or {})}
        command = release.command("ServerLauncher", *arguments, jvm=[*memory, *jvm], properties=own)
        environment = {"ROCKETMQ_HOME": str(home)}
        super().__init__(f"{name} on {port}", command, port=port, output=output, environment=environment)

    def __exit__(self, *_: object) -> None:
        # Nobody reads its store again, and a broker takes 15 s to say goodbye.
        self.kill()


class ApacheNameServer(_ApacheServer):
    """Apache's name server. `settings` are lines of its `namesrv.conf`, `properties` are Java system properties."""

    def __init__(
        self,
        release: Release,
        home: Path,
        *,
        settings: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        heap: str = "256m",
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        own = {
            "listenPort": str(free_port()),
            "bindAddress": LOOPBACK,
            "kvConfigPath": f"{home}/kvConfig.json",
            **(settings or {}),
        }
        super().__init__(
            "Apache's name server",
            release,
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            *("-c", _written(home / "server.conf", format_properties(own))),
            home=home,
            port=int(own["listenPort"]),
            properties=properties,
            heap=heap,
            jvm=jvm,
        )


_QUIET: Final = {"timerFlushIntervalMs": "60000"}
"""An idle broker compares every byte of its timer wheel with the file, 38.7 MB of them, each second: three quarters of
all that it does, and a fifth of a core, for as long as it runs. A clean stop does it anyway."""


class ApacheBroker(_ApacheServer):
    """Apache's broker. `settings` are lines of its `broker.conf`, `properties` are Java system properties.

    Ready means registered: it listens, and each of its name servers shows its address. That may come 10 s after its
    start, because a broker often makes its first try before it has found a name server, and the next one 10 s later.
    A second one in the same `home` finds the store of the first.
    """

    def __init__(
        self,
        release: Release,
        home: Path,
        *,
        name_servers: Sequence[str],
        broker_name: str = "broker-a",
        broker_id: int = 0,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        self.name_servers, self.broker_name = tuple(name_servers), broker_name
        own = broker_settings(home, port or free_port(), name_servers, broker_name)
        own |= {"brokerId": str(broker_id), **_QUIET, **(settings or {})}
        super().__init__(
            f"Apache's broker {broker_name}",
            release,
            "org.apache.rocketmq.broker.BrokerStartup",
            *("-c", _written(home / "server.conf", format_properties(own))),
            home=home,
            port=int(own["listenPort"]),
            properties=properties,
            heap=heap,
            jvm=jvm,
        )

    def wait_until_ready(self, *, timeout_s: float = 60) -> None:
        """Return once it listens and each of its name servers shows its address."""
        super().wait_until_ready(timeout_s=timeout_s)
        wait_until_registered(self, self.name_servers, timeout_s=timeout_s)


class ApacheProxy(_ApacheServer):
    """Apache's proxy, for gRPC clients on `address`. `settings` are further members of its `rmq-proxy.json`.

    It looks for its own topic on every broker of the cluster, and ends at once where it finds none or the name server
    is slow to answer. Then it is started again, a few times.
    """

    _STARTS: Final = 4

    def __init__(
        self,
        release: Release,
        home: Path,
        *,
        name_servers: Sequence[str],
        settings: Mapping[str, object] | None = None,
        properties: Mapping[str, str] | None = None,
        heap: str = "256m",
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        port = free_port()
        own = {
            "rocketMQClusterName": "DefaultCluster",
            "namesrvAddr": ";".join(name_servers),
            "proxyMode": "CLUSTER",
            "localServeAddr": LOOPBACK,
            "grpcServerPort": port,
            "remotingListenPort": free_port(),
            **(settings or {}),
        }
        super().__init__(
            "Apache's proxy",
            release,
            "org.apache.rocketmq.proxy.ProxyStartup",
            *("-pc", _written(home / "rmq-proxy.json", json.dumps(own))),
            home=home,
            port=port,
            properties=properties,
            heap=heap,
            jvm=jvm,
        )

    def wait_until_ready(self, *, timeout_s: float = 60) -> None:
        """Return once it takes gRPC calls; each of its starts has this time."""
        for _ in range(self._STARTS - 1):
            try:
                return super().wait_until_ready(timeout_s=timeout_s)
            except ServerFailedError:
                if self.is_running:
                    raise
                self.start_again()
        return super().wait_until_ready(timeout_s=timeout_s)


def _written(config: Path, text: str) -> str:
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text, "ascii")
    return str(config)
