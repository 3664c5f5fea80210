"""A table of configurations by name that is saved whenever it changes: topics, and consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from rocketline.clock import Clock
from rocketline.errors import RemoteProtocolError
from rocketline.model.topic_config import DataVersion
from rocketline.store.json_files import Rendered, pretty
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.codec import to_value

Config = TypeVar("Config")
Save = Callable[[dict[str, Rendered], DataVersion], None]
"""Writes the file, given the text of each entry."""


class SavedTable(Generic[Config]):
    """Configurations and their version. A change is on disk before anybody sees it; if that fails, nothing changed.

    The text of each entry is kept, for the file is written as a whole: to make that of 10,000 topics anew with every
    change would stop the broker for tenths of a second.
    """

    def __init__(
        self, entries: Mapping[str, Config], data_version: DataVersion | None, save: Save, clock: Clock
    ) -> None:
        self.entries = entries
        """Replaced by every change, never edited."""
        self.data_version = data_version or DataVersion(timestamp=clock.wall_ms())
        """What name servers and slaves compare."""
        self.version = 0
        """Grows with every change: what was worked out from the table holds while this stays."""
        self._save, self._clock = save, clock
        self._texts: dict[str, tuple[Config, Rendered]] = {}

    def change(self, changes: Mapping[str, Config | None]) -> None:
        """Put these in, take those away that are None, and save once. Raises `OSError` if it cannot be saved."""
        entries = {**self.entries, **changes}
        self._replace({name: config for name, config in entries.items() if config is not None})

    def touch(self) -> None:
        """Save as a new version, because something changed that is told together with the table."""
        self._replace(self.entries)

    def save(self) -> None:
        """Write the file as it should be by now. Raises `OSError`."""
        self._save(self._rendered(self.entries), self.data_version)

    def _replace(self, entries: Mapping[str, Config]) -> None:
        now_ms, counter = self._clock.wall_ms(), self.data_version.counter + 1
        data_version = replace(self.data_version, counter=counter, timestamp=now_ms)
        self._save(self._rendered(entries), data_version)
        self.entries, self.data_version = entries, data_version
        self.version += 1

    def _rendered(self, entries: Mapping[str, Config]) -> dict[str, Rendered]:
        known = self._texts
        self._texts = {
            name: text if (text := known.get(name)) is not None and text[0] is config else (config, _render(config))
            for name, config in entries.items()
        }
        return {name: text for name, (_, text) in self._texts.items()}

    def page(self, seen_version: str | None, first: int | None, size: int) -> dict[str, Config]:
        """One page in the order of names. It is the first page if the table is no longer the one that was seen.

        `seen_version` is the data version, as JSON, that came with the page before.
        """
        names = sorted(self.entries)
        start = max(0, first or 0) if self._is_current(seen_version) else 0
        return {name: self.entries[name] for name in names[start : start + max(0, size)]}

    def _is_current(self, seen_version: str | None) -> bool:
        if not seen_version or not seen_version.strip():
            return False
        try:
            return decode(DataVersion, seen_version.encode("utf-8", "replace")) == self.data_version
        except RemoteProtocolError:
            return False


def _render(config: object) -> Rendered:
    """As an entry of a table that is a field of the file's object."""
    return Rendered(pretty(to_value(config), "\n\t\t"))
