"""What is expected of rows, and the two halves that this parts them into: `accepted` and `rejected`.

The halves may be computed by different queries, since a row is judged by itself alone. A row that is in neither is one
that the declaration wants dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketline.errors import ConfigError
from rocketline.pipelines.definition import Expectation, Otherwise, Parsing, Step
from rocketline.pipelines.parsing import MALFORMED, PARSED, fields_of, with_parsed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PROBLEMS: Final = "problems"
PARSES: Final = "parses"
"""The name of the expectation that parsing brings along."""
_FAILED: Final = "__failed"


def accepted(rows: DataFrame, step: Step) -> DataFrame:
    """The rows that are as expected, with the fields of their bodies in place of the bodies."""
    from pyspark.sql import functions as f

    if step.parse is None and not step.expectations:
        return rows
    judged = _judged(rows, step)
    kept = [name for name in rows.columns if step.parse is None or name != step.parse.column]
    fields = fields_of(step.parse) if step.parse else []
    return judged.where(f.col(_FAILED).isNull()).select(*map(_quoted, [*kept, *fields]))


def rejected(rows: DataFrame, step: Step) -> DataFrame:
    """The rows for quarantine, as they came, with the names of what failed."""
    from pyspark.sql import functions as f

    expectations = [*([_parses(step.parse)] if step.parse else []), *step.expectations]
    names = f.array(*(f.lit(each.name) for each in expectations if each.otherwise is Otherwise.QUARANTINE))
    judged = _judged(rows, step).where(f.col(_FAILED).isNotNull() & f.arrays_overlap(_FAILED, names))
    return judged.select(*map(_quoted, rows.columns), f.col(_FAILED).alias(PROBLEMS))


def _judged(rows: DataFrame, step: Step) -> DataFrame:
    """The rows with the fields of their bodies, and `_FAILED`: what they fail."""
    from pyspark.sql import functions as f

    if PROBLEMS in rows.columns and step.quarantine is not None:
        raise ConfigError([f"steps.{step.name}: a column is called {PROBLEMS!r} already: rename it before"])
    wide, is_malformed = rows, f.lit(False)
    checks = []
    if step.parse is not None:
        wide, is_malformed = _widened(with_parsed(rows, step.parse), rows, step), f.col(MALFORMED).isNotNull()
        checks.append(f.when(is_malformed, _outcome(_parses(step.parse))))
    # A body that cannot be read fails that alone: its fields are all null.
    checks += [f.when(~is_malformed & ~_holds(each), _outcome(each)) for each in step.expectations]
    failed = f.filter(f.array(*checks), lambda name: name.isNotNull())
    return wide.withColumn(_FAILED, f.when(f.size(failed) > 0, failed))


def _parses(parsing: Parsing) -> Expectation:
    """What parsing expects of a body."""
    return Expectation(PARSES, f"{parsing.column} is {parsing.format.name}", parsing.otherwise)


def _widened(parsed: DataFrame, rows: DataFrame, step: Step) -> DataFrame:
    """The fields as columns beside those of the input."""
    from pyspark.sql import functions as f

    assert step.parse is not None
    names = fields_of(step.parse)
    twice = sorted(set(names) & (set(rows.columns) - {step.parse.column}))
    if twice:
        raise ConfigError([
            f"steps.{step.name}.parse: the message has a column {twice[0]!r}, too: write into = \"…\" for a column "
            "that holds all fields, or name the field otherwise"
        ])  # fmt: skip
    if step.parse.into:
        is_plain = step.parse.format.value == "raw"
        return parsed.withColumn(step.parse.into, f.col(f"{PARSED}.value") if is_plain else f.col(PARSED))
    return parsed.withColumns({name: f.col(f"{PARSED}.{_quoted(name)}") for name in names})


def _holds(expectation: Expectation) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.expr(f"({expectation.that})").cast("boolean"), f.lit(False))


def _outcome(expectation: Expectation) -> Column:
    """What a row gets that fails it: the expectation's name; or an error, if that is what it asks for."""
    from pyspark.sql import functions as f

    if expectation.otherwise is not Otherwise.FAIL:
        return f.lit(expectation.name)
    text = f"a row is not as expected: {expectation.name} ({expectation.that})"
    return f.raise_error(f.lit(text)).cast("string")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
