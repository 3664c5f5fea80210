"""Where a batch begins and ends: offsets, times, a group's offsets."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rocketline import PullConsumer
from rocketline.model.queue import MessageQueue
from support.clients.clusters import ClientCluster
from support.spark.reading import BROKER, fill, places, read, span, told


def numbers(topic: str, *values: int) -> str:
    """A number for each queue of the topic, as options want it."""
    return json.dumps({topic: {BROKER: {str(queue): value for queue, value in enumerate(values)}}})


def store_ms(cluster: ClientCluster, topic: str, queue_id: int, offset: int) -> int:
    with PullConsumer(cluster.name_server, group="TOOLS_CONSUMER") as consumer:
        return consumer.pull(MessageQueue(topic, BROKER, queue_id), offset, 1).messages[0].store_ms


@pytest.fixture
def topic(cluster: ClientCluster) -> str:
    """Two queues of ten messages, the second five of each stored later than the first five."""
    topic = cluster.topic(queues=2)
    fill(cluster, topic, 5, 5)
    last = max(store_ms(cluster, topic, queue, 4) for queue in (0, 1))
    fill(cluster, topic, 5, 5)
    while min(store_ms(cluster, topic, queue, 5) for queue in (0, 1)) <= last:  # within the same millisecond
        topic = cluster.topic(queues=2)
        fill(cluster, topic, 5, 5)
        last = max(store_ms(cluster, topic, queue, 4) for queue in (0, 1))
        fill(cluster, topic, 5, 5)
    return topic


@pytest.mark.journey
def test_offsets_say_where_each_queue_begins_and_ends(spark: SparkSession, cluster: ClientCluster, topic: str) -> None:
    frame = read(
        spark, cluster, subscribe=topic, startingOffsets=numbers(topic, 3, -2), endingOffsets=numbers(topic, -1, 4)
    )
    assert places(frame) == [*span(0, 3, 10), *span(1, 0, 4)]


def test_words_say_where_all_begin_and_end(spark: SparkSession, cluster: ClientCluster, topic: str) -> None:
    frame = read(spark, cluster, subscribe=topic, startingOffsets="earliest", endingOffsets="latest")
    assert places(frame) == [*span(0, 0, 10), *span(1, 0, 10)]


@pytest.mark.journey
def test_times_say_where_all_begin_and_end(spark: SparkSession, cluster: ClientCluster, topic: str) -> None:
    middle = str(min(store_ms(cluster, topic, queue, 5) for queue in (0, 1)))
    assert places(read(spark, cluster, subscribe=topic, startingTimestamp=middle)) == [*span(0, 5, 10), *span(1, 5, 10)]
    assert places(read(spark, cluster, subscribe=topic, endingTimestamp=middle)) == [*span(0, 0, 5), *span(1, 0, 5)]


def test_times_say_where_each_queue_begins_and_ends(spark: SparkSession, cluster: ClientCluster, topic: str) -> None:
    starts = numbers(topic, store_ms(cluster, topic, 0, 5), 0)
    ends = numbers(topic, 2**62, store_ms(cluster, topic, 1, 5))
    frame = read(spark, cluster, subscribe=topic, startingOffsetsByTimestamp=starts, endingOffsetsByTimestamp=ends)
    assert places(frame) == [*span(0, 5, 10), *span(1, 0, 5)]


def test_one_time_wins_over_times_of_queues_and_these_over_offsets(
    spark: SparkSession, cluster: ClientCluster, topic: str
) -> None:
    offsets, never = numbers(topic, 9, 9), numbers(topic, 0, 0)
    frame = read(spark, cluster, subscribe=topic, startingOffsets=offsets, startingOffsetsByTimestamp=never)
    assert frame.count() == 20
    middle = str(min(store_ms(cluster, topic, queue, 5) for queue in (0, 1)))
    frame = read(spark, cluster, subscribe=topic, startingOffsetsByTimestamp=never, startingTimestamp=middle)
    assert frame.count() == 10


def test_no_message_as_new_as_the_time_is_an_error_or_nothing(
    spark: SparkSession, cluster: ClientCluster, topic: str
) -> None:
    future = str(store_ms(cluster, topic, 1, 9) + 3_600_000)
    with pytest.raises(PySparkException) as raised:
        read(spark, cluster, subscribe=topic, startingTimestamp=future).collect()
    assert "has no message that new; set startingOffsetsByTimestampStrategy=latest" in told(raised.value)
    lenient = {"startingTimestamp": future, "startingOffsetsByTimestampStrategy": "latest"}
    assert read(spark, cluster, lenient, subscribe=topic).collect() == []


@pytest.mark.journey
def test_group_begins_where_the_group_is_and_at_the_earliest_elsewhere(
    spark: SparkSession, cluster: ClientCluster, topic: str
) -> None:
    group = cluster.group()
    with PullConsumer(cluster.name_server, group=group) as consumer:
        consumer.queues(topic)
        consumer.update_offset(MessageQueue(topic, BROKER, 0), 7)
    frame = read(spark, cluster, subscribe=topic, startingOffsets="group", consumerGroup=group)
    assert places(frame) == [*span(0, 7, 10), *span(1, 0, 10)]


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
def test_all_queues_must_be_named_and_no_others(
    spark: SparkSession, cluster: ClientCluster, topic: str, option: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        read(spark, cluster, {option: numbers(topic, 1)}, subscribe=topic).collect()
    assert told(raised.value).startswith(f"{option}: queue 1 of topic '{topic}' on broker 'broker-a' is missing")
    with pytest.raises(PySparkException) as raised:
        read(spark, cluster, {option: numbers(topic, 1, 1, 1)}, subscribe=topic).collect()
    assert told(raised.value) == f"{option}: there is no queue 2 of topic '{topic}' on broker 'broker-a'"


def test_offsets_beyond_the_end_are_lost_messages_or_left_out(
    spark: SparkSession, cluster: ClientCluster, topic: str
) -> None:
    wanted = {"startingOffsets": numbers(topic, 8, 10), "endingOffsets": numbers(topic, 12, 10)}
    with pytest.raises(PySparkException) as raised:
        read(spark, cluster, wanted, subscribe=topic).collect()
    assert "offsets 8 to 12 were to be read, 0 to 10 are there" in told(raised.value)
    assert places(read(spark, cluster, wanted, subscribe=topic, failOnDataLoss="false")) == span(0, 8, 10)
