from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rocketline.errors import ConfigError
from rocketline.spark.schema import COLUMNS, FULL_SCHEMA, MESSAGE_TYPES, arrow_schema, wanted_columns
from rocketline.spark.sources.cluster_tables import TABLE_TYPES

_TYPES: dict[str, DataType] = {
    "string": StringType(), "int": IntegerType(), "bigint": LongType(), "binary": BinaryType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(), "map<string,string>": MapType(StringType(), StringType()),
    "array<string>": ArrayType(StringType()),
}  # fmt: skip


def struct(types: dict[str, str]) -> StructType:
    return StructType([StructField(name, _TYPES[type_name]) for name, type_name in types.items()])


def problems(schema: StructType) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        wanted_columns(schema)
    return raised.value.problems


def test_there_are_thirteen_columns() -> None:
    assert FULL_SCHEMA == (
        "topic string, brokerName string, queueId int, queueOffset bigint, msgId string, tags string, keys string, "
        "body binary, properties map<string,string>, flag int, bornTimestamp timestamp, storeTimestamp timestamp, "
        "reconsumeTimes int"
    )


@pytest.mark.parametrize("types", [dict(MESSAGE_TYPES), *(dict(types) for types in TABLE_TYPES.values())])
def test_arrow_has_what_spark_wants(types: dict[str, str]) -> None:
    assert arrow_schema(tuple(types), types) == to_arrow_schema(struct(types), timezone="UTC")


def test_a_schema_may_name_some_columns_in_any_order() -> None:
    assert wanted_columns(struct({"body": "binary", "queueOffset": "bigint"})) == ("body", "queueOffset")
    assert wanted_columns(struct(dict(MESSAGE_TYPES))) == COLUMNS


def test_wrong_columns_are_all_told_with_what_would_be_right() -> None:
    schema = StructType(
        [
            StructField("queueid", IntegerType()),
            StructField("value", BinaryType()),
            StructField("body", StringType()),
            StructField("bornTimestamp", TimestampNTZType()),
            StructField("flag", IntegerType(), nullable=False),
            StructField("tags", StringType()),
            StructField("tags", StringType()),
        ]
    )
    *found, last = problems(schema)
    assert found == [
        "there is no column queueid: did you mean queueId?",
        "there is no column value",
        "column body is binary, not string",
        "column bornTimestamp is timestamp, not timestamp_ntz",
        "column flag may be null: declare it without NOT NULL",
        "column tags is there 2 times: once is enough",
    ]
    assert last == f"a schema may name any of: {FULL_SCHEMA}"


def test_a_schema_without_columns_is_told() -> None:
    assert problems(StructType([]))[0] == "the schema has no columns"


def test_values_of_a_map_that_must_not_be_null_are_told() -> None:
    schema = StructType([StructField("properties", MapType(StringType(), StringType(), valueContainsNull=False))])
    assert problems(schema)[0] == "column properties may be null: declare it without NOT NULL"
