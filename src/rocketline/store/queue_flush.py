"""Syncing what the store derives from its log, off the loop."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketline.logs import Log
from rocketline.store.files.checkpoint import Checkpoint
from rocketline.store.filesystem import FileSystem, told
from rocketline.store.index.key_index import SyncJob
from rocketline.store.queues.queue_ends import EndsFile, QueueEnds

_log = Log(__name__)

_FOLDERS_ABOVE: Final = 3
"""Of a queue's file: its queue, its topic, and that of all topics."""
_FILES_MAX: Final = 64
"""More are synced together with all else on their volume: ten thousand queues, one by one, take half a minute."""


@dataclass(slots=True)
class EndsJob:
    """Ends of queues to write. They take the file's place later, if they still hold then."""

    file: EndsFile
    ends: QueueEnds
    version: int
    """What has the same is known of the same queues."""
    failure_count: int
    """How many queues had failed to be read."""
    is_written: bool = False

    def run(self) -> None:
        """What cannot be written is no failure: the old ones are true as well."""
        try:
            self.file.write(self.ends)
        except OSError as error:
            _log.warning("ends of queues not saved", problem=told(error))
        else:
            self.is_written = True


@dataclass(frozen=True, slots=True)
class QueueFlushJob:
    """Queue files and full index files to sync, and the checkpoint to save."""

    fs: FileSystem
    paths: list[Path]
    checkpoint: Checkpoint
    index: SyncJob | None
    last: tuple[int, int] | None
    """Log offset and store time of the last record whose unit is durable then, if the queues are synced at all."""
    ends: EndsJob | None = None

    def run(self) -> None:
        """Raises `OSError`."""
        if len(self.paths) <= _FILES_MAX or not self.fs.sync_all(self.paths[0].parents[_FOLDERS_ABOVE]):
            self._sync_each()
        if self.index is not None:
            self.index.run()
        if self.ends is not None:
            self.ends.run()
        self.checkpoint.save()

    def _sync_each(self) -> None:
        """A file that was deleted meanwhile needs no sync."""
        for path in self.paths:
            try:
                file = self.fs.open(path)
            except FileNotFoundError:
                continue
            try:
                file.sync()
            finally:
                file.close()
        # Files may be new, and so may be the folders of their queues and topics.
        for folder in {folder for path in self.paths for folder in path.parents[:_FOLDERS_ABOVE]}:
            with contextlib.suppress(FileNotFoundError):
                self.fs.sync_folder(folder)
