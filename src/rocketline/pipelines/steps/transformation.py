"""A step, applied to DataFrames: of a batch or of a stream alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rocketline.errors import ConfigError
from rocketline.model.property_names import REFUSED_FOR_USERS
from rocketline.pipelines.definition import ROW_AS_JSON, Aggregation, Pipeline, Step, TopicTarget
from rocketline.pipelines.steps.expectations import PROBLEMS, accepted, accepted_columns, rejected
from rocketline.pipelines.steps.parsing import Columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rocketline.pipelines.steps.user_functions import Transform

BODY, PROPERTIES = "body", "properties"
REASON: Final = "PROBLEMS"
"""The property of a dead letter that has the names of what failed."""
_ORIGIN: Final = {
    "PROBLEM_TOPIC": "topic",
    "PROBLEM_BROKER": "brokerName",
    "PROBLEM_QUEUE": "queueId",
    "PROBLEM_OFFSET": "queueOffset",
}
_STATEFUL: Final = re.compile(
    r"^[\s:+|-]*~(Aggregate|Deduplicate\w*|Distinct|Window|Except|Intersect|GlobalLimit|Offset|Tail"
    r"|FlatMap(?:Co)?Groups\w*|TransformWithState\w*)\b",
    re.M,
)
"""In the text of a plan. Spark marks streams with ~, so what is done to a table that is joined does not count."""


def table_rows(
    pipeline: Pipeline,
    table: str,
    inputs: Sequence[DataFrame],
    functions: Mapping[str, Transform],
    columns: Sequence[Columns] | None = None,
) -> DataFrame:
    """The rows of a table, a step's or its side table, made of the step's inputs.

    `columns` of the inputs are given where Spark must not be asked for them.
    """
    from pyspark.errors import AnalysisException

    step = pipeline.step_of(table)
    try:
        known = [each.columns for each in inputs] if columns is None else columns
        if table == step.quarantine_name:
            return rejected(inputs[0], step, known[0])
        return applied(step, inputs, functions, known)
    except AnalysisException as error:
        raise ConfigError([f"{pipeline.file.name}: steps.{step.name}: {_first_line(error)}"]) from error
    except ConfigError as error:
        place = f"steps.{step.name}"
        problems = [each if each.startswith(place) else f"{place}: {each}" for each in error.problems]
        raise ConfigError([f"{pipeline.file.name}: {each}" for each in problems]) from None


def applied(
    step: Step, inputs: Sequence[DataFrame], functions: Mapping[str, Transform], columns: Sequence[Columns]
) -> DataFrame:
    """What the step makes of its inputs."""
    from pyspark.sql import DataFrame

    rows = [accepted(each, step, known) for each, known in zip(inputs, columns, strict=True)]
    if step.watermark is not None:
        time, late = step.watermark.time, step.watermark.late
        has_time = [names is None or time in names for names in (accepted_columns(step, known) for known in columns)]
        if not any(has_time):
            raise ConfigError([f"steps.{step.name}.watermark.time: there is no column {time!r}"])
        rows = [
            each.withWatermark(time, late) if is_timed else each for each, is_timed in zip(rows, has_time, strict=True)
        ]
    if step.deduplicate:
        rows = [each.dropDuplicatesWithinWatermark(list(step.deduplicate)) for each in rows]
    if not step.transform:
        made = rows[0]
    else:
        made = functions[step.transform](*rows)
        if not isinstance(made, DataFrame):
            raise ConfigError(
                [f"steps.{step.name}.transform: {step.transform} gave {type(made).__name__}, no DataFrame"]
            )
    return aggregated(made, step.aggregate) if step.aggregate is not None else made


def aggregated(rows: DataFrame, aggregation: Aggregation) -> DataFrame:
    """A row for each window and group: `begins`, `ends`, the columns of `by`, the values."""
    from pyspark.sql import functions as f

    window = f.window(aggregation.time, aggregation.every)
    values = [f.expr(expression).alias(name) for name, expression in aggregation.values.items()]
    grouped = rows.groupBy(window, *aggregation.by).agg(*values)
    return grouped.select(
        f.col("window.start").alias("begins"), f.col("window.end").alias("ends"), *aggregation.by, *aggregation.values
    )


def refuse_hidden_state(pipeline: Pipeline, step: Step, rows: DataFrame) -> None:
    """Raise `ConfigError` if a step that counts as stateless groups or compares rows: it would see one batch only."""
    plan = rows._jdf.queryExecution().analyzed().toString()
    if found := _STATEFUL.search(plan):
        raise ConfigError([
            f"{pipeline.file.name}: steps.{step.name}.transform: {step.transform} has a stateful part ({found[1]}), "
            "but the step has no watermark: give it one, or write stateful = true"
        ])  # fmt: skip


def refuse_impossible_stream(rows: DataFrame) -> None:
    """Raise `AnalysisException` for a plan that no stream can have: Spark itself says so at a query's start only."""
    jvm: Any = rows.sparkSession._jvm
    append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), append)


def dead_letters(rows: DataFrame, target: TopicTarget, columns: Columns) -> DataFrame:
    """Messages of rows in quarantine: as they were, with what is wrong and where they came from as properties."""
    from pyspark.sql import functions as f

    def known(name: str) -> str:
        return name if columns is not None and name in columns else ""

    origin = {name: column for name, column in _ORIGIN.items() if known(column)}
    letter = replace(
        target,
        body=target.body or known(BODY),
        keys=target.keys or known("keys"),
        tags=target.tags or known("tags"),
        properties={REASON: f"array_join({PROBLEMS}, ', ')", **origin, **target.properties},
    )
    if not known(PROPERTIES):
        return messages(rows, letter)
    taken = [*REFUSED_FOR_USERS, *letter.properties]
    given = f.coalesce(f.col(PROPERTIES), f.expr("cast(map() as map<string,string>)"))
    own = f.map_filter(given, lambda name, _: ~name.isin(taken))
    return messages(rows, letter, carried=own)


def messages(rows: DataFrame, target: TopicTarget, *, carried: Column | None = None) -> DataFrame:
    """The columns that the sink takes, made of a table's rows. `carried`: properties that are there already."""
    from pyspark.sql import functions as f

    columns = [f.expr(target.body or ROW_AS_JSON).alias(BODY)]
    for name, expression in (("keys", target.keys), ("tags", target.tags), ("shardingKey", target.sharding_key)):
        if expression:
            columns.append(f.expr(expression).cast("string").alias(name))
    if target.properties:
        pairs = [
            part
            for name, expression in target.properties.items()
            for part in (f.lit(name), f.expr(expression).cast("string"))
        ]
        made = f.map_filter(f.create_map(*pairs), lambda _, value: value.isNotNull())
        columns.append((made if carried is None else f.map_concat(carried, made)).alias(PROPERTIES))
    return rows.select(*columns)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
