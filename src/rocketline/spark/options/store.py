"""What `format("rocketmq-store")` can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketline.client.consumer.subscriptions import ALL, parse_subscription
from rocketline.errors import ClientError
from rocketline.spark.options.reader import OptionReader
from rocketline.spark.options.table import BATCH, CLIENT_PREFIX, Option

_ROWS: Final = (
    (
        "path",
        "",
        "required: the folder of the store (storePathRootDir), or of its log alone; executors must see it",
    ),
    ("commitLogPath", "", "the folder of the log, if it is not commitlog in path; several separated by commas"),
    ("subscribe", "", "topics, separated by commas; else all that are not the product's own"),
    ("topic", "", "the same as subscribe, for one topic"),
    ("subscribePattern", "", "a regular expression that whole topic names must match"),
    ("includeSystemTopics", "false", "read the product's own topics too: delayed and half messages, timers, traces"),
    ("tags", "*", "read messages with one of these tags only: A || B"),
    ("startingTimestamp", "", "leave out messages stored before this time, in ms since 1970"),
    ("endingTimestamp", "", "leave out messages stored at this time, in ms since 1970, or later"),
    ("brokerName", "", "what the column brokerName says; else the name in config/topics.json, or null"),
    (
        "failOnDataLoss",
        "true",
        "false: go on, with a warning, behind what cannot be read, and search the log for topics that the folder "
        "does not know (any more)",
    ),
    ("maxBytesPerPartition", "67108864", "the most bytes of the log that one task reads, if the log can be cut there"),
    ("minPartitions", "", "at least so many tasks, if the log can be cut that often"),
)

OPTIONS: Final = tuple(Option(name, BATCH, default, meaning) for name, default, meaning in _ROWS)
BY_KEY: Final = {option.key: option for option in OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How to read a store. Plain values: it can be pickled."""

    path: str
    log_paths: tuple[str, ...] = ()
    """Empty: commitlog in `path`, or `path` itself."""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    with_system_topics: bool = False
    tags: tuple[str, ...] = ()
    """Empty: all."""
    start_ms: int | None = None
    end_ms: int | None = None
    broker_name: str | None = None
    fail_on_data_loss: bool = True
    partition_bytes_max: int = 64 * 2**20
    min_partitions: int | None = None
    unknown: tuple[str, ...] = ()
    """Options that nobody knows, to be logged."""


def store_options(given: Mapping[str, str]) -> StoreOptions:
    """What a read was told. Raises `ConfigError` that lists all that is wrong."""
    clients = tuple(sorted(key for key in given if key.lower().startswith(CLIENT_PREFIX)))
    reader = OptionReader({key: value for key, value in given.items() if key not in clients}, BY_KEY)
    start_ms, end_ms = reader.whole_or_none("startingTimestamp", low=0), reader.whole_or_none("endingTimestamp", low=0)
    if start_ms is not None and end_ms is not None and start_ms > end_ms:
        reader.problem(f"startingTimestamp={start_ms} is after endingTimestamp={end_ms}")
    options = StoreOptions(
        path=reader.required("path", "name the store's folder, as in .load(folder)"),
        log_paths=tuple(path.strip() for path in reader.text("commitLogPath").split(",") if path.strip()),
        topics=_topics(reader),
        pattern=reader.pattern("subscribePattern"),
        with_system_topics=reader.flag("includeSystemTopics"),
        tags=_tags(reader),
        start_ms=start_ms,
        end_ms=end_ms,
        broker_name=reader.text("brokerName") or None,
        fail_on_data_loss=reader.flag("failOnDataLoss"),
        partition_bytes_max=reader.whole("maxBytesPerPartition", low=1),
        min_partitions=reader.whole_or_none("minPartitions", low=1, high=1_000_000),
        unknown=(*clients, *reader.look_at_unknown()),
    )
    reader.finish()
    return options


def _topics(reader: OptionReader) -> tuple[str, ...]:
    given = [name for name in ("subscribe", "topic", "subscribePattern") if reader.has(name)]
    if len(given) > 1:
        reader.problem(f"{' and '.join(given)} given: one of subscribe (or topic) and subscribePattern is enough")
    names = [name.strip() for option in ("subscribe", "topic") for name in reader.text(option).split(",")]
    topics = tuple(dict.fromkeys(name for name in names if name))
    reader.check_topics(topics)
    return topics


def _tags(reader: OptionReader) -> tuple[str, ...]:
    text = reader.text("tags")
    if text == ALL:
        return ()
    try:
        return tuple(parse_subscription("", text, sub_version=0).tags_set)
    except ClientError:
        reader.problem(f"tags={text!r} names no tag: write A || B, or * for all messages")
        return ()
