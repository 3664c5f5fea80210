"""What changes while a server runs, saved in a thread, so that nobody else has to wait for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from rocketline.net.background import Background

WAITING_MAX: Final = 256
"""Changes that wait to be saved; one more is refused, before it changes anything."""

Done: TypeAlias = Callable[[OSError | None], None]


class Saves:
    """Saves something as it is: all that changed while a save was under way, with the next one.

    `begin` is called on the loop and says how to write what is there by now, which is done in a thread. Use it as
    `async with`; leaving it waits for the save that is under way.
    """

    def __init__(self, begin: Callable[[], Callable[[], None]]) -> None:
        self._begin = begin
        self._waiting: list[Done] = []
        self._saving = Background()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def __aenter__(self) -> Saves:
        await self._saving.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._is_idle.wait()
        await self._saving.__aexit__()

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    def save(self, done: Done) -> None:
        """`done` hears when what there is now is saved, or why it cannot be."""
        self._waiting.append(done)
        if self._is_idle.is_set():
            self._is_idle.clear()
            self._saving.start(self._save_all)

    async def _save_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                problem = await self._save()
                for done in batch:
                    done(problem)
        finally:
            self._is_idle.set()

    async def _save(self) -> OSError | None:
        write = self._begin()
        try:
            await asyncio.to_thread(write)
        except OSError as error:
            return error
        return None
