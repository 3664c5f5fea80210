"""Avro bodies become columns, or reasons: whatever a body holds, no batch fails for it."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from rocketline.errors import ConfigError
from rocketline.pipelines.definition import BodyFormat, Parsing
from rocketline.pipelines.steps.avro import decoded_type, decoder, spark_schema

KEY = UUID("6f0c7b6e-6f6f-4b7e-9d39-0a1f5f1f2d3c")
MOMENT = dt.datetime(2026, 11, 16, 8, 30, tzinfo=dt.UTC)


def record(*fields: Any) -> dict[str, Any]:
    named = [{"name": f"f{number}", "type": field} for number, field in enumerate(fields)]
    return {"type": "record", "name": "Order", "fields": named}


def logical(kind: str, meaning: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meaning, **more}


def body(schema: dict[str, Any], *values: Any) -> bytes:
    buffer = io.BytesIO()
    order = {f"f{number}": value for number, value in enumerate(values)}
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), order)
    return buffer.getvalue()


def decoded(schema: dict[str, Any], *bodies: bytes | None) -> list[tuple[Any, str | None]]:
    """The record or the reason of each body, in Arrow's values."""
    parsing = Parsing(format=BodyFormat.AVRO, schema=json.dumps(schema))
    (column,) = decoder(parsing, decoded_type(parsing))(iter([pa.array(bodies, pa.binary())]))
    return [(row["value"], row["reason"]) for row in column.to_pylist()]


@pytest.mark.parametrize(
    ("declared", "value", "shown"),
    [
        (logical("string", "uuid"), KEY, str(KEY)),
        (["null", logical("string", "uuid")], KEY, str(KEY)),
        ({"type": "array", "items": logical("string", "uuid")}, [KEY], [str(KEY)]),
        ({"type": "map", "values": logical("string", "uuid")}, {"a": KEY}, [("a", str(KEY))]),
        (logical("int", "time-millis"), dt.time(0, 0, 1, 5000), 1005),
        (logical("long", "time-micros"), dt.time(0, 0, 1, 5), 1_000_005),
        (logical("int", "date"), dt.date(2026, 11, 16), dt.date(2026, 11, 16)),
        (logical("long", "timestamp-millis"), MOMENT, MOMENT),
        (logical("long", "timestamp-micros"), MOMENT, MOMENT),
        (logical("long", "local-timestamp-millis"), dt.datetime(2026, 11, 16), dt.datetime(2026, 11, 16)),
        (logical("long", "local-timestamp-micros"), dt.datetime(2026, 11, 16), dt.datetime(2026, 11, 16)),
        (logical("bytes", "decimal", precision=4, scale=2), Decimal("12.34"), Decimal("12.34")),
        (logical("fixed", "decimal", precision=4, scale=2, name="d", size=8), Decimal("-1.50"), Decimal("-1.50")),
        (logical("fixed", "duration", name="d", size=12), bytes(12), bytes(12)),
        (logical("string", "date"), "no day", "no day"),
        (logical("int", "timestamp-millis"), 7, 7),
    ],
)
def test_every_logical_type_is_a_column(declared: Any, value: Any, shown: Any) -> None:
    schema = record(declared)
    assert decoded(schema, body(schema, value)) == [({"f0": shown}, None)]


def test_value_that_does_not_fit_into_its_column_is_a_reason_and_the_other_rows_are_read() -> None:
    schema = record("int", logical("bytes", "decimal", precision=4, scale=2))
    wide = record("long", logical("bytes", "decimal", precision=20, scale=2))
    good = body(schema, 1, Decimal("12.34"))
    great = body(wide, 2, Decimal("123456789.12")), body(wide, 2**40, Decimal("1.00")), body(wide, 2, Decimal("100.05"))
    rows = decoded(schema, good, *great, None, b"\x02", good)

    read = {"f0": 1, "f1": Decimal("12.34")}
    assert [value for value, _ in rows] == [read, None, None, None, None, None, read]
    reasons = [reason or "" for _, reason in rows]
    assert reasons[1].startswith("no AVRO as declared: ArrowInvalid: Decimal type with precision 9 does not fit")
    assert reasons[2].startswith("no AVRO as declared: ArrowInvalid: Value 1099511627776")
    assert reasons[3].startswith("no AVRO as declared: ArrowInvalid: Decimal type")
    assert reasons[4] == "there is no body"
    assert reasons[5].startswith("no AVRO as declared: EOFError")
    assert (reasons[0], reasons[6]) == ("", "")


@pytest.mark.parametrize(
    "decimal", [{"precision": 39}, {"precision": 0}, {"precision": 2, "scale": 3}, {"precision": 2, "scale": -1}]
)
def test_decimal_that_is_no_column_is_one_clear_error(decimal: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"the Avro schema cannot be used: .* a column has 1 to 38 digits"):
        spark_schema(json.dumps(record(logical("bytes", "decimal", **decimal))))


def test_named_type_that_is_used_again_is_the_same_column() -> None:
    price = logical("fixed", "decimal", precision=4, scale=2, name="Price", size=4)
    found = spark_schema(json.dumps(record(price, "Price")))
    assert [field.dataType for field in found.fields] == [t.DecimalType(4, 2)] * 2


@pytest.mark.parametrize("kind", [{"type": "enum", "name": "e"}, {"type": "fixed", "name": "f"}])
def test_schema_that_only_its_reader_refuses_is_an_error_before_any_task(kind: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="the Avro schema cannot be used: KeyError"):
        spark_schema(json.dumps(record(kind)))
