"""Disk, memory and the failing disk keep one contract; what only one of them does is below."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from rocketline.clock import SystemClock
from rocketline.errors import StoreLockedError
from rocketline.store import filesystem
from rocketline.store.filesystem import DiskFileSystem, DiskUsage, FileSystem, clear_from
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem


@pytest.fixture(params=["disk", "memory", "faulty"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    made: dict[str, FileSystem] = {
        "disk": DiskFileSystem(),
        "memory": MemoryFileSystem(SystemClock(), capacity=1 << 30),
        "faulty": FaultyFileSystem(SystemClock(), capacity=1 << 30),
    }
    chosen = made[request.param]
    chosen.make_folder(tmp_path)
    return chosen


def test_a_new_file_has_its_length_and_reads_as_zeros(files: FileSystem, tmp_path: Path) -> None:
    file = files.open(tmp_path / "log", size=1 << 30)
    assert file.size == files.size_of(tmp_path / "log") == 1 << 30
    assert file.read_at((1 << 30) - 3, 3) == bytes(3)
    file.close()


def test_what_is_written_is_read_back_and_seen_through_a_map(files: FileSystem, tmp_path: Path) -> None:
    file = files.open(tmp_path / "log", size=10_000)
    seen = file.map()
    for position, data in ((0, b"bytes"), (5_000, bytearray(b"array")), (9_996, memoryview(b"view"))):
        file.write_at(position, data)
    assert seen[0:5] == file.read_at(0, 5) == b"bytes"
    assert seen[5_000:5_005] == b"array"
    assert type(seen[0:1]) is bytes
    assert len(seen) == 10_000
    assert file.read_at(9_996, 100) == b"view"
    assert file.read_at(10_000, 1) == file.read_at(20_000, 1) == b""
    file.close()


def test_a_map_outlives_its_file(files: FileSystem, tmp_path: Path) -> None:
    file = files.open(tmp_path / "log", size=100)
    file.write_at(0, b"kept")
    seen = file.map()
    file.close()
    files.remove(tmp_path / "log")
    assert seen[0:4] == b"kept"


def test_two_handles_see_the_same_file(files: FileSystem, tmp_path: Path) -> None:
    first, second = files.open(tmp_path / "log", size=100), files.open(tmp_path / "log")
    first.write_at(50, b"hello")
    assert second.read_at(50, 5) == b"hello"
    first.close()
    second.close()


def test_an_existing_file_keeps_its_length_whatever_size_is_named(files: FileSystem, tmp_path: Path) -> None:
    files.open(tmp_path / "log", size=100).close()
    file = files.open(tmp_path / "log", size=999)
    assert file.size == 100
    file.close()


def test_an_empty_file_is_as_good_as_a_missing_one(files: FileSystem, tmp_path: Path) -> None:
    """Its maker came no further."""
    files.write_file(tmp_path / "log", b"")
    file = files.open(tmp_path / "log", size=100)
    assert file.size == files.size_of(tmp_path / "log") == 100
    file.close()


def test_opening_a_missing_file_without_a_size_fails(files: FileSystem, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(tmp_path / "log")
    with pytest.raises(FileNotFoundError):
        files.open(tmp_path / "missing" / "log", size=1)


def test_writing_past_the_end_grows_the_file(files: FileSystem, tmp_path: Path) -> None:
    file = files.open(tmp_path / "log", size=0)
    file.write_at(3, b"abc")
    assert (file.size, file.read_at(0, 10)) == (6, b"\0\0\0abc")
    file.close()


def test_a_file_cut_and_grown_again_holds_zeros(files: FileSystem, tmp_path: Path) -> None:
    file = files.open(tmp_path / "log", size=8)
    file.write_at(0, b"abcdefgh")
    file.truncate(3)
    assert file.size == 3
    file.truncate(8)
    assert file.read_at(0, 8) == b"abc\0\0\0\0\0"
    file.close()


def test_clearing_leaves_zeros_from_there_on_and_the_length(files: FileSystem, tmp_path: Path) -> None:
    file = files.open(tmp_path / "log", size=3_000_000)
    seen = file.map()
    for position in (0, 99, 100, 2_500_000, 2_999_999):
        file.write_at(position, b"x")
    clear_from(file, 100)
    assert seen[:] == b"x" + bytes(98) + b"x" + bytes(2_999_900)
    clear_from(file, 3_000_000)
    assert file.size == 3_000_000
    file.close()


def test_reserving_and_syncing_change_nothing_to_be_seen(files: FileSystem, tmp_path: Path) -> None:
    file = files.open(tmp_path / "log", size=1 << 20)
    file.write_at(0, b"x")
    file.allocate(0, 1 << 20)
    file.sync()
    assert (file.size, file.read_at(0, 2)) == (1 << 20, b"x\0")
    file.close()


def test_a_closed_file_refuses_everything_but_another_close(files: FileSystem, tmp_path: Path) -> None:
    file = files.open(tmp_path / "log", size=10)
    file.close()
    file.close()
    for use in (lambda: file.read_at(0, 1), lambda: file.write_at(0, b"x"), file.sync, file.map):
        with pytest.raises(OSError, match=r"\[Errno 9\]"):
            use()


def test_folders_are_made_listed_renamed_and_removed(files: FileSystem, tmp_path: Path) -> None:
    files.make_folder(tmp_path / "queues" / "T" / "0")
    files.make_folder(tmp_path / "queues" / "T" / "0")
    files.write_file(tmp_path / "queues" / "T" / "b", b"")
    files.write_file(tmp_path / "queues" / "T" / "a", b"")
    assert files.list(tmp_path / "queues" / "T") == ["0", "a", "b"]
    assert files.is_folder(tmp_path / "queues" / "T" / "0")
    assert not files.is_folder(tmp_path / "queues" / "T" / "a")
    files.rename(tmp_path / "queues" / "T", tmp_path / "queues" / "U")
    assert files.list(tmp_path / "queues" / "U") == ["0", "a", "b"]
    assert files.list(tmp_path / "queues" / "T") == []
    files.remove_tree(tmp_path / "queues" / "U")
    files.remove_tree(tmp_path / "queues" / "U")
    assert files.list(tmp_path / "queues") == []
    assert not files.exists(tmp_path / "queues" / "U" / "a")


def test_a_file_renamed_takes_the_place_of_another(files: FileSystem, tmp_path: Path) -> None:
    files.write_file(tmp_path / "new", b"new")
    files.write_file(tmp_path / "old", b"old")
    files.rename(tmp_path / "new", tmp_path / "old")
    files.sync_folder(tmp_path)
    assert files.list(tmp_path) == ["old"]
    assert files.read_file(tmp_path / "old") == b"new"
    with pytest.raises(FileNotFoundError):
        files.rename(tmp_path / "new", tmp_path / "old")


def test_a_written_file_replaces_its_old_content_whole(files: FileSystem, tmp_path: Path) -> None:
    assert files.read_file(tmp_path / "text") is None
    files.write_file(tmp_path / "text", b"long content")
    files.write_file(tmp_path / "text", b"short")
    assert files.read_file(tmp_path / "text") == b"short"
    assert files.size_of(tmp_path / "text") == 5


def test_a_removed_file_is_gone_and_removing_it_again_is_no_error(files: FileSystem, tmp_path: Path) -> None:
    files.write_file(tmp_path / "text", b"")
    assert files.exists(tmp_path / "text")
    files.remove(tmp_path / "text")
    files.remove(tmp_path / "text")
    assert not files.exists(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        files.size_of(tmp_path / "text")


def test_writing_sets_the_time_of_change(files: FileSystem, tmp_path: Path) -> None:
    files.write_file(tmp_path / "text", b"x")
    assert abs(files.modified_ms(tmp_path / "text") - SystemClock().wall_ms()) < 60_000


def test_a_folder_is_locked_once(files: FileSystem, tmp_path: Path) -> None:
    lock = files.lock(tmp_path / "lock")
    assert files.read_file(tmp_path / "lock") == b"lock"
    with pytest.raises(StoreLockedError) as raised:
        files.lock(tmp_path / "lock")
    assert raised.value.holder == os.getpid()
    lock.release()
    lock.release()
    files.lock(tmp_path / "lock").release()


def test_another_process_cannot_take_the_lock_and_learns_who_has_it(tmp_path: Path) -> None:
    lock = DiskFileSystem().lock(tmp_path / "lock")
    other = (
        "import pathlib, sys; from rocketline.store.filesystem import DiskFileSystem\n"
        "DiskFileSystem().lock(pathlib.Path(sys.argv[1]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", other, str(tmp_path / "lock")], capture_output=True, text=True, check=False
    )
    lock.release()
    assert run.returncode == 1
    assert f"locked by process {os.getpid()}: stop that broker" in run.stderr


def test_a_disk_reports_what_is_used_and_what_is_left(tmp_path: Path) -> None:
    usage = DiskFileSystem().usage(tmp_path)
    assert usage.used > 0
    assert usage.usable > 0


@pytest.mark.parametrize(
    ("used", "usable", "ratio"), [(0, 100, 0.0), (1, 999, 0.01), (75, 25, 0.75), (751, 249, 0.76), (5, 0, 1.0)]
)
def test_the_ratio_is_rounded_up_to_whole_percent(used: int, usable: int, ratio: float) -> None:
    assert DiskUsage(used, usable).ratio == ratio


@pytest.mark.parametrize("used", [0, 1, 850, 901, 1000])
def test_what_may_still_be_used_brings_the_ratio_to_the_bound_and_not_beyond(used: int) -> None:
    left = DiskUsage(used, 1003 - used).bytes_below(85)
    assert left == 852 - used
    if left >= 0:
        assert DiskUsage(used + left, 1003 - used - left).ratio == 0.85
    assert DiskUsage(used + left + 1, 1003 - used - left - 1).ratio > 0.85


def test_memory_that_is_used_up_fails_like_a_full_disk() -> None:
    files, folder = MemoryFileSystem(FakeClock(), capacity=1_000), Path("store")
    files.make_folder(folder)
    file = files.open(folder / "log", size=1 << 30)
    file.write_at(0, bytes(600))
    assert files.usage(folder) == DiskUsage(used=600, usable=400)
    with pytest.raises(OSError, match="used up") as raised:
        file.write_at(600, bytes(401))
    assert raised.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="used up"):
        file.allocate(0, 1_001)
    file.write_at(0, bytes(1_000))
    files.remove(folder / "log")
    assert files.usage(folder) == DiskUsage(used=0, usable=1_000)


def test_memory_forgets_the_space_of_what_is_cut_replaced_or_removed() -> None:
    files, folder = MemoryFileSystem(FakeClock(), capacity=1_000), Path("store")
    files.make_folder(folder / "sub")
    for name in ("a", "b"):
        files.write_file(folder / "sub" / name, bytes(400))
    files.rename(folder / "sub" / "a", folder / "sub" / "b")
    assert files.usage(folder).used == 400
    files.open(folder / "sub" / "b").truncate(100)
    assert files.usage(folder).used == 100
    files.remove_tree(folder)
    assert files.usage(folder).used == 0


def test_memory_refuses_names_that_are_taken() -> None:
    files = MemoryFileSystem(FakeClock(), capacity=1_000)
    files.make_folder(Path("a/full"))
    files.write_file(Path("a/file"), b"")
    with pytest.raises(FileExistsError):
        files.make_folder(Path("a/file"))
    with pytest.raises(IsADirectoryError):
        files.rename(Path("a/file"), Path("a/full"))
    files.write_file(Path("a/full/x"), b"")
    files.make_folder(Path("b"))
    with pytest.raises(OSError, match="taken"):
        files.rename(Path("b"), Path("a/full"))
    with pytest.raises(ValueError, match="empty"):
        files.open(Path("a/file")).map()


def test_a_file_that_could_not_have_its_length_gets_it_later(tmp_path: Path) -> None:
    """It is not removed: another thread may have opened it meanwhile, and have been luckier."""
    with pytest.raises(OSError, match=r"\[Errno 22\]"):
        DiskFileSystem().open(tmp_path / "log", size=-1)
    file = DiskFileSystem().open(tmp_path / "log", size=100)
    assert file.size == 100
    file.close()


def test_a_file_that_two_threads_make_is_one_file_and_keeps_what_is_written(tmp_path: Path) -> None:
    files, begin = DiskFileSystem(), Barrier(2)

    def make(number: int, path: Path) -> None:
        begin.wait()
        file = files.open(path, size=1000)
        assert file.size == 1000
        file.write_at(number * 500, b"written")
        file.try_allocate(0, 1000)
        file.close()

    with ThreadPoolExecutor(2) as threads:
        for count in range(100):
            path = tmp_path / f"{count}"
            list(threads.map(make, range(2), [path, path]))
            assert path.read_bytes() == (b"written" + bytes(493)) * 2


def test_what_is_reserved_beside_the_writing_takes_blocks_and_changes_nothing(tmp_path: Path) -> None:
    file = DiskFileSystem().open(tmp_path / "log", size=1 << 20)
    file.write_at(5000, b"written")
    assert file.try_allocate(0, 1 << 20)
    assert (tmp_path / "log").stat().st_blocks * 512 >= 1 << 20
    assert (tmp_path / "log").read_bytes() == bytes(5000) + b"written" + bytes((1 << 20) - 5007)
    file.close()


def test_a_system_that_cannot_reserve_beside_the_writing_says_so_and_a_full_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [errno.EINTR, errno.EOPNOTSUPP, errno.ENOSPC]

    def fallocate(*_: int) -> int:
        ctypes.set_errno(answers.pop(0))
        return -1

    monkeypatch.setattr(filesystem, "_fallocate", fallocate)
    file = DiskFileSystem().open(tmp_path / "log", size=20)
    assert not file.try_allocate(0, 20)
    with pytest.raises(OSError, match=r"\[Errno 28\]"):
        file.try_allocate(0, 20)
    assert not answers
    monkeypatch.setattr(filesystem, "_fallocate", None)
    assert not file.try_allocate(0, 20)
    file.close()


def test_only_linux_reserves_beside_the_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert filesystem._find_fallocate() is None


def test_short_writes_and_reads_of_the_system_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, pread = os.pwrite, os.pread
    monkeypatch.setattr(os, "pwrite", lambda handle, data, position: pwrite(handle, memoryview(data)[:3], position))
    monkeypatch.setattr(os, "pread", lambda handle, size, position: pread(handle, min(size, 4), position))
    file = DiskFileSystem().open(tmp_path / "log", size=20)
    file.write_at(5, b"eleven byte")
    assert file.read_at(5, 11) == b"eleven byte"
    assert file.read_at(18, 10) == b"\0\0"
    file.close()


def test_a_system_without_reservation_is_accepted_and_a_full_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(number: int) -> None:
        def fallocate(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "posix_fallocate", fallocate)

    file = DiskFileSystem().open(tmp_path / "log", size=20)
    refuse(errno.EOPNOTSUPP)
    file.allocate(0, 20)
    refuse(errno.ENOSPC)
    with pytest.raises(OSError, match=r"\[Errno 28\]"):
        file.allocate(0, 20)
    monkeypatch.delattr(os, "posix_fallocate")
    file.allocate(0, 20)
    file.close()
