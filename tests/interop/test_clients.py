"""Must hold 1: a real Apache broker serves a real Apache client through our name server, in either header encoding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketline.testing.apache import ApacheBroker, ClientJvm, Release, Traffic, fetch, running
from rocketline.testing.name_server import NameServerProcess
from support.apache import mqadmin_output
from support.apache.cluster import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

BINARY_HEADERS = {"rocketmq.serialize.type": "ROCKETMQ"}
RARE_REGISTRATION = {
    "compressedRegister": "true",
    "enableSingleTopicRegister": "true",
    "forceRegister": "false",
    "registerNameServerPeriod": "10000",
}
"""Compressed bodies, REGISTER_TOPIC_IN_NAMESRV for a new topic, and QUERY_DATA_VERSION before each registration."""


@dataclass(frozen=True, slots=True)
class Encodings:
    """A broker that writes binary headers, two name servers that write one and the other, and such clients."""

    name_servers: dict[str, NameServerProcess]
    clients: dict[str, ClientJvm]


@pytest.fixture(scope="module")
def encodings(release: Release, clients: ClientJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encodings]:
    home = tmp_path_factory.mktemp("encodings")
    json = NameServerProcess(home / "json")
    binary = NameServerProcess(home / "binary", environment={"ROCKETMQ_SERIALIZE_TYPE": "ROCKETMQ"})
    with (
        running(json, binary),
        ApacheBroker(release, home / "broker", name_servers=(json.address, binary.address), properties=BINARY_HEADERS),
        ClientJvm(release, home / "clients", properties=BINARY_HEADERS) as binary_clients,
    ):
        yield Encodings({"json": json, "binary": binary}, {"json": clients, "binary": binary_clients})


def test_thousand_messages_reach_a_push_consumer_over_both_masters(cluster: Cluster) -> None:
    clients, name_server = cluster.name_servers.clients, cluster.name_servers.ours.address
    created = clients.mqadmin(name_server, "updateTopic", "-c", "DefaultCluster", "-t", "Thousand")
    assert cluster.master_a.address in created.out
    assert cluster.master_b.address in created.out
    traffic = clients.traffic(name_server, "Thousand", group="thousand", count=1000)
    assert traffic == Traffic(sent=1000, received=1000, distinct=1000)
    stored = clients.mqadmin(name_server, "topicStatus", "-t", "Thousand").out.splitlines()
    held = {row.split()[0]: int(row.split()[3]) for row in stored if row.startswith("broker-")}
    assert set(held) == {"broker-a", "broker-b"}


@pytest.mark.thorough_with(name_server="json", client="json")
@pytest.mark.thorough_with(name_server="binary", client="binary")
@pytest.mark.parametrize("client", ["json", "binary"])
@pytest.mark.parametrize("name_server", ["json", "binary"])
def test_header_encodings_mix(encodings: Encodings, name_server: str, client: str) -> None:
    address = encodings.name_servers[name_server].address
    clients = encodings.clients[client]
    topic = f"{client}-through-{name_server}"
    clients.mqadmin(address, "updateTopic", "-c", "DefaultCluster", "-t", topic)
    assert clients.traffic(address, topic, group=topic, count=100) == Traffic(sent=100, received=100, distinct=100)


def test_release_5_3_3_works_through_our_name_server(tmp_path: Path) -> None:
    """It reads bodies with another JSON library than 5.5.0 does."""
    release = fetch("5.3.3")
    with (
        NameServerProcess(tmp_path / "ours") as ours,
        ApacheBroker(release, tmp_path / "broker", name_servers=(ours.address,)) as broker,
        ClientJvm(release, tmp_path / "clients") as clients,
    ):
        shown = mqadmin_output.read(clients.mqadmin(ours.address, "clusterList"), ours.address)
        assert shown.printed == [["DefaultCluster", "broker-a", "0", broker.address, "V5_3_3", "true"]]
        clients.mqadmin(ours.address, "updateTopic", "-c", "DefaultCluster", "-t", "Older")
        traffic = clients.traffic(ours.address, "Older", group="older", count=100)
        assert traffic == Traffic(sent=100, received=100, distinct=100)
