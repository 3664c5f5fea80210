"""Spark's source on a broker that stands still for a while: Apache's, and ours beside it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rocketline.testing.apache import ApacheBroker, ApacheNameServer, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess, running
from support.clients.clusters import ClientCluster
from support.spark.reading import fill, in_order, read, span, told

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(180)]


@dataclass(frozen=True, slots=True)
class Halting:
    """A cluster with a topic of three messages, and its broker, to be paused."""

    cluster: ClientCluster
    broker: ServerProcess
    topic: str


@pytest.fixture(scope="module", params=["ours", "apache"])
def halting(
    request: pytest.FixtureRequest, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Halting]:
    home, whose = tmp_path_factory.mktemp("halting"), request.param
    name_server: ServerProcess
    broker: ServerProcess
    if whose == "ours":
        name_server = NameServerProcess(home / "name-server")
        broker = BrokerProcess(home / "broker", name_servers=(name_server.address,))
    else:
        name_server = ApacheNameServer(release, home / "name-server")
        broker = ApacheBroker(release, home / "broker", name_servers=(name_server.address,))
    with running(name_server, broker):
        cluster = ClientCluster(whose, name_server.address, (broker.address,))
        topic = cluster.topic(queues=1)
        fill(cluster, topic, 3)
        yield Halting(cluster, broker, topic)


def _planned(spark: SparkSession, halting: Halting, pull_timeout_ms: int) -> DataFrame:
    """A batch whose range is known: what is left to do are the pulls."""
    options = {"subscribe": halting.topic, "pullTimeoutMs": str(pull_timeout_ms)}
    frame = read(spark, halting.cluster, options).select("queueId", "queueOffset")
    assert frame._jdf.queryExecution().toRdd().getNumPartitions() == 1
    return frame


@pytest.mark.thorough_with(halting="ours")
def test_pulls_without_an_answer_are_made_again(spark: SparkSession, halting: Halting) -> None:
    assert in_order(_planned(spark, halting, 500).collect()) == span(0, 0, 3)  # Python's processes have started
    frame = _planned(spark, halting, 500)
    halting.broker.pause()
    begin_s = time.monotonic()
    resuming = threading.Timer(3.0, halting.broker.resume)
    resuming.start()
    try:
        assert in_order(frame.collect()) == span(0, 0, 3)
        assert time.monotonic() - begin_s > 2.9
    finally:
        resuming.join()


@pytest.mark.thorough_with(halting="apache")
def test_broker_that_never_answers_costs_ten_pulls_of_the_time_that_one_may_take(
    spark: SparkSession, halting: Halting
) -> None:
    frame = _planned(spark, halting, 100)
    halting.broker.pause()
    begin_s = time.monotonic()
    try:
        with pytest.raises(PySparkException) as raised:
            frame.collect()
        took_s = time.monotonic() - begin_s
    finally:
        halting.broker.resume()
    # The rest of the time is told that was left when the wait began: a moment less on a busy machine.
    assert re.fullmatch(rf"{halting.broker.address}: no answer in 0\.(1|0\d+) s", told(raised.value))
    assert 1.0 < took_s < 60  # Spark runs the task four times; with the default, of 3 s, that takes two minutes
    assert in_order(_planned(spark, halting, 3000).collect()) == span(0, 0, 3)
