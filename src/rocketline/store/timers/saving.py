"""Writing what timers know, off the loop: in an order that lets a crash in between cost nothing but work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rocketline.store.files.json_files import FileSave
from rocketline.store.filesystem import FileSystem, SyncError
from rocketline.store.timers.checkpoint import TimerCheckpoint


@dataclass(slots=True)
class TimerSave:
    """First the units, then the slots that lead to them, then the counts, then the checkpoint that relies on all."""

    fs: FileSystem
    log_files: Sequence[Path]
    wheel_path: Path
    wheel_bytes: int
    pieces: Iterator[list[tuple[int, bytes]]]
    """What to write to the wheel, and where, some slots at a time."""
    is_wheel_renewed: bool
    """The file of the wheel is to hold nothing else."""
    checkpoint: TimerCheckpoint
    checkpoint_path: Path
    metrics: FileSave
    dropped: Sequence[Path]
    """Files of the timer log that nobody needs any more."""
    is_lost: bool = False
    """A sync failed, so that what was written may be gone, and the next sync would not tell."""
    _slots: list[tuple[int, bytes]] = field(default_factory=list)

    def steps(self) -> Iterator[None]:
        """Lays slots and figures out."""
        for some in self.pieces:
            self._slots += some
            yield
        yield from self.metrics.steps()

    def run(self) -> None:
        """On any thread, after the steps or without them. Raises `OSError`."""
        for _ in self.steps():
            pass
        try:
            self._sync_log()
            self._write_wheel()
            self.metrics.run()
            self.checkpoint.save(self.fs, self.checkpoint_path)
        except SyncError:
            self.is_lost = True
            raise
        for path in self.dropped:
            self.fs.remove(path)

    def _sync_log(self) -> None:
        for path in self.log_files:
            with contextlib.suppress(FileNotFoundError):
                file = self.fs.open(path)
                try:
                    file.sync()
                finally:
                    file.close()
        for folder in {folder for path in self.log_files for folder in path.parents[:2]}:
            self.fs.sync_folder(folder)

    def _write_wheel(self) -> None:
        if self.is_wheel_renewed:  # a crash now leaves none, and it is derived from the timer log
            self.fs.remove(self.wheel_path)
        is_new = not self.fs.exists(self.wheel_path)
        if not self._slots and not is_new:
            return
        file = self.fs.open(self.wheel_path, size=self.wheel_bytes)
        try:
            for position, data in self._slots:
                file.write_at(position, data)
            file.sync()
        finally:
            file.close()
        if is_new:
            self.fs.sync_folder(self.wheel_path.parent)
