"""What a batch reads: columns, topics, patterns, queues, filters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rocketline import Message, Producer
from rocketline.admin.sync import Admin
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.queue import MessageQueue
from rocketline.spark.schema import COLUMNS
from rocketline.testing import Server
from support.clients.clusters import ClientCluster
from support.spark.reading import BROKER, fill, places, read, span, told


@pytest.mark.journey
def test_columns_hold_what_was_sent(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=2)
    message = Message(topic, b"\x00\xff body", tags="new", keys=["k1", "k2"], properties={"color": "größe"}, flag=7)
    before = datetime.now(UTC) - timedelta(seconds=1)
    with Producer(cluster.name_server, group="columns") as producer:
        receipt = producer.send(message, queue=MessageQueue(topic, BROKER, 1))
    frame = read(spark, cluster, topic=topic)
    assert tuple(frame.columns) == COLUMNS
    (row,) = frame.collect()
    assert (row.topic, row.brokerName, row.queueId, row.queueOffset) == (topic, BROKER, 1, 0)
    assert (row.msgId, row.tags, row["keys"], bytes(row.body)) == (receipt.message_id, "new", "k1 k2", b"\x00\xff body")
    assert row.properties["color"] == "größe"
    assert (row.flag, row.reconsumeTimes) == (7, 0)
    times = [row.bornTimestamp.astimezone(UTC), row.storeTimestamp.astimezone(UTC)]
    assert before < times[0] <= times[1] < before + timedelta(minutes=2)


def test_a_schema_of_some_columns_reads_these_only(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    fill(cluster, topic, 3)
    reader = spark.read.format("rocketmq").option("nameServer", cluster.name_server).option("subscribe", topic)
    frame = reader.schema("queueOffset bigint, body binary").load()
    rows = [(row.queueOffset, bytes(row.body)) for row in frame.orderBy("queueOffset").collect()]
    assert rows == [(0, b"0/0"), (1, b"0/1"), (2, b"0/2")]


def test_several_topics_are_read_as_one_table(spark: SparkSession, cluster: ClientCluster) -> None:
    first, second = cluster.topic(), cluster.topic()
    fill(cluster, first, 2)
    fill(cluster, second, 3)
    counts = read(spark, cluster, subscribe=f"{first}, {second}").groupBy("topic").count().collect()
    assert {row.topic: row["count"] for row in counts} == {first: 2, second: 3}


@pytest.mark.journey
def test_all_brokers_of_a_topic_are_read(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=1, brokers=2)
    with Producer(cluster.name_server, group="brokers") as producer:
        for broker in ("broker-a", "broker-b"):
            producer.send(Message(topic, b"x"), queue=MessageQueue(topic, broker, 0))
    assert sorted(row.brokerName for row in read(spark, cluster, subscribe=topic).collect()) == ["broker-a", "broker-b"]


def test_a_pattern_means_topics_by_their_whole_names(spark: SparkSession, cluster: ClientCluster) -> None:
    first, second = cluster.topic("pattern-a"), cluster.topic("pattern-b")
    other = cluster.topic("not-pattern-a")
    for topic in (first, second, other):
        fill(cluster, topic, 1)
    frame = read(spark, cluster, subscribePattern="pattern-[ab]-[0-9]+")
    assert sorted(row.topic for row in frame.select("topic").collect()) == sorted([first, second])


@pytest.mark.journey
def test_assigned_queues_are_read_and_no_others(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    fill(cluster, topic, 2, 2, 2)
    frame = read(spark, cluster, assign=f'{{"{topic}": {{"{BROKER}": [0, 2]}}}}')
    assert places(frame) == [*span(0, 0, 2), *span(2, 0, 2)]


@pytest.mark.journey
def test_tags_are_filtered(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    fill(cluster, topic, 3, tags="A")
    fill(cluster, topic, 3, tags="B")
    fill(cluster, topic, 3, tags="C")
    fill(cluster, topic, 1)
    assert places(read(spark, cluster, subscribe=topic, tags="A || C")) == [*span(0, 0, 3), *span(0, 6, 9)]


@pytest.mark.journey
def test_tags_with_the_same_hash_are_told_apart(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    fill(cluster, topic, 2, tags="Aa")
    fill(cluster, topic, 2, tags="BB")  # Java gives both the same hash, which is all that a broker looks at
    assert places(read(spark, cluster, subscribe=topic, tags="BB")) == span(0, 2, 4)


@pytest.mark.journey
def test_sql_is_filtered(spark: SparkSession, cluster: ClientCluster) -> None:
    """S228, S240."""
    topic = cluster.topic()
    fill(cluster, topic, 3, properties={"size": "4"})
    fill(cluster, topic, 3, properties={"size": "6"}, tags="A")
    fill(cluster, topic, 3, properties={"size": "6"}, tags="B")
    assert places(read(spark, cluster, subscribe=topic, sql="size > 5")) == span(0, 3, 9)
    assert places(read(spark, cluster, subscribe=topic, sql="size > 5 AND TAGS = 'B'")) == span(0, 6, 9)


def test_sql_is_one_error_with_brokers_that_filter_by_tags_alone(
    spark: SparkSession, server: Server, topic: str
) -> None:
    reader = spark.read.format("rocketmq").option("nameServer", server.address).option("subscribe", topic)
    with pytest.raises(PySparkException) as raised:
        reader.option("sql", "size > 5").load().collect()
    assert told(raised.value).startswith("sql='size > 5': broker 'broker-a' refuses it: ")
    assert "enablePropertyFilter=true" in told(raised.value)


def test_sql_that_nobody_understands_is_one_error(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    with pytest.raises(PySparkException) as raised:
        read(spark, cluster, subscribe=topic, sql="size >").collect()
    assert told(raised.value).startswith("sql='size >': line 1, column 7, where it ends: ")


def test_what_a_frame_reads_is_fixed_by_its_first_action(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    fill(cluster, topic, 2)
    frame = read(spark, cluster, subscribe=topic)
    assert frame.count() == 2
    fill(cluster, topic, 2)
    assert frame.count() == 2
    assert read(spark, cluster, subscribe=topic).count() == 4


def test_a_topic_is_a_view_of_sql(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    fill(cluster, topic, 2, 3)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders_view USING rocketmq "
        f"OPTIONS (nameServer '{cluster.name_server}', subscribe '{topic}')"
    )
    rows = spark.sql("SELECT queueId, count(*) AS n FROM orders_view GROUP BY queueId ORDER BY queueId").collect()
    assert [(row.queueId, row.n) for row in rows] == [(0, 2), (1, 3)]
    spark.catalog.dropTempView("orders_view")


def test_filters_of_spark_do_not_change_what_a_frame_reads_elsewhere(
    spark: SparkSession, cluster: ClientCluster
) -> None:
    topic = cluster.topic()
    fill(cluster, topic, 2, 3)
    frame = read(spark, cluster, subscribe=topic)
    assert frame.where("queueId = 1").count() == 3
    assert frame.count() == 5
    assert frame.where("queueId = 1").union(frame).count() == 8


def test_an_empty_topic_is_an_empty_frame(spark: SparkSession, cluster: ClientCluster) -> None:
    assert read(spark, cluster, subscribe=cluster.topic()).collect() == []


@pytest.mark.parametrize("size", ["1", "7", "100000"])
def test_any_size_of_a_pull_brings_the_same(spark: SparkSession, cluster: ClientCluster, size: str) -> None:
    topic = cluster.topic(queues=2)
    fill(cluster, topic, 40, 5)
    assert places(read(spark, cluster, subscribe=topic, pullBatchSize=size)) == [*span(0, 0, 40), *span(1, 0, 5)]


@pytest.mark.journey
def test_a_group_that_may_not_read_is_refused_by_its_name(spark: SparkSession, cluster: ClientCluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    fill(cluster, topic, 1)
    with Admin(cluster.name_server) as admin:
        admin.groups.put(SubscriptionGroupConfig(group, consume_enable=False))
    assert read(spark, cluster, subscribe=topic).count() == 1
    with pytest.raises(PySparkException) as raised:
        read(spark, cluster, subscribe=topic, consumerGroup=group).collect()
    assert "code 16" in told(raised.value)
