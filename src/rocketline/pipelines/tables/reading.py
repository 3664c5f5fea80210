"""Tables as DataFrames of Spark: what they hold now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketline.errors import PipelineError
from rocketline.pipelines.definition import TableFormat, TableTarget
from rocketline.pipelines.tables import parquet
from rocketline.pipelines.tables.table import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_table(spark: SparkSession, target: TableTarget) -> DataFrame:
    """The rows of a table. Raises `PipelineError` if it is not there.

    Spark reads the files that the table's log names, all at once and in parallel. Of a Parquet table it looks itself
    which files count.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    if target.format is TableFormat.PARQUET:
        if not parquet.has_batches(spark, target):
            raise _not_there(target)
        return spark.read.parquet(target.path)
    table = open_table(target)
    if not table.exists():
        raise _not_there(target)
    schema, files = from_arrow_schema(table.schema()), table.files()
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)


def _not_there(target: TableTarget) -> PipelineError:
    return PipelineError(f"there is no table {target.path} yet: has the pipeline run?")
