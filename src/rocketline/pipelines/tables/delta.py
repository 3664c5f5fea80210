"""Delta tables through `deltalake`: Spark writes the files, one commit of the Delta log adds them.

The commit carries application transactions (`txn`): the writer with the batch's number, with the number of its run,
and with that run's token. The Delta protocol keeps the last number of each, through checkpoints of its log too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from rocketline.errors import MissingExtraError
from rocketline.pipelines.definition import TableTarget
from rocketline.pipelines.tables.commits import MovedOnError, add_once
from rocketline.pipelines.tables.table import DataFile, Standing, Writer, changed_meanwhile, local_path

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

QUERY_KEY: Final = "rocketline.query"
BATCH_KEY: Final = "rocketline.batch"
_HISTORY_MAX: Final = 100
"""How many commits are looked at for the last one of ours: others only compact."""


class DeltaLakeTable:
    """See `table.Table`."""

    def __init__(self, target: TableTarget) -> None:
        self.target = target
        self._storage = dict(target.storage) or None
        try:
            import deltalake
        except ModuleNotFoundError:
            raise MissingExtraError("A Delta table", "deltalake", "pipelines") from None
        self._library = deltalake

    def exists(self) -> bool:
        return self._library.DeltaTable.is_deltatable(self.target.path, self._storage)

    def create(self, schema: pa.Schema) -> None:
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import CommitProperties

        try:
            self._library.DeltaTable.create(
                self.target.path,
                schema,
                mode="ignore",
                storage_options=self._storage,
                commit_properties=CommitProperties(max_commit_retries=0),  # a second try would make it anew
            )
        except CommitFailedError:
            if not self.exists():
                raise

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema(self._open().schema().to_arrow())

    def standing(self, writer: Writer) -> Standing:
        return _Handle(self._open(), self._relative).standing(writer)

    def last_writer(self) -> str | None:
        for commit in self._open().history(_HISTORY_MAX):
            if QUERY_KEY in commit:
                return str(commit[QUERY_KEY])
        return None

    def add(self, writer: Writer, batch: int, files: Sequence[DataFile]) -> bool:
        return add_once(self.target, lambda: _Handle(self._open(), self._relative), writer, batch, files)

    def version(self) -> int:
        return self._open().version()

    def files(self, version: int | None = None) -> list[str]:
        table = self._open(version)
        if "deletionVectors" in (table.protocol().reader_features or []):
            raise changed_meanwhile(self.target, "it has deletion vectors, which only Delta's own reader knows")
        is_local = local_path(self.target.path) is not None  # the library writes blanks as %20 all the same
        return sorted(unquote(uri) if is_local else uri for uri in table.file_uris())

    def files_added(self, after: int, until: int) -> Iterator[list[str]]:
        return map(self._added_by, range(after + 1, until + 1))

    def _added_by(self, version: int) -> list[str]:
        """As the log's own record of a commit tells it; the library has no call for that."""
        from deltalake.fs import DeltaStorageHandler

        store = DeltaStorageHandler(self.target.path, options=self._storage)
        try:
            text = store.open_input_file(f"_delta_log/{version:020}.json").read().decode()
        except FileNotFoundError:
            raise changed_meanwhile(self.target, f"the record of version {version} is gone") from None
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]
        if any(each["remove"].get("dataChange", True) for each in actions if "remove" in each):
            raise changed_meanwhile(self.target, f"version {version} has taken rows away")
        added = (each["add"] for each in actions if "add" in each)
        return [self._absolute(each["path"]) for each in added if each.get("dataChange", True)]

    def _open(self, version: int | None = None) -> DeltaTable:
        return self._library.DeltaTable(self.target.path, version=version, storage_options=self._storage)

    def _relative(self, path: str) -> str:
        """The log names files by their path below the table."""
        root = self.target.path.rstrip("/")
        _, found, below = path.partition(f"{root}/")
        assert found, f"{path} is not below {root}"
        return below

    def _absolute(self, path: str) -> str:
        path = unquote(path)
        return path if "://" in path else f"{self.target.path.rstrip('/')}/{path}"


class _Handle:
    """See `commits.Handle`."""

    def __init__(self, table: DeltaTable, relative: Callable[[str], str]) -> None:
        self._table, self._relative = table, relative

    def standing(self, writer: Writer) -> Standing:
        run, token = (self._table.transaction_version(key) for key in (_run_key(writer), _token_key(writer)))
        return Standing(self._table.transaction_version(writer.key), run or 0, token or 0)

    def commit(self, writer: Writer, batch: int, files: Sequence[DataFile]) -> None:
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

        actions: list[AddAction | RemoveAction] = [
            AddAction(self._relative(file.path), file.size_bytes, {}, file.modified_ms, True, _stats(file))
            for file in files
        ]
        properties = CommitProperties(
            custom_metadata={QUERY_KEY: writer.query_id, BATCH_KEY: str(batch)},
            max_commit_retries=0,
            app_transactions=[
                Transaction(writer.key, batch),
                Transaction(_run_key(writer), writer.run),
                Transaction(_token_key(writer), writer.token),
            ],
        )
        try:
            self._table.create_write_transaction(actions, "append", self._table.schema(), commit_properties=properties)
        except CommitFailedError as error:
            raise MovedOnError from error


def _run_key(writer: Writer) -> str:
    return f"{writer.key}/run"


def _token_key(writer: Writer) -> str:
    return f"{writer.key}/token"


def _stats(file: DataFile) -> str:
    stats: dict[str, Any] = {"numRecords": file.rows}
    return json.dumps(stats)
