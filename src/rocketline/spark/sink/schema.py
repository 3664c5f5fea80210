"""The columns that a frame may have when it is written to topics, and what each of them becomes.

Checked on the driver, before any task: a wrong frame is one error that names every wrong column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from rocketline.errors import ConfigError

BODY, TOPIC, TAGS, KEYS, PROPERTIES = "body", "topic", "tags", "keys", "properties"
SHARDING_KEY, DELIVER_TIMESTAMP = "shardingKey", "deliverTimestamp"


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType | VarcharType)


def _is_text_map(kind: DataType) -> bool:
    return isinstance(kind, MapType) and _is_text(kind.keyType) and _is_text(kind.valueType)


@dataclass(frozen=True, slots=True)
class _Column:
    accepts: Callable[[DataType], bool]
    kinds: str
    """As an error tells them."""


_TEXT: Final = _Column(_is_text, "string")
_COLUMNS: Final = {
    BODY: _Column(lambda kind: isinstance(kind, BinaryType) or _is_text(kind), "binary or string"),
    TOPIC: _TEXT,
    TAGS: _TEXT,
    KEYS: _TEXT,
    PROPERTIES: _Column(_is_text_map, "map<string,string>"),
    SHARDING_KEY: _TEXT,
    DELIVER_TIMESTAMP: _Column(
        lambda kind: isinstance(kind, TimestampType | LongType) and not isinstance(kind, TimestampNTZType),
        "timestamp, or bigint of epoch milliseconds",
    ),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise `ConfigError`, with all problems, unless a frame of this schema can be written to topics.

    `topic` is the option of that name, without which there must be a column.
    """
    if problems := list(_problems(schema, topic)):
        raise ConfigError(problems)


def _problems(schema: StructType, topic: str | None) -> Iterator[str]:
    names = schema.names
    for field in schema.fields:
        column = _COLUMNS.get(field.name)
        if column is None:
            yield _unknown(field.name)
        elif names.count(field.name) > 1:
            yield f"column {field.name}: there are {names.count(field.name)} of this name"
        elif not column.accepts(field.dataType):
            yield f"column {field.name} is {field.dataType.simpleString()}: {column.kinds} is wanted"
    if BODY not in names:
        yield "there is no column body: select what is to be sent AS body, for instance to_json(struct(*)) AS body"
    if topic is None and TOPIC not in names:
        yield 'nobody says which topic: set .option("topic", …), or add a column topic'


def _unknown(name: str) -> str:
    near = get_close_matches(name.lower(), [known.lower() for known in _COLUMNS], n=1, cutoff=0.75)
    meant = next((known for known in _COLUMNS if near and known.lower() == near[0]), None)
    hint = f"; did you mean {meant}?" if meant else "."
    return f"column {name}: a message has none of this name{hint} Leave it out, or put it into body or properties"
