"""What a step expects depends on the row alone: Spark's plans tell what does not, and what only looks like it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from rocketline.errors import ConfigError
from rocketline.pipelines.declared.queries import queries_of
from rocketline.pipelines.definition_file import load
from rocketline.pipelines.runs.plans import Plans
from rocketline.pipelines.steps.determinism import refuse_nondeterministic
from support.pipelines.files import LANDING, written

QUARANTINE = 'quarantine = {{ format = "delta", path = "q" }}\n'
COPY = '[steps.copy]\nfrom = "raw"\ntable = {{ format = "delta", path = "copy" }}\n'
NANOSECONDS = "spark.sql.timestampNanosTypes.enabled"


class Words:
    """A table function that nobody has marked as deterministic."""

    def eval(self, text: str) -> Iterator[tuple[str]]:
        yield (text,)


@pytest.fixture
def rows(spark: SparkSession) -> Iterator[DataFrame]:
    spark.conf.set(NANOSECONDS, "true")
    yield spark.createDataFrame([], "now string, at timestamp")
    spark.conf.unset(NANOSECONDS)


def problem(folder: Path, rows: DataFrame, that: str) -> str | None:
    """Why a step that expects this of such rows is refused."""
    expected = f"expect = [{{{{ name = 'it', that = '''{that}''' }}}}]\n"
    pipeline = load(written(folder, LANDING + expected + QUARANTINE))
    try:
        refuse_nondeterministic(pipeline, pipeline.steps["raw"], rows)
    except ConfigError as error:
        (found,) = error.problems
        return found.partition("'it': ")[2].partition(" may differ")[0]
    return None


@pytest.mark.parametrize(
    ("that", "what"),
    [
        ('at < timestamp "now"', 'timestamp "now"'),
        ("at < timestamp '2026-11-16 08:00:00' and now > \"now\"", None),
        ("at < to_timestamp('now')", "'now'"),
        ("at < to_date('today')", "'today'"),
        ("at < (select max(n) from (select now() as n))", "now() in column n"),
        ("exists(select 1 where at < now())", "now()"),
        ("at in (select current_timestamp() as n)", "current_timestamp() in column n"),
        ("at < (select max(n) from (select timestamp '2026-11-16 08:00:00' as n))", None),
        ("at < current_timestamp(9)", "current_timestamp()"),
        ("at < localtimestamp(9)", "localtimestamp()"),
    ],
)
def test_predicate_is_looked_through(tmp_path: Path, rows: DataFrame, that: str, what: str | None) -> None:
    assert problem(tmp_path, rows, that) == what


def test_rows_that_a_computed_column_picks_are_others_the_next_time(tmp_path: Path, rows: DataFrame) -> None:
    timed = rows.withColumn("fresh", f.col("at") > f.current_timestamp())
    found = "current_timestamp() in column fresh"

    assert problem(tmp_path, timed.where("fresh"), "at is not null") == found
    assert problem(tmp_path, timed.join(rows.select("now"), f.col("fresh")), "at is not null") == found
    assert problem(tmp_path, timed.select("at", "fresh").select("at"), "at is not null") is None


def test_windows_are_no_hazard_whatever_texts_are_in_them(tmp_path: Path, rows: DataFrame) -> None:
    window = Window.partitionBy(f.lit("now")).orderBy("at")
    wide = rows.withColumn("next", f.lead("now", 1, "today").over(window))
    wide = wide.withColumn("some", f.count("now").over(window.rowsBetween(-3, 0)))

    assert problem(tmp_path, wide, "some > 0 and next is not null") is None


def test_table_function_is_as_steady_as_what_it_is_given(tmp_path: Path, rows: DataFrame) -> None:
    words: Any = f.udtf(Words, returnType="word string", useArrow=False)
    own, clock = words(f.col("now").outer()), words(f.current_timestamp().cast("string"))

    assert problem(tmp_path, rows.lateralJoin(own), "word > ''") is None
    assert problem(tmp_path, rows.lateralJoin(clock), "word > ''") == "current_timestamp()"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", None),
        (COPY, "as a further table"),
        (COPY + "own_query = true\n", None),
        ('watermark = {{ time = "storeTimestamp", late = "1 hour" }}\ndeduplicate = "msgId"\n', "or a state"),
    ],
)
def test_table_that_is_all_that_comes_of_a_row_may_judge_it_by_the_clock(
    spark: SparkSession, tmp_path: Path, more: str, told: str | None
) -> None:
    young = 'expect = [{{ name = "young", that = "storeTimestamp > now() - interval 1 day", otherwise = "drop" }}]\n'
    pipeline = load(written(tmp_path, LANDING + young + more))
    problems: list[str] = []
    try:
        Plans(pipeline, queries_of(pipeline), spark)
    except ConfigError as error:
        problems += error.problems

    assert [told is not None and told in each for each in problems] == ([True] if told else [])
