"""Frames and streams written to topics: `df.write.format("rocketmq")` and `df.writeStream.format("rocketmq")`.

At least once: a task succeeds when brokers have acknowledged each of its rows. A task that fails, and a micro-batch
that is run again, have sent some rows already and send them once more, with the same property SPARK_ID: whoever reads
the topic can tell. Everything that can be known to be wrong is one error on the driver, before any task.

These objects travel between processes, so they hold plain values. Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import os
import random
import socket
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rocketline.clock import SystemClock
from rocketline.errors import ConfigError, TransportError
from rocketline.logs import Log
from rocketline.net.address import local_address
from rocketline.spark.options.source_and_sink import SinkOptions
from rocketline.spark.sink.schema import DELIVER_TIMESTAMP, check_columns
from rocketline.wire.unique_id import UniqueIdGenerator

if TYPE_CHECKING:
    import pyarrow as pa

_log = Log(__name__)


@dataclass(slots=True)
class SendReport(WriterCommitMessage):
    """What one task has sent; all of it is acknowledged."""

    rows: dict[str, int]
    """By topic."""
    bytes: int = 0
    requests: int = 0
    retries: int = 0
    unsafe_rows: int = 0
    """Acknowledged, and not yet as safe as the broker is set up to make them: on its disk, or on a slave."""


class RocketMQArrowWriter(DataSourceArrowWriter):
    """Writes a frame. Every row of it gets a place in the identity `run/-/partition/row`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._run = uuid.uuid4().hex
        """The same for all attempts of this write; another write of the same frame has another."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return send_rows(iterator, self._options, f"{self._run}/-")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _tell(messages, self._options)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _warn(messages)


class RocketMQStreamArrowWriter(DataSourceStreamArrowWriter):
    """Writes a stream. The identity of a row, `query/batch/partition/row`, is the same after a restart."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task()
        query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
        return send_rows(iterator, self._options, f"{query}/{batch}")

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        _tell(messages, self._options, batch=batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _warn(messages, batch=batchId)


def batch_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> RocketMQArrowWriter:
    """The writer of a frame. Raises `ConfigError`, `RouteError`, `TransportError` for whatever is wrong already."""
    check_sink(options, schema, overwrite)
    return RocketMQArrowWriter(options)


def stream_writer(options: SinkOptions, schema: StructType, overwrite: bool) -> RocketMQStreamArrowWriter:
    """The writer of a stream, likewise."""
    check_sink(options, schema, overwrite)
    return RocketMQStreamArrowWriter(options)


def check_sink(options: SinkOptions, schema: StructType, overwrite: bool) -> None:
    """Raise unless rows of this schema can be sent: right columns, servers that answer, a topic, timers if needed."""
    if overwrite:
        advice = 'write with .mode("append"), streams with .outputMode("append") or .outputMode("update")'
        raise ConfigError([f"a topic cannot be overwritten: {advice}"])
    check_columns(schema, options.topic)
    from rocketline.spark.sink.client import shared_client

    client = shared_client(options)  # asked again for every micro-batch, so connections are worth keeping
    is_timed = DELIVER_TIMESTAMP in schema.names
    if options.topic is None:  # each row names its own: its task finds out
        if is_timed:
            _check_masters(client.timers_of_masters())
        else:
            client.check_name_servers()
        return
    client.queues(options.topic)
    try:
        client.ask_again(options.topic)
    except TransportError as error:  # an earlier micro-batch knew the way, and tasks try more than once
        _log.warning("route not renewed", topic=options.topic, problem=error)
    client.queues(options.topic)
    if is_timed and (lacking := client.brokers_without_timers(options.topic)):
        raise _no_timers(lacking)


def _check_masters(timers: Mapping[str, bool]) -> None:
    """Raise `ConfigError` if no master has timers. Where some have, rows may name topics that only these have."""
    lacking = sorted(name for name, has_timers in timers.items() if not has_timers)
    if lacking and len(lacking) == len(timers):
        raise _no_timers(lacking)
    if lacking:
        _log.warning("brokers without timers refuse rows with a deliverTimestamp", brokers=", ".join(lacking))


def _no_timers(lacking: Sequence[str]) -> ConfigError:
    problem = f"broker {', '.join(lacking)} keeps no messages until a given time (Apache's: timerWheelEnable)"
    advice = "leave the column out, or set a delay level by the property DELAY in properties"
    return ConfigError([f"column {DELIVER_TIMESTAMP}: {problem}: {advice}"])


def send_rows(batches: Iterator[pa.RecordBatch], options: SinkOptions, run: str) -> SendReport:
    """Send all rows of a task and wait until they are acknowledged. Runs in an executor's Python worker.

    `run` says which write this is, the same for each attempt of it. Raises `InvalidMessageError` for a row that cannot
    be sent, and `SendFailedError` if brokers did not take one in time.
    """
    from rocketline.spark.sink.client import shared_client
    from rocketline.spark.sink.rows import RowEncoder, RowRules
    from rocketline.spark.sink.task_sender import TaskSender

    client, partition = shared_client(options), _task().partitionId()
    rules = RowRules(
        topic=options.topic,
        partition=partition,
        identity=f"{run}/{partition}" if options.adds_identity else None,
        namespace=client.namespace,
        message_bytes_max=options.message_bytes_max,
        batch_count_max=options.batch_count_max,
    )
    with client, TaskSender(client, options, partition) as sender:
        encoder = RowEncoder(rules, _unique_ids(), client.queues)
        for batch in batches:
            for parcel in encoder.encode(batch):
                sender.send(parcel)
        counts = sender.finish()
    return SendReport(dict(counts.rows), counts.bytes, counts.requests, counts.retries, counts.unsafe_rows)


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    return context


def _unique_ids() -> UniqueIdGenerator:
    ip = local_address()
    packed = socket.inet_pton(socket.AF_INET6 if ":" in ip else socket.AF_INET, ip)
    return UniqueIdGenerator(packed, os.getpid(), random.getrandbits(32), SystemClock())


def _tell(messages: Sequence[WriterCommitMessage | None], options: SinkOptions, **which: object) -> None:
    """Log what all tasks have sent."""
    reports = [message for message in messages if isinstance(message, SendReport)]
    rows = Counter[str]()
    for report in reports:
        rows.update(report.rows)
    requests, retries, unsafe = (
        sum(getattr(report, name) for report in reports) for name in ("requests", "retries", "unsafe_rows")
    )
    for topic, count in sorted(rows.items()):
        _log.info("rows sent", topic=topic, rows=count, **which)
    if retries or unsafe:
        _log.warning("rows sent with difficulty", retries=retries, unsafe_rows=unsafe, requests=requests, **which)


def _warn(messages: Sequence[WriterCommitMessage | None], **which: object) -> None:
    done = sum(isinstance(message, SendReport) for message in messages)
    _log.warning("write failed; what was sent stays sent, and comes again with the same SPARK_ID", tasks=done, **which)
