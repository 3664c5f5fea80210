"""A report, gathered from the progress log and from the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketline.clock import Clock, SystemClock
from rocketline.errors import PipelineError
from rocketline.files import replace_file
from rocketline.pipelines.definition import QUARANTINE_SUFFIX, Pipeline
from rocketline.pipelines.report.figures import figures_of
from rocketline.pipelines.report.page import Report, TableSummary, html
from rocketline.pipelines.runs.progress_log import read_log
from rocketline.pipelines.steps.expectations import PROBLEMS
from rocketline.pipelines.tables.reading import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAMPLE_ROWS: Final = 8
_SAMPLE_COLUMNS: Final = 8
_CELL_MAX: Final = 60


def write_report(
    pipeline: Pipeline,
    spark: SparkSession,
    path: Path,
    *,
    verdicts: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> None:
    """Write the page to `path`."""
    tables, reasons = [], Counter[str]()
    for name, target in pipeline.tables():
        try:
            rows = read_table(spark, target)
        except PipelineError:
            continue  # a table that no run has made yet
        columns = rows.columns[:_SAMPLE_COLUMNS]
        sample = [[_cell(value) for value in row] for row in rows.select(*columns).limit(_SAMPLE_ROWS).collect()]
        tables.append(TableSummary(name, target.path, target.format.value, rows.count(), columns, sample))
        if name.endswith(QUARANTINE_SUFFIX):
            from pyspark.sql import functions as f

            # Of why a body could not be read only the kind: what the reader says of it may be another for each row.
            problem = f.substring_index("problem", ": ", 2).alias("problem")
            counted = rows.select(f.explode(PROBLEMS).alias("problem")).groupBy(problem).count().collect()
            reasons.update({str(row["problem"]): int(row["count"]) for row in counted})
    report = Report(
        pipeline=pipeline.name,
        made_ms=(clock or SystemClock()).wall_ms(),
        figures=figures_of(read_log(pipeline.state)),
        tables=tables,
        reasons=reasons,
        verdicts=verdicts or {},
    )
    replace_file(path, html(report).encode())


def _cell(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else str(value)
    return text if len(text) <= _CELL_MAX else f"{text[:_CELL_MAX]}…"
