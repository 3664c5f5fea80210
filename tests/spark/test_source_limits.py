"""How much a micro-batch takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.clients.clusters import ClientCluster
from support.spark.reading import available_now, fill, running, span, stream


@pytest.mark.journey
def test_a_limit_is_shared_by_backlog_and_kept_by_each_micro_batch(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic(queues=2)
    fill(cluster, topic, 30, 10)
    frame = stream(spark, cluster, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    batches = available_now(frame, tmp_path)
    assert batches == [[*span(0, 0, 15), *span(1, 0, 5)], [*span(0, 15, 30), *span(1, 5, 10)]]


def test_a_limit_below_the_number_of_queues_lets_each_have_its_turn(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic(queues=4)
    fill(cluster, topic, 1, 1, 1, 1)
    frame = stream(spark, cluster, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="3")
    batches = available_now(frame, tmp_path)
    assert [len(batch) for batch in batches] == [3, 1]
    assert sorted(batches[0] + batches[1]) == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_little_is_waited_for_until_there_is_enough(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic(queues=1)
    frame = stream(spark, cluster, subscribe=topic, minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    with running(frame, tmp_path) as query:
        query.wait()
        fill(cluster, topic, 9)
        assert query.wait() == []
        fill(cluster, topic, 1)
        assert query.wait() == span(0, 0, 10)


def test_little_is_waited_for_no_longer_than_the_delay(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic(queues=1)
    frame = stream(spark, cluster, subscribe=topic, minOffsetsPerTrigger="10", maxTriggerDelay="1ms")
    with running(frame, tmp_path) as query:
        query.wait()
        fill(cluster, topic, 3)
        assert query.wait() == span(0, 0, 3)


def test_available_now_waits_for_nothing(spark: SparkSession, cluster: ClientCluster, tmp_path: Path) -> None:
    topic = cluster.topic(queues=1)
    fill(cluster, topic, 3)
    options = {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "20", "startingOffsets": "earliest"}
    assert available_now(stream(spark, cluster, options, subscribe=topic), tmp_path) == [span(0, 0, 3)]
    fill(cluster, topic, 3)
    assert available_now(stream(spark, cluster, options, subscribe=topic), tmp_path) == [span(0, 3, 6)]
