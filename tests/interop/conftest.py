"""The real Apache RocketMQ beside ours. Everything here starts once, and ends with the test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketline.testing.apache import ClientJvm, Release, fetch
from support.apache import cluster as apache_cluster
from support.apache.cluster import Cluster, NameServers
from support.spark.sessions import spark

__all__ = ["spark"]


@pytest.fixture(scope="session")
def release() -> Release:
    return fetch()


@pytest.fixture(scope="session")
def clients(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientJvm]:
    with ClientJvm(release, tmp_path_factory.mktemp("clients")) as jvm:
        yield jvm


@pytest.fixture(scope="session")
def cluster(release: Release, clients: ClientJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("cluster")
    # A broker that is told of an order configuration changes its topics and registers them anew, some time within the
    # next 30 s: that would undo, now and then, what a test has just done to permissions.
    settings = {"returnOrderTopicConfigToBroker": "false"}
    with (
        apache_cluster.name_servers(release, clients, home, settings) as servers,
        apache_cluster.cluster(release, servers, home) as cluster,
    ):
        yield cluster


@pytest.fixture
def name_servers(cluster: Cluster) -> NameServers:
    return cluster.name_servers
