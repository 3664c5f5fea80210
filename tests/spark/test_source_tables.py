"""Tables about a cluster: offsets with lag, topics, groups."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rocketline import LitePullConsumer, PullConsumer
from rocketline.admin.sync import Admin
from rocketline.model.queue import MessageQueue
from support.clients.clusters import ClientCluster
from support.spark.reading import BROKER, fill, read, told


@pytest.mark.journey
def test_offsets_tell_lag_of_each_queue_and_group(spark: SparkSession, cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=2), cluster.group()
    fill(cluster, topic, 10, 5)
    with PullConsumer(cluster.name_server, group=group) as consumer:
        consumer.queues(topic)
        consumer.update_offset(MessageQueue(topic, BROKER, 0), 4)
    frame = read(spark, cluster, table="offsets", subscribe=topic).orderBy("queueId")
    rows = [row.asDict() for row in frame.collect()]
    stored = [row.pop("lastStoreTimestamp").astimezone(UTC) for row in rows]
    assert all(abs(datetime.now(UTC) - at) < timedelta(minutes=5) for at in stored)
    common = {"topic": topic, "brokerName": BROKER, "consumerGroup": group, "minOffset": 0}
    assert rows == [
        {**common, "queueId": 0, "maxOffset": 10, "committedOffset": 4, "lag": 6},
        {**common, "queueId": 1, "maxOffset": 5, "committedOffset": None, "lag": 5},
    ]
    lag = read(spark, cluster, table="offsets", subscribe=topic, consumerGroup=group).selectExpr("sum(lag)").first()
    assert lag is not None
    assert lag[0] == 11


def test_offsets_of_a_topic_without_groups_have_none(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=1)
    fill(cluster, topic, 3)
    (row,) = read(spark, cluster, table="offsets", subscribePattern=topic).collect()
    assert (row.maxOffset, row.consumerGroup, row.committedOffset, row.lag) == (3, None, None, None)


@pytest.mark.journey
def test_topics_tell_how_much_each_broker_holds(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=2, brokers=2)
    fill(cluster, topic, 3, 4)
    frame = read(spark, cluster, table="topics").where(f"topic = '{topic}'").orderBy("brokerName")
    rows = frame.drop("attributes", "lastStoreTimestamp").collect()
    assert [tuple(row) for row in rows] == [
        (topic, "broker-a", 2, 2, 6, "NORMAL", 7),
        (topic, "broker-b", 2, 2, 6, "NORMAL", 0),
    ]


def test_topics_of_the_product_itself_are_left_out(spark: SparkSession, cluster: ClientCluster) -> None:
    cluster.topic()
    names = {row.topic for row in read(spark, cluster, table="topics").select("topic").collect()}
    assert names
    assert not names & {"TBW102", "broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX"}


@pytest.mark.journey
def test_groups_tell_who_is_online_and_how_far(spark: SparkSession, cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    fill(cluster, topic, 6)
    with (
        LitePullConsumer(cluster.name_server, group=group, auto_commit=False) as consumer,
        PullConsumer(cluster.name_server, group=group) as position,
        Admin(cluster.name_server) as admin,
    ):
        # Before the group has a member: one that finds no offset begins at 0, and would commit that over this later.
        position.queues(topic)
        position.update_offset(MessageQueue(topic, BROKER, 0), 2)
        consumer.subscribe(topic)
        while not admin.clients.consumers(group).is_online:
            time.sleep(0.01)
        (row,) = read(spark, cluster, table="groups", consumerGroup=group).collect()
    assert (row.consumerGroup, row.members) == (group, 1)
    assert (row.consumeType, row.messageModel) == ("CONSUME_ACTIVELY", "CLUSTERING")
    assert topic in row.topics
    assert row.lag == 4


def test_groups_of_the_product_itself_are_left_out(spark: SparkSession, cluster: ClientCluster) -> None:
    group = cluster.group()
    names = {row.consumerGroup for row in read(spark, cluster, table="groups").select("consumerGroup").collect()}
    assert group in names
    assert "TOOLS_CONSUMER" not in names


def test_a_schema_of_some_columns_reads_these_only(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=1)
    reader = spark.read.format("rocketmq").option("nameServer", cluster.name_server).option("table", "offsets")
    frame = reader.option("subscribe", topic).schema("maxOffset bigint, topic string").load()
    assert [tuple(row) for row in frame.collect()] == [(0, topic)]


def test_a_topic_that_is_not_there_is_one_error(spark: SparkSession, cluster: ClientCluster) -> None:
    with pytest.raises(PySparkException) as raised:
        read(spark, cluster, table="offsets", subscribe="no-such-topic").collect()
    assert told(raised.value).startswith("topic 'no-such-topic' has no route")
