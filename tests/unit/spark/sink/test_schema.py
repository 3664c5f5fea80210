from __future__ import annotations

import pytest
from pyspark.sql.types import DataType, IntegerType, MapType, StringType, StructType

from rocketline.errors import ConfigError
from rocketline.spark.sink.schema import check_columns

_MAPS: dict[str, DataType] = {
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def _schema(*columns: str) -> StructType:
    schema = StructType()
    for column in columns:
        name, _, kind = column.partition(" ")
        schema = schema.add(name, _MAPS.get(kind, kind))
    return schema


@pytest.mark.parametrize(
    "columns",
    [
        ["body binary"],
        ["body string", "topic string"],
        [
            "body binary", "topic string", "tags string", "keys string", "properties map<string,string>",
            "shardingKey string", "deliverTimestamp timestamp",
        ],
        ["body binary", "deliverTimestamp long"],
    ],
)  # fmt: skip
def test_frame_with_known_columns_can_be_written(columns: list[str]) -> None:
    check_columns(_schema(*columns), "orders")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (["tags string"], "there is no column body"),
        (["body integer"], "column body is int: binary or string is wanted"),
        (["body string", "tag string"], "column tag: .*did you mean tags"),
        (["body string", "shardingkey string"], "did you mean shardingKey"),
        (["body string", "price double"], "column price: a message has none of this name. Leave it out"),
        (["body string", "properties map<string,int>"], "map<string,string> is wanted"),
        (["body string", "deliverTimestamp date"], "timestamp, or bigint"),
        (["body string", "body string"], "there are 2 of this name"),
    ],
)
def test_wrong_column_is_named_with_what_is_wanted(columns: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_columns(_schema(*columns), "orders")


def test_topic_is_an_option_or_a_column() -> None:
    check_columns(_schema("body string", "topic string"), None)
    with pytest.raises(ConfigError, match="which topic"):
        check_columns(_schema("body string"), None)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        check_columns(_schema("body integer", "keys integer"), None)
    assert len(raised.value.problems) == 3
