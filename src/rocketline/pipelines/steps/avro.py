"""Avro bodies, read by fastavro inside Arrow batches: no jar, and no row goes through Spark's row format for it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.types import DataType, StringType, StructType

from rocketline.errors import ConfigError, MissingExtraError
from rocketline.pipelines.definition import Parsing
from rocketline.pipelines.steps.parsing import without

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DECODED, _VALUE, _REASON = "__decoded", "value", "reason"
_PRIMITIVES: Final[dict[str, DataType]] = {
    "boolean": t.BooleanType(), "int": t.IntegerType(), "long": t.LongType(), "float": t.FloatType(),
    "double": t.DoubleType(), "bytes": t.BinaryType(), "string": t.StringType(), "enum": t.StringType(),
    "fixed": t.BinaryType(),
}  # fmt: skip
_LOGICAL: Final[dict[tuple[str, str], DataType]] = {
    ("int", "date"): t.DateType(), ("long", "timestamp-millis"): t.TimestampType(),
    ("long", "timestamp-micros"): t.TimestampType(), ("long", "local-timestamp-millis"): t.TimestampNTZType(),
    ("long", "local-timestamp-micros"): t.TimestampNTZType(),
}  # fmt: skip
"""By the type and what it stands for. On any other type a logical one means nothing, to fastavro as in Avro."""
_DECIMALS: Final = (("bytes", "decimal"), ("fixed", "decimal"))
_DIGITS_MAX: Final = 38
_SHOWN_AS_STORED: Final = ("uuid", "time-millis", "time-micros")
"""Logical types that no column has. As in Spark's own reader, text is text, and a time of day a number."""


def with_avro(rows: DataFrame, parsing: Parsing, parsed: str, malformed: str) -> DataFrame:
    """The rows with the struct `parsed` and the reason `malformed`, one of them null."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.functions import arrow_udf

    kind = decoded_type(parsing)
    decode = arrow_udf(decoder(parsing, kind), kind)  # type: ignore[call-overload]  # structs are fine, too
    decoded = rows.withColumn(_DECODED, decode(f.col(parsing.column)))
    fields = {parsed: f.col(f"{_DECODED}.{_VALUE}"), malformed: f.col(f"{_DECODED}.{_REASON}")}
    return without(decoded.withColumns(fields), _DECODED)


def decoded_type(parsing: Parsing) -> StructType:
    """What a body becomes: its record, or why there is none. Raises `ConfigError` as `spark_schema` does."""
    return StructType().add(_VALUE, spark_schema(parsing.schema)).add(_REASON, StringType())


def spark_schema(text: str) -> StructType:
    """What Spark calls an Avro record's type. Raises `ConfigError` for a schema that is none, or no record's.

    >>> spark_schema('{"type": "record", "name": "o", "fields": [{"name": "id", "type": ["null", "long"]}]}')
    StructType([StructField('id', LongType(), True)])
    """
    try:
        declared = json.loads(text)
        found = _spark_type(declared, {})
        _readable(declared)
    except MissingExtraError:
        raise
    except Exception as error:  # noqa: BLE001  # of many kinds, as what is wrong with a schema
        raise ConfigError([f"the Avro schema cannot be used: {type(error).__name__}: {error}"]) from None
    if not isinstance(found, StructType):
        raise ConfigError(["the Avro schema is no record: a row has fields"])
    return found


def _readable(declared: Any) -> tuple[Any, Callable[..., Any]]:
    """The schema as fastavro wants it, and what reads with it. Raises whatever it finds wrong with the schema."""
    try:
        from fastavro import parse_schema, schemaless_reader
    except ModuleNotFoundError:
        raise MissingExtraError("Avro", "fastavro", "pipelines") from None
    return parse_schema(_as_stored(declared)), schemaless_reader


def _spark_type(declared: Any, named: dict[str, DataType]) -> DataType:
    if isinstance(declared, list):
        others = [each for each in declared if each != "null"]
        if len(others) != 1:
            raise ValueError(f"a union of {declared}: only null and one other type can be a column")
        return _spark_type(others[0], named)
    if isinstance(declared, str):
        return named[declared] if declared in named else _PRIMITIVES[declared]
    kind = declared["type"]
    if isinstance(kind, str) and (logical := _logical_type(declared)) is not None:
        if "name" in declared:
            named[declared["name"]] = logical
        return logical
    if kind == "record":
        fields = [t.StructField(each["name"], _spark_type(each["type"], named)) for each in declared["fields"]]
        named[declared["name"]] = t.StructType(fields)
        return named[declared["name"]]
    if kind == "array":
        return t.ArrayType(_spark_type(declared["items"], named))
    if kind == "map":
        return t.MapType(t.StringType(), _spark_type(declared["values"], named))
    found = _spark_type(kind, named)
    if "name" in declared:
        named[declared["name"]] = found
    return found


def _logical_type(declared: dict[str, Any]) -> DataType | None:
    which = declared["type"], declared.get("logicalType", "")
    if which not in _DECIMALS:
        return _LOGICAL.get(which)
    precision, scale = declared["precision"], declared.get("scale", 0)
    if not (0 <= scale <= precision and 0 < precision <= _DIGITS_MAX):
        raise ValueError(f"decimal({precision}, {scale}): a column has 1 to {_DIGITS_MAX} digits, its scale among them")
    return t.DecimalType(precision, scale)


def _as_stored(declared: Any) -> Any:
    """The schema without the logical types whose values would fit into no column."""
    if isinstance(declared, list):
        return [_as_stored(each) for each in declared]
    if not isinstance(declared, dict):
        return declared
    hidden = ["logicalType"] if declared.get("logicalType") in _SHOWN_AS_STORED else []
    return {key: _as_stored(each) for key, each in declared.items() if key not in hidden}


def decoder(parsing: Parsing, kind: StructType) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    """What runs on executors: it holds plain values only. Spark looks at its annotations to see what it takes."""
    avro_schema, skipped = parsing.schema, parsing.skipped_bytes

    def decode(columns: Iterator[pa.Array]) -> Iterator[pa.Array]:
        from pyspark.sql.pandas.types import to_arrow_type

        declared, schemaless_reader = _readable(json.loads(avro_schema))
        arrow_type = to_arrow_type(kind, timezone="UTC")
        for bodies in columns:
            read = [_read(schemaless_reader, declared, body, skipped) for body in bodies.to_pylist()]
            yield _column([{_VALUE: value, _REASON: reason} for value, reason in read], arrow_type)

    return decode


def _column(rows: list[dict[str, Any]], arrow_type: pa.DataType) -> pa.Array:
    """The rows in Arrow. Avro's values may be greater than their type allows: only these rows become reasons."""
    try:
        return pa.array(rows, arrow_type)
    except Exception:  # noqa: BLE001  # it does not tell which row; below, each is asked
        return pa.array([_fitting(row, arrow_type) for row in rows], arrow_type)


def _fitting(row: dict[str, Any], arrow_type: pa.DataType) -> dict[str, Any]:
    try:
        pa.array([row], arrow_type)
    except Exception as error:  # noqa: BLE001  # of many kinds: ArrowInvalid, ArrowTypeError, OverflowError …
        return {_VALUE: None, _REASON: _unlike(error)}
    return row


def _read(reader: Callable[..., Any], declared: Any, body: bytes | None, skipped: int) -> tuple[Any, str | None]:
    """The record, or why there is none. Whatever a damaged body makes fastavro raise is such a reason."""
    if body is None:
        return None, "there is no body"
    stream = io.BytesIO(body)
    stream.seek(skipped)
    try:
        value = reader(stream, declared)
    except Exception as error:  # noqa: BLE001  # of many kinds: EOFError, IndexError, ValueError, struct.error …
        return None, _unlike(error)
    left = len(body) - stream.tell()
    return (value, None) if not left else (None, f"no AVRO as declared: {left} bytes are left over")


def _unlike(error: Exception) -> str:
    return f"no AVRO as declared: {type(error).__name__}: {error}"
