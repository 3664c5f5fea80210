"""What a pipeline needs of a table, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rocketline.errors import PipelineError
from rocketline.pipelines.definition import TableFormat, TableTarget

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that was written for a batch."""

    path: str
    """As the file system of Spark names it, with its scheme."""
    size_bytes: int
    modified_ms: int
    rows: int


@dataclass(frozen=True, slots=True)
class Writer:
    """Who adds batches to a table: the query whose checkpoint counts them. Another checkpoint is another writer."""

    query_id: str
    """Spark's own, kept in the checkpoint: it stays when a pipeline gets another name."""
    run: int = 0
    """The number of the pipeline's run, see `runs`; 0 for those who only ask."""
    token: int = 0
    """What tells the run from another with the same number."""

    @property
    def key(self) -> str:
        return f"rocketline/{self.query_id}"


@dataclass(frozen=True, slots=True)
class Standing:
    """What a table's log says of a writer."""

    batch: int | None
    """The last batch that it has added; None if there is none."""
    run: int
    """The newest run that has added one; 0 if none has, or none that told its number."""
    token: int = 0
    """The token of that run; 0 if it told none."""

    def is_of(self, writer: Writer) -> bool:
        """The last batch was added by this very run."""
        return (self.run, self.token) == (writer.run, writer.token)

    def has(self, batch: int) -> bool:
        return self.batch is not None and self.batch >= batch


class Table(Protocol):
    """A table that batches are added to, each by one commit that also says which batch it was."""

    target: TableTarget

    def exists(self) -> bool: ...

    def create(self, schema: pa.Schema) -> None:
        """Make it, without rows, unless it is there."""
        ...

    def schema(self) -> pa.Schema: ...

    def standing(self, writer: Writer) -> Standing: ...

    def last_writer(self) -> str | None:
        """The query id of whoever added the last batch; None if nobody has."""
        ...

    def add(self, writer: Writer, batch: int, files: Sequence[DataFile]) -> bool:
        """Add a batch's files in one commit, see `commits.add_once`."""
        ...

    def version(self) -> int:
        """A number that grows with each commit."""
        ...

    def files(self, version: int | None = None) -> list[str]:
        """The files that make up the table, now or at a version."""
        ...

    def files_added(self, after: int, until: int) -> Iterator[list[str]]:
        """The files that commits after one version, until another, have added: a list for each commit, as it is read.

        A commit that only rewrites what is there (a compaction) adds nothing. Raises `PipelineError` for a commit
        that took rows away or whose record is gone.
        """
        ...


def open_table(target: TableTarget) -> Table:
    """The table; it need not exist yet. For Parquet see `parquet`: Spark alone writes and reads it."""
    if target.format is TableFormat.DELTA:
        from rocketline.pipelines.tables.delta import DeltaLakeTable

        return DeltaLakeTable(target)
    if target.format is TableFormat.ICEBERG:
        from rocketline.pipelines.tables.iceberg import IcebergTable

        return IcebergTable(target)
    raise AssertionError(f"no batch is added to a {target.format.value} table")


def local_path(path: str) -> Path | None:
    """The path on this machine, if it is one. Spark writes it as `file:/my lake`, others as `file:///my lake`."""
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if "://" in path else Path(path)


def changed_meanwhile(target: TableTarget, what: str) -> PipelineError:
    """For readers that go on from a version."""
    return PipelineError(
        f"table {target.path}: {what}. A step that follows this table reads what is added to it: "
        "remove that step's table and its checkpoint, and it begins anew"
    )
