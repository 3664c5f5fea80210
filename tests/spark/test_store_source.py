"""`format("rocketmq-store")` on real Spark: a store directory is a table, whether its broker runs or was killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import Row

from rocketline import Message, MessageQueue, Producer
from rocketline.spark.schema import COLUMNS
from rocketline.spark.store_files.queue_units import queues_of
from rocketline.testing import Server
from rocketline.testing.fake_clock import FakeClock
from support.stores.on_disk import LOG_BYTES, log_paths, overwrite, put, store_at

TOPIC, QUEUES, MESSAGES = "orders", 4, 2000
SMALL = {"mappedFileSizeCommitLog": str(1 << 20), "mappedFileSizeConsumeQueue": "20000"}


def fill(address: str, first: int, count: int) -> None:
    with Producer(address, group="shop") as producer:
        for queue_id in range(QUEUES):
            numbers = range(first + queue_id, first + count, QUEUES)
            for start in range(0, len(numbers), 100):
                batch = [
                    Message(TOPIC, b"%d" % number * 50, tags=f"t{number % 3}", keys=f"k{number}")
                    for number in numbers[start : start + 100]
                ]
                producer.send(batch, queue=MessageQueue(TOPIC, "broker-a", queue_id))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A broker in a process of its own, and its store."""
    folder = tmp_path_factory.mktemp("live")
    with Server(process=True, folder=folder, settings=SMALL) as server:
        server.create_topic(TOPIC, queues=QUEUES)
        fill(server.address, 0, MESSAGES)
        (log,) = folder.rglob("commitlog")
        yield server, log.parent


def table(spark: SparkSession, root: Path, **options: Any) -> DataFrame:
    return spark.read.format("rocketmq-store").options(**options).load(str(root))


def from_broker(spark: SparkSession, server: Server) -> DataFrame:
    return spark.read.format("rocketmq").options(nameServer=server.address, subscribe=TOPIC).load()


def rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.queueId, row.queueOffset))


def test_the_store_of_a_running_broker_has_the_rows_that_the_broker_gives(
    spark: SparkSession, live: tuple[Server, Path]
) -> None:
    server, root = live
    found = table(spark, root, subscribe=TOPIC)
    assert tuple(found.columns) == COLUMNS
    expected = rows(from_broker(spark, server))
    assert len(expected) == MESSAGES
    assert rows(found) == expected


def units_on_disk(root: Path) -> int:
    count = 0
    for queue in queues_of(root):
        with queue:
            count += queue.count
    return count


def test_tasks_share_the_log_and_a_schema_takes_some_columns(spark: SparkSession, live: tuple[Server, Path]) -> None:
    server, root = live
    # The broker writes queues every second, and a log is cut where units say that records begin.
    server.process.wait_until(lambda: units_on_disk(root) == MESSAGES, "the queues to be written")
    reader = spark.read.format("rocketmq-store").schema("queueOffset bigint, queueId int")
    frame = reader.options(subscribe=TOPIC, maxBytesPerPartition=100_000).load(str(root))
    assert frame.rdd.getNumPartitions() > 5
    assert frame.columns == ["queueOffset", "queueId"]
    assert frame.distinct().count() == frame.count() == MESSAGES


def test_options_choose_topics_tags_and_times(spark: SparkSession, live: tuple[Server, Path]) -> None:
    _, root = live
    everything = table(spark, root)
    assert {row.topic for row in everything.select("topic").distinct().collect()} == {TOPIC}
    assert table(spark, root, startingTimestamp=2**42).count() == 0
    assert table(spark, root, subscribePattern="ord.*", tags="t1 || t2").count() == sum(
        1 for n in range(MESSAGES) if n % 3
    )
    middle = everything.selectExpr("unix_millis(percentile_approx(storeTimestamp, 0.5))").first()
    assert middle is not None
    before, after = (
        table(spark, root, **{name: middle[0]}).count() for name in ("endingTimestamp", "startingTimestamp")
    )
    assert before + after == MESSAGES
    assert before
    assert after


def test_a_view_and_sql_work_too(spark: SparkSession, live: tuple[Server, Path]) -> None:
    _, root = live
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW stored USING `rocketmq-store` OPTIONS (path '{root}', subscribe '{TOPIC}')"
    )
    (row,) = spark.sql("SELECT brokerName, count(*) AS messages FROM stored GROUP BY brokerName").collect()
    assert (row.brokerName, row.messages) == ("broker-a", MESSAGES)


def test_a_broker_that_writes_meanwhile_disturbs_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with Server(process=True, folder=tmp_path, settings=SMALL) as server:
        server.create_topic(TOPIC, queues=QUEUES)
        fill(server.address, 0, MESSAGES)
        (log,) = tmp_path.rglob("commitlog")
        frame = table(spark, log.parent, subscribe=TOPIC)
        assert frame.count() == MESSAGES  # the plan is kept from here on
        fill(server.address, MESSAGES, 400)
        assert frame.count() == MESSAGES
        assert table(spark, log.parent, subscribe=TOPIC).count() == MESSAGES + 400


def test_the_store_of_a_killed_broker_has_all_its_messages(spark: SparkSession, tmp_path: Path) -> None:
    with Server(process=True, folder=tmp_path, settings=SMALL) as server:
        server.create_topic(TOPIC, queues=QUEUES)
        fill(server.address, 0, MESSAGES)
        server.process.kill()
        (log,) = tmp_path.rglob("commitlog")
        assert rows(table(spark, log.parent, subscribe=TOPIC))[-1].queueOffset == MESSAGES // QUEUES - 1
        assert table(spark, log.parent, subscribe=TOPIC).count() == MESSAGES


# --- errors


def problem(frame: DataFrame) -> str:
    with pytest.raises(PySparkException) as found:
        frame.collect()
    return str(found.value)


def test_what_is_broken_fails_the_read_or_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    root, clock = tmp_path / "store", FakeClock()
    with store_at(root, clock) as store:
        at = put(store, clock, 1000)[700].log_offset
    overwrite(log_paths(root)[at // LOG_BYTES], at % LOG_BYTES + 90, b"?")
    found = problem(table(spark, root))
    assert f"record at byte {at % LOG_BYTES}" in found
    assert "failOnDataLoss=false" in found
    assert table(spark, root, failOnDataLoss=False).count() == 999


def test_an_unknown_topic_is_one_clear_error_before_any_task(spark: SparkSession, live: tuple[Server, Path]) -> None:
    _, root = live
    found = problem(table(spark, root, topic="odrers"))
    assert "Failed to generate Python data source read partitions" in found
    assert f"knows no topic 'odrers', but DefaultCluster, broker-a, {TOPIC}. Set failOnDataLoss=false" in found
    assert table(spark, root, topic="odrers", failOnDataLoss=False).count() == 0


def test_a_wrong_path_option_or_column_is_one_clear_error(spark: SparkSession, tmp_path: Path) -> None:
    assert "commitlog" in problem(table(spark, tmp_path))
    with pytest.raises(PySparkException, match="did you mean minPartitions"):
        table(spark, tmp_path, minPartitons="3").collect()
    with pytest.raises(PySparkException, match="there is no column bdy: did you mean body"):
        spark.read.format("rocketmq-store").schema("bdy binary").load(str(tmp_path)).collect()
    stream = spark.readStream.format("rocketmq-store").load(str(tmp_path))
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match="read as a batch"):
        query.awaitTermination()
