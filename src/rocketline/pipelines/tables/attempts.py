"""A batch's files, written by Spark's own Parquet writer into a folder of their own, before any table knows of them.

Every attempt to write a batch has its folder, `batch-0000000012-1f0c…`. What an attempt that came to nothing has left
is removed by the next one, which knows that the table has no such batch. Rows stay in the executors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rocketline.pipelines.tables.table import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_attempt(rows: DataFrame, table_path: str, batch: int) -> list[DataFile]:
    """Write a batch that the table does not have, and tell its files; none if it has no rows."""
    spark = rows.sparkSession
    remove_attempts(spark, table_path, batch)
    folder = f"{table_path.rstrip('/')}/{_prefix(batch)}{uuid4().hex[:12]}"
    rows.write.parquet(folder)
    files = [
        DataFile(
            path=status.getPath().toString(),
            size_bytes=status.getLen(),
            modified_ms=status.getModificationTime(),
            rows=_row_count(spark, status),
        )
        for status in _statuses(spark, folder)
        if status.getPath().getName().endswith(".parquet")
    ]
    return [file for file in files if file.rows]


def remove_attempts(spark: SparkSession, table_path: str, batch: int) -> None:
    """Remove what earlier attempts to write a batch have left. Nobody may have committed it."""
    for status in _statuses(spark, table_path):
        if status.getPath().getName().startswith(_prefix(batch)):
            _file_system(spark, table_path).delete(status.getPath(), True)


def _prefix(batch: int) -> str:
    return f"batch-{batch:010}-"


def _statuses(spark: SparkSession, path: str) -> Iterator[Any]:
    """Hadoop's view of what is in a folder: the same file systems that Spark writes to."""
    files = _file_system(spark, path)
    folder = _path(spark, path)
    yield from files.listStatus(folder) if files.exists(folder) else ()


def _row_count(spark: SparkSession, status: Any) -> int:
    """From the file's footer."""
    jvm: Any = spark._jvm
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromStatus(status, configuration)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        count: int = reader.getRecordCount()
        return count
    finally:
        reader.close()


def _file_system(spark: SparkSession, path: str) -> Any:
    return _path(spark, path).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())


def _path(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(path)
