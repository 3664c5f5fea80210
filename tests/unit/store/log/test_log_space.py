"""Space made ahead: the next file is there before it is needed, and neither its making nor a failure harms the log."""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rocketline.errors import StoreFullError
from rocketline.store.filesystem import DiskFileSystem, FileSystem
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.damage import Aside
from rocketline.store.log.log_space import SpaceJob
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import CALLS, FaultyFile, FaultyFileSystem, Survival
from support.stores.small import (
    LOG_BYTES,
    ROOT,
    contents,
    die,
    fill,
    flush,
    flush_queues,
    memory,
    open_store,
    reserve_ahead,
)

FOLDER = ROOT / "commitlog"
FIRST, SECOND, THIRD = (f"{number * LOG_BYTES:020}" for number in range(3))
MIB = 1 << 20
EVERYTHING = 1 << 60


@pytest.fixture
def disk(clock: FakeClock) -> FaultyFileSystem:
    return FaultyFileSystem(clock)


def fill_to(store: MessageStore, share: float) -> None:
    """Append until so much of the file being written is used."""
    while store.max_log_offset % LOG_BYTES < share * LOG_BYTES:
        fill(store, 1)


def with_next_file(disk: FaultyFileSystem, clock: FakeClock) -> MessageStore:
    """A store of one file that is nearly full, and the next one made ahead."""
    store = open_store(disk, clock)
    fill_to(store, 0.76)
    reserve_ahead(store)
    assert disk.list(FOLDER) == [FIRST, SECOND]
    return store


# --- the next file


def test_the_next_file_is_made_when_a_quarter_is_left_of_the_last(disk: FaultyFileSystem, clock: FakeClock) -> None:
    store = open_store(disk, clock)
    while store.max_log_offset <= LOG_BYTES * 3 // 4:
        reserve_ahead(store)
        assert disk.list(FOLDER) == ([FIRST] if store.max_log_offset else [])
        fill(store, 1)
    used = disk.usage(ROOT).used
    reserve_ahead(store)
    assert disk.list(FOLDER) == [FIRST, SECOND]
    assert disk.size_of(FOLDER / SECOND) == disk.usage(ROOT).used - used == LOG_BYTES
    assert store.begin_space() is None, "one is enough"
    store.close()


def test_a_roll_takes_over_the_file_and_neither_makes_reserves_nor_syncs_anything(
    disk: FaultyFileSystem, clock: FakeClock
) -> None:
    store = with_next_file(disk, clock)
    disk.fail(at=1, calls=CALLS - {"open", "write"}, lasting=True)
    while store.max_log_offset < LOG_BYTES + 500:
        fill(store, 1)
    assert disk.call_count == 0
    assert store.log.segments.starts == [0, LOG_BYTES]
    disk.heal()
    assert disk.list(FOLDER) == [FIRST, SECOND]
    assert [one.queue_offset for one in contents(store)] == list(range(store.max_offset("T", 0)))
    store.close()


def test_a_store_that_nobody_makes_space_for_does_it_when_it_is_needed(
    disk: FaultyFileSystem, clock: FakeClock
) -> None:
    store = open_store(disk, clock)
    fill_to(store, 0.9)
    assert disk.list(FOLDER) == [FIRST]
    fill(store, 3)
    assert disk.list(FOLDER) == [FIRST, SECOND]
    store.close()


def test_files_in_memory_are_made_when_they_are_needed(clock: FakeClock) -> None:
    """Nothing waits there, and space that is reserved would be missing elsewhere."""
    files = memory(clock)
    store = open_store(files, clock)
    fill_to(store, 0.9)
    assert store.begin_space() is None
    store.close()


def test_the_owner_is_told_once_when_space_is_due_and_again_in_the_next_file(
    disk: FaultyFileSystem, clock: FakeClock
) -> None:
    store = open_store(disk, clock)
    told: list[int] = []
    store.log.space.on_low = lambda: told.append(store.max_log_offset)
    fill(store, 30)
    assert [position // LOG_BYTES for position in told] == list(range(len(told)))
    assert all(position % LOG_BYTES > LOG_BYTES * 3 // 4 for position in told)
    assert len(told) >= 3
    store.close()


# --- the file being written


class Written:
    """A log with files of 64 MiB, of which one was found at the start."""

    def __init__(self, disk: FileSystem) -> None:
        self.disk = disk
        self.log = CommitLog(disk, Path("/log"), 64 * MIB)
        self.log.make_room(100)
        self.log.write(b"r" * 100)
        self.log.restart(0, 100, Aside(disk, Path("/")))

    def step(self) -> tuple[int, int] | None:
        """What a job reserves next, in MiB."""
        job = self.log.space.begin(self.log.end, EVERYTHING)
        if job is None:
            return None
        job.run()
        self.log.space.finish(job)
        return job.begin // MIB, job.end // MIB

    def write(self, size: int) -> None:
        for _ in range(size // MIB):
            self.log.write(bytes(MIB))


def test_a_file_found_at_the_start_is_reserved_ahead_of_the_writing(disk: FaultyFileSystem) -> None:
    run = Written(disk)
    assert run.step() == (0, 16)
    assert run.step() is None
    disk.fail(at=1, calls=["allocate"], lasting=True)
    run.write(7 * MIB)
    assert run.step() is None
    run.write(2 * MIB)
    disk.heal()
    assert run.step() == (16, 32)
    run.write(22 * MIB)
    assert [run.step(), run.step()] == [(32, 48), None]
    run.write(16 * MIB)
    assert [run.step(), run.step()] == [(48, 64), None]
    run.write(MIB)
    assert [run.step(), run.step()] == [(64, 128), None], "the next file"
    run.log.close()


def test_writing_that_is_faster_reserves_for_itself_and_what_the_job_brings_counts_all_the_same(
    disk: FaultyFileSystem,
) -> None:
    run = Written(disk)
    job = run.log.space.begin(run.log.end, EVERYTHING)
    assert job is not None
    run.write(20 * MIB)
    assert run.log.space.reserved > 32 * MIB
    reserved = run.log.space.reserved
    job.run()
    run.log.space.finish(job)
    assert run.log.space.reserved == reserved
    run.log.close()


def test_where_nothing_can_be_reserved_beside_the_writing_the_next_file_is_made_without(
    disk: FaultyFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FaultyFile, "try_allocate", lambda *_: False)
    run = Written(disk)
    assert run.step() == (0, 16)
    assert run.step() is None, "it was of no use"
    run.write(50 * MIB)
    assert [run.step(), run.step()] == [(64, 128), None]
    assert disk.exists(Path("/log") / f"{64 * MIB:020}")
    run.write(13 * MIB)
    run.log.make_room(MIB)
    assert run.log.space.reserved == run.log.end == 64 * MIB
    run.write(MIB)
    assert run.log.space.reserved == 80 * MIB
    run.log.close()


# --- jobs that come too late


def overtaken(store: MessageStore) -> SpaceJob:
    """A job for the next file that has not ended when the file is needed."""
    fill_to(store, 0.76)
    while (job := store.begin_space()) is not None and not job.is_new:
        job.run()
        store.finish_space(job)
    assert job is not None
    while store.max_log_offset < LOG_BYTES + 300:
        fill(store, 1)
    return job


@pytest.mark.parametrize("is_on_disk", [False, True])
@pytest.mark.parametrize("had_begun", [False, True])
def test_a_file_that_is_needed_before_it_is_ready_is_made_on_the_spot(
    had_begun: bool, is_on_disk: bool, disk: FaultyFileSystem, clock: FakeClock, tmp_path: Path
) -> None:
    files: FileSystem = DiskFileSystem() if is_on_disk else disk
    root = tmp_path if is_on_disk else ROOT
    store = open_store(files, clock, store_path_root_dir=root)
    if had_begun:  # it has made the file, and not come further
        files.write_file(root / "commitlog" / SECOND, b"")
    job = overtaken(store)
    job.run()
    fill(store, 1)
    store.finish_space(job)
    assert store.log.space.reserved == 2 * LOG_BYTES
    fill(store, 20)
    kept = contents(store)
    assert [one.queue_offset for one in kept] == list(range(len(kept)))
    starts = store.log.segments.starts
    store.close()
    assert files.list(root / "commitlog") == [f"{start:020}" for start in starts]
    store = open_store(files, clock, store_path_root_dir=root)
    assert contents(store) == kept
    store.close()


def test_a_late_job_that_fails_does_not_remove_the_file_in_use(disk: FaultyFileSystem, clock: FakeClock) -> None:
    store = open_store(disk, clock)
    job = overtaken(store)
    store.finish_space(job, OSError(errno.EIO, "Input/output error"))
    assert disk.list(FOLDER) == [FIRST, SECOND]
    assert len(contents(store)) == store.max_offset("T", 0)
    store.close()
    assert store.problem is None


def test_a_job_beside_the_writing_changes_no_byte(clock: FakeClock, tmp_path: Path) -> None:
    """Real threads on a real disk, with files so small that the writing overtakes the jobs now and then."""
    store = open_store(DiskFileSystem(), clock, store_path_root_dir=tmp_path)
    with ThreadPoolExecutor(1) as thread:
        running = None
        while store.max_log_offset < 300 * LOG_BYTES:
            fill(store, 1)
            if running is not None and running[1].done():
                store.finish_space(running[0], running[1].result())
                running = None
            if running is None and (job := store.begin_space()) is not None:
                running = job, thread.submit(job.run)
        if running is not None:
            store.finish_space(running[0], running[1].result())
    sent = store.max_offset("T", 0)
    store.close()
    assert store.problem is None
    (tmp_path / "abort").write_text("0")
    store = open_store(DiskFileSystem(), clock, store_path_root_dir=tmp_path)
    assert [one.body.rstrip(b".") for one in contents(store)] == [b"%d" % number for number in range(sent)]
    store.close()


# --- failures


@pytest.mark.parametrize("call", ["open", "allocate", "sync", "sync_folder"])
def test_a_failure_ahead_is_told_once_and_costs_nothing(
    call: str, disk: FaultyFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(disk, clock)
    fill_to(store, 0.76)
    disk.fail(at=1, calls=[call], error=errno.ENOSPC, lasting=True)
    for _ in range(3):
        reserve_ahead(store)
    disk.heal()
    assert store.is_writable
    assert disk.list(FOLDER) == [FIRST], "what it had taken is free for messages"
    reserve_ahead(store)
    assert caplog.text.count("no space could be reserved ahead") == 1
    assert "No space left on device" in caplog.text
    while store.max_log_offset < LOG_BYTES:
        fill(store, 1)
    assert disk.list(FOLDER) == [FIRST, SECOND]
    fill_to(store, 0.76)
    reserve_ahead(store)
    assert disk.list(FOLDER) == [FIRST, SECOND, THIRD], "the next file is another matter"
    store.close()


def test_a_failed_file_that_cannot_be_removed_is_used(disk: FaultyFileSystem, clock: FakeClock) -> None:
    store = open_store(disk, clock)
    fill_to(store, 0.76)
    disk.fail(at=1, calls=["sync", "remove"], lasting=True)
    reserve_ahead(store)
    disk.heal()
    assert disk.list(FOLDER) == [FIRST, SECOND]
    fill(store, 10)
    assert len(contents(store)) == store.max_offset("T", 0)
    store.close()


def test_a_file_that_cannot_be_taken_over_is_tried_again(disk: FaultyFileSystem, clock: FakeClock) -> None:
    log = CommitLog(disk, Path("/log"), 1000)
    log.make_room(800)
    log.write(b"r" * 800)
    job = log.space.begin(log.end, EVERYTHING)
    assert job is not None
    job.run()
    log.space.finish(job)
    disk.fail(at=1, calls=["open"], error=errno.EMFILE)
    with pytest.raises(StoreFullError, match="no new log file can be made in /log: Too many open files"):
        log.make_room(800)
    log.make_room(800)
    assert log.segments.starts == [0, 1000]
    log.close()


def test_a_file_that_somebody_removed_is_made_anew(disk: FaultyFileSystem, clock: FakeClock) -> None:
    store = with_next_file(disk, clock)
    disk.remove(FOLDER / SECOND)
    while store.max_log_offset < LOG_BYTES + 500:
        fill(store, 1)
    assert disk.list(FOLDER) == [FIRST, SECOND]
    assert [one.queue_offset for one in contents(store)] == list(range(store.max_offset("T", 0)))
    store.close()


class NoFolderSync(DiskFileSystem):
    """Fails for as long as it is told to, after the file was made."""

    is_failing = False

    def sync_folder(self, folder: Path) -> None:
        if self.is_failing:
            raise OSError(errno.EMFILE, "too many open files")
        super().sync_folder(folder)


def test_a_file_that_neither_could_finish_is_made_anew(tmp_path: Path) -> None:
    """The job and the loop fail one after the other; the file that the job then removes is not written to."""
    fs = NoFolderSync()
    log = CommitLog(fs, tmp_path, MIB)
    log.load()
    log.make_room(100)
    log.write(b"x" * (MIB - 100_000))
    while (job := log.space.begin(log.end, EVERYTHING)) is not None and not job.is_new:
        job.run()
        log.space.finish(job)
    assert job is not None
    fs.is_failing = True
    with pytest.raises(OSError, match="too many open files") as caught:
        job.run()
    with pytest.raises(StoreFullError):
        log.make_room(500_000)
    log.space.finish(job, caught.value)
    fs.is_failing = False

    log.make_room(500_000)
    log.write(b"y" * 1000)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{start:020}" for start in (0, MIB)]
    assert (tmp_path / f"{MIB:020}").read_bytes()[:1000] == b"y" * 1000
    log.close()


def test_nothing_is_reserved_ahead_that_would_make_the_disk_too_full(clock: FakeClock) -> None:
    """Above diskSpaceCleanForciblyRatio files are deleted that should be kept for longer."""
    disk = FaultyFileSystem(clock, capacity=100_000)
    store = open_store(disk, clock)
    fill_to(store, 0.76)
    free = disk.usage(ROOT).bytes_below(85) - LOG_BYTES + 1
    ballast = disk.open(ROOT / "ballast", size=0)
    ballast.write_at(0, bytes(free))
    assert store.begin_space() is None
    ballast.truncate(free - 1)
    assert store.begin_space() is not None
    store.close()


def test_a_disk_that_does_not_say_how_full_it_is_gets_nothing_ahead(
    disk: FaultyFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(path: Path) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    store = open_store(disk, clock)
    fill_to(store, 0.76)
    monkeypatch.setattr(disk, "usage", unknown)
    assert store.begin_space() is None
    store.close()


def test_a_store_that_is_read_only_gets_nothing_ahead(disk: FaultyFileSystem, clock: FakeClock) -> None:
    store = open_store(disk, clock)
    fill_to(store, 0.76)
    store.fail("test")
    assert store.begin_space() is None
    store.close()


# --- a file that nothing was written to


def test_a_clean_stop_leaves_no_unused_file(disk: FaultyFileSystem, clock: FakeClock) -> None:
    store = with_next_file(disk, clock)
    store.close()
    assert disk.list(FOLDER) == [FIRST]
    assert not disk.exists(ROOT / "abort")


def test_an_unused_file_that_cannot_be_removed_does_not_spoil_a_clean_stop(
    disk: FaultyFileSystem, clock: FakeClock
) -> None:
    store = with_next_file(disk, clock)
    kept = contents(store)
    flush_queues(store)
    disk.fail(at=1, calls=["remove"])
    store.close()
    assert disk.list(FOLDER) == [FIRST, SECOND]
    assert not disk.exists(ROOT / "abort")
    store = open_store(disk, clock)
    assert disk.list(FOLDER) == [FIRST]
    assert contents(store) == kept
    store.close()


def crash_by_kill(disk: FaultyFileSystem, store: MessageStore) -> FaultyFileSystem:
    die(store)
    return disk


CRASHES: dict[str, Callable[[FaultyFileSystem, MessageStore], FaultyFileSystem]] = {
    "killed": crash_by_kill,
    **{way.name.lower(): lambda disk, _, way=way: disk.crash(way, seed=1) for way in Survival},  # type: ignore[misc]
}


@pytest.mark.parametrize("is_exact", [False, True])
@pytest.mark.parametrize("crash", CRASHES)
def test_after_a_crash_the_unused_file_is_gone_and_the_log_goes_on_where_it_ended(
    crash: str, is_exact: bool, disk: FaultyFileSystem, clock: FakeClock
) -> None:
    store = with_next_file(disk, clock)
    if is_exact:  # the last record is followed by a blank one, and by the unused file
        left = store.log.room()
        store.log.write(left.to_bytes(4, "big") + bytes.fromhex("cbd43194"))
        store.log.end += left - 8
    flush(store)
    kept, end = contents(store), store.max_log_offset
    disk = CRASHES[crash](disk, store)
    store = open_store(disk, clock)
    assert disk.list(FOLDER) == [FIRST]
    assert (store.max_log_offset, store.log.segments.starts) == (end, [0])
    assert contents(store) == kept
    reserve_ahead(store)
    assert disk.list(FOLDER) == [FIRST, SECOND]
    fill(store, 20)
    assert [one.queue_offset for one in contents(store)] == list(range(store.max_offset("T", 0)))
    store.close()


def test_nobody_counts_or_deletes_the_unused_file(disk: FaultyFileSystem, clock: FakeClock) -> None:
    store = with_next_file(disk, clock)
    fill(store, 10)
    fill_to(store, 0.76)
    reserve_ahead(store)
    flush(store)
    flush_queues(store)
    last = store.log.segments.starts[-1]
    names = disk.list(FOLDER)
    assert names[-1] == f"{last + LOG_BYTES:020}"
    assert last < store.max_log_offset < last + LOG_BYTES
    clock.advance(73 * 3600)
    store.delete_expired()
    store.unlink(store.clean())
    assert disk.list(FOLDER) == names[-2:], "the file being written and the one after it"
    assert (store.min_log_offset, store.log.segments.starts) == (last, [last])
    assert store.record_at(last + LOG_BYTES) is None
    store.close()
    assert disk.list(FOLDER) == names[-2:-1]
