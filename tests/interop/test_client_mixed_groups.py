"""Must hold 3 of the clients: our consumer shares a group with Apache's Java and Go clients, whatever happens to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import client_clusters
from client_clusters import ClientCluster
from mixed_groups import PERSISTED_S, MixedGroup
from rocketline.testing.apache import Release
from rocketline.testing.clients import ClientProgram, go_client, java_client, own_client

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400, func_only=True)]


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


@pytest.fixture(params=["concurrent", "orderly"])
def group(request: pytest.FixtureRequest, servers: ClientCluster) -> Iterator[MixedGroup]:
    group = MixedGroup(servers, mode=request.param)
    yield group
    group.close()


def test_members_of_three_languages_share_queues_through_joins_leaves_and_kills(
    group: MixedGroup, programs: dict[str, ClientProgram]
) -> None:
    """137, 138, 139: each step ends when every queue has one owner again, and none has two."""
    ours, java, go = programs["Rocketline"], programs["Java"], programs["Go"]
    with group.sending():
        group.join(java)
        group.join(ours)
        group.join(go, ours)
        group.leave("Java")
        group.kill("Rocketline")
        group.join(java)
        group.leave("Rocketline")
        group.join(ours)
        group.kill("Java")
    group.wait_for_all()
    assert {member.name for member in group.members} == {"Rocketline", "Go"}
    time.sleep(PERSISTED_S)
    calm = group.send(200)
    group.wait_for_all()
    assert set(group.times(calm).values()) == {1}
    assert {one.number for one in group.deliveries} == set(group.sent)
    if group.mode == "orderly":
        assert group.order_problems() == []
