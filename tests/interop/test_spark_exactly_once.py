"""Source to Parquet, Delta and Iceberg on Apache's broker, with kills, and brokers that restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.testing.apache import ApacheBroker, ApacheNameServer, Release
from rocketline.testing.server_process import ServerProcess, free_port
from support.pipelines.kills import Campaign, Cluster
from support.pipelines.runs import _iceberg_threads_end

__all__ = ["_iceberg_threads_end"]

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("messages", "kills", "of_brokers"),
    [
        (5_000, 1, 1),
        pytest.param(10_000, 1, 1, marks=pytest.mark.thorough),
        pytest.param(200_000, 10, 4, marks=pytest.mark.thorough),
    ],
)
def test_every_message_is_in_each_table_once_after_kills(
    release: Release, tmp_path: Path, messages: int, kills: int, of_brokers: int
) -> None:
    cluster = apache_cluster(release, tmp_path)
    try:
        campaign = Campaign(tmp_path / "pipeline", cluster, messages, kills, seed=1, batch=20_000)
        campaign.fight()
        found, keys = campaign.verify(), campaign.keys()
    finally:
        cluster.close()

    assert campaign.killed == {"driver": kills, "worker": kills, "broker": of_brokers}
    for table, verdict in found.items():
        assert verdict["is_clean"]
        assert verdict["offsets"] == verdict["rows"] == sum(keys[table].values()) >= messages
        assert keys[table].keys() == {str(number) for number in range(campaign.sent)}


def apache_cluster(release: Release, home: Path) -> Cluster:
    name_server = ApacheNameServer(release, home / "name-server")
    name_server.wait_until_ready()
    port = free_port()

    def start() -> ServerProcess:
        return ApacheBroker(release, home / "broker", name_servers=[name_server.address], port=port)

    cluster = Cluster(name_server, start, start())
    cluster.broker.wait_until_ready()
    return cluster
