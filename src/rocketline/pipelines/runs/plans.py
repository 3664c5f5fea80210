"""The streams that a pipeline's queries read and what they make of them: plans, before anything runs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketline.errors import ConfigError
from rocketline.pipelines.declared.queries import Query, is_stateful
from rocketline.pipelines.definition import QUARANTINE_SUFFIX, Pipeline, Step, TableFormat
from rocketline.pipelines.runs.progress_log import OBSERVED, OBSERVED_QUARANTINE
from rocketline.pipelines.steps.determinism import refuse_nondeterministic
from rocketline.pipelines.steps.transformation import (
    dead_letters,
    messages,
    refuse_hidden_state,
    refuse_impossible_stream,
    table_rows,
)
from rocketline.pipelines.steps.user_functions import load_functions, module_paths
from rocketline.spark.sink.schema import check_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from rocketline.pipelines.steps.user_functions import Transform

_FILES_PER_TRIGGER: Final = 1000
"""How many files of a table a batch of the next step takes: a backlog is worked off in pieces."""
SETTINGS: Final = {
    # Delta and Iceberg know microseconds; Spark's default is a type of Hive's.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    # How a batch of a Parquet table is cut into tasks: else the number of cores decides, and a topic that gets the
    # batch again from another machine gets other ids.
    "spark.sql.files.minPartitionNum": "16",
    "spark.sql.files.maxPartitionBytes": "128MB",
    "spark.sql.files.openCostInBytes": "4MB",
}
"""What a pipeline's outcome depends on; the file's own settings do not change it."""


class Plans:
    """The plans of one pipeline in one session, each analysed once. Raises `ConfigError` for what cannot be."""

    def __init__(self, pipeline: Pipeline, queries: Sequence[Query], spark: SparkSession) -> None:
        from rocketline.pipelines.tables.table_stream import TableSource

        self.pipeline, self.queries, self.spark = pipeline, queries, spark
        self.functions: Mapping[str, Transform] = load_functions(pipeline)
        self.schemas: dict[str, StructType] = {}
        """The columns of every table."""
        check_trigger(spark, pipeline.trigger)
        spark.dataSource.register(TableSource)
        for path in module_paths(pipeline):
            spark.sparkContext.addPyFile(str(_shippable(path, pipeline.state)))
        # What a step expects may be wrong in two queries, its table's and its side table's.
        problems = dict.fromkeys(problem for query in self.queries for problem in self._problems(query))
        if problems:
            raise ConfigError(list(problems))

    def input(self, name: str, *, is_real: bool = True) -> DataFrame:
        """A source, or a table as it grows. One that is not real has the columns only: the table need not be there."""
        if name in self.pipeline.sources:
            reader = self.spark.readStream.format("rocketmq").options(**self.pipeline.sources[name].options)
            return _observed(reader.load(), name)
        target, schema = self.pipeline.table(name), self.schemas[name]
        if target.format is TableFormat.PARQUET and is_real:
            return (
                self.spark.readStream.schema(schema)
                .option("maxFilesPerTrigger", _FILES_PER_TRIGGER)
                .parquet(target.path)
            )
        from rocketline.pipelines.tables.table_stream import FORMAT, stream_options

        options = stream_options(target, schema, files_max=_FILES_PER_TRIGGER)
        return self.spark.readStream.format(FORMAT).options(**options).load()

    def rows(self, query: Query, *, is_real: bool = True) -> DataFrame:
        """What a query streams: rows of its one table, messages for its topic, or the input of its branches."""
        inputs = [self.input(name, is_real=is_real) for name in query.inputs]
        if query.topic is not None:
            is_quarantine = query.inputs[0].endswith(QUARANTINE_SUFFIX)
            (rows,) = inputs
            return dead_letters(rows, query.topic, rows.columns) if is_quarantine else messages(rows, query.topic)
        if query.is_file_sink or is_stateful(self.pipeline, query):
            rows = table_rows(self.pipeline, query.name, inputs, self.functions)
            return _counted(rows) if query.name.endswith(QUARANTINE_SUFFIX) else rows
        return inputs[0]

    # --- what is wrong

    def _problems(self, query: Query) -> list[str]:
        """Of one query; nothing if it reads what another one, which is told of, cannot make."""
        from pyspark.errors import AnalysisException

        if any(name not in self.pipeline.sources and name not in self.schemas for name in query.inputs):
            return []
        file = f"{self.pipeline.file.name}: "
        place = f"{file}query {query.name}: "
        try:
            self._analyse(query)
        except ConfigError as error:
            return [each if each.startswith(file) else place + each for each in error.problems]
        except AnalysisException as error:
            return [place + str(error).strip().splitlines()[0]]
        return []

    def _analyse(self, query: Query) -> None:
        rows = self.rows(query, is_real=False)
        refuse_impossible_stream(rows)
        if query.topic is not None:
            check_columns(rows.schema, query.topic.topic)
            return
        made: dict[str, DataFrame] = {}
        for branch in query.branches:
            step = self.pipeline.step_of(branch.table)
            is_streamed = query.is_file_sink or (is_stateful(self.pipeline, query) and branch.table == query.name)
            if is_streamed:
                made[branch.table] = rows
            else:
                parent = made.get(branch.parent, rows)
                made[branch.table] = table_rows(self.pipeline, branch.table, [parent], self.functions)
            if _is_judged_twice(query, step):
                judged = self.input(branch.parent, is_real=False) if is_streamed else parent
                refuse_nondeterministic(self.pipeline, step, judged)
            if step.transform and not step.is_stateful:
                refuse_hidden_state(self.pipeline, step, made[branch.table])
            self.schemas[branch.table] = nullable(made[branch.table].schema)


def _is_judged_twice(query: Query, step: Step) -> bool:
    """The step's table is not all that depends on what it expects: a side table, a table of the same query, state.

    One table alone gets each batch once, so that a row may be judged by anything.
    """
    is_alone = step.quarantine is None and not any(branch.parent == step.name for branch in query.branches)
    return (step.parse is not None or bool(step.expectations)) and (step.is_stateful or not is_alone)


def check_trigger(spark: SparkSession, text: str) -> None:
    """Raise `ConfigError` unless Spark takes it for the time between batches."""
    from pyspark.errors import PySparkException

    jvm: Any = spark._jvm
    try:
        jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(text)
    except PySparkException:
        raise ConfigError([f"trigger {text!r} is no time: write it as in 5 seconds"]) from None


def _shippable(module: Path, state: Path) -> Path:
    """A module as it is, a package as an archive: executors get files only."""
    if module.is_file():
        return module
    return Path(shutil.make_archive(str(state / "modules" / module.name), "zip", module.parent, module.name))


def _observed(rows: DataFrame, source: str) -> DataFrame:
    """Have Spark tell, with each batch, how old its messages are."""
    from pyspark.sql import functions as f

    if "storeTimestamp" not in rows.columns:
        return rows
    newest, oldest = f.max("storeTimestamp"), f.min("storeTimestamp")
    times = f.unix_millis(newest).alias("newest_ms"), f.unix_millis(oldest).alias("oldest_ms")
    return rows.observe(f"{OBSERVED} of {source}", *times)  # Spark refuses one name for two sources


def _counted(rows: DataFrame) -> DataFrame:
    """Have Spark tell, with each batch, how many these are: its file sink does not."""
    from pyspark.sql import functions as f

    return rows.observe(OBSERVED_QUARANTINE, f.count(f.lit(1)).alias("rows"))


def nullable(schema: StructType) -> StructType:
    """The same columns, all of which may be null, without marks of Spark's such as a watermark's."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, _nullable(field.dataType)) for field in schema.fields])


def _nullable(kind: DataType) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return nullable(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind
