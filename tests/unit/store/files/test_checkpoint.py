"""The checkpoint: six numbers in Java's places, old or new after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.store.files.checkpoint import Checkpoint
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival

FILE = Path("store/checkpoint")
NUMBERS = (1700000000123, 1700000000100, 1699999990000, 0, 187, 42)
BYTES = bytes.fromhex(
    "0000018bcfe5687b0000018bcfe568640000018bcfe540f0000000000000000000000000000000bb000000000000002a"
)


def disk() -> FaultyFileSystem:
    made = FaultyFileSystem(FakeClock())
    made.make_folder(FILE.parent)
    return made


def opened(files: FaultyFileSystem) -> Checkpoint:
    checkpoint = Checkpoint(files, FILE)
    checkpoint.load()
    return checkpoint


def numbers(checkpoint: Checkpoint) -> tuple[int, ...]:
    return (
        checkpoint.physic_msg_timestamp,
        checkpoint.logics_msg_timestamp,
        checkpoint.index_msg_timestamp,
        checkpoint.master_flushed_offset,
        checkpoint.confirm_log_offset,
        checkpoint.logics_log_offset,
    )


def filled(files: FaultyFileSystem) -> Checkpoint:
    checkpoint = opened(files)
    checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp = NUMBERS[:2]
    checkpoint.index_msg_timestamp, checkpoint.master_flushed_offset = NUMBERS[2:4]
    checkpoint.confirm_log_offset, checkpoint.logics_log_offset = NUMBERS[4:]
    return checkpoint


def test_a_new_store_has_zeros_in_a_file_of_full_length() -> None:
    files = disk()
    checkpoint = opened(files)
    assert numbers(checkpoint) == (0,) * 6
    assert checkpoint.min_timestamp == 0
    assert files.size_of(FILE) == 4096


def test_the_numbers_lie_where_java_has_them() -> None:
    files = disk()
    checkpoint = filled(files)
    checkpoint.save()
    assert files.read_file(FILE) == BYTES.ljust(4096, b"\0")
    assert numbers(opened(files)) == NUMBERS
    assert checkpoint.min_timestamp == 1699999997100
    checkpoint.close()
    checkpoint.close()


@pytest.mark.parametrize("content", [b"", BYTES[:40]], ids=["empty", "five numbers of an older release"])
def test_a_short_file_is_read_as_far_as_it_goes(content: bytes) -> None:
    files = disk()
    files.write_file(FILE, content)
    assert numbers(opened(files)) == ((0,) * 6 if not content else (*NUMBERS[:5], 0))
    assert files.size_of(FILE) == 4096


def test_what_is_on_disk_already_is_not_written_again() -> None:
    files = disk()
    checkpoint = filled(files)
    checkpoint.save()
    calls = files.call_count
    checkpoint.save()
    assert files.call_count == calls


def test_a_crash_leaves_the_old_numbers_or_the_new_ones() -> None:
    files = disk()
    checkpoint = filled(files)
    checkpoint.save()
    files.sync_folder(FILE.parent)
    checkpoint.physic_msg_timestamp += 1000
    files.fail(at=1, calls=["sync"])
    with pytest.raises(OSError, match=r"\[Errno 5\]"):
        checkpoint.save()
    files.heal()
    checkpoint.confirm_log_offset = 188
    checkpoint.save()
    for seed in range(20):
        assert numbers(opened(files.crash(Survival.SECTORS, seed=seed)))[4] == 188
