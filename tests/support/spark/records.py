"""Stored messages for tests of the Spark connector, and rows as consumers would see them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from rocketline.client.received_message import ReceivedMessage, decode_messages
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import Message, StoredMessage
from rocketline.model.queue import MessageQueue
from rocketline.model.sys_flags import INNER_BATCH, NEED_UNWRAP, CompressionType
from rocketline.spark.decoding.columns import Decoded, PulledRun, RunOrigin, decode
from rocketline.spark.schema import COLUMNS
from rocketline.wire.batch import encode_batch
from rocketline.wire.compression import compress
from rocketline.wire.message_codec import encode_record

QUEUE = MessageQueue("orders", "broker-a", 1)
ORIGIN = RunOrigin(QUEUE, "orders")
HOST = HostAddress.parse("127.0.0.1:10911")
IPV6_HOST = HostAddress(bytes(15) + b"\x01", 10911)
TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
_UNWRAPS = NEED_UNWRAP | INNER_BATCH


def stored(
    offset: int, body: bytes = b"hello", *, topic: str = "orders", queue_id: int = 1, **properties: str
) -> StoredMessage:
    """Message number `offset` of a queue, with a unique id of its own unless `properties` have another."""
    return StoredMessage(
        topic=topic,
        body=body,
        properties={"UNIQ_KEY": f"{offset:032X}", **properties},
        flag=offset % 7,
        queue_id=queue_id,
        queue_offset=QueueOffset(offset),
        log_offset=LogOffset(1000 * offset),
        sys_flag=0,
        born_ms=1_700_000_000_000 + offset,
        born_host=HOST,
        store_ms=1_700_000_000_100 + offset,
        store_host=HOST,
        reconsume_times=offset % 3,
        prepared_log_offset=LogOffset(0),
        version=1,
    )


def compressed(message: StoredMessage, kind: CompressionType) -> StoredMessage:
    message.body, message.sys_flag = compress(message.body, kind), message.sys_flag | kind.sys_flag
    return message


def inner_batch(first: int, count: int) -> StoredMessage:
    """Messages `first` and following, stored as one."""
    members = [
        Message.of("orders", f"inner {number}".encode(), {"UNIQ_KEY": f"I{number}", "TAGS": "inner"}, number)
        for number in range(first, first + count)
    ]
    batch = stored(first, encode_batch(members), INNER_NUM=str(count))
    batch.sys_flag = NEED_UNWRAP | INNER_BATCH
    return batch


def run(messages: Sequence[StoredMessage], low: int = 0, high: int = 2**62, origin: RunOrigin = ORIGIN) -> PulledRun:
    """What a pull would have brought."""
    return PulledRun(origin, b"".join(map(encode_record, messages)), low, high)


def decode_at_once(runs: Sequence[PulledRun], columns: Sequence[str], tags: Collection[str] = ()) -> Decoded:
    """What is decoded in one part, as nearly everything is."""
    (decoded,) = decode(runs, columns, tags)
    return decoded


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with times in microseconds and properties as a dictionary."""
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    rows: list[dict[str, Any]] = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
    return [row | {"properties": dict(row["properties"])} if "properties" in row else row for row in rows]


def expected_rows(runs: Sequence[PulledRun], columns: Sequence[str] = COLUMNS) -> list[dict[str, Any]]:
    """The rows of the same pulls by way of consumers' messages, one by one."""
    return [
        {name: value for name, value in _row(one, message).items() if name in columns}
        for one in runs
        for record in _wanted_records(one)
        for message in decode_messages(record, one.origin.queue, offset_delta=one.offset_delta)
        if one.low <= message.queue_offset < one.high
    ]


def _wanted_records(one: PulledRun) -> Iterator[bytes]:
    """Those that may have a message of the run: the others are not looked into, so they may be broken."""
    left = bytes(one.body)
    while left:
        size = int.from_bytes(left[:4], "big")
        record, left = left[:size], left[size:]
        offset = int.from_bytes(record[20:28], "big", signed=True) + one.offset_delta
        is_batch = int.from_bytes(record[36:40], "big") & _UNWRAPS == _UNWRAPS
        if offset < one.high and (offset >= one.low or is_batch):
            yield record


def _row(one: PulledRun, message: ReceivedMessage) -> dict[str, Any]:
    return {
        "topic": one.origin.queue.topic,
        "brokerName": one.origin.queue.broker_name,
        "queueId": one.origin.queue.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.message_id,
        "tags": message.tags,
        "keys": message.properties.get("KEYS"),
        "body": message.body,
        "properties": message.properties,
        "flag": message.flag,
        "bornTimestamp": _microseconds(message.born_ms),
        "storeTimestamp": _microseconds(message.store_ms),
        "reconsumeTimes": message.reconsume_times,
    }


def _microseconds(time_ms: int) -> int | None:
    return time_ms * 1000 if abs(time_ms) <= TIMESTAMP_MS_MAX else None
