"""What changes while a server runs: read from an update, and saved in a thread, so that nobody waits for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from rocketline.net.background import Background
from rocketline.settings import parse_properties
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response

WAITING_MAX: Final = 256
"""Changes that wait to be saved; one more is refused, before it changes anything."""
UPDATE_BYTES_MAX: Final = 64 * 1024
"""All settings of a server together have a quarter of it."""

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


def read_update(
    request: Command, saves: Saves, protected: Collection[str], *, too_long: ResponseCode
) -> dict[str, str] | Command:
    """The settings that an update names, by their keys; the answer if not one of them may be changed."""
    if len(request.body) > UPDATE_BYTES_MAX:
        return response(too_long, f"properties of {len(request.body)} bytes: at most {UPDATE_BYTES_MAX} are read")
    if saves.is_full:
        return response(ResponseCode.SYSTEM_BUSY, "too many updates of the settings wait to be saved: try again")
    pairs = {pair.key: pair.value for pair in parse_properties(request.body)}
    if named := sorted(pairs.keys() & protected):
        return response(ResponseCode.NO_PERMISSION, f"not to be changed by an update: {', '.join(named)}")
    return pairs
