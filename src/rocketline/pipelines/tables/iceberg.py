"""Iceberg tables through `pyiceberg`: Spark writes the files, one commit of the catalog adds them.

The commit sets properties of the table, its writer and that writer's last batch and run, together with the snapshot:
either all are there or none, and none if the table has another snapshot than the handle. Snapshots carry writer and
batch as well, for whoever looks at the history; they may expire, properties do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketline.errors import MissingExtraError
from rocketline.pipelines.definition import TableTarget
from rocketline.pipelines.tables.commits import MovedOnError, add_once
from rocketline.pipelines.tables.table import DataFile, Standing, Writer, changed_meanwhile, local_path

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

BATCH_KEY: Final = "rocketline.batch"
QUERY_KEY: Final = "rocketline.query"
RUN_KEY: Final = "rocketline.run"
TOKEN_KEY: Final = "rocketline.token"  # noqa: S105  # the name of a property
_RETRIES_KEY: Final = "commit.retry.num-retries"
_SQLITE: Final = "sqlite:///"
_PROPERTIES: Final = {
    # Each commit writes the metadata anew and leaves the old one; a batch a second would fill a disk with them.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
}


class IcebergTable:
    """See `table.Table`. Versions are sequence numbers of snapshots."""

    def __init__(self, target: TableTarget) -> None:
        self.target = target
        self._opened: Catalog | None = None
        if find_spec("pyiceberg") is None:
            raise MissingExtraError("An Iceberg table", "pyiceberg", "pipelines")

    @property
    def _catalog(self) -> Catalog:
        if self._opened is None:
            from pyiceberg.catalog import load_catalog

            settings = dict(self.target.catalog)
            if settings.get("type") == "sql" and (folder := local_path(settings.get("warehouse", ""))):
                folder.mkdir(parents=True, exist_ok=True)  # SQLite makes its file, but not the folder
            self._opened = load_catalog(settings.pop("name", "rocketline"), **settings)
        return self._opened

    def exists(self) -> bool:
        from pyiceberg.exceptions import NoSuchNamespaceError

        uri = self.target.catalog.get("uri", "")
        if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).exists():
            return False  # opening the catalog would make it: whoever only asks changes nothing
        try:
            return bool(self._catalog.table_exists(self.target.name))
        except NoSuchNamespaceError:
            return False

    def create(self, schema: pa.Schema) -> None:
        self._catalog.create_namespace_if_not_exists(self.target.name.partition(".")[0])
        path = local_path(self.target.path)
        location = f"file://{path}" if path is not None else self.target.path  # pyiceberg takes no %20 for a blank
        self._catalog.create_table_if_not_exists(self.target.name, schema, location, properties=_PROPERTIES)

    def schema(self) -> pa.Schema:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return schema_to_pyarrow(self._open().schema(), include_field_ids=False)

    def standing(self, writer: Writer) -> Standing:
        return _Handle(self._open()).standing(writer)

    def last_writer(self) -> str | None:
        return self._open().properties.get(QUERY_KEY)

    def add(self, writer: Writer, batch: int, files: Sequence[DataFile]) -> bool:
        return add_once(self.target, lambda: _Handle(self._open()), writer, batch, files)

    def version(self) -> int:
        snapshot = self._open().current_snapshot()
        return 0 if snapshot is None else _number(snapshot)

    def files(self, version: int | None = None) -> list[str]:
        table = self._open()
        if version is None:
            snapshot_id = None
        else:
            found = [snapshot for snapshot in self._snapshots() if _number(snapshot) == version]
            if version and not found:
                raise changed_meanwhile(self.target, f"the snapshot with the number {version} has expired")
            snapshot_id = found[0].snapshot_id if found else None
        if table.current_snapshot() is None or version == 0:
            return []
        tasks = list(table.scan(snapshot_id=snapshot_id).plan_files())
        if any(task.delete_files for task in tasks):
            raise changed_meanwhile(self.target, "rows were deleted from it, which only Iceberg's own reader knows")
        return sorted(task.file.file_path for task in tasks)

    def files_added(self, after: int, until: int) -> Iterator[list[str]]:
        snapshots = {_number(each): each for each in self._snapshots()}
        for number in range(after + 1, until + 1):
            if number not in snapshots:
                raise changed_meanwhile(self.target, f"the snapshot with the number {number} has expired")
            yield list(self._added_by(snapshots[number]))

    def _added_by(self, snapshot: Snapshot) -> Iterator[str]:
        from pyiceberg.manifest import ManifestEntryStatus
        from pyiceberg.table.snapshots import Operation

        assert snapshot.summary is not None
        if snapshot.summary.operation is Operation.REPLACE:
            return
        if snapshot.summary.operation is not Operation.APPEND:
            raise changed_meanwhile(self.target, f"snapshot {snapshot.snapshot_id} has taken rows away")
        io = self._open().io
        for manifest in snapshot.manifests(io):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                for entry in manifest.fetch_manifest_entry(io):
                    # A manifest that was merged lists older files, too.
                    if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id:
                        yield entry.data_file.file_path

    def _snapshots(self) -> list[Snapshot]:
        return sorted(self._open().metadata.snapshots, key=_number)

    def _open(self) -> Table:
        return self._catalog.load_table(self.target.name)


class _Handle:
    """See `commits.Handle`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def standing(self, writer: Writer) -> Standing:
        properties = self._table.properties
        batch = properties.get(_property(BATCH_KEY, writer))
        run, token = (int(properties.get(_property(key, writer), "0")) for key in (RUN_KEY, TOKEN_KEY))
        return Standing(None if batch is None else int(batch), run, token)

    def commit(self, writer: Writer, batch: int, files: Sequence[DataFile]) -> None:
        from pyiceberg.exceptions import CommitFailedException

        # In memory only: how often others try again is theirs to say.
        self._table.metadata.properties[_RETRIES_KEY] = "0"
        numbers = {BATCH_KEY: batch, RUN_KEY: writer.run, TOKEN_KEY: writer.token}
        told = {_property(key, writer): str(number) for key, number in numbers.items()}
        try:
            with self._table.transaction() as transaction:
                transaction.set_properties({**told, QUERY_KEY: writer.query_id})
                transaction.add_files(
                    [file.path for file in files],
                    snapshot_properties={QUERY_KEY: writer.query_id, BATCH_KEY: str(batch)},
                    check_duplicate_files=False,  # their names are new, and it reads all manifests
                )
        except CommitFailedException as error:
            raise MovedOnError from error


def _property(key: str, writer: Writer) -> str:
    return f"{key}.{writer.key}"


def _number(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0
