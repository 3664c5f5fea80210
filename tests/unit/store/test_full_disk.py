"""A disk without room, in detail; tests/faults lets it be full at every call of a store's life."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketline.errors import StoreFullError
from rocketline.store.filesystem import DiskFileSystem, File
from rocketline.store.queues import queue_table
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import SPACE_CALLS, FaultyFileSystem
from support.stores.small import (
    LOG_BYTES,
    ROOT,
    append_batch,
    catch_up,
    contents,
    die,
    fill,
    find_keys,
    flush_queues,
    message,
    open_store,
)

WRITES = SPACE_CALLS | {"write"}
LOG = ROOT / "commitlog" / f"{0:020}"


@pytest.fixture
def disk(clock: FakeClock) -> FaultyFileSystem:
    return FaultyFileSystem(clock)


def full(disk: FaultyFileSystem, **changes: Any) -> None:
    disk.fail(**{"at": 1, "calls": WRITES, "error": errno.ENOSPC, "lasting": True, **changes})


@pytest.mark.parametrize("is_cleared_at_once", [False, True])
def test_of_a_batch_that_finds_no_room_nothing_is_left(
    clock: FakeClock, disk: FaultyFileSystem, is_cleared_at_once: bool
) -> None:
    """A file system may find out in the midst of a write, though room was reserved."""
    store = open_store(disk, clock)
    fill(store, 1)
    full(disk, calls=["write"], torn=True, lasting=not is_cleared_at_once)
    with pytest.raises(StoreFullError, match=f"no disk space for the log in {ROOT}/commitlog: No space left"):
        append_batch(store, [message("T", bytes([65 + number]) * 60) for number in range(4)])
    assert store.is_writable
    disk.heal()
    if not is_cleared_at_once:
        fill(store, 1)
    assert not any((disk.read_file(LOG) or b"")[store.log.end :])
    fill(store, 1)
    die(store)
    assert [one.queue_offset for one in contents(open_store(disk, clock))] == list(range(store.max_offset("T", 0)))


def test_the_last_of_a_disk_is_reserved_record_by_record(clock: FakeClock) -> None:
    """A file system that has less than it is asked for may take it all the same, and then nobody has it."""
    disk = FaultyFileSystem(clock, capacity=1 << 20)
    store = open_store(disk, clock, mapped_file_size_commit_log=1 << 19)
    disk.write_file(ROOT / "filler", bytes(disk.usage(ROOT).usable - 10_000))
    sizes = []
    for _ in range(3):
        fill(store, 1)
        sizes.append(store.log.space.reserved - store.log.end)
    assert sizes == [0, 0, 0]
    disk.remove(ROOT / "filler")
    fill(store, 1)
    assert store.log.space.reserved == 1 << 19
    store.close()


def test_queues_in_want_of_room_wait_and_no_message_is_taken_meanwhile(
    clock: FakeClock, disk: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(disk, clock)
    fill(store, 3)
    full(disk, error=errno.EDQUOT)
    for _ in range(3):
        flush_queues(store)
        clock.advance(1)
    assert [one.queue_offset for one in contents(store)] == [0, 1, 2]
    with pytest.raises(StoreFullError, match=r"queues or index: /store/.*: Disk quota exceeded"):
        fill(store, 1)
    assert store.checkpoint.logics_log_offset == 0, "they are not on disk"
    disk.heal()
    flush_queues(store)
    fill(store, 1)
    refused, taken = (f"messages are {what}: " for what in ("refused", "taken again"))
    assert [caplog.text.count(line) for line in (refused, taken)] == [1, 1]


def test_files_that_were_written_before_the_room_ran_out_are_synced(clock: FakeClock, disk: FaultyFileSystem) -> None:
    """Units of three files: there is room for the first."""
    store = open_store(disk, clock)
    fill(store, 12)
    full(disk, at=2, calls=["create"])
    store.write_behind()
    first, second = (ROOT / "consumequeue" / "T" / "0" / f"{start:020}" for start in (0, 100))
    assert store.queues.take_unsynced() == [first]
    disk.heal()
    store.write_behind()
    assert second in store.queues.take_unsynced()
    assert store.is_writable


def test_keys_in_want_of_room_are_found_as_far_as_they_need_no_new_file(
    clock: FakeClock, disk: FaultyFileSystem
) -> None:
    store = open_store(disk, clock)
    fill(store, 1)
    store.write_behind()
    full(disk, calls=SPACE_CALLS)
    sent = fill(store, 3)
    assert [len(find_keys(store, f"k{one.queue_offset}")) for one in sent] == [1, 1, 1]
    disk.heal()
    fill(store, 20)
    full(disk)
    store.write_behind()
    find_keys(store, "k5")
    disk.heal()
    store.write_behind()
    assert [len(find_keys(store, f"k{number}")) for number in range(24)] == [1] * 24


def test_index_is_not_rebuilt_while_there_is_no_room(clock: FakeClock, disk: FaultyFileSystem) -> None:
    store = open_store(disk, clock)
    fill(store, 30)
    die(store)
    disk.remove_tree(ROOT / "consumequeue")
    full(disk)
    store = open_store(disk, clock)
    behind = store.index.behind_bytes
    assert store.shortage is not None
    assert store.catch_up(1000)
    assert store.index.behind_bytes == behind > 0
    disk.heal()
    flush_queues(store)
    catch_up(store)
    assert [len(find_keys(store, f"k{number}")) for number in range(30)] == [1] * 30


def test_start_that_would_have_to_keep_too_much_in_memory_says_what_to_do(
    clock: FakeClock, disk: FaultyFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_table, "_STUCK_BYTES_MAX", 100_000)
    store = open_store(disk, clock, mapped_file_size_commit_log=1 << 20)
    for _ in range(60):
        append_batch(store, [message("T", b"x") for _ in range(100)])
    die(store)
    disk.remove_tree(ROOT / "consumequeue")
    full(disk, calls=SPACE_CALLS)
    with pytest.raises(OSError, match=r"No space left on device, and \d{6} bytes of queues wait for it: free some"):
        open_store(disk, clock, mapped_file_size_commit_log=1 << 20)
    disk.heal()
    assert len(contents(open_store(disk, clock, mapped_file_size_commit_log=1 << 20))) == 6000


@pytest.fixture
def tmpfs() -> Iterator[Path]:
    """A folder in memory, where reading a hole through a map takes a page."""
    shm = Path("/dev/shm")
    if not os.path.ismount(shm):
        pytest.skip("there is no /dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shm))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("is_clean", [False, True])
def test_start_reads_no_hole_through_a_map(
    clock: FakeClock, tmpfs: Path, monkeypatch: pytest.MonkeyPatch, is_clean: bool
) -> None:
    """On a full disk that takes a page there is none to take, and SIGBUS ends the process."""
    size = 16 * LOG_BYTES
    store = open_store(DiskFileSystem(), clock, store_path_root_dir=tmpfs, mapped_file_size_commit_log=size)
    refusing = OSError(errno.ENOSPC, "No space left on device")

    def refuse(file: File, start: int, end: int) -> None:
        if start:
            raise refusing

    monkeypatch.setattr(store.log.space, "reserve", refuse)
    with pytest.raises(StoreFullError):
        fill(store, 1000)
    store.close() if is_clean else die(store)
    with (tmpfs / "commitlog" / f"{size:020}").open("rb") as second:
        assert os.fstat(second.fileno()).st_blocks == 0
        end = store.max_offset("T", 0)
        store = open_store(DiskFileSystem(), clock, store_path_root_dir=tmpfs, mapped_file_size_commit_log=size)
        assert os.fstat(second.fileno()).st_blocks == 0
    catch_up(store)
    assert len(contents(store)) == end > 50
    store.close()


# --- starting with damage


def torn_store(disk: FaultyFileSystem, clock: FakeClock) -> int:
    """One that was killed, and has bytes behind the end of its log, in two files; where it ends."""
    store = open_store(disk, clock)
    end = fill(store, 3)[-1].log_offset + 160
    flush_queues(store)
    die(store)
    disk.open(LOG).write_at(end, b"torn" * 100)
    disk.open(LOG.with_name(f"{LOG_BYTES:020}"), size=LOG_BYTES).write_at(0, b"more")
    return end


@pytest.mark.parametrize("at", range(1, 8))
def test_a_start_without_room_for_a_copy_of_a_torn_end_serves_and_takes_nothing(
    clock: FakeClock, disk: FaultyFileSystem, at: int
) -> None:
    end = torn_store(disk, clock)
    for _ in range(3):  # as somebody who starts it again and again
        full(disk, at=at, calls=SPACE_CALLS)
        store = open_store(disk, clock)
        assert [one.queue_offset for one in contents(store)] == [0, 1, 2]
        if store.log.has_rest:
            with pytest.raises(StoreFullError):
                fill(store, 1)
            store.write_behind()
            assert not store.is_writable
            assert (disk.read_file(LOG) or b"")[end : end + 400] == b"torn" * 100
        store.close()
        disk.heal()
    store = open_store(disk, clock)
    assert fill(store, 1)[0].log_offset == end
    folder = ROOT / "damaged" / "commitlog"
    copies = [disk.read_file(folder / name) for name in disk.list(folder)]
    assert sorted(copies, key=str) == [b"more", b"torn" * 100], "once each"
    store.close()


def test_a_store_goes_on_once_there_is_room_for_the_copy(clock: FakeClock, disk: FaultyFileSystem) -> None:
    end = torn_store(disk, clock)
    full(disk, calls=SPACE_CALLS)
    store = open_store(disk, clock)
    assert not store.is_writable
    disk.heal()
    store.write_behind()
    assert fill(store, 1)[0].log_offset == end
    die(store)
    assert [one.queue_offset for one in contents(open_store(disk, clock))] == [0, 1, 2, 3]


def test_a_start_without_room_for_a_queue_that_must_be_moved_serves_the_others(
    clock: FakeClock, disk: FaultyFileSystem
) -> None:
    store = open_store(disk, clock)
    fill(store, 3)
    fill(store, 3, topic="U")
    catch_up(store)
    store.close()
    disk.open(ROOT / "consumequeue" / "T" / "0" / f"{0:020}").write_at(40, b"garbage")
    full(disk, calls=["make_folder"])  # the last block went for the abort file
    store = open_store(disk, clock)
    assert len(contents(store, "U")) == 3
    with pytest.raises(OSError, match="No space left"):
        contents(store)
    disk.heal()
    assert len(contents(store)) == 3
    store.close()
