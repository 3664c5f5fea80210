"""Must hold 3 of the clients: our consumer shares a group with Apache's Java and Go clients, whatever happens to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketline.testing.apache import Release
from rocketline.testing.clients import ClientProgram, go_client, java_client, own_client
from support.clients import clusters as client_clusters
from support.clients.clusters import ClientCluster
from support.clients.mixed_groups import PERSISTED_S, MixedGroup

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


@contextmanager
def mixed_group(servers: ClientCluster, mode: str) -> Iterator[MixedGroup]:
    group = MixedGroup(servers, mode=mode)
    try:
        yield group
    finally:
        group.close()


def check_that_nothing_is_missing_or_shared(group: MixedGroup) -> None:
    """All came; and of what is sent in calm times, nothing twice."""
    group.wait_for_all()
    time.sleep(PERSISTED_S)
    calm = group.send(200)
    group.wait_for_all()
    assert set(group.times(calm).values()) == {1}
    assert {one.number for one in group.deliveries} == set(group.sent)


@pytest.mark.thorough_with(servers="apache")
def test_members_of_three_languages_share_queues_while_each_joins_and_one_leaves_and_one_is_killed(
    servers: ClientCluster, programs: dict[str, ClientProgram]
) -> None:
    with mixed_group(servers, "concurrent") as group:
        with group.sending():
            group.join(programs["Java"])
            group.join(programs["Go"], programs["Rocketline"], programs["Rocketline"])
            group.leave("Rocketline")
            group.kill("Java")
        check_that_nothing_is_missing_or_shared(group)


@pytest.mark.thorough
def test_members_of_three_languages_share_queues_through_joins_leaves_and_kills(
    servers: ClientCluster, programs: dict[str, ClientProgram]
) -> None:
    """137, 138, 139: each step ends when every queue has one owner again, and none has two."""
    ours, java, go = programs["Rocketline"], programs["Java"], programs["Go"]
    with mixed_group(servers, "concurrent") as group:
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
            group.join(java)
            group.kill("Go")
        assert {member.name for member in group.members} == {"Rocketline", "Java"}
        check_that_nothing_is_missing_or_shared(group)


@pytest.mark.thorough_with(servers="ours")
def test_orderly_members_of_three_languages_keep_each_queue_in_order_while_some_join_and_leave(
    servers: ClientCluster, programs: dict[str, ClientProgram]
) -> None:
    with mixed_group(servers, "orderly") as group:
        with group.sending():
            group.join(programs["Java"], programs["Rocketline"])
            group.join(programs["Rocketline"])
            group.leave("Rocketline")
            group.join(programs["Go"])  # the last: locks of queues that it has to give up stay for a minute
            group.leave("Java")
        check_that_nothing_is_missing_or_shared(group)
        assert group.order_problems() == []


@pytest.mark.thorough
def test_orderly_members_of_three_languages_keep_each_queue_in_order(
    servers: ClientCluster, programs: dict[str, ClientProgram]
) -> None:
    """Locks of a killed member stay for a minute, and so did those of queues that the Go client had to give up."""
    ours, java, go = programs["Rocketline"], programs["Java"], programs["Go"]
    with mixed_group(servers, "orderly") as group:
        with group.sending():
            group.join(java)
            group.join(ours)
            group.join(ours)
            group.leave("Java")
            group.join(java)
            group.leave("Rocketline")
            group.join(ours)
            group.kill("Rocketline")
            group.join(go)
            group.leave("Go")
            group.kill("Java")
        assert {member.name for member in group.members} == {"Rocketline"}
        check_that_nothing_is_missing_or_shared(group)
        assert group.order_problems() == []
