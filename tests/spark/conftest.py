"""Tests with a real Spark and our broker: one session for all of them in each process of the test run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from rocketline.testing import Server
from support.clients.clusters import ClientCluster
from support.spark.clusters import source_cluster
from support.spark.sessions import TEST_TIMEOUT_S, spark

__all__ = ["cluster", "server", "spark", "topic"]

_HERE = Path(__file__).parent
_numbers = count(1)


@pytest.hookimpl(tryfirst=True)  # before the others look at the marks
def pytest_itemcollected(item: pytest.Item) -> None:
    if _HERE in item.path.parents:
        item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))


@pytest.fixture(scope="session")
def lasting_server() -> Iterator[Server]:
    """A name server and a broker, in memory, in this process."""
    with Server() as server:
        yield server


@pytest.fixture
def server(lasting_server: Server) -> Iterator[Server]:
    """The same for all, without the faults that a failing test has left."""
    yield lasting_server
    lasting_server.faults.clear()


@pytest.fixture(
    scope="session", params=["ours", pytest.param("apache", marks=[pytest.mark.interop, pytest.mark.thorough])]
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCluster]:
    """Two masters: ours in `make test`, Apache's for the same tests in `make interop-all`, some in `make interop`."""
    with source_cluster(request.param, tmp_path_factory.mktemp("cluster"), brokers=2) as cluster:
        yield cluster


@pytest.fixture
def topic(server: Server) -> str:
    """A topic of the test's own, with four queues."""
    name = f"spark-{next(_numbers)}"
    server.create_topic(name)
    return name
