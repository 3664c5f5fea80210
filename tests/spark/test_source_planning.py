"""How a read is cut into tasks, seen by the number of Spark's partitions."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from support.clients.clusters import ClientCluster
from support.spark.reading import fill, read


@pytest.fixture(scope="module")
def topic(cluster: ClientCluster) -> str:
    topic = cluster.topic()
    fill(cluster, topic, 60, 10, 10, 0)
    return topic


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [80]),
        ({"minRecordsPerPartition": "0"}, [60, 10, 10]),
        ({"minRecordsPerPartition": "20"}, [60, 20]),
        ({"minRecordsPerPartition": "0", "maxRecordsPerPartition": "25"}, [20, 20, 20, 10, 10]),
        ({"minRecordsPerPartition": "0", "minPartitions": "6"}, [15, 15, 15, 15, 10, 10]),
        ({"minPartitions": "2"}, [70, 10]),
        ({"maxRecordsPerPartition": "30"}, [30, 30, 20]),
    ],
)
def test_options_say_how_rows_are_shared_out(
    spark: SparkSession, cluster: ClientCluster, topic: str, options: dict[str, str], expected: list[int]
) -> None:
    frame = read(spark, cluster, options, subscribe=topic)
    counts = frame.groupBy(F.spark_partition_id()).count().collect()
    assert sorted((row["count"] for row in counts), reverse=True) == expected
    assert frame.select("queueId", "queueOffset").distinct().count() == 80
