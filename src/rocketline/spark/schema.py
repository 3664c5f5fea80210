"""The columns of messages, for Spark and for Arrow. All may be null.

A message is identified by (topic, brokerName, queueId, queueOffset). `msgId` is the producer's unique id, or else the
id that tells where the broker stored it.

This module imports neither Spark nor Arrow before it is asked: it is loaded in several processes at every start.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rocketline.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

MESSAGE_TYPES: Final[Mapping[str, str]] = {
    "topic": "string",
    "brokerName": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "msgId": "string",
    "tags": "string",
    "keys": "string",
    "body": "binary",
    "properties": "map<string,string>",
    "flag": "int",
    "bornTimestamp": "timestamp",
    "storeTimestamp": "timestamp",
    "reconsumeTimes": "int",
}
"""The type of each column, as SQL names it."""

COLUMNS: Final[tuple[str, ...]] = tuple(MESSAGE_TYPES)


def ddl(types: Mapping[str, str]) -> str:
    """The columns as SQL declares them.

    >>> ddl({"a": "int", "b": "string"})
    'a int, b string'
    """
    return ", ".join(f"{name} {type_name}" for name, type_name in types.items())


FULL_SCHEMA: Final = ddl(MESSAGE_TYPES)


def wanted_columns(schema: StructType, types: Mapping[str, str] = MESSAGE_TYPES) -> tuple[str, ...]:
    """The columns that a user's schema names, in its order; any of ours, each at most once.

    Raises `ConfigError` that lists every column that is not ours, or not of our type.
    """
    problems: list[str] = []
    names = [field.name for field in schema.fields]
    for field in schema.fields:
        expected = types.get(field.name)
        found = _type_name(field.dataType)
        if expected is None:
            problems.append(_no_such_column(field.name, types))
        elif found != expected:
            problems.append(f"column {field.name} is {expected}, not {found}")
        elif not field.nullable or getattr(field.dataType, "valueContainsNull", True) is False:
            problems.append(f"column {field.name} may be null: declare it without NOT NULL")
        elif names.count(field.name) > 1:
            problems.append(f"column {field.name} is there {names.count(field.name)} times: once is enough")
    if not names:
        problems.append("the schema has no columns")
    if problems:
        known = ", ".join(f"{name} {type_name}" for name, type_name in types.items())
        raise ConfigError([*dict.fromkeys(problems), f"a schema may name any of: {known}"])
    return tuple(names)


def arrow_schema(columns: Sequence[str] = COLUMNS, types: Mapping[str, str] = MESSAGE_TYPES) -> pa.Schema:
    """What Spark wants of a record batch with these columns, exactly."""
    import pyarrow as pa

    by_name = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
        "array<string>": pa.list_(pa.field("element", pa.string())),
    }
    return pa.schema([pa.field(name, by_name[types[name]]) for name in columns])


def _type_name(data_type: DataType) -> str:
    return data_type.simpleString()


def _no_such_column(name: str, types: Iterable[str]) -> str:
    by_key = {known.lower(): known for known in types}
    nearest = difflib.get_close_matches(name.lower(), by_key, n=1, cutoff=0.6)
    hint = f": did you mean {by_key[nearest[0]]}?" if nearest else ""
    return f"there is no column {name}{hint}"
