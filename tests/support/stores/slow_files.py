"""Files whose log takes its time, by a clock that is turned by hand."""

from __future__ import annotations

from pathlib import Path

from rocketline.store.filesystem import Data, File
from rocketline.store.memory_filesystem import MemoryFile, MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock


class SlowFileSystem(MemoryFileSystem):
    """Its log takes `seconds` for a write."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock, capacity=1 << 30)
        self.fake_clock, self.seconds = clock, 0.0

    def open(self, path: Path, *, size: int | None = None) -> File:
        opened = super().open(path, size=size)
        if path.parent.name != "commitlog":
            return opened
        assert isinstance(opened, MemoryFile)
        slow = _SlowFile(opened._content, self._clock, self._charge)
        slow.disk = self
        return slow


class _SlowFile(MemoryFile):
    disk: SlowFileSystem

    def write_at(self, position: int, data: Data) -> None:
        self.disk.fake_clock.advance(self.disk.seconds)
        super().write_at(position, data)
