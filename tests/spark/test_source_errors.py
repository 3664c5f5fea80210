"""What is wrong is one clear error, before any task starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rocketline.testing.server_process import free_port
from support.clients.clusters import ClientCluster
from support.spark.reading import available_now, read, stream, told
from support.spark.sessions import jobs_begun

Load = Callable[..., DataFrame]


@pytest.fixture(params=["batch", "stream"])
def problem_of(
    request: pytest.FixtureRequest, spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> Callable[..., str]:
    """The error of a read with these options. No task has started when it comes."""

    def run(given: dict[str, str], schema: str | None) -> None:
        reader = (spark.read if request.param == "batch" else spark.readStream).format("rocketmq").options(**given)
        frame = (reader.schema(schema) if schema else reader).load()
        if request.param == "batch":
            frame.collect()
        else:
            available_now(frame, tmp_path)

    def problem(options: dict[str, str] | None = None, /, schema: str | None = None, **more: str) -> str:
        given = {"nameServer": cluster.name_server, "fetchOffset.numRetries": "0", **(options or {}), **more}
        jobs = jobs_begun(spark)
        with pytest.raises(PySparkException) as raised:
            run(given, schema)
        assert jobs_begun(spark) == jobs
        return told(raised.value)

    return problem


@pytest.mark.journey
def test_an_unknown_topic(problem_of: Callable[..., str], cluster: ClientCluster) -> None:
    assert problem_of(subscribe="no-such-topic").startswith(
        f"topic 'no-such-topic' has no route (asked {cluster.name_server})"
    )


def test_an_unknown_queue(problem_of: Callable[..., str], cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=1)
    text = f'{{"{topic}": {{"broker-a": [0, 5]}}}}'
    assert problem_of(assign=text) == f"assign: there is no queue 5 of topic '{topic}' on broker 'broker-a'"


def test_a_name_server_that_is_not_there(problem_of: Callable[..., str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert address in problem_of(nameServer=address, subscribe="orders")


def test_options_that_are_wrong_are_told_all_at_once(problem_of: Callable[..., str]) -> None:
    problem = problem_of({"subscribe": "orders", "pullBatchSize": "0", "failOnDataLos": "true"})
    assert problem == (
        "pullBatchSize='0': a whole number is wanted, from 1 to 2147483647; "
        "there is no option failondatalos: did you mean failOnDataLoss?"
    )


def test_a_schema_with_wrong_columns(problem_of: Callable[..., str], cluster: ClientCluster) -> None:
    problem = problem_of(subscribe=cluster.topic(), schema="queueId bigint, value binary")
    assert problem.startswith("column queueId is int, not bigint; there is no column value; a schema may name any of: ")


def test_a_pattern_that_no_topic_matches_is_an_error_of_a_batch_only(
    spark: SparkSession, cluster: ClientCluster, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException) as raised:
        read(spark, cluster, subscribePattern="nobody-.*").collect()
    assert told(raised.value) == "subscribePattern='nobody-.*': no topic has such a name"
    assert available_now(stream(spark, cluster, subscribePattern="nobody-.*"), tmp_path) == [[]]


def test_what_a_stream_cannot_do(spark: SparkSession, cluster: ClientCluster, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as raised:
        available_now(stream(spark, cluster, subscribe="orders", endingOffsets="latest"), tmp_path)
    assert told(raised.value) == "endingOffsets: a stream has no end; read a batch, or stop the query"
    with pytest.raises(PySparkException) as raised:
        available_now(stream(spark, cluster, table="offsets"), tmp_path)
    assert told(raised.value) == "table=offsets: only messages can be a stream; read this one as a batch"
