"""Bodies become columns: JSON and CSV by Spark's own functions, Avro by fastavro in Arrow batches.

Every way adds the same two columns to its input: `PARSED`, a struct with the fields, and `MALFORMED`, why a body could
not be read; null if it could. Nothing is lost and nothing fails here: what to do about it is `expectations`' business.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from rocketline.errors import ConfigError
from rocketline.pipelines.definition import BodyFormat, Parsing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Columns: TypeAlias = Sequence[str] | None
"""The names of a table's columns; None where nobody can tell."""
PARSED: Final = "__parsed"
MALFORMED: Final = "__malformed"
_CORRUPT: Final = "__corrupt"
_EMPTY: Final = "there is no body"
_NO_TEXT: Final = "no UTF-8"


def with_parsed(rows: DataFrame, parsing: Parsing, columns: Columns) -> DataFrame:
    """The rows with `PARSED` and `MALFORMED`. Raises `ConfigError` for a schema or column that cannot be."""
    if columns is not None and parsing.column not in columns:
        raise ConfigError([f"there is no column {parsing.column!r} to parse: there are {', '.join(columns)}"])
    if parsing.format is BodyFormat.AVRO:
        from rocketline.pipelines.steps.avro import with_avro

        return with_avro(rows, parsing, PARSED, MALFORMED)
    return _with_text(rows, parsing)


def without(rows: DataFrame, *names: str) -> DataFrame:
    """The rows without some of their columns. Unlike `drop` it does not make a Spark server look at the input now."""
    return rows.selectExpr(f"* except ({', '.join(map(quoted, names))})")


def quoted(name: str) -> str:
    """A name as it stands in SQL."""
    return f"`{name.replace('`', '``')}`"


def fields_of(parsing: Parsing) -> list[str]:
    """The names of the columns that parsing adds."""
    if parsing.into:
        return [parsing.into]
    if parsing.format is BodyFormat.AVRO:
        from rocketline.pipelines.steps.avro import spark_schema

        return spark_schema(parsing.schema).fieldNames()
    return _struct(parsing.schema).fieldNames()


def _with_text(rows: DataFrame, parsing: Parsing) -> DataFrame:
    from pyspark.sql import functions as f

    text = f.col(parsing.column).cast("string")
    # Bytes that are no UTF-8 would silently become other characters.
    is_text = f.is_valid_utf8(text)
    if parsing.format is BodyFormat.RAW:
        return rows.withColumns({
            PARSED: f.when(is_text, f.struct(text.alias("value"))),
            MALFORMED: f.when(text.isNull(), _EMPTY).when(~is_text, _NO_TEXT),
        })  # fmt: skip
    parsed = _parsed(text, parsing)
    # Twice the same expression: Spark computes it once.
    corrupt = parsed.getField(_CORRUPT)
    fields = _struct(parsing.schema).fieldNames()
    is_bad = f.coalesce(parsed.isNull() | corrupt.isNotNull(), f.lit(True))
    unlike = f"no {parsing.format.name} as declared"
    return rows.withColumns({
        PARSED: f.struct(*[parsed.getField(name).alias(name) for name in fields]),
        MALFORMED: f.when(text.isNull(), _EMPTY).when(~is_text, _NO_TEXT).when(is_bad, unlike),
    })  # fmt: skip


def _parsed(text: Column, parsing: Parsing) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    options = {"mode": "PERMISSIVE", **parsing.options, "columnNameOfCorruptRecord": _CORRUPT}
    schema = StructType([*_struct(parsing.schema).fields, StructField(_CORRUPT, StringType())])
    if parsing.format is BodyFormat.JSON:
        return f.from_json(text, schema, options)
    return f.from_csv(text, schema.toDDL(), options)


@lru_cache(maxsize=100)  # Spark parses it, which it does not do everywhere: see `columns`
def _struct(schema: str) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        found = StructType.fromDDL(schema)
    except PySparkException as error:
        raise ConfigError([f"schema {schema!r}: {str(error).strip().splitlines()[0]}"]) from None
    if not isinstance(found, StructType):
        raise ConfigError([f"schema {schema!r}: name the fields, as in: id string, price double"])
    return found
