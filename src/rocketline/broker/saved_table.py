"""A table of configurations by name that is saved whenever it changes: topics, and consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from rocketline.clock import Clock
from rocketline.errors import RemoteProtocolError
from rocketline.model.topic_config import DataVersion
from rocketline.wire.bodies import decode

Config = TypeVar("Config")
Save = Callable[[Mapping[str, Config], DataVersion], None]


class SavedTable(Generic[Config]):
    """Configurations and their version. A change is on disk before anybody sees it; if that fails, nothing changed."""

    def __init__(
        self, entries: Mapping[str, Config], data_version: DataVersion | None, save: Save[Config], clock: Clock
    ) -> None:
        self.entries = entries
        """Replaced by every change, never edited."""
        self.data_version = data_version or DataVersion(timestamp=clock.wall_ms())
        """What name servers and slaves compare."""
        self.version = 0
        """Grows with every change: what was worked out from the table holds while this stays."""
        self._save, self._clock = save, clock

    def change(self, changes: Mapping[str, Config | None]) -> None:
        """Put these in, take those away that are None, and save once. Raises `OSError` if it cannot be saved."""
        entries = {**self.entries, **changes}
        self._replace({name: config for name, config in entries.items() if config is not None})

    def touch(self) -> None:
        """Save as a new version, because something changed that is told together with the table."""
        self._replace(self.entries)

    def _replace(self, entries: Mapping[str, Config]) -> None:
        now_ms, counter = self._clock.wall_ms(), self.data_version.counter + 1
        data_version = replace(self.data_version, counter=counter, timestamp=now_ms)
        self._save(entries, data_version)
        self.entries, self.data_version = entries, data_version
        self.version += 1

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
