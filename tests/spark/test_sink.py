"""Frames and streams written to topics, on our broker."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from rocketline.client.producer.queue_choice import by_hash
from rocketline.client.sync.producer import Producer
from rocketline.model.message import Message
from rocketline.otel import Telemetry
from rocketline.testing import Server
from rocketline.wire.codes import RequestCode
from support.clients.topic_contents import queue_contents, topic_contents
from support.spark.sessions import jobs_begun


def _write(frame: DataFrame, server: Server, **options: str) -> None:
    frame.write.format("rocketmq").option("nameServer", server.address).options(**options).mode("append").save()


def _numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).select(F.col("id").cast("string").alias("body"))


def _stored_numbers(server: Server, topic: str) -> list[int]:
    return sorted(int(message.body) for message in topic_contents(server.address, topic))


def test_every_row_becomes_one_message(spark: SparkSession, server: Server, topic: str) -> None:
    _write(_numbers(spark, 5000), server, topic=topic)
    assert _stored_numbers(server, topic) == list(range(5000))


def test_columns_become_parts_of_the_message(spark: SparkSession, server: Server, topic: str) -> None:
    frame = spark.sql(
        f"""SELECT binary('hello') AS body, '{topic}' AS topic, 'new' AS tags, 'k1 k2' AS keys,
                   map('color', 'red', 'größe', 'XL') AS properties, 'order-7' AS shardingKey"""
    )
    _write(frame, server)
    ((place, (message,)),) = ((place, found) for place, found in queue_contents(server.address, topic).items() if found)
    assert (message.body, message.tags, message.keys) == (b"hello", "new", ("k1", "k2"))
    assert (message.properties["color"], message.properties["größe"]) == ("red", "XL")
    assert message.properties["__SHARDINGKEY"] == "order-7"
    assert re.fullmatch(r"[0-9a-f]{32}/-/0/0", message.properties["SPARK_ID"])
    queues = sorted(queue_contents(server.address, topic))
    assert place == queues[by_hash("order-7")(range(len(queues)), Message("t", b"x"))]  # type: ignore[arg-type, call-overload]


def test_context_of_a_trace_goes_through_a_row_from_topic_to_topic(
    spark: SparkSession, server: Server, topic: str
) -> None:
    """As OpenTelemetry's hooks have written it."""
    telemetry = Telemetry(tracer_provider=TracerProvider())
    with Producer(server.address, group="shop", **telemetry.for_producer) as producer:
        producer.send(Message(topic, b"a teapot"))
    (sent,) = topic_contents(server.address, topic)
    rows = spark.read.format("rocketmq").options(nameServer=server.address, subscribe=topic).load()
    server.create_topic(copy := f"{topic}-copy")
    _write(rows.select("body", "properties"), server, topic=copy)

    (row,) = rows.collect()
    (copied,) = topic_contents(server.address, copy)
    assert row.properties["traceparent"] == copied.properties["traceparent"] == sent.properties["traceparent"]
    assert get_current_span(telemetry.context_of(copied)).get_span_context().is_valid


def test_body_may_be_text(spark: SparkSession, server: Server, topic: str) -> None:
    _write(spark.sql("SELECT 'grüße' AS body"), server, topic=topic)
    assert [message.body.decode() for message in topic_contents(server.address, topic)] == ["grüße"]


def test_rows_of_a_key_lie_in_one_queue_in_their_order(spark: SparkSession, server: Server, topic: str) -> None:
    rows = spark.range(0, 3000, 1, 1).selectExpr("string(id) AS body", "string(id % 7) AS shardingKey")
    _write(rows, server, topic=topic, sendBatchSize="16")
    queues_of: dict[str, set[int]] = {}
    for (_, queue_id), messages in queue_contents(server.address, topic).items():
        for key in range(7):
            numbers = [int(m.body) for m in messages if m.properties["__SHARDINGKEY"] == str(key)]
            assert numbers == sorted(numbers)
            if numbers:
                queues_of.setdefault(str(key), set()).add(queue_id)
    assert all(len(queues) == 1 for queues in queues_of.values())
    assert _stored_numbers(server, topic) == list(range(3000))


def test_rows_go_to_the_topics_that_they_name(spark: SparkSession, server: Server) -> None:
    for name in ("even", "odd"):
        server.create_topic(f"sink-{name}")
    rows = spark.range(0, 100, 1, 2).selectExpr(
        "string(id) AS body", "if(id % 2 = 0, 'sink-even', 'sink-odd') AS topic"
    )
    _write(rows, server)
    assert _stored_numbers(server, "sink-even") == list(range(0, 100, 2))
    assert _stored_numbers(server, "sink-odd") == list(range(1, 100, 2))


def test_without_identity_messages_have_no_spark_id(spark: SparkSession, server: Server, topic: str) -> None:
    _write(_numbers(spark, 3), server, topic=topic, addIdentity="false")
    assert all("SPARK_ID" not in message.properties for message in topic_contents(server.address, topic))


def test_delay_level_in_properties_delays_the_message(spark: SparkSession, server: Server, topic: str) -> None:
    _write(spark.sql("SELECT 'later' AS body, map('DELAY', '5') AS properties"), server, topic=topic)
    assert topic_contents(server.address, topic) == []
    server.advance(61)
    assert [message.body for message in topic_contents(server.address, topic)] == [b"later"]


@pytest.mark.parametrize(
    ("options", "requests"), [({"sendBatchSize": "1"}, 20), ({"sendBatchSize": "5", "maxInFlight": "1"}, 4)]
)
def test_rows_are_sent_in_batches_of_the_size_asked_for(
    spark: SparkSession, server: Server, topic: str, options: dict[str, str], requests: int
) -> None:
    seen = server.faults.refuse(RequestCode.SEND_BATCH_MESSAGE, 2, nth=requests, times=1)
    _write(_numbers(spark, 20, 1), server, topic=topic, **options)
    assert seen.happened == 1
    assert _stored_numbers(server, topic) == list(range(20))


def test_small_max_message_size_makes_smaller_batches(spark: SparkSession, server: Server, topic: str) -> None:
    _write(_numbers(spark, 100), server, topic=topic, maxMessageSize="500")
    assert _stored_numbers(server, topic) == list(range(100))


def test_producer_group_is_told_to_the_broker(spark: SparkSession, server: Server, topic: str) -> None:
    from rocketline import Admin

    _write(_numbers(spark, 10, 1), server, topic=topic, producerGroup="pipeline-writers")
    with Admin(server.address) as admin:
        assert admin.clients.producers("pipeline-writers")


# --- what is wrong is one error before any task


@pytest.mark.parametrize(
    ("query", "options", "problem"),
    [
        ("SELECT 'a' AS text", {"topic": "t"}, "there is no column body"),
        ("SELECT 1 AS body", {"topic": "t"}, "column body is int"),
        ("SELECT 'a' AS body", {}, "which topic"),
        ("SELECT 'a' AS body", {"topic": "no-such-topic"}, "topic 'no-such-topic' has no route"),
        ("SELECT 'a' AS body", {"topic": "t", "sendBatchsize": "0"}, "sendBatchSize='0'"),
        ("SELECT 'a' AS body", {"topic": "t", "sendBatch": "7"}, "did you mean sendBatchSize"),
        ("SELECT 'a' AS body", {"topic": "t", "nameServer": "127.0.0.1:1"}, "127.0.0.1:1"),
        ("SELECT 'a' AS body, 't' AS topic", {"nameServer": "127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_wrong_write_is_one_error_before_any_task(
    spark: SparkSession, server: Server, query: str, options: dict[str, str], problem: str
) -> None:
    server.create_topic("t")
    jobs = jobs_begun(spark)
    with pytest.raises(Exception, match=re.escape(problem)):
        _write(spark.sql(query), server, **options)
    assert jobs_begun(spark) == jobs


def test_broker_without_timers_is_one_error_before_any_task(spark: SparkSession) -> None:
    jobs = jobs_begun(spark)
    with Server(settings={"timerWheelEnable": "false"}) as server:
        server.create_topic("t")
        for query, options in (
            ("SELECT 'a' AS body, current_timestamp() AS deliverTimestamp", {"topic": "t"}),
            ("SELECT 'a' AS body, 't' AS topic, 1L AS deliverTimestamp", {}),
        ):
            with pytest.raises(Exception, match="keeps no messages until"):
                _write(spark.sql(query), server, **options)
    assert jobs_begun(spark) == jobs


def test_row_with_a_time_is_delivered_then(spark: SparkSession, server: Server, topic: str) -> None:
    due_ms = server.clock.wall_ms() + 3_600_000
    frame = spark.sql(
        f"SELECT 'later' AS body, timestamp_millis({due_ms}) AS deliverTimestamp UNION ALL SELECT 'now', NULL"
    )
    _write(frame, server, topic=topic)
    assert [message.body for message in topic_contents(server.address, topic)] == [b"now"]
    server.advance(3602)
    found = {message.body: message for message in topic_contents(server.address, topic)}
    assert found.keys() == {b"now", b"later"}
    assert found[b"later"].store_ms >= due_ms


def test_overwriting_a_topic_is_refused(spark: SparkSession, server: Server, topic: str) -> None:
    jobs = jobs_begun(spark)
    writer = _numbers(spark, 3).write.format("rocketmq").option("nameServer", server.address).option("topic", topic)
    with pytest.raises(Exception, match=r"a topic cannot be overwritten"):
        writer.mode("overwrite").save()
    assert jobs_begun(spark) == jobs


def test_row_that_cannot_be_sent_is_named(spark: SparkSession, server: Server, topic: str) -> None:
    rows = spark.range(0, 10, 1, 1).selectExpr("if(id = 7, repeat('x', 600), 'x') AS body")
    with pytest.raises(Exception, match=r"row 7 of partition 0: its body has 600 bytes; the option maxMessageSize"):
        _write(rows, server, topic=topic, maxMessageSize="500")


# --- again, with the same identity


def test_task_that_is_run_again_sends_rows_with_the_same_spark_ids(
    spark: SparkSession, server: Server, topic: str
) -> None:
    refused = server.faults.refuse(RequestCode.SEND_BATCH_MESSAGE, 13, "this attempt is meant to fail", nth=60)
    _write(_numbers(spark, 10_000), server, topic=topic, sendBatchSize="64")
    assert refused.happened == 1, "a task failed when some of its rows were stored already"
    stored = topic_contents(server.address, topic)
    assert len(stored) > 10_000
    rows = {(message.properties["SPARK_ID"], int(message.body)) for message in stored}
    assert len({identity for identity, _ in rows}) == len(rows) == 10_000, "an identity is one row's, whoever sent it"
    assert sorted(number for _, number in rows) == list(range(10_000))


def test_reader_of_the_topic_removes_what_came_twice(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    server.faults.duplicate(nth=2, times=3)
    _write(_numbers(spark, 1000, 1), server, topic=topic, sendBatchSize="64")
    assert len(topic_contents(server.address, topic)) == 1000 + 3 * 64
    read = spark.readStream.format("rocketmq").option("nameServer", server.address).option("subscribe", topic)
    rows = read.option("startingOffsets", "earliest").load()
    unique = (
        rows.withColumn("id", F.col("properties")["SPARK_ID"])
        .withWatermark("storeTimestamp", "1 hour")
        .dropDuplicatesWithinWatermark(["id"])
    )
    query = (
        unique.select(F.col("body").cast("string").alias("body"))
        .writeStream.format("memory")
        .queryName("unique_rows")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(int(row.body) for row in spark.table("unique_rows").collect()) == list(range(1000))


# --- streams


def _stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(StructType().add("body", "string")).parquet(str(folder))


def _land(spark: SparkSession, folder: Path, low: int, high: int) -> None:
    spark.range(low, high, 1, 2).select(F.col("id").cast("string").alias("body")).write.mode("append").parquet(
        str(folder)
    )


def test_stream_sends_each_micro_batch_with_an_identity_of_its_own(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    rows, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"

    def run() -> str:
        stream = _stream(spark, rows).writeStream.format("rocketmq").option("nameServer", server.address)
        query = stream.option("topic", topic).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        started = query.start()
        started.awaitTermination()
        return str(started.id)

    _land(spark, rows, 0, 500)
    query_id = run()
    _land(spark, rows, 500, 1000)
    assert run() == query_id
    stored = topic_contents(server.address, topic)
    assert sorted(int(message.body) for message in stored) == list(range(1000))
    identities = [message.properties["SPARK_ID"].split("/") for message in stored]
    assert {identity[0] for identity in identities} == {query_id}
    assert Counter(identity[1] for identity in identities) == {"0": 500, "1": 500}
    assert len({tuple(identity) for identity in identities}) == 1000


def test_micro_batch_that_is_run_again_after_a_failed_commit_sends_the_same_identities(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    rows, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    _land(spark, rows, 0, 400)

    def run() -> None:
        stream = _stream(spark, rows).writeStream.format("rocketmq").option("nameServer", server.address)
        stream = stream.option("topic", topic).option("checkpointLocation", str(checkpoint))
        stream.trigger(availableNow=True).start().awaitTermination()

    run()
    for name in ("commits/0", "commits/.0.crc"):
        (checkpoint / name).unlink(missing_ok=True)  # as if the driver had died before it wrote that batch 0 is done
    run()
    stored = topic_contents(server.address, topic)
    assert len(stored) == 800
    assert Counter(Counter(message.properties["SPARK_ID"] for message in stored).values()) == {2: 400}
    pairs = {(message.properties["SPARK_ID"], message.body) for message in stored}
    assert len(pairs) == 400


def test_wrong_stream_is_an_error_before_any_micro_batch(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    _land(spark, tmp_path / "rows", 0, 10)
    frame = _stream(spark, tmp_path / "rows").withColumnRenamed("body", "text")
    stream = frame.writeStream.format("rocketmq").option("nameServer", server.address).option("topic", topic)
    with pytest.raises(Exception, match="there is no column body"):
        stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    assert topic_contents(server.address, topic) == []
