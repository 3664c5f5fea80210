"""What a read or a write was told, checked: no I/O, and all problems at once.

    options = source_options({"nameServer": "127.0.0.1:9876", "subscribe": "orders"}, is_stream=False)
    options.topics, options.starting.word

These values travel to executors, so they are plain: they can be pickled and compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rocketline.client.consumer.subscriptions import ALL, MessageSelector, by_sql, by_tags, parse_subscription
from rocketline.client.validation import check_topic_to_send
from rocketline.errors import ClientError, InvalidFilterError, InvalidNameError
from rocketline.model.names import group_problem
from rocketline.model.queue import MessageQueue
from rocketline.spark.options.client import ClientSettings as ClientSettings
from rocketline.spark.options.client import client_settings
from rocketline.spark.options.reader import OptionReader
from rocketline.spark.options.table import BATCH, BY_KEY, SINK, STREAM
from rocketline.spark.queue_json import parse_assignment, parse_numbers, shown

EARLIEST, LATEST, GROUP = "earliest", "latest", "group"
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1
MESSAGES: Final = "messages"
TABLES: Final = (MESSAGES, "offsets", "topics", "groups")
TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""A group that every broker has: reading as nobody in particular leaves no new group behind."""
_PULL_COUNT_MAX: Final = 2**31 - 1
_BATCH_BYTES_MAX: Final = 15 * 2**20
"""A frame has 16 MiB at most."""
_BATCH_MESSAGES_MAX: Final = 2**15 - 1
"""Brokers count the messages of a batch in two bytes."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where queues begin, or end: at a time, at a time for each, at an offset for each, or what `word` says.

    The first of these that is there counts.
    """

    word: str
    """`earliest`, `latest` or `group`."""
    time_ms: int | None = None
    times_ms: Mapping[MessageQueue, int] | None = None
    offsets: Mapping[MessageQueue, int] | None = None
    """-2 is the earliest, -1 the latest."""
    is_latest_if_none: bool = True
    """If no message is as new as the time: the end of the queue. False: an error."""

    @property
    def named(self) -> Mapping[MessageQueue, int] | None:
        """The queues that were named one by one, with their times or offsets; None if the position is for all."""
        if self.time_ms is not None:
            return None
        return self.times_ms if self.times_ms is not None else self.offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How to read. Topics and groups are as users name them; `client.on_wire` makes them what brokers know."""

    client: ClientSettings
    table: str = MESSAGES
    # --- what: one of the next three
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression for whole names."""
    assignment: tuple[MessageQueue, ...] = ()
    tags: str = ALL
    sql: str | None = None
    # --- from where to where
    starting: Position
    ending: Position = field(default_factory=lambda: Position(LATEST))
    fail_on_data_loss: bool = True
    # --- how much at once
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_max_s: float = 900.0
    min_partitions: int | None = None
    records_per_partition_max: int | None = None
    records_per_partition_min: int = 5000
    # --- who
    group: str = TOOLS_GROUP
    commits_offsets: bool = False
    # --- asking brokers
    pull_count_max: int = 1000
    pull_timeout_s: float = 3.0
    fetch_retries: int = 3
    fetch_retry_interval_s: float = 1.0
    poll_interval_s: float = 0.2
    route_ttl_s: float = 30.0
    # --- to be logged
    unknown: tuple[str, ...] = ()
    """Options that nobody knows, or that mean nothing for this use."""

    @property
    def group_on_wire(self) -> str:
        """The group as brokers know it: the one for nobody in particular is in no namespace."""
        return self.group if self.group == TOOLS_GROUP else self.client.on_wire(self.group)

    @property
    def selector(self) -> MessageSelector:
        """What chooses among messages."""
        return by_sql(self.sql) if self.sql else by_tags(self.tags)

    @property
    def is_filtered(self) -> bool:
        """A pull may bring fewer messages than there are offsets."""
        return self.sql is not None or self.tags != ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """How to write."""

    client: ClientSettings
    topic: str | None = None
    """The topic of all rows; None: each row says its own."""
    group: str = "rocketline_spark"
    send_timeout_s: float = 3.0
    retries: int = 2
    message_bytes_max: int = 4 * 2**20
    batch_count_max: int = 256
    in_flight_max: int = 8
    adds_identity: bool = True
    unknown: tuple[str, ...] = ()
    """Options that nobody knows, or that mean nothing for a sink; to be logged."""


def source_options(given: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """What a read was told. Raises `ConfigError` that lists all that is wrong."""
    reader = OptionReader(given, BY_KEY)
    table = reader.choice("table", TABLES)
    if is_stream:
        _refuse_in_streams(reader, table)
    topics, pattern, assignment = _what(reader, is_needed=table == MESSAGES)
    group = reader.text("consumerGroup")
    if problem := group_problem(group):
        reader.problem(f"consumerGroup={group!r}: {problem}")
    options = SourceOptions(
        client=client_settings(reader),
        table=table,
        topics=topics,
        pattern=pattern,
        assignment=assignment,
        tags=_tags(reader),
        sql=_sql(reader),
        starting=_starting(reader, is_stream=is_stream),
        ending=_ending(reader),
        fail_on_data_loss=reader.flag("failOnDataLoss"),
        offsets_per_trigger_max=reader.whole_or_none("maxOffsetsPerTrigger", low=1),
        offsets_per_trigger_min=reader.whole_or_none("minOffsetsPerTrigger", low=1),
        trigger_delay_max_s=reader.duration("maxTriggerDelay"),
        min_partitions=reader.whole_or_none("minPartitions", low=1, high=1_000_000),
        records_per_partition_max=reader.whole_or_none("maxRecordsPerPartition", low=1),
        records_per_partition_min=reader.whole("minRecordsPerPartition", low=0),
        group=group,
        commits_offsets=reader.flag("commitOffsetsToBroker"),
        pull_count_max=reader.whole("pullBatchSize", low=1, high=_PULL_COUNT_MAX),
        pull_timeout_s=reader.milliseconds("pullTimeoutMs"),
        fetch_retries=reader.whole("fetchOffset.numRetries", low=0, high=1_000_000),
        fetch_retry_interval_s=reader.milliseconds("fetchOffset.retryIntervalMs", low=0),
        poll_interval_s=reader.milliseconds("minOffsetPollIntervalMs", low=0),
        route_ttl_s=reader.milliseconds("partition.metadata.cache.ttl.ms", low=0),
        unknown=(*reader.look_at_unknown(), *reader.unused(STREAM if is_stream else BATCH)),
    )
    _compare(options, reader)
    reader.finish()
    return options


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """What a write was told. Raises `ConfigError` that lists all that is wrong."""
    reader = OptionReader(given, BY_KEY)
    topic = reader.text("topic") or None
    if topic:
        try:
            check_topic_to_send(topic)
        except InvalidNameError as error:
            reader.problem(f"topic={topic!r}: {error.problem}")
    group = reader.text("producerGroup")
    if problem := group_problem(group):
        reader.problem(f"producerGroup={group!r}: {problem}")
    options = SinkOptions(
        client=client_settings(reader),
        topic=topic,
        group=group,
        send_timeout_s=reader.milliseconds("sendTimeoutMs"),
        retries=reader.whole("retryTimesWhenSendFailed", low=0, high=1000),
        message_bytes_max=reader.whole("maxMessageSize", low=1, high=_BATCH_BYTES_MAX),
        batch_count_max=reader.whole("sendBatchSize", low=1, high=_BATCH_MESSAGES_MAX),
        in_flight_max=reader.whole("maxInFlight", low=1, high=10_000),
        adds_identity=reader.flag("addIdentity"),
        unknown=(*reader.look_at_unknown(), *reader.unused(SINK)),
    )
    reader.finish()
    return options


# --- what to read


def _what(reader: OptionReader, *, is_needed: bool) -> tuple[tuple[str, ...], str | None, tuple[MessageQueue, ...]]:
    given = [name for name in ("subscribe", "topic", "subscribePattern", "assign") if reader.has(name)]
    if len(given) > 1 or (is_needed and not given):
        reader.problem(
            f"{' and '.join(given) or 'neither subscribe nor subscribePattern nor assign'} given: one of subscribe"
            " (or topic), subscribePattern and assign is wanted"
        )
    topics = tuple(dict.fromkeys(name.strip() for name in reader.text("subscribe").split(",") if name.strip()))
    topics = topics or tuple(name for name in [reader.text("topic")] if name)
    assignment: tuple[MessageQueue, ...] = ()
    if text := reader.text("assign"):
        try:
            assignment = parse_assignment(text)
        except ValueError as error:
            reader.problem(f"assign: {error}")
    reader.check_topics((*topics, *(queue.topic for queue in assignment)))
    return topics, reader.pattern("subscribePattern"), assignment


def _tags(reader: OptionReader) -> str:
    tags = reader.text("tags")
    try:
        parse_subscription("", tags, sub_version=0)
    except ClientError:
        reader.problem(f"tags={tags!r} names no tag: write A || B, or * for all messages")
    return tags


def _sql(reader: OptionReader) -> str | None:
    sql = reader.text("sql") or None
    if sql and reader.text("tags") != ALL:
        reader.problem("sql and tags exclude each other: an expression may compare TAGS")
    if sql:
        try:
            parse_subscription("", by_sql(sql), sub_version=0)
        except InvalidFilterError as error:
            reader.problem(f"sql={sql[:200]!r}: {error.problem}")
    return sql


# --- from where to where


def _starting(reader: OptionReader, *, is_stream: bool) -> Position:
    words = (EARLIEST, LATEST, GROUP) if is_stream else (EARLIEST, GROUP)
    default = LATEST if is_stream else EARLIEST
    offsets, word = _offsets(reader, "startingOffsets", words, default, EARLIEST_OFFSET)
    if not is_stream and offsets and LATEST_OFFSET in offsets.values():
        reader.problem("startingOffsets: -1 (latest) would read nothing in a batch; begin at an offset, or at -2")
    return Position(
        word,
        reader.whole_or_none("startingTimestamp", low=0),
        _times(reader, "startingOffsetsByTimestamp"),
        offsets,
        reader.choice("startingOffsetsByTimestampStrategy", ("error", LATEST)) == LATEST,
    )


def _ending(reader: OptionReader) -> Position:
    offsets, word = _offsets(reader, "endingOffsets", (LATEST,), LATEST, LATEST_OFFSET)
    times = _times(reader, "endingOffsetsByTimestamp")
    return Position(word, reader.whole_or_none("endingTimestamp", low=0), times, offsets)


def _offsets(
    reader: OptionReader, name: str, words: tuple[str, ...], default: str, least: int
) -> tuple[dict[MessageQueue, int] | None, str]:
    text = reader.text(name)
    if not text.startswith("{"):
        word = text.lower() or default
        if word not in words:
            reader.problem(f"{name}={text!r}: it must be {', '.join(words)}, or JSON with an offset for each queue")
        return None, word
    return _numbers(reader, name, text, least), default


def _times(reader: OptionReader, name: str) -> dict[MessageQueue, int] | None:
    text = reader.text(name)
    return _numbers(reader, name, text, 0) if text else None


def _numbers(reader: OptionReader, name: str, text: str, least: int) -> dict[MessageQueue, int] | None:
    try:
        numbers = parse_numbers(text)
    except ValueError as error:
        reader.problem(f"{name}: {error}")
        return None
    for queue, number in numbers.items():
        if number < least:
            reader.problem(
                f"{name}: {number} for queue {queue.queue_id} of broker {queue.broker_name!r}, topic {queue.topic!r}:"
                f" it must be at least {least}"
            )
    return numbers


# --- what goes together


def _refuse_in_streams(reader: OptionReader, table: str) -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        reader.refuse(name, "a stream has no end; read a batch, or stop the query")
    if table != MESSAGES:
        reader.problem(f"table={table}: only messages can be a stream; read this one as a batch")


def _compare(options: SourceOptions, reader: OptionReader) -> None:
    least, most = options.offsets_per_trigger_min, options.offsets_per_trigger_max
    if least is not None and most is not None and least > most:
        reader.problem(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    _compare_positions(options.starting, options.ending, reader)
    wants_group = "startingOffsets=group" if options.starting.word == GROUP else ""
    wants_group = "commitOffsetsToBroker=true" if options.commits_offsets else wants_group
    if wants_group and not reader.has("consumerGroup"):
        reader.problem(f"{wants_group} needs consumerGroup")


def _compare_positions(starting: Position, ending: Position, reader: OptionReader) -> None:
    """Positions of the same kind must be in order."""
    begin_ms, end_ms = starting.time_ms, ending.time_ms
    if begin_ms is not None and end_ms is not None and begin_ms > end_ms:
        reader.problem(f"startingTimestamp={begin_ms}, endingTimestamp={end_ms}: a batch that begins after it ends")
    begins, ends = starting.named or {}, ending.named or {}
    if (starting.times_ms is None) == (ending.times_ms is None):
        for queue in sorted(begins.keys() & ends.keys()):
            if 0 <= ends[queue] < begins[queue]:
                where = f"begins at {begins[queue]}, after it ends at {ends[queue]}"
                reader.problem(f"{shown(queue)}: a batch that {where}")
