"""Store directories that Apache's broker wrote, read into Spark while it runs and after it was killed.

And ranges pulled from it as a task does, 32 messages at a time: both must show the same messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import Row

from rocketline import Admin, CompressionType, Message, MessageQueue, Producer
from rocketline.spark.options.client import ClientSettings
from rocketline.spark.options.source_and_sink import EARLIEST, Position, SourceOptions
from rocketline.spark.planning.planner import QueueRange, QueueRanges
from rocketline.spark.pulling.executor_client import client_for, close_clients
from rocketline.spark.pulling.range_reader import read_ranges
from rocketline.spark.schema import COLUMNS
from rocketline.testing import setting_up
from rocketline.testing.apache import ApacheBroker, ApacheNameServer, Release
from support.spark.records import rows_of

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(300)]

TOPIC, BATCHED, QUEUES, MESSAGES = "orders", "batched", 4, 3000
SETTINGS = {
    "mappedFileSizeCommitLog": str(1 << 20),  # several files, each with a blank record at its end
    "mappedFileSizeConsumeQueue": str(20 * 500),
}


@dataclass(frozen=True, slots=True)
class Written:
    """A broker that runs, and its store."""

    broker: ApacheBroker
    name_server: str
    root: Path


def fill(name_server: str, first: int, count: int) -> None:
    """Plain messages, large ones that are compressed, and a delayed one now and then."""
    with Producer(name_server, group="shop", compression=CompressionType.ZSTD, send_timeout_s=30) as producer:
        for number in range(first, first + count):
            body = b"%d" % number * (1000 if number % 100 == 0 else 10)
            level = 1 if number % 500 == 0 else 0
            message = Message(TOPIC, body, tags=f"t{number % 3}", keys=f"k{number}", delay_level=level)
            producer.send_soon(message, queue=MessageQueue(TOPIC, "broker-a", number % QUEUES))


@contextmanager
def written(release: Release, home: Path) -> Iterator[Written]:
    with ApacheNameServer(release, home / "name-server") as name_server:
        address = name_server.address
        with ApacheBroker(release, home / "broker", name_servers=(address,), settings=SETTINGS) as broker:
            setting_up.create_topic(address, (broker.address,), TOPIC, queues=QUEUES)
            batches = "+queue.type=BatchCQ"
            setting_up.create_topic(address, (broker.address,), BATCHED, queues=1, attributes=batches)
            fill(address, 0, MESSAGES)
            with Producer(address, group="shop", send_timeout_s=30) as producer:
                for first in range(0, 100, 10):
                    producer.send([Message(BATCHED, b"%d" % number) for number in range(first, first + 10)])
            wait_for_delayed(address)
            yield Written(broker, address, home / "broker" / "store")


def wait_for_delayed(name_server: str) -> None:
    """Return when all messages are in their queues: those with a delay come there a second later."""
    deadline_s = time.monotonic() + 60
    with Admin(name_server) as admin:
        while (count := admin.topics.status(TOPIC).message_count) < MESSAGES:
            assert time.monotonic() < deadline_s, f"only {count} messages came"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def running(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    with written(release, tmp_path_factory.mktemp("apache")) as found:
        yield found


def table(spark: SparkSession, root: Path, **options: Any) -> DataFrame:
    return spark.read.format("rocketmq-store").options(**options).load(str(root))


def pulled(spark: SparkSession, name_server: str) -> DataFrame:
    return spark.read.format("rocketmq").options(nameServer=name_server, subscribe=f"{TOPIC},{BATCHED}").load()


def rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.queueId, row.queueOffset))


def test_the_store_of_a_running_broker_has_what_the_broker_gives(spark: SparkSession, running: Written) -> None:
    expected = rows(pulled(spark, running.name_server))
    assert len(expected) == MESSAGES + 100
    assert rows(table(spark, running.root, maxBytesPerPartition=200_000)) == expected
    assert table(spark, running.root, maxBytesPerPartition=200_000).rdd.getNumPartitions() > 3


def test_the_products_own_topics_are_there_when_asked_for(spark: SparkSession, running: Written) -> None:
    delayed = table(spark, running.root, topic="SCHEDULE_TOPIC_XXXX").collect()
    assert len(delayed) == MESSAGES // 500
    assert {row.properties["REAL_TOPIC"] for row in delayed} == {TOPIC}
    own = {
        row.topic for row in table(spark, running.root, includeSystemTopics=True).select("topic").distinct().collect()
    }
    assert own >= {TOPIC, BATCHED, "SCHEDULE_TOPIC_XXXX"}
    assert {row.topic for row in table(spark, running.root).select("topic").distinct().collect()} == {TOPIC, BATCHED}


def test_the_store_of_a_killed_broker_has_every_message(spark: SparkSession, release: Release, tmp_path: Path) -> None:
    with written(release, tmp_path) as found:
        expected = rows(pulled(spark, found.name_server))
        fill(found.name_server, MESSAGES, 500)
        found.broker.kill()
        stored = rows(table(spark, found.root, subscribe=TOPIC))
        assert {row["keys"] for row in stored} >= {f"k{n}" for n in range(MESSAGES + 500) if n % 500}
        places = {(row.topic, row.queueId, row.queueOffset): row for row in rows(table(spark, found.root))}
        assert [places[row.topic, row.queueId, row.queueOffset] for row in expected] == expected
        assert table(spark, found.root).select("brokerName").distinct().collect()[0].brokerName == "broker-a"


def test_pulls_of_32_bring_what_the_store_has(spark: SparkSession, running: Written) -> None:
    settings = ClientSettings(name_servers=running.name_server)
    options = SourceOptions(client=settings, starting=Position(EARLIEST), pull_timeout_s=10.0)
    stored = rows(table(spark, running.root, brokerName="broker-a").where("topic IN ('orders', 'batched')"))
    ends: dict[tuple[str, int], int] = {}
    for row in stored:
        ends[row.topic, row.queueId] = row.queueOffset + 1
    ranges = QueueRanges(
        tuple(QueueRange(topic, "broker-a", queue, 0, end) for (topic, queue), end in sorted(ends.items()))
    )
    try:
        found = [row for batch in read_ranges(ranges, options, COLUMNS) for row in rows_of(batch)]
        assert client_for(settings).grains["broker-a", 1000] == 32
    finally:
        close_clients()
    assert [(row["topic"], row["queueId"], row["queueOffset"], row["body"]) for row in found] == [
        (row.topic, row.queueId, row.queueOffset, bytes(row.body)) for row in stored
    ]
