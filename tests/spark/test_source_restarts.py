"""Servers that go away under a stream and come back: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from rocketline.testing import setting_up
from rocketline.testing.apache import ApacheBroker, fetch
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess, free_port
from support.clients.clusters import ClientCluster
from support.spark.reading import available_now, fill, running, span, stream, told

pytestmark = pytest.mark.interop  # for the time that they take: they need nothing but Python


class Restarted:
    """A broker on disk that can be killed and started again at its old place."""

    def __init__(self, whose: str, home: Path, name_server: str) -> None:
        self._whose, self._home, self._name_server, self._port = whose, home, name_server, free_port()
        self._process: ServerProcess | None = None

    def start(self) -> ClientCluster:
        there = (self._name_server,)
        if self._whose == "ours":
            self._process = BrokerProcess(self._home, name_servers=there, port=self._port)
        else:
            self._process = ApacheBroker(fetch(), self._home, name_servers=there, port=self._port)
        self._process.wait_until_ready()
        return ClientCluster(self._whose, self._name_server, (self._process.address,))

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


@pytest.fixture
def broker(cluster: ClientCluster, tmp_path: Path) -> Iterator[Restarted]:
    with NameServerProcess(tmp_path / "name-server") as name_server:
        name_server.wait_until_ready()
        broker = Restarted(cluster.whose, tmp_path / "broker", name_server.address)
        yield broker
        broker.kill()


@pytest.mark.journey
def test_a_broker_that_was_killed_and_came_back_changes_nothing(
    spark: SparkSession, broker: Restarted, tmp_path: Path
) -> None:
    patient = {"fetchOffset.numRetries": "1000", "fetchOffset.retryIntervalMs": "100"}
    there = broker.start()
    setting_up.create_topic(there.name_server, there.brokers, "orders", queues=2)
    fill(there, "orders", 3, 2)
    frame = stream(spark, there, patient, subscribe="orders", startingOffsets="earliest")
    with running(frame, tmp_path / "checkpoint") as query:
        assert query.wait() == [*span(0, 0, 3), *span(1, 0, 2)]
        broker.kill()
        broker.start()
        fill(there, "orders", 2, 2)
        assert query.wait() == [*span(0, 0, 5), *span(1, 0, 4)]


def test_a_broker_that_stays_away_ends_the_stream_with_its_name(
    spark: SparkSession, broker: Restarted, tmp_path: Path
) -> None:
    there = broker.start()
    setting_up.create_topic(there.name_server, there.brokers, "orders", queues=1)
    frame = stream(spark, there, {"fetchOffset.numRetries": "0"}, subscribe="orders")
    assert available_now(frame, tmp_path / "checkpoint") == [[]]
    broker.kill()
    with pytest.raises(StreamingQueryException) as raised:
        available_now(frame, tmp_path / "checkpoint")
    problem = told(raised.value)
    assert there.brokers[0] in problem or "broker 'broker-a'" in problem
