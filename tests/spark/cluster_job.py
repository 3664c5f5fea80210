"""What the test of a standalone cluster submits: a program like any user's, that knows nothing but installed packages.

    python cluster_job.py MASTER NAME_SERVER SOURCE_TOPIC TARGET_TOPIC CHECKPOINT ROWS

Writes numbers to the source topic, reads them, streams them on to the target topic, and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main(master: str, name_server: str, source: str, target: str, checkpoint: str, rows: str) -> dict[str, Any]:
    from rocketline.spark.session import spark_session

    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        # No job before both executors, of one core each, have registered: one alone would do all the work.
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        "spark.log.level": "ERROR",
    }
    spark = spark_session("standalone", master=master, settings=settings)
    try:
        return {
            "places": _places(spark),
            **_batch(spark, name_server, source, int(rows)),
            **_stream(spark, name_server, source, target, checkpoint),
        }
    finally:
        spark.stop()


def _places(spark: SparkSession) -> list[list[str]]:
    """The folders of the executors, and where their Python found our package."""

    def look(numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
        import time
        from pathlib import Path

        import rocketline

        time.sleep(1)  # so that one executor does not do it all before the other has started
        yield str(Path.cwd()), str(rocketline.__file__)

    return [list(place) for place in set(spark.sparkContext.parallelize(range(4), 4).mapPartitions(look).collect())]


def _read(spark: SparkSession, name_server: str, topic: str) -> DataFrame:
    return spark.read.format("rocketmq").option("nameServer", name_server).option("subscribe", topic).load()


def _batch(spark: SparkSession, name_server: str, source: str, rows: int) -> dict[str, Any]:
    numbers = spark.range(0, rows, 1, 4).selectExpr("string(id) AS body", "string(id % 10) AS tags")
    writer = numbers.write.format("rocketmq").option("nameServer", name_server)
    writer.option("topic", source).mode("append").save()
    seen = _read(spark, name_server, source).selectExpr("count(*)", "count(distinct body)", "count(distinct tags)")
    return {"batch": list(seen.first() or ())}


def _stream(spark: SparkSession, name_server: str, source: str, target: str, checkpoint: str) -> dict[str, Any]:
    stream = spark.readStream.format("rocketmq").option("nameServer", name_server).option("subscribe", source)
    messages = stream.option("startingOffsets", "earliest").option("minPartitions", "4").load()
    query = (
        messages.select("body", "tags")
        .writeStream.format("rocketmq")
        .option("nameServer", name_server)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seen = _read(spark, name_server, target).selectExpr("count(*)", "count(distinct body)").first()
    return {"stream": list(seen or ()), "query": str(query.id)}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
