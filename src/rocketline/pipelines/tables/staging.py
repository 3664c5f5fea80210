"""A batch's files, written by Spark's own Parquet writer into a folder of their own, before any table knows of them.

Every attempt to write a batch has its folder, `batch-0000000012-<query>-<run>-1f0c…`. Until a batch is in the table,
whoever wrote its files may be about to commit them: a driver that stood still, and wakes. So what earlier attempts have
left is removed by one that has committed the batch itself, and what newer runs write never. What other queries wrote is
not touched either: their batches have the same numbers, and may count. Rows stay in the executors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from rocketline.pipelines.tables.hadoop_files import HadoopFiles
from rocketline.pipelines.tables.table import DataFile, Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPT: Final = re.compile("(?:(?P<run>[0-9]+)-)?[0-9a-f]{12}")
"""How the name of an attempt's folder ends. Once runs had no numbers."""


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """To write a batch that the table at `table_path` does not have."""

    spark: SparkSession
    table_path: str
    writer: Writer
    batch: int
    number: str = field(default_factory=lambda: uuid4().hex[:12])

    def write(self, rows: DataFrame) -> list[DataFile]:
        """Write the rows, and tell their files; none if there are no rows."""
        rows.write.parquet(self._folder)
        files = [
            DataFile(
                path=status.getPath().toString(),
                size_bytes=status.getLen(),
                modified_ms=status.getModificationTime(),
                rows=self._row_count(status),
            )
            for status in self._files.statuses(self._folder)
            if status.getPath().getName().endswith(".parquet")
        ]
        return [file for file in files if file.rows]

    def remove(self) -> None:
        """Remove what was written. The table must not have it."""
        self._files.remove(self._folder)

    def remove_others(self) -> None:
        """Remove what earlier attempts have left. The table must have the files of this one: no other can get there."""
        for name in filter(self._is_of_earlier_run, self._files.names(self.table_path)):
            self._files.remove(f"{self.table_path.rstrip('/')}/{name}")

    def _is_of_earlier_run(self, name: str) -> bool:
        found = _ATTEMPT.fullmatch(name.removeprefix(self._prefix)) if name.startswith(self._prefix) else None
        return found is not None and int(found["run"] or 0) < self.writer.run

    @property
    def _folder(self) -> str:
        return f"{self.table_path.rstrip('/')}/{self._prefix}{self.writer.run}-{self.number}"

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
