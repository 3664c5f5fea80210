"""Streams: where they begin, how they go on after a restart, what is new, what brokers are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from rocketline import PullConsumer
from rocketline.model.queue import MessageQueue
from support.clients.clusters import ClientCluster
from support.spark.reading import BROKER, available_now, fill, running, span, stream


@pytest.mark.journey
def test_available_now_reads_what_is_there_and_the_next_run_what_came_since(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic(queues=2)
    fill(cluster, topic, 3, 2)
    frame = stream(spark, cluster, subscribe=topic, startingOffsets="earliest")
    assert available_now(frame, tmp_path) == [[*span(0, 0, 3), *span(1, 0, 2)]]
    fill(cluster, topic, 1)
    frame = stream(spark, cluster, subscribe=topic, startingOffsets="latest")  # counts for new streams only
    assert available_now(frame, tmp_path) == [span(0, 3, 4)]
    assert available_now(frame, tmp_path) == []


@pytest.mark.journey
def test_a_stream_begins_with_what_comes_after_its_start(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic()
    fill(cluster, topic, 3)
    with running(stream(spark, cluster, subscribe=topic), tmp_path) as query:
        assert query.wait() == []
        fill(cluster, topic, 2, 1)
        assert query.wait() == [*span(0, 3, 5), *span(1, 0, 1)]


def test_what_comes_while_an_idle_stream_is_down_is_read(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic()
    frame = stream(spark, cluster, subscribe=topic)
    assert available_now(frame, tmp_path) == [[]]
    fill(cluster, topic, 2)
    assert available_now(frame, tmp_path) == [span(0, 0, 2)]


def test_a_stream_begins_at_offsets_at_times_and_where_a_group_is(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    fill(cluster, topic, 6)
    queue = MessageQueue(topic, BROKER, 0)
    with PullConsumer(cluster.name_server, group=group) as consumer:
        consumer.queues(topic)
        consumer.update_offset(queue, 4)
        time_ms = consumer.pull(queue, 0, 1).messages[0].store_ms
    starts: list[tuple[dict[str, str], int]] = [
        ({"startingOffsets": json.dumps({topic: {BROKER: {"0": 2}}})}, 2),
        ({"startingOffsets": json.dumps({topic: {BROKER: {"0": -1}}})}, 6),
        ({"startingTimestamp": str(time_ms)}, 0),
        ({"startingOffsetsByTimestamp": json.dumps({topic: {BROKER: {"0": time_ms}}})}, 0),
        ({"startingOffsets": "group", "consumerGroup": group}, 4),
    ]
    for number, (options, expected) in enumerate(starts):
        frame = stream(spark, cluster, options, subscribe=topic)
        assert available_now(frame, tmp_path / str(number)) == [span(0, expected, 6)]


def test_a_run_begins_where_its_checkpoint_says_whatever_the_options_say_now(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    """A micro-batch whose sink failed is run again with the offsets of its first run."""
    topic = cluster.topic(queues=1)
    fill(cluster, topic, 3)
    frame = stream(spark, cluster, subscribe=topic, startingOffsets="earliest")

    def fail(batch: object, number: int) -> None:
        raise RuntimeError("the sink is down")

    writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        writer.foreachBatch(fail).start().awaitTermination()
    fill(cluster, topic, 2)
    frame = stream(spark, cluster, subscribe=topic, startingOffsets="latest")
    assert available_now(frame, tmp_path) == [span(0, 0, 3), span(0, 3, 5)]


@pytest.mark.journey
def test_queues_and_topics_that_come_later_are_read_from_their_beginning(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic("grows", queues=1)
    options = {"subscribePattern": "grows-[0-9]+(-too)?", "partition.metadata.cache.ttl.ms": "0"}
    with running(stream(spark, cluster, options), tmp_path) as query:
        assert query.wait() == []
        cluster.make_topic(topic, queues=3)
        fill(cluster, topic, 1, 0, 2)
        assert query.wait() == [*span(0, 0, 1), *span(2, 0, 2)]
        cluster.make_topic(f"{topic}-too", queues=1)
        fill(cluster, f"{topic}-too", 1)
        assert query.wait() == [(0, 0), *span(0, 0, 1), *span(2, 0, 2)]


def test_the_list_of_queues_counts_for_as_long_as_it_may(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic(queues=1)
    options = {"subscribe": topic, "partition.metadata.cache.ttl.ms": "3600000"}
    with running(stream(spark, cluster, options), tmp_path) as query:
        query.wait()
        cluster.make_topic(topic, queues=2)
        fill(cluster, topic, 1, 1)
        assert query.wait() == span(0, 0, 1)


def test_brokers_are_asked_for_new_messages_no_more_often_than_allowed(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic(queues=1)
    with running(stream(spark, cluster, subscribe=topic, minOffsetPollIntervalMs="3600000"), tmp_path) as query:
        query.wait()
        fill(cluster, topic, 1)
        assert query.wait() == []
    assert available_now(stream(spark, cluster, subscribe=topic), tmp_path) == [span(0, 0, 1)]


@pytest.mark.journey
def test_brokers_are_told_of_a_micro_batch_when_the_next_one_begins(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
    options |= {"consumerGroup": group, "commitOffsetsToBroker": "true"}
    fill(cluster, topic, 5)
    assert len(available_now(stream(spark, cluster, options), tmp_path)) == 3
    with PullConsumer(cluster.name_server, group=group) as consumer:
        consumer.queues(topic)
        assert consumer.fetch_offset(MessageQueue(topic, BROKER, 0)) == 4


@pytest.mark.journey
def test_progress_tells_how_far_the_stream_and_the_topic_are(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic(queues=1)
    fill(cluster, topic, 5)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "3"}
    with running(stream(spark, cluster, options), tmp_path) as query:
        query.wait()
        sources = [progress.sources[0] for progress in query.query.recentProgress if progress.numInputRows]
    ends = [json.loads(source.endOffset)["queues"] for source in sources]
    assert ends == [{topic: {BROKER: {"0": 3}}}, {topic: {BROKER: {"0": 5}}}]
    assert json.loads(sources[-1].latestOffset)["queues"] == {topic: {BROKER: {"0": 5}}}


def test_a_stream_filters_tags_and_reads_some_columns(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic(queues=1)
    fill(cluster, topic, 2, tags="A")
    fill(cluster, topic, 2, tags="B")
    reader = spark.readStream.format("rocketmq").option("nameServer", cluster.name_server).option("tags", "B")
    frame = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    assert available_now(frame.schema("queueOffset bigint, queueId int").load(), tmp_path) == [span(0, 2, 4)]


def test_assigned_queues_are_streamed_and_no_others(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    topic = cluster.topic()
    fill(cluster, topic, 1, 2, 1)
    frame = stream(spark, cluster, assign=json.dumps({topic: {BROKER: [1]}}), startingOffsets="earliest")
    assert available_now(frame, tmp_path) == [span(1, 0, 2)]
