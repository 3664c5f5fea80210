"""Writes tables behind the running broker: their text by pieces, one a turn of the loop, and a thread does the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from rocketline.logs import Throttle
from rocketline.net.background import Background
from rocketline.store.filesystem import told


class SaveJob(Protocol):
    """What is to be written, ready for a thread."""

    def steps(self) -> Iterable[None]:
        """Prepares it, a bit each time."""
        ...

    def run(self) -> None:
        """Writes it, on any thread. Raises `OSError`."""
        ...


class SavedBehind(Protocol):
    """A table that can be saved without stopping anybody."""

    def begin_save(self) -> SaveJob | None:
        """What is to be written; None if nothing is. May raise `OSError`."""
        ...

    def save_done(self) -> None:
        """It was written."""
        ...

    def save_failed(self) -> None:
        """It was not, or perhaps not."""
        ...


class SavedFile:
    """A table that is one file: saved behind, or at once."""

    def begin_save(self) -> SaveJob | None:
        """See `SavedBehind`."""
        raise NotImplementedError

    def save_done(self) -> None:
        """It was written."""

    def save_failed(self) -> None:
        """It was not, or perhaps not: the next save must not be left out."""

    def save(self) -> None:
        """Write it now, if there is anything to write. Raises `OSError`."""
        if (job := self.begin_save()) is not None:
            try:
                job.run()
            except OSError:
                self.save_failed()
                raise
            self.save_done()


class Saving:
    """One table at a time. Use it as `async with`; what it is at when that ends is left to the last save of all."""

    def __init__(self, log: Throttle) -> None:
        self._log = log
        self._due: dict[str, SavedBehind] = {}
        self._background = Background(tasks_max=1)
        self._thread = ThreadPoolExecutor(1, "save-tables")

    async def __aenter__(self) -> Saving:
        await self._background.__aenter__()
        self._thread.submit(int)  # it runs from the start on, and not from some later moment
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._background.__aexit__(*exc_info)
        self._thread.shutdown()  # whoever saves next finds no thread at the same file

    def save(self, what: str, table: SavedBehind) -> None:
        """Have the table written soon, if there is anything to write. `what` is its name in the log."""
        self._due[what] = table
        self._background.start(self._work)

    async def _work(self) -> None:
        while self._due:
            what = next(iter(self._due))
            await self._write(what, self._due.pop(what))

    async def _write(self, what: str, table: SavedBehind) -> None:
        try:
            job = table.begin_save()
        except OSError as error:
            self._tell(what, error)
            return
        if job is None:
            return
        try:
            for _ in job.steps():
                await asyncio.sleep(0)
            await asyncio.get_running_loop().run_in_executor(self._thread, job.run)
        except BaseException as error:
            table.save_failed()
            if not isinstance(error, OSError):
                raise
            self._tell(what, error)
        else:
            table.save_done()

    def _tell(self, what: str, error: OSError) -> None:
        """A disk that takes nothing now may do so later; the old file stays as it was."""
        self._log.warning(f"{what} not saved", told(error))
