"""The failing disk fails what it is told to, and a crash leaves what a crash may leave."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rocketline.store.filesystem import File
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import SECTOR_BYTES, FaultyFileSystem, Survival

LOG = Path("store/log")


def disk_with_log(size: int = 0) -> tuple[FaultyFileSystem, File]:
    disk = FaultyFileSystem(FakeClock())
    disk.make_folder(LOG.parent)
    file = disk.open(LOG, size=size)
    file.sync()
    disk.sync_folder(LOG.parent)
    return disk, file


def contents(disk: FaultyFileSystem, survival: Survival) -> set[bytes | None]:
    return {disk.crash(survival, seed=seed).read_file(LOG) for seed in range(60)}


def test_what_was_synced_survives_every_crash() -> None:
    disk, file = disk_with_log()
    file.write_at(0, b"synced")
    file.sync()
    for survival in Survival:
        assert contents(disk, survival) == {b"synced"}


def test_a_file_whose_folder_was_not_synced_may_be_missing() -> None:
    disk = FaultyFileSystem(FakeClock())
    disk.make_folder(LOG.parent)
    disk.write_file(LOG, b"x")
    assert contents(disk, Survival.NOTHING) == {None}
    assert contents(disk, Survival.EVERYTHING) == {b"x"}
    assert contents(disk, Survival.STRETCH) == {None, b"x"}


def test_unsynced_writes_are_lost_kept_or_cut_in_their_order() -> None:
    disk, file = disk_with_log()
    file.write_at(0, b"ab")
    file.write_at(2, b"cd")
    assert contents(disk, Survival.NOTHING) == {b""}
    assert contents(disk, Survival.EVERYTHING) == {b"abcd"}
    assert contents(disk, Survival.STRETCH) == {b"", b"a", b"ab", b"abc", b"abcd"}


def test_sectors_survive_each_for_itself_in_any_of_their_versions() -> None:
    disk, file = disk_with_log(2 * SECTOR_BYTES)
    file.write_at(SECTOR_BYTES - 1, b"11")
    file.write_at(SECTOR_BYTES - 1, b"22")
    after = {content[SECTOR_BYTES - 1 : SECTOR_BYTES + 1] for content in contents(disk, Survival.SECTORS) if content}
    assert after == {first + second for first in (b"\0", b"1", b"2") for second in (b"\0", b"1", b"2")}


def test_a_length_that_was_not_synced_may_be_the_old_one() -> None:
    disk = FaultyFileSystem(FakeClock())
    disk.make_folder(LOG.parent)
    disk.open(LOG, size=1000)
    disk.sync_folder(LOG.parent)
    for survival in (Survival.STRETCH, Survival.SECTORS):
        assert contents(disk, survival) == {b"", bytes(1000)}


def test_a_sector_cannot_survive_beyond_the_length_that_does() -> None:
    disk = FaultyFileSystem(FakeClock())
    disk.make_folder(LOG.parent)
    disk.open(LOG, size=1000).write_at(0, b"data")
    disk.sync_folder(LOG.parent)
    assert contents(disk, Survival.SECTORS) == {b"", bytes(1000), b"data" + bytes(996)}


def test_a_file_made_shorter_keeps_its_writes_in_order() -> None:
    disk, file = disk_with_log()
    file.write_at(0, b"old")
    file.sync()
    file.truncate(0)
    file.write_at(0, b"n")
    assert contents(disk, Survival.SECTORS) == {b"old", b"", b"n"}


def test_renames_and_removals_are_undone_from_the_last_one_back() -> None:
    disk, file = disk_with_log()
    file.write_at(0, b"old")
    file.sync()
    disk.rename(LOG, LOG.with_name("bak"))
    disk.write_file(LOG, b"new")
    disk.remove(LOG.with_name("bak"))
    seen = set()
    for seed in range(60):
        after = disk.crash(Survival.STRETCH, seed=seed)
        seen.add((after.read_file(LOG), after.read_file(LOG.with_name("bak"))))
    assert seen == {(b"old", None), (None, b"old"), (b"new", b"old"), (b"new", None)}
    disk.sync_folder(LOG.parent)
    assert contents(disk, Survival.NOTHING) == {b"new"}


def test_the_disk_after_a_crash_is_durable_and_can_be_written_again() -> None:
    disk, file = disk_with_log()
    file.write_at(0, b"one")
    disk = disk.crash(Survival.EVERYTHING, seed=0)
    assert contents(disk, Survival.NOTHING) == {b"one"}
    disk.open(LOG).write_at(0, b"two")
    assert contents(disk, Survival.NOTHING) == {b"one"}
    assert disk.read_file(LOG) == b"two"


def test_the_call_that_is_told_to_fail_fails_once() -> None:
    disk, file = disk_with_log()
    disk.fail(at=2, calls=["write"], error=errno.ENOSPC)
    file.write_at(0, b"a")
    file.sync()
    with pytest.raises(OSError, match=r"\[Errno 28\]"):
        file.write_at(1, b"b")
    file.write_at(1, b"c")
    assert disk.read_file(LOG) == b"ac"
    assert disk.call_count == 3


def test_a_lasting_failure_fails_all_that_follows_until_healed() -> None:
    disk, file = disk_with_log()
    disk.fail(at=1, lasting=True)
    for call in (file.sync, lambda: file.allocate(0, 1), lambda: disk.remove(LOG), lambda: disk.open(LOG)):
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            call()
    disk.heal()
    file.sync()


def test_a_torn_write_leaves_a_part_of_its_bytes() -> None:
    lengths = set()
    for seed in range(40):
        disk = FaultyFileSystem(FakeClock(), seed=seed)
        disk.make_folder(LOG.parent)
        file = disk.open(LOG, size=0)
        disk.fail(at=1, torn=True)
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            file.write_at(0, b"abcd")
        assert b"abcd".startswith(disk.read_file(LOG) or b"")
        lengths.add(file.size)
    assert lengths == {0, 1, 2, 3, 4}


def test_a_failed_sync_drops_what_it_should_have_saved() -> None:
    disk, file = disk_with_log()
    file.write_at(0, b"lost")
    disk.fail(at=1, calls=["sync"])
    with pytest.raises(OSError, match=r"\[Errno 5\]"):
        file.sync()
    file.sync()
    assert disk.read_file(LOG) == b"lost"
    assert contents(disk, Survival.EVERYTHING) == {bytes(4)}
