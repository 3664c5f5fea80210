"""How long a message takes through a stream: from when it was stored to the end of the micro-batch that had it.

Messages come at a steady pace while a query runs micro-batch after micro-batch into noop. Afterwards the checkpoint
tells up to which offset each micro-batch reached and when it was committed, and the topic when each message was stored.
"""

from __future__ import annotations

import bisect
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks.kafka_peer import KafkaBroker
from benchmarks.spark_meter import machine_cpu_s
from benchmarks.spark_report import Latency
from rocketline.errors import RocketlineError

RATE: Final = 1000
_BODY_BYTES: Final = 100
_SETTLING_S: Final = 8
"""The first messages are not counted: everything is still being compiled."""
_START_S: Final = 60


@dataclass(frozen=True, slots=True)
class Stream:
    """One system to stream from."""

    frame: DataFrame
    stored: Callable[[], DataFrame]
    """All that the topic has: `queue`, `offset`, `stored_ms`."""
    ends: Callable[[Mapping[str, Any]], Mapping[str, int]]
    """From the offset that Spark keeps: where each queue ends."""
    pace: Callable[[int], list[str]]
    """The command that sends for so many seconds."""


def kafka_stream(spark: SparkSession, kafka: KafkaBroker, topic: str, extra: Mapping[str, str] | None = None) -> Stream:
    def reader(source: Any) -> DataFrame:
        options = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, "startingOffsets": "earliest"}
        options |= extra or {}
        frame: DataFrame = source.format("kafka").options(**options).load()
        return frame

    columns = ("string(partition) AS queue", "offset", "unix_millis(timestamp) AS stored_ms")
    return Stream(
        reader(spark.readStream),
        lambda: reader(spark.read).selectExpr(*columns),
        lambda offset: offset[topic],
        lambda seconds: kafka.pace_command(topic, RATE, seconds, _BODY_BYTES),
    )


def topic_stream(spark: SparkSession, name_servers: str, topic: str) -> Stream:
    def reader(source: Any) -> DataFrame:
        options = {"nameServer": name_servers, "subscribe": topic, "startingOffsets": "earliest"}
        frame: DataFrame = source.format("rocketmq").options(**options).load()
        return frame

    columns = ("string(queueId) AS queue", "queueOffset AS offset", "unix_millis(storeTimestamp) AS stored_ms")
    return Stream(
        reader(spark.readStream.option("minOffsetPollIntervalMs", "10")),
        lambda: reader(spark.read).selectExpr(*columns),
        lambda offset: next(iter(offset["queues"][topic].values()), {}) if offset["queues"] else {},
        lambda seconds: [
            sys.executable, "-m", "benchmarks.load.paced", name_servers, topic,
            str(RATE), str(seconds), str(_BODY_BYTES),
        ],
    )  # fmt: skip


def measure(spark: SparkSession, stream: Stream, topic: str, checkpoint: Path, seconds: int) -> Latency:
    """Stream for so many seconds, and see how late messages were."""
    writer = stream.frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="0 seconds").start()
    deadline_s = time.monotonic() + _START_S
    while not (checkpoint / "commits" / "0").exists():
        if not query.isActive or time.monotonic() > deadline_s:
            raise RocketlineError(f"the stream of {topic} did not begin: {query.exception() or query.status}")
        time.sleep(0.1)
    busy_s, began_s = machine_cpu_s(), time.monotonic()
    subprocess.run(stream.pace(_SETTLING_S + seconds), check=True)
    cores = (machine_cpu_s() - busy_s) / (time.monotonic() - began_s)
    query.processAllAvailable()
    query.stop()
    return _evaluate(checkpoint, stream, cores)


def _evaluate(checkpoint: Path, stream: Stream, cores: float) -> Latency:
    reached: dict[str, tuple[list[int], list[float]]] = {}
    numbers = sorted(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    for number in numbers:
        committed_ms = (checkpoint / "commits" / str(number)).stat().st_ctime * 1000  # when it was renamed to its name
        offset = json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[-1])
        for queue, end in stream.ends(offset).items():
            ends, times = reached.setdefault(queue, ([], []))
            ends.append(end)
            times.append(committed_ms)
    rows = stream.stored().collect()
    first_ms = min(row.stored_ms for row in rows)
    late = sorted(
        times[bisect.bisect_right(ends, row.offset)] - row.stored_ms
        for row in rows
        if row.stored_ms - first_ms >= _SETTLING_S * 1000
        for ends, times in [reached[row.queue]]
    )
    return Latency(late[len(late) // 2], late[len(late) * 99 // 100], len(late), len(numbers), cores)
