"""Spark writes to Apache's broker: all that it does to ours, and messages for a given time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rocketline import Admin, Credentials
from rocketline.client.received_message import ReceivedMessage
from rocketline.testing.apache import ApacheBroker, ApacheNameServer, fetch
from support.clients.clusters import DELAYS_S, ClientCluster, wait_until
from support.clients.topic_contents import queue_contents, topic_contents
from support.spark.clusters import source_cluster

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientCluster]:
    with source_cluster("apache", tmp_path_factory.mktemp("sink"), brokers=2) as cluster:
        yield cluster


def _write(frame: DataFrame, cluster: ClientCluster, **options: str) -> None:
    frame.write.format("rocketmq").option("nameServer", cluster.name_server).options(**options).mode("append").save()


def _stored_numbers(cluster: ClientCluster, topic: str, expected: int) -> list[int]:
    return sorted(int(message.body) for message in topic_contents(cluster.name_server, topic, expected=expected))


def _wait(condition: Callable[[], list[ReceivedMessage]], timeout_s: float = 30) -> list[ReceivedMessage]:
    deadline_s = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline_s, "nothing came"
        time.sleep(0.1)
    return found


def test_every_row_becomes_one_message_on_either_broker(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic(brokers=2)
    _write(spark.range(0, 20_000, 1, 2).selectExpr("string(id) AS body"), cluster, topic=topic)
    assert _stored_numbers(cluster, topic, 20_000) == list(range(20_000))
    assert all(queue_contents(cluster.name_server, topic).values())


def test_columns_become_parts_of_the_message(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    frame = spark.sql(
        f"""SELECT binary('hello') AS body, '{topic}' AS topic, 'new' AS tags, 'k1 k2' AS keys,
                   map('color', 'red', 'größe', 'XL') AS properties, 'order-7' AS shardingKey"""
    )
    _write(frame, cluster)
    (message,) = topic_contents(cluster.name_server, topic, expected=1)
    assert (message.body, message.tags, message.keys) == (b"hello", "new", ("k1", "k2"))
    assert (message.properties["color"], message.properties["größe"]) == ("red", "XL")
    assert re.fullmatch(r"[0-9a-f]{32}/-/0/0", message.properties["SPARK_ID"])


def test_rows_of_a_key_lie_in_one_queue_in_their_order(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic(brokers=2)
    rows = spark.range(0, 5000, 1, 1).selectExpr("string(id) AS body", "string(id % 7) AS shardingKey")
    _write(rows, cluster, topic=topic, sendBatchSize="16")
    queues_of: dict[str, set[tuple[str, int]]] = {}
    for queue, messages in queue_contents(cluster.name_server, topic, expected=5000).items():
        numbers: dict[str, list[int]] = {}
        for message in messages:
            numbers.setdefault(message.properties["__SHARDINGKEY"], []).append(int(message.body))
        for key, found in numbers.items():
            assert found == sorted(found)
            queues_of.setdefault(key, set()).add(queue)
    assert len(queues_of) == 7
    assert all(len(queues) == 1 for queues in queues_of.values())
    assert _stored_numbers(cluster, topic, 5000) == list(range(5000))


def test_message_for_a_given_time_comes_then(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    due_ms = int(time.time() * 1000) + 4000  # noqa: TID251  # the broker goes by the machine's clock
    frame = spark.sql(
        f"""SELECT 'later' AS body, timestamp_millis({due_ms}) AS deliverTimestamp
            UNION ALL SELECT 'now', CAST(NULL AS timestamp)"""
    )
    _write(frame, cluster, topic=topic)
    found = _wait(lambda: [m for m in topic_contents(cluster.name_server, topic) if m.body == b"later"])
    assert found[0].store_ms >= due_ms - 1000, "brokers round to a second"
    assert [m.body for m in topic_contents(cluster.name_server, topic) if m.body != b"later"] == [b"now"]


@pytest.mark.thorough
def test_time_may_be_a_number_of_milliseconds(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    _write(spark.sql("SELECT 'past' AS body, bigint(1000) AS deliverTimestamp"), cluster, topic=topic)
    assert [message.body for message in topic_contents(cluster.name_server, topic, expected=1)] == [b"past"]


def test_time_that_is_too_far_ahead_is_an_error_that_names_the_row(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    frame = spark.sql("SELECT 'far' AS body, current_timestamp() + INTERVAL 30 DAYS AS deliverTimestamp")
    with pytest.raises(Exception, match=r"row 0 of partition 0: .*code 13"):
        _write(frame, cluster, topic=topic)


def test_delay_level_in_properties_delays_the_message(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    _write(spark.sql("SELECT 'later' AS body, map('DELAY', '5') AS properties"), cluster, topic=topic)
    (message,) = _wait(lambda: topic_contents(cluster.name_server, topic))
    assert message.body == b"later"
    assert message.store_ms - message.born_ms >= 1000 * DELAYS_S[4]


@pytest.mark.parametrize(
    "options",
    [
        {"sendBatchSize": "5", "maxInFlight": "1"},
        *(
            pytest.param(options, marks=pytest.mark.thorough)
            for options in (
                {"sendBatchSize": "1"},
                {"maxMessageSize": "500"},
                {"sendTimeoutMs": "10000", "retryTimesWhenSendFailed": "0"},
            )
        ),
    ],
    ids=lambda options: " ".join(options),
)
def test_ways_of_sending_bring_every_row_once(
    spark: SparkSession, cluster: ClientCluster, options: dict[str, str]
) -> None:
    topic = cluster.topic(brokers=2)
    _write(spark.range(0, 300, 1, 2).selectExpr("string(id) AS body"), cluster, topic=topic, **options)
    assert _stored_numbers(cluster, topic, 300) == list(range(300))


def test_messages_have_no_identity_if_none_is_wanted(spark: SparkSession, cluster: ClientCluster) -> None:
    topic = cluster.topic()
    _write(spark.sql("SELECT 'a' AS body"), cluster, topic=topic, addIdentity="false")
    (message,) = topic_contents(cluster.name_server, topic, expected=1)
    assert "SPARK_ID" not in message.properties


def test_producer_group_is_told_to_the_broker(spark: SparkSession, cluster: ClientCluster) -> None:
    _write(spark.sql("SELECT 'a' AS body"), cluster, topic=cluster.topic(), producerGroup="pipeline-writers")
    with Admin(cluster.name_server) as admin:
        assert admin.clients.producers("pipeline-writers")


def test_send_without_an_answer_is_given_up_after_its_time_and_tries(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("SELECT 'a' AS body")
    options = {"topic": "paused", "sendTimeoutMs": "200", "retryTimesWhenSendFailed": "1"}
    with (
        ApacheNameServer(fetch(), tmp_path / "name-server") as name_server,
        ApacheBroker(fetch(), tmp_path / "broker", name_servers=(name_server.address,)) as broker,
        Admin(name_server.address) as admin,
    ):
        admin.topics.create("paused", queue_count=1)
        cluster = ClientCluster("apache", name_server.address, (broker.address,))
        _write(rows, cluster, **options)
        broker.pause()
        with pytest.raises(PySparkException, match=r"not sent, 2 attempts"):
            _write(rows, cluster, **options)


def test_unknown_topic_is_one_error_and_no_new_topic(spark: SparkSession, cluster: ClientCluster) -> None:
    with pytest.raises(Exception, match="topic 'no-such-topic' has no route"):
        _write(spark.sql("SELECT 'a' AS body"), cluster, topic="no-such-topic")


def test_stream_sends_what_it_reads_once(spark: SparkSession, cluster: ClientCluster, tmp_path: Path) -> None:
    source, target = cluster.topic(brokers=2), cluster.topic(brokers=2)
    _write(spark.range(0, 5000, 1, 2).selectExpr("string(id) AS body"), cluster, topic=source)
    sent = {message.message_id for message in topic_contents(cluster.name_server, source, expected=5000)}
    stream = spark.readStream.format("rocketmq").option("nameServer", cluster.name_server).option("subscribe", source)
    rows = stream.option("startingOffsets", "earliest").load().select("body", "properties")
    query = (
        rows.writeStream.format("rocketmq")
        .option("nameServer", cluster.name_server)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    stored = topic_contents(cluster.name_server, target, expected=5000)
    assert sorted(int(message.body) for message in stored) == list(range(5000))
    assert {message.properties["SPARK_ID"].split("/")[0] for message in stored} == {str(query.id)}
    assert {message.message_id for message in stored} == sent, "the unique id in properties is kept"


def test_keys_open_a_guarded_broker(spark: SparkSession, tmp_path: Path) -> None:
    provider = "org.apache.rocketmq.auth.authentication.provider"
    settings = {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{provider}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{provider}.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": '{"username":"admin","password":"12345678"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"admin","secretKey":"12345678"}',
    }
    keys = {"rocketmq.accessKey": "admin", "rocketmq.secretKey": "12345678"}
    rows = spark.range(0, 100, 1, 1).selectExpr("string(id) AS body")
    with (
        source_cluster("apache", tmp_path, settings=settings) as guarded,
        Admin(guarded.name_server, credentials=Credentials("admin", "12345678")) as admin,
    ):
        admin.topics.create("guarded", queue_count=1)
        _write(rows, guarded, topic="guarded", **keys)
        (queue,) = admin.topics.readable_queues("guarded")
        wait_until(lambda: admin.offsets.max(queue) >= 100)
        assert admin.offsets.max(queue) == 100
        for wrong in ({}, keys | {"rocketmq.secretKey": "87654321"}):
            with pytest.raises(PySparkException, match="SEND_BATCH_MESSAGE at "):
                _write(rows, guarded, topic="guarded", retryTimesWhenSendFailed="0", **wrong)
        assert admin.offsets.max(queue) == 100
