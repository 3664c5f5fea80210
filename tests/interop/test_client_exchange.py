"""Must hold 3 of the clients: what our producer sends Apache's consumers read, and the reverse, for all that one sends.

On our servers and on Apache's. Numbers that end in 50 have bodies that are compressed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from rocketline.testing.apache import Release
from rocketline.testing.clients import ClientProgram, Delivered, Portion, go_client, java_client, own_client
from support.clients import clusters as client_clusters
from support.clients.clusters import ClientCluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(180, func_only=True),
    pytest.mark.thorough_with(servers="apache"),
]

EACH = 200
FAILING = 5


@pytest.fixture(scope="module", params=["ours", "apache"])
def servers(
    request: pytest.FixtureRequest, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientCluster]:
    if request.param == "ours":
        with client_clusters.our_cluster() as cluster:
            yield cluster
    else:
        with client_clusters.apache_cluster(release, tmp_path_factory.mktemp("servers")) as cluster:
            yield cluster


@pytest.fixture
def programs(release: Release, tmp_path: Path) -> dict[str, ClientProgram]:
    clients = own_client(tmp_path / "own"), java_client(release, tmp_path / "java"), go_client(tmp_path / "go")
    return {client.name: client for client in clients}


PAIRS = [("Rocketline", "Java"), ("Java", "Rocketline"), ("Rocketline", "Go"), ("Go", "Rocketline")]
pairs = pytest.mark.parametrize(("sender", "receiver"), PAIRS)


def kinds(sender: ClientProgram, receiver: ClientProgram) -> list[str]:
    """All ways to send, but for what the Go client cannot read."""
    readable = {"lz4", "zstd"} if receiver.name == "Go" else set()
    return sorted(sender.kinds - readable)


def expected(portions: list[Portion]) -> Counter[tuple[int, int]]:
    """Each number once, and once more for each failure that it asks for."""
    return Counter(
        (number, times) for portion in portions for number in portion.numbers for times in range(portion.failures + 1)
    )


@pairs
def test_every_kind_of_message_arrives_once_as_it_was_sent(
    servers: ClientCluster, programs: dict[str, ClientProgram], sender: str, receiver: str
) -> None:
    """Failing messages come again; 119: delayed ones come late."""
    sends, reads = programs[sender], programs[receiver]
    portions = [Portion(kind, n * EACH, EACH) for n, kind in enumerate(kinds(sends, reads))]
    portions.append(Portion("sync", len(portions) * EACH, FAILING, 1))
    topic, group = servers.topic("exchange", brokers=2), servers.group("exchange")
    sent = sends.send(servers.name_server, topic, *portions)
    assert (sent.sent, sent.problem) == (sum(portion.count for portion in portions), "")
    wanted = expected(portions)
    came = reads.consume(servers.name_server, topic, group, wanted.total(), timeout_s=60)
    assert Counter((one.number, one.reconsume_times) for one in came) == wanted
    (delayed,) = (portion for portion in portions if portion.kind == "delayed")
    assert min(one.lag_ms for one in came if one.number in delayed.numbers) >= 1000 * client_clusters.DELAYS_S[0]


@pytest.mark.thorough_with(sender="Java")
@pytest.mark.thorough_with(receiver="Go")
@pairs
def test_ordered_messages_come_in_order_and_tags_are_respected(
    servers: ClientCluster, programs: dict[str, ClientProgram], sender: str, receiver: str
) -> None:
    sends, reads = programs[sender], programs[receiver]
    topic = servers.topic("ordered")
    sends.send(servers.name_server, topic, Portion("ordered", 0, EACH))
    came = reads.consume(servers.name_server, topic, servers.group("ordered"), EACH, mode="orderly", timeout_s=60)
    assert Counter(one.number for one in came) == Counter(range(EACH))
    for offsets in by_queue(came).values():
        assert all(later == earlier + 1 for earlier, later in pairwise(offsets))
    odd = reads.consume(servers.name_server, topic, servers.group("odd"), EACH // 2, expression="odd", timeout_s=60)
    assert Counter(one.number for one in odd) == Counter(range(1, EACH, 2))


@pytest.mark.thorough_with(sender="Rocketline")
@pytest.mark.parametrize(("sender", "receiver"), PAIRS[:2])
def test_lite_pull_and_broadcasting_consumers_read_everything(
    servers: ClientCluster, programs: dict[str, ClientProgram], sender: str, receiver: str
) -> None:
    topic = servers.topic("modes", brokers=2)
    programs[sender].send(servers.name_server, topic, Portion("sync", 0, EACH), Portion("batch", EACH, EACH))
    for mode in ("pull", "broadcast"):
        group = servers.group(mode)
        came = programs[receiver].consume(servers.name_server, topic, group, 2 * EACH, mode=mode, timeout_s=60)
        assert Counter(one.number for one in came) == Counter(range(2 * EACH))


def by_queue(deliveries: list[Delivered]) -> dict[int, list[int]]:
    """Offsets in order of arrival."""
    offsets = defaultdict(list)
    for one in deliveries:
        offsets[one.queue_id].append(one.queue_offset)
    return offsets
