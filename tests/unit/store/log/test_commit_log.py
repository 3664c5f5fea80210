"""The log itself: room and reservation, flush jobs, reading within bounds, and starting anew after recovery."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rocketline.errors import IllegalMessageError, StoreFullError
from rocketline.store.filesystem import FileSystem
from rocketline.store.log import commit_log, log_space
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.damage import Aside
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival

FOLDER = Path("/log")
SIZE = 1000


def made(files: FileSystem) -> CommitLog:
    return CommitLog(files, FOLDER, SIZE)


def write(log: CommitLog, size: int) -> None:
    log.make_room(size)
    log.write(b"r" * size)


def flush(log: CommitLog) -> None:
    job = log.begin_flush()
    assert job is not None
    job.run()
    log.finish_flush(job)


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return MemoryFileSystem(clock, capacity=1 << 20)


def test_a_new_log_makes_its_first_file_with_its_first_record(files: MemoryFileSystem) -> None:
    log = made(files)
    log.load()
    assert (log.start, log.end, log.flushed, log.room()) == (0, 0, 0, 0)
    assert log.begin_flush() is None
    write(log, 100)
    assert (log.end, log.room()) == (100, 900)
    assert files.list(FOLDER) == ["00000000000000000000"]


def test_a_flush_covers_every_file_written_to_since_the_last_one(files: MemoryFileSystem) -> None:
    log = made(files)
    for _ in range(3):
        write(log, 600)
    job = log.begin_flush()
    assert job is not None
    assert (len(job.files), job.end) == (3, 2600)
    write(log, 100)
    job.run()
    log.finish_flush(job)
    assert (log.flushed, log.end) == (2600, 2700)
    job = log.begin_flush()
    assert job is not None
    assert len(job.files) == 1
    log.close()


def test_only_written_bytes_of_one_file_are_read(files: MemoryFileSystem) -> None:
    log = made(files)
    write(log, 600)
    write(log, 600)
    assert log.read(0, 600) == b"r" * 600
    assert log.read(1000, 600) == b"r" * 600
    for position, size in [(-1, 10), (0, 0), (0, -5), (990, 20), (1000, 601), (1600, 1), (5000, 1), (0, 1 << 40)]:
        assert log.read(position, size) is None


def test_the_size_of_a_record_is_told_only_where_one_begins(files: MemoryFileSystem) -> None:
    log = made(files)
    log.make_room(100)
    log.write(bytes.fromhex("00000064daa320a7") + bytes(92))
    assert log.record_bytes_at(0) == 100
    assert log.record_bytes_at(4) == 0
    assert log.record_bytes_at(96) == 0
    assert log.record_bytes_at(1 << 50) == 0


def test_blocks_are_reserved_ahead_and_no_further_than_the_file_goes(
    files: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_space, "_RESERVE_BYTES", 300)
    log = made(files)
    write(log, 100)
    assert files.usage(FOLDER).used == 300
    write(log, 150)
    assert files.usage(FOLDER).used == 300
    write(log, 100)
    assert files.usage(FOLDER).used == 600
    write(log, 500)
    assert files.usage(FOLDER).used == 900
    write(log, 100)
    assert files.usage(FOLDER).used == 1000


def test_no_space_is_told_before_a_byte_is_written_and_passes_when_there_is_space(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    log = made(disk)
    disk.fail(at=1, calls=["allocate"], error=errno.ENOSPC)
    with pytest.raises(StoreFullError, match="no disk space for the log in /log: No space left on device"):
        write(log, 100)
    assert log.end == 0
    write(log, 100)
    assert log.end == 100


def test_a_file_that_cannot_be_made_is_tried_again(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    log = made(disk)
    write(log, 600)
    for call in ("open", "sync", "sync_folder"):
        disk.fail(at=1, calls=[call], error=errno.ENOSPC)
        with pytest.raises(StoreFullError, match="no new log file can be made"):
            write(log, 600)
        assert log.end == SIZE
        assert log.room() == 0
    write(log, 600)
    assert log.end == SIZE + 600


def test_a_record_larger_than_a_file_is_illegal(files: MemoryFileSystem) -> None:
    log = made(files)
    log.make_room(SIZE - 8)
    with pytest.raises(IllegalMessageError, match="a log file 1000"):
        log.make_room(SIZE - 7)


def test_a_restart_drops_what_follows_and_makes_durable_what_was_found(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    log = made(disk)
    for _ in range(3):
        write(log, 600)
    again = made(disk)  # the process died, and its bytes are in the system's cache
    again.load()
    assert again.end == 3000
    assert again.restart(0, 1200, Aside(disk, FOLDER.parent))
    assert (again.end, again.flushed) == (1200, 1200)
    for survival in Survival:
        found = made(disk.crash(survival, seed=1))
        found.load()
        assert found.end == 2000
        assert found.read(0, 600) == b"r" * 600
        assert found.read(1000, 400) == b"r" * 200 + bytes(200)


def test_reading_sees_what_a_restart_cleared(files: MemoryFileSystem) -> None:
    log = made(files)
    write(log, 600)
    assert log.read(300, 2) == b"rr"
    log.restart(0, 300, Aside(files, FOLDER.parent))
    log.write(b"new")
    assert log.read(298, 5) == b"rrnew"


def test_the_oldest_file_is_let_go_and_its_bytes_are_gone(files: MemoryFileSystem) -> None:
    log = made(files)
    for _ in range(3):
        write(log, 600)
    flush(log)
    assert log.drop_first() == FOLDER / "00000000000000000000"
    assert log.start == 1000
    assert log.read(0, 600) is None
    assert log.read(1000, 600) == b"r" * 600
    log.close()


def test_maps_of_files_long_unused_are_given_up(files: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "_MAPS_MAX", 2)
    log = made(files)
    for _ in range(4):
        write(log, 600)
    for start in (0, 1000, 2000, 3000, 0):
        assert log.read(start, 600) == b"r" * 600
    assert len(log._maps) == 2
