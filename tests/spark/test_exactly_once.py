"""Source to Parquet, Delta and Iceberg, with kills of driver, Python worker and broker: each message is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess, free_port
from support.pipelines.kills import Campaign, Cluster
from support.pipelines.runs import _iceberg_threads_end

__all__ = ["_iceberg_threads_end"]

MESSAGES = 20_000
KILLS = 1


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("spark")
def test_every_message_is_in_each_table_once_after_kills_of_broker_worker_and_driver(tmp_path: Path) -> None:
    cluster = our_cluster(tmp_path)
    try:
        campaign = Campaign(tmp_path / "pipeline", cluster, MESSAGES, KILLS, batch=5_000)
        campaign.fight()
        found, keys = campaign.verify(), campaign.keys()
    finally:
        cluster.close()

    assert campaign.killed == {"driver": KILLS, "worker": KILLS, "broker": 1}
    assert list(found) == ["parquet", "delta", "iceberg"]
    for table, verdict in found.items():
        assert verdict["is_clean"]
        assert verdict["offsets"] == verdict["rows"] == sum(keys[table].values()) >= MESSAGES
        assert keys[table].keys() == {str(number) for number in range(campaign.sent)}


def our_cluster(home: Path) -> Cluster:
    name_server = NameServerProcess(home / "name-server")
    name_server.wait_until_ready()
    port = free_port()

    def start() -> ServerProcess:
        return BrokerProcess(home / "broker", name_servers=[name_server.address], port=port)

    cluster = Cluster(name_server, start, start())
    cluster.broker.wait_until_ready()
    return cluster
