"""Must hold 4 of the clients, with Apache's servers: three, ten and a hundred thousand messages on a bad day."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rocketline.testing.apache import ApacheBroker, ApacheNameServer, Release
from rocketline.testing.server_process import ServerProcess
from support.clients.chaos import Chaos, brokers_behind_proxies, check

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600, func_only=True)]


@pytest.mark.parametrize(
    ("count", "seconds"),
    [
        (3_000, 12),
        pytest.param(10_000, 30, marks=pytest.mark.thorough),
        pytest.param(100_000, 120, marks=pytest.mark.thorough),
    ],
)
async def test_messages_survive_cut_connections_and_killed_brokers(
    release: Release, tmp_path: Path, count: int, seconds: int
) -> None:
    with ApacheNameServer(release, tmp_path / "name-server") as name_server:

        def start(home: Path, name: str, port: int, settings: dict[str, str]) -> ServerProcess:
            servers = (name_server.address,)
            return ApacheBroker(release, home, name_servers=servers, broker_name=name, port=port, settings=settings)

        async with brokers_behind_proxies(start, tmp_path) as brokers:
            ordered, seed = count // 5, time.time_ns() % 2**32
            chaos = Chaos(name_server.address, brokers, count - ordered, ordered, seconds=seconds, seed=seed)
            await chaos.run(patience_s=120)
    check(chaos)
