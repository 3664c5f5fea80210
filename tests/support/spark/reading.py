"""Topics filled queue by queue, and what Spark reads of them, in batches and streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rocketline import Message, Producer
from rocketline.model.queue import MessageQueue
from rocketline.wire.namespaces import with_namespace
from support.clients.clusters import ClientCluster
from support.clients.topic_contents import found_afterwards

BROKER = "broker-a"
_BATCH = 200

Place = tuple[int, int]
"""A queue's number and an offset in it."""


def fill(
    cluster: ClientCluster,
    topic: str,
    *counts: int,
    tags: str = "",
    properties: Mapping[str, str] | None = None,
    namespace: str = "",
) -> None:
    """So many messages for queue 0, 1, … of `broker-a`; each body tells its queue and number: `b"1/25"`."""
    address = cluster.name_server
    with (
        Producer(address, group="fill", namespace=namespace) as producer,
        found_afterwards(address, with_namespace(namespace, topic), sum(counts)),
    ):
        for queue_id, count in enumerate(counts):
            queue = MessageQueue(topic, BROKER, queue_id)
            messages = [
                Message(
                    topic,
                    b"%d/%d" % (queue_id, number),
                    tags=tags or None,
                    keys=[f"k{number}"],
                    properties=dict(properties or {}),
                )
                for number in range(count)
            ]
            for first in range(0, count, _BATCH):
                assert producer.send(messages[first : first + _BATCH], queue=queue).is_ok


def read(
    spark: SparkSession, cluster: ClientCluster, options: Mapping[str, str] | None = None, **more: str
) -> DataFrame:
    """A batch. Options whose names are none of Python's come as a mapping."""
    reader = spark.read.format("rocketmq").option("nameServer", cluster.name_server)
    return reader.options(**{**(options or {}), **more}).load()


def stream(
    spark: SparkSession, cluster: ClientCluster, options: Mapping[str, str] | None = None, **more: str
) -> DataFrame:
    """A stream, without the pauses between two looks at the brokers."""
    reader = spark.readStream.format("rocketmq").option("nameServer", cluster.name_server)
    return reader.options(**{"minOffsetPollIntervalMs": "0", **(options or {}), **more}).load()


def places(frame: DataFrame) -> list[Place]:
    """Queue and offset of all rows, sorted."""
    return in_order(frame.select("queueId", "queueOffset").collect())


def in_order(rows: list[Row]) -> list[Place]:
    return sorted((row["queueId"], row["queueOffset"]) for row in rows)


def span(queue_id: int, start: int, end: int) -> list[Place]:
    """All places of a queue from `start` to before `end`."""
    return [(queue_id, offset) for offset in range(start, end)]


def available_now(frame: DataFrame, checkpoint: Path) -> list[list[Place]]:
    """What each micro-batch of a run reads that ends by itself; the first and the last may be empty."""
    batches: list[list[Place]] = []
    query = (
        frame.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(lambda batch, _: batches.append(places(batch)))
        .start()
    )
    query.awaitTermination()
    return batches


@dataclass
class RunningStream:
    """A query that runs, and what it has read."""

    query: StreamingQuery
    batches: list[list[Place]] = field(default_factory=list)

    def wait(self) -> list[Place]:
        """All that it has read when it has read all that is there."""
        self.query.processAllAvailable()
        return sorted(place for batch in self.batches for place in batch)


@contextmanager
def running(frame: DataFrame, checkpoint: Path) -> Iterator[RunningStream]:
    """The query runs inside of the block."""
    batches: list[list[Place]] = []
    query = (
        frame.writeStream.option("checkpointLocation", str(checkpoint))
        .foreachBatch(lambda batch, _: batches.append(places(batch)))
        .start()
    )
    try:
        yield RunningStream(query, batches)
    finally:
        query.stop()


def told(problem: BaseException) -> str:
    """What an error of Spark says that came from the source: the last line of the traceback in it."""
    assert isinstance(problem, PySparkException)
    lines = [line.strip() for line in str(problem).splitlines() if "rocketline." in line and "Error: " in line]
    return lines[-1].partition("Error: ")[2] if lines else str(problem)
