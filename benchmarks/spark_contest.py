"""Spark reads from, lands and writes to several systems in turn: the same rows, the same session, the same machine.

Rows have a key, a body of incompressible bytes and one property. All systems hold them in four queues or partitions.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from benchmarks import brokers, spark_latency
from benchmarks.broker_contest import QUEUES
from benchmarks.brokers import Questions
from benchmarks.kafka_peer import KafkaBroker
from benchmarks.spark_meter import Meter, Run
from benchmarks.spark_report import (
    APACHE,
    APACHE_ALL,
    KAFKA,
    LAND,
    OURS,
    OURS_ALL,
    PARQUET,
    PROMPT,
    READ,
    SINK,
    STORE,
    Case,
    Results,
)
from rocketline.testing import apache
from rocketline.testing.server_process import LOOPBACK, ServerProcess, free_port

KAFKA_COLUMNS: Final = (
    "topic string, queueId int, queueOffset bigint, keys string, body binary, properties map<string,string>, "
    "storeTimestamp timestamp"
)
"""What corresponds to Kafka's topic, partition, offset, key, value, headers and timestamp."""
_PROMPT: Final = {"kafka.fetch.max.wait.ms": "10"}
"""Without it, every read of a partition waits half a second at its end."""
_TOPIC, _SINK_TOPIC = "rows", "sink"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    rounds: int = 3
    warm_ups: int = 2
    rows: Mapping[int, int] = field(default_factory=lambda: {100: 1_000_000, 1024: 500_000})
    """By size of body."""
    sink_share: int = 2
    """The part of the rows that is written, one in so many."""
    works: tuple[str, ...] = (READ, LAND, SINK)
    latency_s: int = 30
    """How long messages come at a steady pace; 0: latency is not measured."""
    has_speed: bool = True
    """Whether our broker runs with the `speed` extra."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A name server's address, and the broker's process."""

    name_servers: str
    process: ServerProcess
    store: Path


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that Spark works with."""

    name: str
    action: Callable[[], object]
    broker: ServerProcess | None = None


class Contest:
    """Everything on one session, size by size."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        meter: Meter,
        kafka: KafkaBroker,
        release: apache.Release,
        home: Path,
        console: Console,
    ) -> None:
        self._plan, self._spark, self._meter, self._kafka = plan, spark, meter, kafka
        self._release, self._home, self._console = release, home, console
        self._paths = 0
        self.results = Results()

    def run(self) -> None:
        for body_bytes, rows in self._plan.rows.items():
            with ExitStack() as stack:
                home = self._home / f"{body_bytes}"
                ours, theirs = self._start(home, stack)
                self._compare(body_bytes, rows, ours, theirs, home)
            shutil.rmtree(home)
        if self._plan.latency_s:
            with ExitStack() as stack:
                self._measure_latencies(*self._start(self._home / "latency", stack))

    def _start(self, home: Path, stack: ExitStack) -> tuple[Broker, Broker]:
        """Our broker and Apache's, each with an empty store."""
        name_server = stack.enter_context(apache.ApacheNameServer(self._release, home / "name-server"))
        theirs = brokers.start_apache(self._release, [name_server.address], home / "apache")
        stack.callback(theirs.process.kill)
        port = free_port()
        own = brokers.start_rocketline(home / "ours", has_speed=self._plan.has_speed, name_server_port=port)
        stack.callback(own.process.kill)
        for server in (own, theirs):
            with Questions(server.port) as questions:
                for topic in (_TOPIC, _SINK_TOPIC):
                    questions.create_topic(topic, QUEUES)
        return (
            Broker(f"{LOOPBACK}:{port}", own.process, home / "ours" / "data" / "store"),
            Broker(name_server.address, theirs.process, home / "apache" / "store"),
        )

    # --- rows

    def _compare(self, body_bytes: int, rows: int, ours: Broker, theirs: Broker, home: Path) -> None:
        made, landed = home / "made", str(home / "landed")
        self._console.print(f"Making {rows:,} rows of {body_bytes:,} B, and loading them into three brokers …")
        make_rows(made, rows, body_bytes)
        source = self._spark.read.parquet(str(made))
        kafka_topic, kafka_sink = f"{_TOPIC}-{body_bytes}", f"{_SINK_TOPIC}-{body_bytes}"
        self._kafka.create_topics([kafka_topic, kafka_sink], QUEUES)
        self._write_kafka(source, kafka_topic)
        for broker in (ours, theirs):
            self._write_topic(source, broker, _TOPIC, addIdentity="false")
        self._topic(ours).write.parquet(landed)
        frames: dict[str, tuple[Callable[[], DataFrame], ServerProcess | None]] = {
            KAFKA: (lambda: self._kafka_frame(kafka_topic), self._kafka),
            PROMPT: (lambda: self._kafka_frame(kafka_topic, _PROMPT), self._kafka),
            PARQUET: (lambda: self._spark.read.parquet(landed), None),
            OURS: (lambda: self._topic(ours), ours.process),
            OURS_ALL: (lambda: self._topic(ours, schema=None), ours.process),
            APACHE: (lambda: self._topic(theirs), theirs.process),
            APACHE_ALL: (lambda: self._topic(theirs, schema=None), theirs.process),
            STORE: (lambda: self._store(ours), None),
        }
        for name, (frame, _) in frames.items():
            if (seen := frame().count()) != rows:
                raise ValueError(f"{name} gives {seen:,} of {rows:,} rows")
        if READ in self._plan.works:
            readers = [Contender(name, _lazily(_noop, frame), broker) for name, (frame, broker) in frames.items()]
            self._take_turns(Case(READ, body_bytes), rows, readers)
        if LAND in self._plan.works:
            landers = [Contender(name, _lazily(self._land, frame), broker) for name, (frame, broker) in frames.items()]
            self._take_turns(Case(LAND, body_bytes), rows, landers)
        if SINK in self._plan.works:
            part = source.where(f"int(substring(key, 5)) % {self._plan.sink_share} = 0")
            self._compare_sinks(Case(SINK, body_bytes), part, kafka_sink, ours, theirs)

    def _compare_sinks(self, case: Case, part: DataFrame, kafka_topic: str, ours: Broker, theirs: Broker) -> None:
        part = part.localCheckpoint()  # what is measured is writing, not reading
        writers = [
            Contender(KAFKA, lambda: self._write_kafka(part, kafka_topic), self._kafka),
            Contender(PARQUET, lambda: self._land(lambda: part)),
            Contender(OURS, lambda: self._write_topic(part, ours, _SINK_TOPIC), ours.process),
            Contender(APACHE, lambda: self._write_topic(part, theirs, _SINK_TOPIC), theirs.process),
        ]
        self._take_turns(case, part.count(), writers)

    def _take_turns(self, case: Case, rows: int, contenders: Sequence[Contender]) -> None:
        """Each in every round, in an order that turns around, so that whatever else the machine does hits all alike."""
        for number in range(-self._plan.warm_ups, self._plan.rounds):
            for contender in contenders if number % 2 else reversed(contenders):
                processes = {} if contender.broker is None else {"broker": contender.broker.pid}
                run = self._meter.measure(rows, processes, contender.action)
                self._tell(case, contender, run, number + 1)
                if number >= 0:
                    self.results.add(case, contender.name, run)

    def _tell(self, case: Case, contender: Contender, run: Run, number: int) -> None:
        turn = f"round {number}" if number > 0 else "warm-up"
        costs = ", ".join(f"{side} {run.cpu_us_per_row(side):.2f}" for side in run.cpu_s)
        told = f"{run.rows_per_s:,.0f} rows/s; CPU µs/row: {costs} (others {run.other_cores:.2f} cores)"
        self._console.print(f"{turn}, {case}, {contender.name}: {told}", highlight=False)

    # --- systems

    def _kafka_frame(self, topic: str, options: Mapping[str, str] | None = None) -> DataFrame:
        reader = self._spark.read.format("kafka").option("kafka.bootstrap.servers", self._kafka.address)
        return reader.option("subscribe", topic).option("includeHeaders", "true").options(**(options or {})).load()

    def _topic(self, broker: Broker, schema: str | None = KAFKA_COLUMNS) -> DataFrame:
        reader = self._spark.read.format("rocketmq").option("nameServer", broker.name_servers)
        return (reader if schema is None else reader.schema(schema)).option("subscribe", _TOPIC).load()

    def _store(self, broker: Broker) -> DataFrame:
        reader = self._spark.read.format("rocketmq-store").schema(KAFKA_COLUMNS)
        return reader.option("path", str(broker.store)).option("subscribe", _TOPIC).load()

    def _write_kafka(self, frame: DataFrame, topic: str) -> None:
        headers = "array(struct('source' AS key, binary(source) AS value)) AS headers"
        part = f"pmod(int(substring(key, 5)), {QUEUES}) AS partition"
        writer = frame.selectExpr("binary(key) AS key", "value", headers, part).write.format("kafka")
        options = {"kafka.bootstrap.servers": self._kafka.address, "topic": topic, "includeHeaders": "true"}
        writer.options(**options).mode("append").save()

    def _write_topic(self, frame: DataFrame, broker: Broker, topic: str, **options: str) -> None:
        columns = "key AS keys", "value AS body", "map('source', source) AS properties"
        writer = frame.selectExpr(*columns).write.format("rocketmq").option("nameServer", broker.name_servers)
        writer.option("topic", topic).options(**options).mode("append").save()

    def _land(self, frame: Callable[[], DataFrame]) -> None:
        path = self._path("land")
        frame().write.parquet(str(path))
        shutil.rmtree(path)

    def _path(self, name: str) -> Path:
        self._paths += 1
        return self._home / f"{name}-{self._paths}"

    # --- latency

    def _measure_latencies(self, ours: Broker, theirs: Broker) -> None:
        topic, plan = "latency", self._plan
        self._kafka.create_topics([topic, f"{topic}-prompt"], QUEUES)
        for broker in (ours, theirs):
            with Questions(broker.process.port) as questions:
                questions.create_topic(topic, QUEUES)
        streams = {
            KAFKA: spark_latency.kafka_stream(self._spark, self._kafka, topic),
            PROMPT: spark_latency.kafka_stream(self._spark, self._kafka, f"{topic}-prompt", _PROMPT),
            OURS: spark_latency.topic_stream(self._spark, ours.name_servers, topic),
            APACHE: spark_latency.topic_stream(self._spark, theirs.name_servers, topic),
        }
        for name, stream in streams.items():
            self._console.print(f"Measuring latency: {name}, {plan.latency_s} s …")
            seen = spark_latency.measure(self._spark, stream, topic, self._path("latency"), plan.latency_s)
            self.results.latencies[name] = seen


def make_rows(folder: Path, rows: int, body_bytes: int) -> None:
    """A Parquet folder: rows with a key, bytes that no compression makes smaller, and one of sixteen sources."""
    folder.mkdir(parents=True)
    noise = np.random.default_rng(body_bytes)
    for part, numbers in enumerate(np.array_split(np.arange(rows), QUEUES)):
        offsets = np.arange(0, (len(numbers) + 1) * body_bytes, body_bytes, dtype=np.int32)
        bodies = [None, pa.py_buffer(offsets), pa.py_buffer(noise.bytes(len(numbers) * body_bytes))]
        columns = {
            "key": pa.array([f"key-{number}" for number in numbers]),
            "value": pa.Array.from_buffers(pa.binary(), len(numbers), bodies),
            "source": pa.array([f"load-{number % 16}" for number in numbers]),
        }
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet")


def _noop(frame: Callable[[], DataFrame]) -> None:
    frame().write.format("noop").mode("overwrite").save()


def _lazily(action: Callable[[Callable[[], DataFrame]], None], frame: Callable[[], DataFrame]) -> Callable[[], None]:
    """A frame keeps the range that it was planned with, so each run makes its own."""
    return lambda: action(frame)
