"""The slow way, which is always right: messages decoded one by one, as consumers get them, then made columns.

It serves records that `columns` does not decode: compressed bodies, inner batches, records of version 2, odd
properties. And it tells what is wrong with records that are broken: then an error is raised, and no row is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from rocketline.client.received_message import ReceivedMessage, decode_messages
from rocketline.model import property_names
from rocketline.spark.schema import arrow_schema

MS_MAX: Final = (2**63 - 1) // 1000
"""The last millisecond that a timestamp in microseconds can be. Producers' clocks are not asked for reason: what lies
beyond is null."""

_VALUES: Final[dict[str, Callable[[ReceivedMessage], Any]]] = {
    "msgId": lambda message: message.message_id,
    "tags": lambda message: message.tags,
    "keys": lambda message: message.properties.get(property_names.KEYS),
    "body": lambda message: message.body,
    "properties": lambda message: list(message.properties.items()),
    "flag": lambda message: message.flag,
    "bornTimestamp": lambda message: _microseconds(message.born_ms),
    "storeTimestamp": lambda message: _microseconds(message.store_ms),
    "reconsumeTimes": lambda message: message.reconsume_times,
}


def messages_in(record: bytes) -> list[ReceivedMessage]:
    """The messages of one record: several if it is an inner batch. Raises `RemoteProtocolError`."""
    return decode_messages(record)


def message_columns(messages: Sequence[ReceivedMessage], columns: Sequence[str]) -> dict[str, pa.Array]:
    """The columns that a message knows by itself, of those asked for.

    Raises `RemoteProtocolError` for a record that is broken where a column needs it, `MissingExtraError` for a body
    whose compression is not installed.
    """
    fields = {field.name: field.type for field in arrow_schema()}
    return {
        name: pa.array([_VALUES[name](message) for message in messages], fields[name])
        for name in columns
        if name in _VALUES
    }


def _microseconds(time_ms: int) -> int | None:
    return time_ms * 1000 if -MS_MAX <= time_ms <= MS_MAX else None
