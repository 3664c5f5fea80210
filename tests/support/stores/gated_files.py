"""Files whose log is synced only when a test lets it, with the result that the test wants."""

from __future__ import annotations

import asyncio
import queue
import threading
from pathlib import Path

from rocketline.clock import Clock
from rocketline.store.filesystem import File
from rocketline.store.memory_filesystem import MemoryFile, MemoryFileSystem


class Gate:
    """Where a sync waits. Only those of the thread that flushes the log do; others would wait for themselves."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun: asyncio.Queue[None] = asyncio.Queue()
        self._verdicts: queue.Queue[OSError | None] = queue.Queue()
        self._is_open = False

    def pass_through(self) -> None:
        if self._is_open or not threading.current_thread().name.startswith("flush-log"):
            return
        self._loop.call_soon_threadsafe(self._begun.put_nowait, None)
        if (error := self._verdicts.get()) is not None:
            raise error

    async def begun(self) -> None:
        """Wait until a sync stands at the gate."""
        await self._begun.get()

    def let(self, error: OSError | None = None) -> None:
        """Let it through, or fail."""
        self._verdicts.put(error)

    def open(self) -> None:
        """Let this and all others through."""
        self._is_open = True
        self._verdicts.put(None)


class _GatedFile(MemoryFile):
    gate: Gate

    def sync(self) -> None:
        self.gate.pass_through()
        super().sync()


class GatedFileSystem(MemoryFileSystem):
    """In memory, with a gate before each sync of the log."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, capacity=1 << 30)
        self.gate = Gate()

    def open(self, path: Path, *, size: int | None = None) -> File:
        opened = super().open(path, size=size)
        assert isinstance(opened, MemoryFile)
        gated = _GatedFile(opened._content, self._clock, self._charge)
        gated.gate = self.gate
        return gated
