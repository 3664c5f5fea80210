"""What is expected of rows, and the two halves that this parts them into: `accepted` and `rejected`.

The halves may be computed by different queries, since a row is judged by itself alone. A row that is in neither is one
that the declaration wants dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketline.errors import ConfigError
from rocketline.pipelines.definition import Expectation, Otherwise, Parsing, Step
from rocketline.pipelines.steps.parsing import MALFORMED, PARSED, Columns, fields_of, quoted, with_parsed, without

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PROBLEMS: Final = "problems"
PARSES: Final = "parses"
"""The name of the expectation that parsing brings along."""
_FAILED: Final = "__failed"
_BODY: Final = "__body"
"""What the parsed column is called meanwhile, if one of its fields has its name."""


def accepted(rows: DataFrame, step: Step, columns: Columns) -> DataFrame:
    """The rows that are as expected, with the fields of their bodies in place of the bodies."""
    from pyspark.sql import functions as f

    if step.parse is None and not step.expectations:
        return rows
    good = _judged(rows, step, columns).where(f.col(_FAILED).isNull())
    if step.parse is None:
        return without(good, _FAILED)
    return without(good, _FAILED, PARSED, MALFORMED, _BODY if _is_hidden(step.parse) else step.parse.column)


def accepted_columns(step: Step, columns: Columns) -> Columns:
    """The columns of the rows that are as expected."""
    if step.parse is None or columns is None:
        return columns
    return [*(name for name in columns if name != step.parse.column), *fields_of(step.parse)]


def rejected(rows: DataFrame, step: Step, columns: Columns) -> DataFrame:
    """The rows for quarantine, as they came, with the names of what failed; of a body that was not read, and why."""
    from pyspark.sql import functions as f

    names = f.array(*(f.lit(each.name) for each in step.expectations if each.otherwise is Otherwise.QUARANTINE))
    is_wanted = f.arrays_overlap(_FAILED, names)
    if step.parse is not None and step.parse.otherwise is Otherwise.QUARANTINE:
        is_wanted |= f.col(MALFORMED).isNotNull()
    bad = _judged(rows, step, columns).where(f.col(_FAILED).isNotNull() & is_wanted)
    if step.parse is not None:
        bad = without(bad, PARSED, MALFORMED, *fields_of(step.parse)).withColumnRenamed(_BODY, step.parse.column)
    return bad.withColumnRenamed(_FAILED, PROBLEMS)


def judgements(rows: DataFrame, step: Step) -> tuple[list[str], DataFrame]:
    """What the step asks of each row of its input, parsing among it: names, and a column for the answer to each."""
    from pyspark.sql import functions as f

    names, answers = [each.name for each in step.expectations], [_holds(each) for each in step.expectations]
    if step.parse is None:
        return names, rows.select(*answers)
    wide = _widened(rows, step, step.parse, rows.columns)
    return [PARSES, *names], wide.select(f.col(MALFORMED).isNull(), *answers)


def _judged(rows: DataFrame, step: Step, columns: Columns) -> DataFrame:
    """The rows with the fields of their bodies, and `_FAILED`: what they fail."""
    from pyspark.sql import functions as f

    if columns is not None and PROBLEMS in columns and step.quarantine is not None:
        raise ConfigError([f"steps.{step.name}: a column is called {PROBLEMS!r} already: rename it before"])
    wide, is_malformed = rows, f.lit(False)
    checks = []
    if step.parse is not None:
        wide, is_malformed = _widened(rows, step, step.parse, columns), f.col(MALFORMED).isNotNull()
        checks.append(f.when(is_malformed, _unread(step.parse)))
    # A body that cannot be read fails that alone: its fields are all null.
    checks += [f.when(~is_malformed & ~_holds(each), _outcome(each)) for each in step.expectations]
    failed = f.filter(f.array(*checks), lambda name: name.isNotNull())
    return wide.withColumn(_FAILED, f.when(f.size(failed) > 0, failed))


def _unread(parsing: Parsing) -> Column:
    """What a row gets whose body cannot be read."""
    from pyspark.sql import functions as f

    outcome = _outcome(Expectation(PARSES, f"{parsing.column} is {parsing.format.name}", parsing.otherwise))
    return f.concat_ws(": ", outcome, MALFORMED)


def _widened(rows: DataFrame, step: Step, parsing: Parsing, columns: Columns) -> DataFrame:
    """The fields as columns behind those of the input."""
    from pyspark.sql import functions as f

    names = fields_of(parsing)
    others = {name.lower() for name in columns or ()} - {parsing.column.lower()}  # Spark does not tell cases apart
    twice = sorted(name for name in names if name.lower() in others)
    if twice:
        raise ConfigError([
            f"steps.{step.name}.parse: the message has a column {twice[0]!r}, too: write into = \"…\" for a column "
            "that holds all fields, or name the field otherwise"
        ])  # fmt: skip
    parsed = with_parsed(rows, parsing, columns)
    if _is_hidden(parsing):
        parsed = parsed.withColumnRenamed(parsing.column, _BODY)
    if parsing.into:
        is_plain = parsing.format.value == "raw"
        return parsed.withColumn(parsing.into, f.col(f"{PARSED}.value") if is_plain else f.col(PARSED))
    return parsed.withColumns({name: f.col(f"{PARSED}.{quoted(name)}") for name in names})


def _is_hidden(parsing: Parsing) -> bool:
    """A field is called like the column that it is in."""
    return parsing.column.lower() in map(str.lower, fields_of(parsing))


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
