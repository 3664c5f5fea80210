"""A batch's files, written by Spark's own Parquet writer into a folder of their own, before any table knows of them.

Every attempt to write a batch has its folder, `batch-0000000012-<query>-1f0c…`. What an attempt that came to nothing
has left is removed by the next one, which knows that the table has no such batch of this query. What other queries
wrote is never touched: their batches have the same numbers, and may count. Rows stay in the executors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rocketline.pipelines.tables.hadoop_files import HadoopFiles
from rocketline.pipelines.tables.table import DataFile, Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Attempt:
    """To write a batch that the table at `table_path` does not have."""

    spark: SparkSession
    table_path: str
    writer: Writer
    batch: int

    def write(self, rows: DataFrame) -> list[DataFile]:
        """Write the rows, and tell their files; none if there are no rows."""
        self.remove()
        folder = f"{self.table_path.rstrip('/')}/{self._prefix}{uuid4().hex[:12]}"
        rows.write.parquet(folder)
        files = [
            DataFile(
                path=status.getPath().toString(),
                size_bytes=status.getLen(),
                modified_ms=status.getModificationTime(),
                rows=self._row_count(status),
            )
            for status in self._files.statuses(folder)
            if status.getPath().getName().endswith(".parquet")
        ]
        return [file for file in files if file.rows]

    def remove(self) -> None:
        """Remove what earlier attempts have left. Nobody may have committed it."""
        for status in self._files.statuses(self.table_path):
            if status.getPath().getName().startswith(self._prefix):
                self._files.remove(status)

    @property
    def _prefix(self) -> str:
        return f"batch-{self.batch:010}-{self.writer.query_id}-"

    @property
    def _files(self) -> HadoopFiles:
        return HadoopFiles(self.spark)

    def _row_count(self, status: Any) -> int:
        """From the file's footer."""
        jvm: Any = self.spark._jvm
        parquet = jvm.org.apache.parquet.hadoop
        file = parquet.util.HadoopInputFile.fromStatus(status, self._files.configuration())
        reader = parquet.ParquetFileReader.open(file)
        try:
            count: int = reader.getRecordCount()
            return count
        finally:
            reader.close()
