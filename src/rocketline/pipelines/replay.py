"""`replay`: what was kept is sent again, to a topic of one's choice, at a rate of one's choice.

A message goes out as its producer sent it: body, flag, tags, keys, properties. What RocketMQ adds is made anew, and
`REPLAY_OF` names the message that it is a copy of, so that whoever consumes both can tell. Messages of one queue stay
in their order: each queue of the origin is sent to one queue of the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rocketline.admin.messages import of_the_application
from rocketline.errors import ConfigError, PipelineError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.pipelines.definition import TableTarget
from rocketline.pipelines.pacing import Pace
from rocketline.pipelines.tables.reading import read_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from rocketline.client.sync.producer import Producer

REPLAY_OF: Final = "REPLAY_OF"
_COLUMNS: Final = ("msgId", "body", "properties", "brokerName", "queueId", "queueOffset", "storeTimestamp")
_FLAG: Final = "flag"
_ORDER: Final = ("storeTimestamp", "brokerName", "queueId", "queueOffset")
_BATCH_COUNT: Final = 64
_BATCH_BYTES: Final = 1024**2
_OVERHEAD_BYTES: Final = 200
_BATCHES_PER_S: Final = 10
"""At a low rate, batches are so small that messages come evenly all the same."""
_WINDOW_COUNT, _WINDOW_BYTES = 1024, 16 * 1024**2
"""How many messages are looked at together to make batches of them: how far from their order they may come."""
_PIECE_ROWS: Final = 50_000
_PIECE_BYTES: Final = 32 * 1024**2
"""What the driver holds of the table at a time; Spark fetches the next piece meanwhile."""


@dataclass(frozen=True, slots=True)
class ReplayParcel:
    """Messages of one queue of the origin, in order, that are sent as one batch."""

    origin: tuple[str, int]
    """The broker and the number of the queue that they came from."""
    messages: list[Message]


def table_messages(
    spark: SparkSession, target: TableTarget, *, begin_ms: int | None = None, end_ms: int | None = None
) -> DataFrame:
    """The messages of a landed table, of all times or of those between two, by when they were stored."""
    from pyspark.sql import functions as f

    rows = read_table(spark, target)
    missing = [name for name in _COLUMNS if name not in rows.columns]
    if missing:
        raise ConfigError([f"table {target.path} has no column {missing[0]!r}: only whole messages can be sent again"])
    stored = f.unix_millis("storeTimestamp")
    if begin_ms is not None:
        rows = rows.where(stored >= begin_ms)
    if end_ms is not None:
        rows = rows.where(stored < end_ms)
    return rows.select(*_COLUMNS, _flag(rows))


def _flag(rows: DataFrame) -> Column:
    """The producer's own number; 0 in a table that was made without it."""
    from pyspark.sql import functions as f

    return f.col(_FLAG) if dict(rows.dtypes).get(_FLAG) == "int" else f.lit(0).alias(_FLAG)


def topic_messages(
    spark: SparkSession, options: Mapping[str, str], *, begin_ms: int | None = None, end_ms: int | None = None
) -> DataFrame:
    """The messages of a topic that are still there, likewise. `options` are those of the source."""
    times = {"startingTimestamp": begin_ms, "endingTimestamp": end_ms}
    given = {name: str(time_ms) for name, time_ms in times.items() if time_ms is not None}
    if begin_ms is not None:
        given["startingOffsetsByTimestampStrategy"] = "latest"
    return spark.read.format("rocketmq").options(**options, **given).load().select(*_COLUMNS, _FLAG)


def replay(
    rows: DataFrame,
    producer: Producer,
    topic: str,
    *,
    rate: float | None = None,
    tell: Callable[[int], None],
    begin: Callable[[int], None] = lambda count: None,
) -> int:
    """Send the messages, oldest first, `rate` a second; how many there were.

    `begin` hears how many there will be, `tell` of each batch's size. Raises `RocketlineError` if one cannot be sent:
    those before it have been.
    """
    from pyspark.sql import functions as f

    queues = producer.queues(topic)
    if not queues:
        raise PipelineError(f"topic {topic!r} has no queue to send to")
    count, size = rows.agg(f.count("*"), f.coalesce(f.sum(f.length("body")), f.lit(0))).collect()[0]
    begin(count)
    pieces = max(1, math.ceil(count / _PIECE_ROWS), math.ceil(size / _PIECE_BYTES))
    ordered = rows.repartitionByRange(pieces, *_ORDER).sortWithinPartitions(*_ORDER)
    pace, sent = Pace(rate), 0
    count_max = _BATCH_COUNT if rate is None else max(1, min(_BATCH_COUNT, int(rate / _BATCHES_PER_S)))
    for parcel in parcels(ordered.toLocalIterator(prefetchPartitions=True), topic, count_max=count_max):
        pace.wait_for(len(parcel.messages))
        producer.send(parcel.messages, queue=target_queue(parcel.origin, queues))
        sent += len(parcel.messages)
        tell(len(parcel.messages))
    return sent


def parcels(rows: Iterable[Any], topic: str, *, count_max: int = _BATCH_COUNT) -> Iterator[ReplayParcel]:
    """Rows as batches: each of one queue, none too large, in the order of its rows; those of others nearly so."""
    for window in _windows(rows, _WINDOW_COUNT if count_max > 1 else 1):
        open_parcels: dict[tuple[str, int], tuple[list[Message], int]] = {}
        for row in window:
            origin = (row.brokerName, row.queueId)
            message, size = message_of(row, topic), _size(row)
            messages, held = open_parcels.get(origin, ([], 0))
            if messages and (len(messages) == count_max or held + size > _BATCH_BYTES):
                yield ReplayParcel(origin, messages)
                messages, held = [], 0
            messages.append(message)
            open_parcels[origin] = (messages, held + size)
        for origin, (messages, _) in open_parcels.items():
            yield ReplayParcel(origin, messages)


def _windows(rows: Iterable[Any], count_max: int) -> Iterator[list[Any]]:
    window: list[Any] = []
    held = 0
    for row in rows:
        window.append(row)
        held += _size(row)
        if len(window) == count_max or held > _WINDOW_BYTES:
            yield window
            window, held = [], 0
    if window:
        yield window


def _size(row: Any) -> int:
    return len(row.body) + _OVERHEAD_BYTES


def message_of(row: Any, topic: str) -> Message:
    """A row of a landed table as its producer sent it."""
    kept = of_the_application(row.properties or {})
    return Message.of(topic, bytes(row.body), {**kept, REPLAY_OF: row.msgId}, row.flag or 0)


def target_queue(origin: tuple[str, int], queues: list[MessageQueue]) -> MessageQueue:
    """Where a queue's messages go: always the same one, and neighbours to neighbours."""
    broker, queue_id = origin
    return sorted(queues)[(queue_id + sum(broker.encode())) % len(queues)]
