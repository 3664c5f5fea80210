"""Pipelines for tests with a real Spark: orders are sent, landed, and looked at."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from pyspark.sql import DataFrame, Row, SparkSession

from rocketline import Message, Producer
from rocketline.cli.commands import rocketline
from rocketline.pipelines.definition import Pipeline
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.proof.compare import OffsetFindings
from rocketline.pipelines.proof.verify import verify
from rocketline.pipelines.runs.run import run
from rocketline.pipelines.tables.reading import read_table
from support.pipelines.lake_tables import _iceberg_threads_end as _iceberg_threads_end


@dataclass(frozen=True, slots=True)
class Trial:
    """A pipeline's file with the Spark that it is tried on."""

    spark: SparkSession
    file: Path

    @property
    def pipeline(self) -> Pipeline:
        return load(self.file)

    def run(self) -> None:
        run(self.pipeline, self.spark)

    def rows(self, table: str) -> DataFrame:
        return read_table(self.spark, self.pipeline.table(table))

    def values(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """A table's rows, sorted."""
        return sorted(tuple(row) for row in self.rows(table).select(*columns).collect())

    def verdict(self, step: str = "raw", *, asks_broker: bool = False) -> OffsetFindings:
        (found,) = verify(self.pipeline, self.spark, steps=[step], asks_broker=asks_broker)
        return found


def send(address: str, topic: str, bodies: Iterable[bytes | dict[str, Any]], *, tags: Sequence[str] = ()) -> None:
    """Send messages, to the topic's queues in turn; tags likewise."""
    with Producer(address, group="trial") as producer:
        for number, body in enumerate(bodies):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            tag = tags[number % len(tags)] if tags else None
            producer.send(Message(topic, data, tags=tag, keys=[f"key-{number}"], properties={"number": str(number)}))


def messages(spark: SparkSession, address: str, topic: str) -> list[Row]:
    """All messages of a topic, by queue and offset."""
    options = {"nameServer": address, "subscribe": topic}
    return spark.read.format("rocketmq").options(**options).load().orderBy("queueId", "queueOffset").collect()


def command(*words: object) -> Result:
    """`rocketline pipeline …`, in this process, with the session that is there."""
    return CliRunner().invoke(rocketline, ["pipeline", *map(str, words)], catch_exceptions=False)
