"""The objects that Spark makes, pickles and sends around, without Spark."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pyspark_rocketmq import DefaultSource
from rocketline.errors import ConfigError
from rocketline.spark.schema import FULL_SCHEMA
from rocketline.spark.sources.batch_reader import RocketMQBatchReader
from rocketline.spark.sources.cluster_tables import RocketMQTableReader
from rocketline.spark.sources.source import RocketMQDataSource
from rocketline.spark.sources.stream_reader import RocketMQStreamReader

ORDERS = {"nameServer": "127.0.0.1:1", "subscribe": "orders"}
SOME = StructType([StructField("queueId", IntegerType()), StructField("queueOffset", LongType())])


def stream_reader(**options: str) -> RocketMQStreamReader:
    reader = RocketMQDataSource(ORDERS | options).streamReader(SOME)
    assert isinstance(reader, RocketMQStreamReader)
    return reader


def test_spark_finds_the_source_by_its_name() -> None:
    assert DefaultSource is RocketMQDataSource
    assert DefaultSource.name() == "rocketmq"


def test_finding_the_source_imports_nothing_heavy() -> None:
    heavy = "{'pyarrow', 'numpy', 'pandas', 'asyncio'} & set(sys.modules)"
    before = "import sys, pyspark.sql.datasource, pyspark.sql.types"
    script = f"{before}; before = {heavy}; import pyspark_rocketmq; print(sorted({heavy} - before))"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"


def test_each_table_has_its_reader() -> None:
    assert isinstance(RocketMQDataSource(ORDERS).reader(SOME), RocketMQBatchReader)
    offsets = StructType([StructField("topic", StringType())])
    assert isinstance(RocketMQDataSource(ORDERS | {"table": "offsets"}).reader(offsets), RocketMQTableReader)


def test_the_schema_is_that_of_the_table() -> None:
    assert RocketMQDataSource(ORDERS).schema() == FULL_SCHEMA
    assert "committedOffset bigint" in str(RocketMQDataSource({**ORDERS, "table": "offsets"}).schema())


def test_what_only_a_batch_may_have_is_no_error_before_it_is_known_which_it_is() -> None:
    assert RocketMQDataSource(ORDERS | {"endingOffsets": "latest"}).schema() == FULL_SCHEMA
    assert RocketMQDataSource(ORDERS | {"startingOffsets": "latest"}).schema() == FULL_SCHEMA
    with pytest.raises(
        ConfigError, match=r"in a stream: .*earliest, latest, group.*; in a batch: .*earliest, group, or"
    ):
        RocketMQDataSource(ORDERS | {"startingOffsets": "latset"}).schema()
    with pytest.raises(ConfigError, match="there is no option subscrib: did you mean subscribe"):
        RocketMQDataSource({"nameServer": "127.0.0.1:1", "subscrib": "orders"}).schema()


def test_sources_readers_and_their_copies_are_plain_values() -> None:
    source = RocketMQDataSource(ORDERS)
    assert pickle.loads(pickle.dumps(source)).options == ORDERS
    pickle.loads(pickle.dumps(source.reader(SOME)))
    reader = stream_reader(maxOffsetsPerTrigger="7")
    copy = pickle.loads(pickle.dumps(reader))
    assert copy.getDefaultReadLimit() == ReadMaxRows(7)


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
    ],
)
def test_limits_are_told_to_spark(options: dict[str, str], limit: ReadLimit) -> None:
    assert stream_reader(**options).getDefaultReadLimit() == limit


def test_nobody_is_asked_for_the_first_offset_nor_told_of_one_unless_that_is_wanted() -> None:
    reader = stream_reader()
    assert reader.initialOffset() == {"version": 1, "queues": {}}
    reader.commit({"version": 1, "queues": {}})
    assert reader.reportLatestOffset() is None


def test_tasks_are_a_function_of_two_offsets() -> None:
    end = {"version": 1, "queues": {"orders": {"b": {"0": 10}}}, "base": {"orders": {"b": {"0": 4}}}}
    (task,) = stream_reader().partitions({"version": 1, "queues": {}}, end)
    assert [(each.start, each.end) for each in task.ranges] == [(4, 10)]  # type: ignore[attr-defined]
    assert stream_reader().partitions(end, end) == []


def test_options_without_any_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        RocketMQDataSource(ORDERS | {"kafka.bootstrap.servers": "x"}).reader(SOME)
    assert [str(record.msg) for record in caplog.records] == [
        "options without any effect options=kafka.bootstrap.servers"
    ]
