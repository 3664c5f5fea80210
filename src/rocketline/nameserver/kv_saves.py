"""Changes of the KV configuration, saved in a thread: whoever asks for something else does not wait for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from rocketline.nameserver.kv_config import KvChange, KvConfig
from rocketline.net.background import Background

SIZE_MAX: Final = 1024 * 1024
"""Characters of all namespaces, keys and values; and of the changes that wait to be saved."""
KEYS_MAX: Final = 10_000
_CHANGE_SIZE: Final = 64
"""What a change costs besides its texts."""

Done: TypeAlias = Callable[[OSError | None], None]


class KvSaves:
    """Saves changes in the order in which they came: all that came while a save was under way, with the next one.

    Use it as `async with`; leaving it waits for the save that is under way.
    """

    def __init__(self, kv: KvConfig) -> None:
        self._kv = kv
        self._waiting: list[tuple[KvChange, Done]] = []
        self._unsaved_count = self._unsaved_size = 0
        """How many changes wait or are being saved, and their bytes."""
        self._saving = Background()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def __aenter__(self) -> KvSaves:
        await self._saving.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._is_idle.wait()
        await self._saving.__aexit__()

    def change(self, change: KvChange, done: Done) -> str:
        """Have it saved; `done` hears when it is, or why not. Returns why it cannot be, "" if it may."""
        size = change.size + _CHANGE_SIZE
        if self._unsaved_size + size > SIZE_MAX:
            return "too many changes of the KV configuration wait to be saved: try again"
        if change.value is not None and self._is_new(change):
            if self._kv.key_count + self._unsaved_count >= KEYS_MAX:
                return f"the KV configuration has {KEYS_MAX} keys already"
            if self._kv.size + self._unsaved_size + size > SIZE_MAX:
                return f"the KV configuration would have more than {SIZE_MAX} characters"
        self._waiting.append((change, done))
        self._unsaved_count += 1
        self._unsaved_size += size
        if self._is_idle.is_set():
            self._is_idle.clear()
            self._saving.start(self._save_all)
        return ""

    def _is_new(self, change: KvChange) -> bool:
        """The change takes more room than there is taken already."""
        old = self._kv.get(change.namespace, change.key)
        return old is None or len(change.value or "") > len(old)

    async def _save_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                problem = await self._save([change for change, _ in batch])
                self._unsaved_count -= len(batch)
                self._unsaved_size -= sum(change.size + _CHANGE_SIZE for change, _ in batch)
                for _, done in batch:
                    done(problem)
        finally:
            self._is_idle.set()

    async def _save(self, changes: list[KvChange]) -> OSError | None:
        namespaces = self._kv.changed(changes)
        if namespaces is not self._kv.namespaces:
            try:
                await asyncio.to_thread(self._kv.write, namespaces)
            except OSError as error:
                return error
            self._kv.adopt(namespaces)
        return None
