"""A Delta or Iceberg table as a stream: what each commit has added, once, in order. `format("rocketline-table")`.

The position is the table's version. The first batch reads the table as it was at one version, later ones the files that
commits have added since. Compactions in between change nothing. Executors read the files with Arrow.

Parquet tables need none of this: Spark follows its own file sink.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rocketline.pipelines.definition import TableFormat, TableTarget
from rocketline.pipelines.tables.table import Table, local_path, open_table

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "rocketline-table"
NOTHING: Final = -1
"""The version before the first."""
_BATCH_ROWS: Final = 10_000
_TASKS_MAX: Final = 1000
"""A table that got a batch a second for a day has a hundred thousand files, and a step that is new reads them all."""


def stream_options(target: TableTarget, schema: StructType, *, files_max: int) -> dict[str, str]:
    """The options of a stream that follows a table."""
    described = asdict(target) | {"format": target.format.value}
    return {"target": json.dumps(described), "schema": schema.json(), "filesPerTrigger": str(files_max)}


class TableSource(DataSource):
    """Reads a table that a pipeline writes."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.options["schema"]))

    def streamReader(self, schema: StructType) -> TableStreamReader:  # noqa: N802  # Spark's name
        described = json.loads(self.options["target"])
        target = TableTarget(**(described | {"format": TableFormat(described["format"])}))
        return TableStreamReader(target, schema, int(self.options["filesPerTrigger"]))


@dataclass
class Files(InputPartition):
    """What one task reads."""

    paths: tuple[str, ...]


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's view of it. It is pickled: tables are opened when they are needed."""

    def __init__(self, target: TableTarget, schema: StructType, files_max: int) -> None:
        self._target, self._schema, self._files_max = target, schema, files_max
        self._last: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"version": NOTHING}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxFiles(self._files_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._open().version()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """As many commits as the limit on files allows, at least one. The first batch takes the whole table."""
        at: int = start["version"]
        table = self._open()
        last = table.version() if self._last is None else self._last
        if at == NOTHING or last <= at or not isinstance(limit, ReadMaxFiles):
            return {"version": max(at, last)}
        count = 0
        for version, files in enumerate(table.files_added(at, last), at + 1):
            count += len(files)
            if count >= limit.max_files:
                return {"version": version}
        return {"version": last}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """A task for each file, or for a few of many: pure in its two arguments, as long as history is kept."""
        table = self._open()
        if start["version"] == NOTHING:
            paths = table.files(end["version"])
        else:
            paths = [path for files in table.files_added(start["version"], end["version"]) for path in files]
        size = max(1, math.ceil(len(paths) / _TASKS_MAX))
        return [Files(tuple(paths[at : at + size])) for at in range(0, len(paths), size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq
        from pyarrow import fs
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, Files)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for path in partition.paths:
            local = local_path(path)  # which may have blanks, and then is no URI
            files, name = fs.FileSystem.from_uri(path) if local is None else (fs.LocalFileSystem(), str(local))
            with pq.ParquetFile(name, filesystem=files) as file:
                for batch in file.iter_batches(_BATCH_ROWS):
                    yield conformed(batch, schema)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nobody needs to know."""

    def stop(self) -> None:
        """Nothing is open."""

    def _open(self) -> Table:
        return open_table(self._target)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the columns that Spark was promised; one that a file does not have is null."""
    import pyarrow as pa

    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
