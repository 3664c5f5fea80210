"""Who works in a store's folder, and whether whoever did so last came to an end: the files `lock` and `abort`."""

from __future__ import annotations

import os
from pathlib import Path

from rocketline.store.filesystem import FileSystem


class StoreLock:
    """The sole right to a store's folder, held from construction until `release`.

    Raises `StoreLockedError` if another broker has it, ours or Apache's.
    """

    def __init__(self, fs: FileSystem, root: Path) -> None:
        self._fs, self._root, self._abort = fs, root, root / "abort"
        fs.make_folder(root)
        self._lock = fs.lock(root / "lock")
        self.is_clean = not fs.exists(self._abort)
        """The last owner closed the store properly, or there was none."""

    def mark_in_use(self) -> None:
        """From now on a crash shows: `abort` is there, with our process id in it. Raises `OSError`."""
        self._fs.write_file(self._abort, str(os.getpid()).encode())
        self._fs.sync_folder(self._root)

    def mark_closed(self) -> None:
        """Everything is written; the next start may trust it. Raises `OSError`."""
        self._fs.remove(self._abort)
        self._fs.sync_folder(self._root)

    def release(self) -> None:
        """Let others in; once more does nothing."""
        self._lock.release()
