"""Bodies become columns, and rows are parted by what is expected of them: on plain DataFrames, without a broker."""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any
from uuid import UUID

import fastavro
import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketline.errors import ConfigError
from rocketline.pipelines.definition import (
    BodyFormat,
    Expectation,
    Otherwise,
    Parsing,
    Quarantine,
    Step,
    TableFormat,
    TableTarget,
)
from rocketline.pipelines.steps import expectations

pytestmark = pytest.mark.interop  # for the time that they take: they need nothing but Python

TARGET = TableTarget(format=TableFormat.DELTA, path="unused")
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "buyer", "type": {"type": "record", "name": "Buyer", "fields": [{"name": "name", "type": "string"}]}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "count", "type": "int"},
    ],
}
ORDER = {
    "id": 7,
    "price": 2.5,
    "at": dt.datetime(2026, 11, 16, 8, tzinfo=dt.UTC),
    "tags": ["a", "b"],
    "state": "PAID",
    "buyer": {"name": "ann"},
    "key": UUID(int=7),
    "count": 5,
}


def rows(spark: SparkSession, *bodies: bytes | None) -> DataFrame:
    return spark.createDataFrame(
        [(number, body) for number, body in enumerate(bodies)], "queueOffset bigint, body binary"
    )


def step(parsing: Parsing | None, *expectations: Expectation) -> Step:
    return Step(
        name="clean",
        inputs=("raw",),
        table=TARGET,
        parse=parsing,
        expectations=expectations,
        quarantine=Quarantine(TARGET),
    )


def accepted(frame: DataFrame, of: Step) -> DataFrame:
    return expectations.accepted(frame, of, frame.columns)


def halves(frame: DataFrame, of: Step) -> tuple[list[tuple[Any, ...]], dict[int, list[str]]]:
    good = sorted(tuple(row) for row in accepted(frame, of).collect())
    bad = {row.queueOffset: row.problems for row in expectations.rejected(frame, of, frame.columns).collect()}
    return good, bad


def test_json_becomes_columns_and_what_is_none_is_set_aside(spark: SparkSession) -> None:
    parsing = Parsing(format=BodyFormat.JSON, schema="id string, price double")
    bodies = (
        b'{"id": "a", "price": 1.5}',
        b"{",
        b'{"id": "b", "price": "dear"}',
        b'{"id": "c"}',
        None,
        b" ",
        b"[]",
        b"\xff",
    )
    good, bad = halves(rows(spark, *bodies), step(parsing))

    assert good == [(0, "a", 1.5), (3, "c", None)]
    unlike = ["parses: no JSON as declared"]
    empty, no_text = ["parses: there is no body"], ["parses: no UTF-8"]
    assert bad == {1: unlike, 2: unlike, 4: empty, 5: unlike, 6: unlike, 7: no_text}


def test_every_row_is_in_exactly_one_half(spark: SparkSession) -> None:
    parsing = Parsing(format=BodyFormat.JSON, schema="n int")
    frame = rows(spark, *(b'{"n": %d}' % n if n % 3 else b"x" for n in range(30)))
    judged = step(parsing, Expectation("small", "n < 20"), Expectation("even", "n % 2 = 0"))
    good, bad = halves(frame, judged)

    assert sorted([offset for offset, _ in good] + list(bad)) == list(range(30))
    assert bad[25] == ["small", "even"]
    assert bad[3] == ["parses: no JSON as declared"]


def test_csv_becomes_columns(spark: SparkSession) -> None:
    parsing = Parsing(format=BodyFormat.CSV, schema="id string, price double", options={"sep": ";"})
    good, bad = halves(rows(spark, b"a;1.5", b"b;dear", b"c"), step(parsing))

    assert good[0] == (0, "a", 1.5)
    assert set(bad) == {1, 2}


def test_raw_text_is_kept_and_what_is_no_text_set_aside(spark: SparkSession) -> None:
    good, bad = halves(rows(spark, "é".encode(), b"\xff\xfe", b""), step(Parsing(format=BodyFormat.RAW, into="text")))

    assert good == [(0, "é"), (2, "")]
    assert bad == {1: ["parses: no UTF-8"]}


def avro(order: dict[str, Any], head: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(AVRO), order)
    return head + buffer.getvalue()


def test_avro_becomes_columns_of_every_kind(spark: SparkSession) -> None:
    parsing = Parsing(format=BodyFormat.AVRO, schema=json.dumps(AVRO))
    whole = avro(ORDER)
    too_great = whole.removesuffix(b"\x0a") + b"\xfe\xff\xff\xff\xff\x01"  # an int of more than 32 bits
    good, bad = halves(
        rows(spark, whole, avro(ORDER | {"price": None}), whole[:-1], whole + b"x", b"", None, too_great), step(parsing)
    )

    assert [row[:2] for row in good] == [(0, 7), (1, 7)]
    (_, _, price, at, tags, state, buyer, key, count), second = good
    assert (price, tags, state, buyer.name, key, count) == (2.5, ["a", "b"], "PAID", "ann", str(UUID(int=7)), 5)
    assert at.timestamp() == ORDER["at"].timestamp()  # type: ignore[attr-defined]
    assert second[2] is None
    assert bad.keys() == {2, 3, 4, 5, 6}
    assert bad[2][0].startswith("parses: no AVRO as declared: EOFError")
    assert bad[3] == ["parses: no AVRO as declared: 1 bytes are left over"]
    assert bad[5] == ["parses: there is no body"]
    assert bad[6][0].startswith("parses: no AVRO as declared: ArrowInvalid")


def test_avro_behind_the_head_of_a_schema_registry(spark: SparkSession) -> None:
    parsing = Parsing(format=BodyFormat.AVRO, schema=json.dumps(AVRO), skipped_bytes=5, into="order")
    good, bad = halves(rows(spark, avro(ORDER, b"\0\0\0\0\1")), step(parsing))

    assert good[0][1].id == 7
    assert not bad


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "cannot be used"),
        ('"long"', "no record"),
        ('{"type": "record", "name": "a", "fields": [{"name": "b", "type": ["int", "long"]}]}', "a union of"),
        ('{"type": "record", "name": "a", "fields": [{"name": "b", "type": "nothing"}]}', "cannot be used"),
    ],
)
def test_avro_schema_that_cannot_be_used_is_one_clear_error(spark: SparkSession, schema: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        accepted(rows(spark, b""), step(Parsing(format=BodyFormat.AVRO, schema=schema)))


def test_bodies_that_cannot_be_read_may_be_dropped_or_fail(spark: SparkSession) -> None:
    dropping = Parsing(format=BodyFormat.JSON, schema="n int", otherwise=Otherwise.DROP)
    good, bad = halves(rows(spark, b'{"n": 1}', b"x"), step(dropping, Expectation("small", "n < 1")))
    assert (good, bad) == ([], {0: ["small"]})
    failing = Parsing(format=BodyFormat.JSON, schema="n int", otherwise=Otherwise.FAIL)
    with pytest.raises(Exception, match=r"a row is not as expected: parses \(body is JSON\)"):
        accepted(rows(spark, b"x"), step(failing)).collect()


def test_null_is_not_as_expected_and_drop_leaves_no_trace(spark: SparkSession) -> None:
    parsing = Parsing(format=BodyFormat.JSON, schema="n int")
    judged = step(parsing, Expectation("positive", "n > 0"), Expectation("small", "n < 9", Otherwise.DROP))
    good, bad = halves(rows(spark, b'{"n": 1}', b"{}", b'{"n": 10}', b'{"n": -1}'), judged)

    assert good == [(0, 1)]
    assert bad == {1: ["positive", "small"], 3: ["positive"]}


def test_fields_in_one_column_and_columns_that_are_there_already(spark: SparkSession) -> None:
    parsing = Parsing(format=BodyFormat.JSON, schema="queueOffset int")
    with pytest.raises(ConfigError, match="the message has a column 'queueOffset', too"):
        accepted(rows(spark, b"{}"), step(parsing))
    into = Parsing(format=BodyFormat.JSON, schema="queueOffset int", into="order")
    good, _ = halves(rows(spark, b'{"queueOffset": 5}'), step(into))

    assert good[0][1].queueOffset == 5


@pytest.mark.parametrize(
    ("parsing", "problem"),
    [
        (Parsing(format=BodyFormat.JSON, schema="id strin"), "schema 'id strin'"),
        (Parsing(format=BodyFormat.JSON, schema="int"), "name the fields"),
        (Parsing(format=BodyFormat.JSON, schema="id int", column="payload"), "no column 'payload' to parse"),
    ],
)
def test_schema_or_column_that_cannot_be_is_told(spark: SparkSession, parsing: Parsing, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        accepted(rows(spark, b"{}"), step(parsing))


@pytest.mark.parametrize("format", [BodyFormat.JSON, BodyFormat.CSV], ids=lambda format: format.value)
def test_bytes_that_are_no_text_do_not_become_other_text(spark: SparkSession, format: BodyFormat) -> None:
    bodies = {
        BodyFormat.JSON: (b'{"name": "caf\xc3\xa9"}', b'{"name": "caf\xe9"}'),
        BodyFormat.CSV: (b"caf\xc3\xa9", b"caf\xe9"),
    }
    good, bad = halves(rows(spark, *bodies[format]), step(Parsing(format=format, schema="name string")))

    assert good == [(0, "café")]
    assert bad == {1: ["parses: no UTF-8"]}


@pytest.mark.parametrize("column", ["body", "Body"])
def test_field_may_be_called_like_the_column_it_is_in_and_a_bad_body_is_kept_as_it_came(
    spark: SparkSession, column: str
) -> None:
    of = step(Parsing(format=BodyFormat.JSON, schema=f"id int, {column} string"), Expectation("id is small", "id < 10"))
    bodies = [b'{"id": 1, "%s": "text"}' % column.encode(), b'{"id": 99}', b"none"]
    frame = rows(spark, *bodies)
    assert accepted(frame, of).columns == ["queueOffset", "id", column]
    assert [tuple(row) for row in accepted(frame, of).collect()] == [(0, 1, "text")]
    bad = expectations.rejected(frame, of, frame.columns)
    assert bad.columns == ["queueOffset", "body", "problems"]
    assert [tuple(row) for row in bad.orderBy("queueOffset").collect()] == [
        (1, bytearray(bodies[1]), ["id is small"]),
        (2, bytearray(bodies[2]), ["parses: no JSON as declared"]),
    ]
