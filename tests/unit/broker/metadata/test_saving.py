"""Tables written behind the running broker: a piece a turn of the loop, and the disk on another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

from rocketline.broker.metadata.saving import Saving
from rocketline.logs import Throttle
from rocketline.store.files.json_files import FileSave
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem

FILE = Path("/config/table.json")


class Table:
    """Ten pieces; notes in which turn of the loop each was made, and on which thread the file was written."""

    def __init__(self, files: FaultyFileSystem) -> None:
        self.files = files
        self.turns: list[int] = []
        self.turn = 0
        self.outcomes: list[str] = []
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    def count_turns(self) -> None:
        self.turn += 1
        if not self.ended.is_set():
            asyncio.get_running_loop().call_soon(self.count_turns)

    def begin_save(self) -> FileSave:
        return FileSave(self.files, FILE, self.pieces())

    def pieces(self) -> Iterator[str]:
        for number in range(10):
            assert threading.current_thread() is threading.main_thread()
            self.turns.append(self.turn)
            self.begun.set()
            yield str(number)

    def save_done(self) -> None:
        self.outcomes.append("done")
        self.ended.set()

    def save_failed(self) -> None:
        self.outcomes.append("failed")
        self.ended.set()


async def saved(table: Table) -> None:
    async with Saving(Throttle(FakeClock())) as saving:
        table.count_turns()
        saving.save("table", table)
        saving.save("table", table)  # while it is due once is enough
        await table.ended.wait()


async def test_each_piece_has_a_turn_of_its_own() -> None:
    table = Table(FaultyFileSystem(FakeClock()))
    await saved(table)
    assert table.files.read_file(FILE) == b"0123456789"
    assert len(set(table.turns)) == 10
    assert table.outcomes == ["done"]


async def test_disk_that_takes_nothing_is_told_and_the_table_learns_of_it() -> None:
    table = Table(FaultyFileSystem(FakeClock()))
    table.files.fail(at=1, lasting=True)
    await saved(table)
    assert table.outcomes == ["failed"]


async def test_save_that_is_under_way_when_the_broker_ends_is_left_to_the_last_one() -> None:
    table = Table(FaultyFileSystem(FakeClock()))
    async with Saving(Throttle(FakeClock())) as saving:
        saving.save("table", table)
        await table.begun.wait()
    assert table.outcomes == ["failed"]
    assert not table.files.exists(FILE)
