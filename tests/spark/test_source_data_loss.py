"""Messages that a stream was to read and that are gone: told, or passed over, as `failOnDataLoss` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from rocketline.admin.sync import Admin
from rocketline.model.queue import MessageQueue
from rocketline.testing import Server
from support.brokers.forgetful import SMALL_LOG_FILES, Forgetful
from support.clients.clusters import ClientCluster
from support.spark.clusters import source_cluster
from support.spark.reading import BROKER, available_now, fill, span, stream, told

LONG = pytest.mark.interop  # for the time that it takes: it needs nothing but Python


@pytest.fixture
def forgetful(cluster: ClientCluster, tmp_path: Path) -> Iterator[Forgetful]:
    if cluster.whose == "ours":
        with Server(settings=SMALL_LOG_FILES) as server:
            ours = ClientCluster("ours", server.address, server.broker_addresses)
            yield Forgetful(ours, lambda: server.advance(1))
    else:  # it takes its first look a minute after its start
        with source_cluster("apache", tmp_path, settings=SMALL_LOG_FILES) as apache:
            yield Forgetful(apache, lambda: None)


def frame(spark: SparkSession, cluster: ClientCluster, topic: str, **options: str) -> DataFrame:
    return stream(
        spark, cluster, {"fetchOffset.numRetries": "0", "startingOffsets": "earliest", **options}, subscribe=topic
    )


def loss(spark: SparkSession, cluster: ClientCluster, topic: str, checkpoint: Path) -> str:
    """What the next run says that fails."""
    with pytest.raises(StreamingQueryException) as raised:
        available_now(frame(spark, cluster, topic), checkpoint)
    return told(raised.value)


@LONG
@pytest.mark.timeout(400)  # Apache's broker looks for expired files a minute after its start at the earliest
def test_messages_that_expired_before_they_were_read(spark: SparkSession, forgetful: Forgetful, tmp_path: Path) -> None:
    cluster, checkpoint = forgetful.cluster, tmp_path / "checkpoint"
    topic = cluster.topic(queues=1)
    fill(cluster, topic, 3)
    assert available_now(frame(spark, cluster, topic), checkpoint) == [span(0, 0, 3)]
    low = forgetful.forget(topic)
    with Admin(cluster.name_server) as admin:
        high = admin.offsets.max(MessageQueue(topic, BROKER, 0))
    problem = loss(spark, cluster, topic, checkpoint)
    assert problem.startswith(
        f"queue 0 of topic '{topic}' on broker 'broker-a': offsets from 3 were to be read, {low} to {high} are there: "
        "the first of them were deleted"
    )
    assert problem.endswith("set failOnDataLoss=false to go on with what is there")
    lenient = frame(spark, cluster, topic, failOnDataLoss="false")
    assert available_now(lenient, checkpoint) == [span(0, low, high)]
    assert available_now(frame(spark, cluster, topic), checkpoint) == []


def recreate(cluster: ClientCluster, topic: str, count: int) -> None:
    with Admin(cluster.name_server) as admin:
        admin.topics.delete(topic)
    cluster.make_topic(topic, queues=1)
    fill(cluster, topic, count)


@LONG
@pytest.mark.journey
def test_a_topic_that_was_made_anew_and_is_shorter(spark: SparkSession, cluster: ClientCluster, tmp_path: Path) -> None:
    topic = cluster.topic(queues=1)
    fill(cluster, topic, 6)
    assert available_now(frame(spark, cluster, topic), tmp_path) == [span(0, 0, 6)]
    recreate(cluster, topic, 2)
    problem = loss(spark, cluster, topic, tmp_path)
    assert "offsets from 6 were to be read, 0 to 2 are there: the queue ends before" in problem
    assert available_now(frame(spark, cluster, topic, failOnDataLoss="false"), tmp_path) == [span(0, 0, 2)]
    fill(cluster, topic, 1)
    assert available_now(frame(spark, cluster, topic), tmp_path) == [span(0, 2, 3)]


@LONG
def test_a_topic_that_was_made_anew_and_is_longer(spark: SparkSession, cluster: ClientCluster, tmp_path: Path) -> None:
    topic = cluster.topic(queues=1)
    fill(cluster, topic, 4)
    assert available_now(frame(spark, cluster, topic), tmp_path) == [span(0, 0, 4)]
    recreate(cluster, topic, 7)
    assert "the topic was deleted and created again" in loss(spark, cluster, topic, tmp_path)
    assert available_now(frame(spark, cluster, topic, failOnDataLoss="false"), tmp_path) == [span(0, 0, 7)]


@pytest.mark.journey
def test_a_topic_that_is_gone(spark: SparkSession, cluster: ClientCluster, tmp_path: Path) -> None:
    topic, other = cluster.topic(queues=1), cluster.topic(queues=1)
    both = f"{topic},{other}"
    fill(cluster, topic, 4)
    assert available_now(frame(spark, cluster, both), tmp_path) == [span(0, 0, 4)]
    with Admin(cluster.name_server) as admin:
        admin.topics.delete(topic)
    problem = loss(spark, cluster, both, tmp_path)
    assert "offsets from 4 were to be read, nothing is there: the queue is gone" in problem
    fill(cluster, other, 2)
    assert available_now(frame(spark, cluster, both, failOnDataLoss="false"), tmp_path) == [span(0, 0, 2)]


@LONG
def test_a_topic_that_is_subscribed_no_more_is_no_loss(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic, other = cluster.topic(queues=1), cluster.topic(queues=1)
    fill(cluster, topic, 4)
    assert available_now(frame(spark, cluster, f"{topic},{other}"), tmp_path) == [span(0, 0, 4)]
    fill(cluster, topic, 1)
    fill(cluster, other, 2)
    assert available_now(frame(spark, cluster, other), tmp_path) == [span(0, 0, 2)]
    assert available_now(frame(spark, cluster, f"{topic},{other}"), tmp_path) == [span(0, 4, 5)]
