"""Scenarios with real servers: ours in `make test`, the same against Apache's in `make interop`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import client_clusters
from client_clusters import ClientCluster
from rocketline.testing.apache import fetch


@pytest.fixture(scope="session", params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCluster]:
    if request.param == "ours":
        with client_clusters.our_cluster() as cluster:
            yield cluster
    else:
        with client_clusters.apache_cluster(fetch(), tmp_path_factory.mktemp("apache")) as cluster:
            yield cluster
