"""Our broker as its own process, configured by a file like Apache's; and what holds for a broker process of either."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rocketline.settings.properties import format_properties
from rocketline.testing.exchange import ask
from rocketline.testing.server_process import LOOPBACK, ServerProcess, free_port
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

PATIENCE: Final = {"brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": "10000"}
"""A broker turns sends away that waited for 200 ms, or while one write takes 1 s: on a machine that is busy with tests,
the first send to a broker that has just started."""


class BrokerProcess(ServerProcess):
    """`rocketline broker -c FILE`. `settings` are lines of the file, which is Apache's `broker.conf`.

    Ready means registered. A second one in the same `home` finds the store of the first.
    """

    def __init__(
        self,
        home: Path,
        *,
        name_servers: Sequence[str],
        broker_name: str = "broker-a",
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.name_servers, self.broker_name = tuple(name_servers), broker_name
        config, port = home / "server.conf", port or free_port()
        own = broker_settings(home, port, name_servers, broker_name) | dict(settings or {})
        config.write_text(format_properties(own), "ascii")
        super().__init__(
            f"Rocketline's broker {broker_name} on {port}",
            [sys.executable, "-m", "rocketline", "broker", "-c", str(config)],
            port=port,
            output=home / "output.txt",
            environment={"ROCKETMQ_HOME": str(home), **(environment or {})},
        )

    def wait_until_ready(self, *, timeout_s: float = 60) -> None:
        """Return once it listens and each of its name servers shows its address."""
        super().wait_until_ready(timeout_s=timeout_s)
        wait_until_registered(self, self.name_servers, timeout_s=timeout_s)


def broker_settings(home: Path, port: int, name_servers: Sequence[str], broker_name: str) -> dict[str, str]:
    """Lines of a `broker.conf` for a broker on loopback that keeps everything under `home`."""
    return {
        "brokerName": broker_name,
        "brokerId": "0",
        "brokerIP1": LOOPBACK,
        "brokerIP2": LOOPBACK,
        "bindAddress": LOOPBACK,
        "listenPort": str(port),
        "haListenPort": str(port + 1),
        "namesrvAddr": ";".join(name_servers),
        "storePathRootDir": f"{home}/store",
        "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
        **PATIENCE,
    }


def wait_until_registered(broker: ServerProcess, name_servers: Sequence[str], *, timeout_s: float) -> None:
    """Return once each of the name servers shows the broker's address."""

    def is_shown_by(name_server: str) -> bool:
        return broker.address in cluster_info(name_server)

    for server in name_servers:
        broker.wait_until(partial(is_shown_by, server), f"registered with {server}", timeout_s=timeout_s)


def cluster_info(name_server: str) -> str:
    """The JSON text of GET_BROKER_CLUSTER_INFO from any name server."""
    return ask(name_server, Command(RequestCode.GET_BROKER_CLUSTER_INFO)).body.decode("utf-8", "replace")
