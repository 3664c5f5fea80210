"""A Delta or Iceberg table as a stream: what commits add arrives once, compactions in between change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from rocketline.pipelines.definition import TableFormat, TableTarget
from rocketline.pipelines.tables.iceberg import IcebergTable
from rocketline.pipelines.tables.staging import StagedBatch
from rocketline.pipelines.tables.table import Standing, Table, Writer, open_table
from rocketline.pipelines.tables.table_stream import FORMAT, NOTHING, TableSource, TableStreamReader, stream_options
from support.pipelines.runs import _iceberg_threads_end

pytestmark = pytest.mark.interop  # for the time that they take: they need nothing but Python

__all__ = ["_iceberg_threads_end"]

WRITER = Writer("query-1", 3)
MICROSECONDS = "spark.sql.parquet.outputTimestampType"


class Followed:
    """A table of numbers, and a stream that follows it."""

    def __init__(self, spark: SparkSession, folder: Path, format: TableFormat) -> None:
        spark.conf.set(MICROSECONDS, "TIMESTAMP_MICROS")
        self.spark, self.folder = spark, folder
        catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}
        is_iceberg = format is TableFormat.ICEBERG
        self.target = TableTarget(
            format=format,
            path=str(folder / "numbers"),
            name="test.numbers" if is_iceberg else "",
            catalog=catalog if is_iceberg else {},
        )
        self.schema = spark.createDataFrame([], "n bigint, at timestamp, more map<string,array<string>>").schema
        self.table.create(to_arrow_schema(self.schema, timezone="UTC"))
        self.batch = 0
        spark.dataSource.register(TableSource)

    @property
    def table(self) -> Table:
        return open_table(self.target)

    def add(self, *numbers: int) -> None:
        rows = self.spark.createDataFrame([(number, None, {"k": [str(number)]}) for number in numbers], self.schema)
        self.table.add(WRITER, self.batch, StagedBatch(self.spark, self.target.path, WRITER, self.batch).write(rows))
        self.batch += 1

    def batches(self, *, files_max: int = 1000) -> list[list[int]]:
        """What one AvailableNow run of the stream brings, batch by batch."""
        found: list[list[int]] = []
        options = stream_options(self.target, self.schema, files_max=files_max)
        stream = self.spark.readStream.format(FORMAT).options(**options).load()
        query = (
            stream.writeStream.foreachBatch(lambda rows, _: found.append(sorted(row.n for row in rows.collect())))
            .option("checkpointLocation", str(self.folder / "state"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [batch for batch in found if batch]


def test_delta_table_is_followed_through_commits_and_compactions_until_rows_are_taken_away(
    spark: SparkSession, tmp_path: Path
) -> None:
    followed = Followed(spark, tmp_path, TableFormat.DELTA)
    _follow(followed)
    followed.add(8)
    DeltaTable(followed.target.path).optimize.compact()
    followed.add(9)
    assert followed.batches() == [[8, 9]], "a compaction adds nothing"
    DeltaTable(followed.target.path).delete("n = 1")
    with pytest.raises(StreamingQueryException, match="has taken rows away"):
        followed.batches()


def test_iceberg_table_is_followed_through_commits_until_rows_are_taken_away(
    spark: SparkSession, tmp_path: Path
) -> None:
    followed = Followed(spark, tmp_path, TableFormat.ICEBERG)
    _follow(followed)
    IcebergTable(followed.target)._open().delete("n == 1")
    with pytest.raises(StreamingQueryException, match="has taken rows away"):
        followed.batches()


def _follow(followed: Followed) -> None:
    """What is there comes first, then what each commit adds; a backlog in pieces of whole commits."""
    followed.add(1, 2)
    followed.add(3)
    assert followed.batches() == [[1, 2, 3]]
    for number in (4, 5, 6):
        followed.add(number)
    assert followed.batches(files_max=2) == [[4, 5], [6]]
    assert followed.batches() == []


def test_many_files_share_tasks_and_none_is_left_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Followed(spark, tmp_path, TableFormat.DELTA)
    for number in range(5):
        followed.add(number)
    monkeypatch.setattr("rocketline.pipelines.tables.table_stream._TASKS_MAX", 2)
    reader = TableStreamReader(followed.target, followed.schema, 1000)
    tasks = reader.partitions({"version": NOTHING}, {"version": followed.table.version()})
    read = [number for task in tasks for batch in reader.read(task) for number in batch.column("n").to_pylist()]

    assert len(tasks) == 2
    assert sorted(read) == list(range(5))


@pytest.mark.parametrize("format", [TableFormat.DELTA, TableFormat.ICEBERG], ids=lambda format: format.value)
def test_last_batch_of_each_writer_is_remembered(spark: SparkSession, tmp_path: Path, format: TableFormat) -> None:
    followed = Followed(spark, tmp_path, format)
    assert followed.table.standing(WRITER) == Standing(None, 0)
    assert followed.table.last_writer() is None
    followed.add(1)
    followed.add(2)
    assert followed.table.standing(WRITER) == Standing(1, 3)
    assert followed.table.last_writer() == "query-1"
    assert followed.table.standing(Writer("query-2")) == Standing(None, 0)


def test_attempt_removes_what_earlier_runs_of_its_query_have_left_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows, path = spark.range(3), str(tmp_path / "table")
    kept = StagedBatch(spark, path, WRITER, 0)
    others = {
        "earlier": StagedBatch(spark, path, Writer("query-1", 2), 0),
        "newer": StagedBatch(spark, path, Writer("query-1", 10), 0),
        "another batch": StagedBatch(spark, path, Writer("query-1", 2), 1),
        "another query": StagedBatch(spark, path, Writer("query-2", 2), 0),
    }
    for other in others.values():
        other.write(rows)
    without_number = tmp_path / "table" / "batch-0000000000-query-1-0123456789ab"
    without_number.mkdir()
    files = kept.write(rows)
    assert all(_exists(each) for each in others.values()), "a driver that wakes may be about to commit them"

    kept.remove_others()
    assert [name for name, other in others.items() if not _exists(other)] == ["earlier"]
    assert not without_number.exists()
    assert sum(file.rows for file in files) == 3
    assert _exists(kept)

    kept.remove()
    assert not _exists(kept)
    assert _exists(others["newer"])


def _exists(attempt: StagedBatch) -> bool:
    return Path(attempt._folder).exists()
