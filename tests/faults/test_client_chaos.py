"""Must hold 4 of the clients: nothing that was acknowledged is lost, whatever happens to connections and brokers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess
from support.clients.chaos import Chaos, brokers_behind_proxies, check


@pytest.mark.timeout(120)
async def test_ten_thousand_messages_survive_cut_connections_and_killed_brokers(tmp_path: Path) -> None:
    with NameServerProcess(tmp_path / "name-server") as name_server:

        def start(home: Path, name: str, port: int, settings: dict[str, str]) -> ServerProcess:
            servers = (name_server.address,)
            return BrokerProcess(home, name_servers=servers, broker_name=name, port=port, settings=settings)

        async with brokers_behind_proxies(start, tmp_path) as brokers:
            chaos = Chaos(name_server.address, brokers, 8_000, 2_000, seconds=15, seed=time.time_ns() % 2**32)
            await chaos.run(patience_s=40)
    check(chaos)
