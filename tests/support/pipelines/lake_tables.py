"""Delta and Iceberg tables of numbers, with files that no Spark has written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.utils.concurrent import ExecutorFactory

from rocketline.pipelines.definition import TableFormat, TableTarget
from rocketline.pipelines.tables.delta import DeltaLakeTable
from rocketline.pipelines.tables.iceberg import IcebergTable
from rocketline.pipelines.tables.table import DataFile, Table, Writer, open_table

SCHEMA = pa.schema([("n", pa.int64())])
Opened = DeltaLakeTable | IcebergTable


@pytest.fixture(autouse=True)
def _iceberg_threads_end() -> Iterator[None]:
    """pyiceberg keeps a pool of threads for the life of the process; a test must leave none."""
    yield
    if ExecutorFactory._instance is not None:
        ExecutorFactory._instance.shutdown()
        ExecutorFactory._instance = None


@pytest.fixture(scope="module", autouse=True)
def _delta_runtime(tmp_path_factory: pytest.TempPathFactory) -> None:
    """deltalake opens sockets of its own for the life of the process, when it is first used."""
    NumberTable(tmp_path_factory.mktemp("delta"), TableFormat.DELTA).create()


class NumberTable:
    """A table that several drivers open, each for itself."""

    def __init__(self, folder: Path, format: TableFormat) -> None:
        catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}
        is_iceberg = format is TableFormat.ICEBERG
        self.path = folder / "numbers"
        self.target = TableTarget(
            format=format,
            path=str(self.path),
            name="test.numbers" if is_iceberg else "",
            catalog=catalog if is_iceberg else {},
        )

    def opened(self) -> Opened:
        """As one driver has it."""
        return cast("Opened", open_table(self.target))

    def create(self) -> None:
        self.opened().create(SCHEMA)

    def file(self, *numbers: int) -> list[DataFile]:
        """One that was written for a batch."""
        path = self.path / f"{uuid4().hex}.parquet"
        pq.write_table(pa.table({"n": list(numbers)}, SCHEMA), path)
        return [DataFile(f"file://{path}", path.stat().st_size, 0, len(numbers))]

    def rows(self) -> list[int]:
        """What is in it, sorted."""
        tables = [pq.read_table(path.removeprefix("file://")) for path in self.opened().files()]
        return sorted(number for table in tables for number in table["n"].to_pylist())

    def overtaken(self, *turns: Callable[[Table], Any] | None) -> Opened:
        """As a driver has it that is paused after opening the table: at each time, somebody else has a turn."""
        table, left = self.opened(), iter(turns)
        open_now = table._open

        def paused(*given: Any) -> Any:
            handle = open_now(*given)
            if (turn := next(left, None)) is not None:
                turn(self.opened())
            return handle

        table._open = paused  # type: ignore[method-assign]
        return table


def adding(writer: Writer, batch: int, files: Iterable[DataFile]) -> Callable[[Table], bool]:
    """The turn of a driver that adds a batch."""
    return lambda table: table.add(writer, batch, list(files))
