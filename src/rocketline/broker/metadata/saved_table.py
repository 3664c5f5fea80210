"""A table of configurations by name, whose every change is on disk before it shows: topics, and consumer groups."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from rocketline.broker.long_work import Steps, each_with_pause
from rocketline.clock import Clock
from rocketline.errors import CorruptStoreError, RemoteProtocolError
from rocketline.model.topic_config import DataVersion
from rocketline.store.files.json_files import FileSave, pretty, pretty_pieces
from rocketline.store.files.table_journal import Change, TableJournal
from rocketline.store.filesystem import FileSystem
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.codec import from_value, to_value

Config = TypeVar("Config")

_LINE: Final = "\n\t"
_SORTED_A_STEP: Final = 2_000
"""Names: a millisecond or two."""
_FOLD_SHARE: Final = 2
"""The table is written when its journal has grown to one part of so many of it: so a change costs a few times what it
says, however large the table is."""
_FOLD_AFTER_S: Final = 60.0
"""And so long after a change at the latest: Apache's broker, should it run next, does not know the journal."""
_Others: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Any]]]
_Changes: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Any] | None]]


class SavedTable(Generic[Config]):
    """Configurations and their version. A change is on disk before anybody sees it; if that fails, nothing changed.

    It goes to the journal, as one line. Every now and then, and when the broker ends, the file is written anew.
    """

    def __init__(
        self,
        files: FileSystem,
        path: Path,
        field: str,
        config: type[Config],
        clock: Clock,
        entries: Mapping[str, Config],
        saved: DataVersion | None,
        others: _Others | None = None,
    ) -> None:
        """`field` is what the file calls the entries, `saved` the version that it has, if there is one.

        `others` are further fields of the file, each a map of maps, which come before it."""
        self.entries = dict(entries)
        """Edited by every change: whoever takes a rest while looking through it looks through a copy."""
        self.others: _Others = others or {}
        """Replaced by every change, never edited."""
        self.data_version = saved or DataVersion(timestamp=clock.wall_ms())
        """What name servers and slaves compare."""
        self.version = 0
        """Grows with every change: what was worked out from the table holds while this stays."""
        self._files, self._path, self._field, self._config, self._clock = files, path, field, config, clock
        self._journal = TableJournal(files, path)
        self._file_bytes = files.size_of(path) if saved is not None and files.exists(path) else 0
        self._is_written = saved is not None
        """Some version of it is in a file, which the next change can go on from."""
        self._folded_s = clock.monotonic()
        self._order = -1, list[str]()  # a version, and the names that it had
        self._lent_version = self._begun_version = 0  # of the last entry that was lent, and of the last save
        self._replay(None if saved is None else to_value(saved))

    # --- changes

    def change(
        self,
        changes: Mapping[str, Config | None],
        others: _Changes | None = None,
    ) -> None:
        """Put these in, and take those away that are None. Raises `OSError` if that cannot be made durable.

        `others` are the same for the further fields: what changes in the maps of which, or None for all of one."""
        now_ms, counter = self._clock.wall_ms(), self.data_version.counter + 1
        data_version = replace(self.data_version, counter=counter, timestamp=now_ms)
        # The first line of all says what was there before, too: whoever reads the folder has no table yet.
        told = changes if self._is_written else {**self.entries, **changes}
        content: dict[str, Any] = {
            self._field: {name: None if config is None else to_value(config) for name, config in told.items()}
        }
        before = to_value(self.data_version) if self._is_written else None
        self._journal.append(Change(before, to_value(data_version), {**content, **(others or {})}))
        self._is_written = True
        self._take_in(changes, others or {}, data_version)

    def lend(self, entries: Mapping[str, Config]) -> None:
        """Put these in although there is no room for them on disk: they are saved with the file, once that can be.

        For what anybody may ask for and would get again: should the broker end before, nothing is lost with them."""
        self.entries.update(entries)
        self.version += 1
        self._lent_version = self.version

    def has_room(self, names: Iterable[str], entries_max: int) -> bool:
        """There are not too many entries for those of these that are new."""
        new = {name for name in names if name not in self.entries}
        return not new or len(self.entries) + len(new) <= entries_max

    def _take_in(
        self,
        changes: Mapping[str, Config | None],
        others: _Changes,
        data_version: DataVersion,
    ) -> None:
        _change(self.entries, changes)
        for field, some in others.items():
            self.others = {**self.others, field: _merged(self.others[field], some)}
        self.data_version = data_version
        self.version += 1

    def _replay(self, saved: Any) -> None:
        for change in self._journal.load(saved):
            try:
                changes = {
                    name: None if value is None else from_value(self._config, value)
                    for name, value in change.content.get(self._field, {}).items()
                }
                others = {field: change.content[field] for field in self.others if field in change.content}
                self._take_in(changes, others, from_value(DataVersion, change.after))
            except (RemoteProtocolError, AttributeError) as error:
                raise CorruptStoreError(f"{self._path}.journal", f"{error}; move it away to start without") from None
            self._is_written = True

    # --- the file

    def begin_save(self) -> FileSave | None:
        """The file, to be written behind the running broker, if the journal has grown or is old, or something is in
        neither. Raises `OSError`."""
        is_old = self._clock.monotonic() >= self._folded_s + _FOLD_AFTER_S
        is_grown = self._journal.size * _FOLD_SHARE >= self._file_bytes
        if not self._lent_version and not (self._journal.has_lines and (is_old or is_grown)):
            return None
        return self._begin()

    def save_failed(self) -> None:
        """The journals stay, both."""

    def save_done(self) -> None:
        """The file was written."""
        self._journal.is_folded()
        if self._lent_version <= self._begun_version:
            self._lent_version = 0
        self._file_bytes = self._files.size_of(self._path)

    def save(self) -> None:
        """Write the file as it should be by now. Raises `OSError`."""
        self._begin().run()
        self.save_done()

    def close(self) -> None:
        """Let go of the journal."""
        self._journal.close()

    def _begin(self) -> FileSave:
        self._folded_s, self._begun_version = self._clock.monotonic(), self.version
        self._journal.rotate()
        return FileSave(self._files, self._path, self._pieces(dict(self.entries), self.others, self.data_version))

    def _pieces(self, entries: Mapping[str, Config], others: _Others, data_version: DataVersion) -> Iterator[str]:
        yield f'{{{_LINE}"dataVersion":{pretty(to_value(data_version), _LINE)},'
        for field, table in others.items():
            yield f'{_LINE}"{field}":'
            yield from pretty_pieces(((name, pretty(value, _LINE + "\t")) for name, value in table.items()), _LINE)
            yield ","
        yield f'{_LINE}"{self._field}":'
        texts = ((name, pretty(to_value(config), _LINE + "\t")) for name, config in entries.items())
        yield from pretty_pieces(texts, _LINE)
        yield "\n}"

    # --- pages

    def page(self, seen_version: str | None, first: int | None, size: int) -> Steps[dict[str, Config]]:
        """One page in the order of names. It is the first page if the table is no longer the one that was seen.

        `seen_version` is the data version, as JSON, that came with the page before.
        """
        start = max(0, first or 0) if self._is_current(seen_version) else 0
        names = yield from self._in_order()
        found = ((name, self.entries.get(name)) for name in names[start : start + max(0, size)])
        return {name: config for name, config in found if config is not None}

    def _in_order(self) -> Steps[list[str]]:
        """All names as they were when this began, sorted; the same until the next change."""
        version, names = self._order
        if version != self.version:
            version = self.version
            names = yield from sorted_in_steps(self.entries)
            self._order = version, names
        return names

    def _is_current(self, seen_version: str | None) -> bool:
        if not seen_version or not seen_version.strip():
            return False
        try:
            return decode(DataVersion, seen_version.encode("utf-8", "replace")) == self.data_version
        except RemoteProtocolError:
            return False


class ConfigTable(Generic[Config]):
    """What the tables of topics and of groups tell alike."""

    _table: SavedTable[Config]

    def get(self, name: str) -> Config | None:
        """What is called so, if it is there. Asking never makes it."""
        return self._table.entries.get(name)

    def all(self) -> Mapping[str, Config]:
        """As they are now, and will be: whoever takes a rest while looking through them looks through a copy."""
        return self._table.entries

    def page(self, seen_version: str | None, first: int | None, size: int) -> Steps[dict[str, Config]]:
        """See `SavedTable.page`."""
        return self._table.page(seen_version, first, size)

    @property
    def data_version(self) -> DataVersion:
        return self._table.data_version

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._table.version

    @property
    def table(self) -> SavedTable[Config]:
        """For whoever writes it behind the running broker, or when it ends."""
        return self._table


def _merged(
    table: Mapping[str, Mapping[str, Any]], changes: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Mapping[str, Any]]:
    """A map of maps in which these have changed; one that is empty then is left out."""
    changed = {name: _change(dict(table.get(name, {})), some) if some else None for name, some in changes.items()}
    return _change(dict(table), {name: inner or None for name, inner in changed.items()})


def sorted_in_steps(names: Iterable[str]) -> Steps[list[str]]:
    """Hundreds of thousands of them: runs of some thousands at first, which are merged then."""
    left, runs = iter(list(names)), list[list[str]]()
    while run := sorted(islice(left, _SORTED_A_STEP)):
        runs.append(run)
        if len(run) == _SORTED_A_STEP:
            yield
    if len(runs) <= 1:
        return runs[0] if runs else []
    merged: list[str] = []
    for name, is_step in each_with_pause(heapq.merge(*runs), _SORTED_A_STEP):
        merged.append(name)
        if is_step:
            yield
    return merged


def _change(table: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The table with those put in, and those taken out that are None."""
    for name, value in changes.items():
        if value is None:
            table.pop(name, None)
        else:
            table[name] = value
    return table
