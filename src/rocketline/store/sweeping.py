"""Deletes what topics left behind, off the loop and a bit at a time: others wait for the same thread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketline.store.filesystem import FileSystem

_QUEUES_MAX: Final = 256
"""Queues whose folders one job deletes: some tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class SweepJob:
    """A part of what lies in the folder of a deleted topic; the folder itself, if that was the last part."""

    fs: FileSystem
    folder: Path

    def run(self) -> None:
        """Raises `OSError`."""
        names = self.fs.list(self.folder)
        for name in names[:_QUEUES_MAX]:
            self.fs.remove_tree(self.folder / name)
        if len(names) <= _QUEUES_MAX:
            self.fs.remove_tree(self.folder)
