"""A stream in files of one size: which folders are refused, what ends a stream, and which files stay open."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.errors import CorruptStoreError
from rocketline.store.files.segments import OpenFiles, Segments
from rocketline.store.filesystem import DiskFileSystem, FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival

FOLDER = Path("/log")
SIZE = 1000


def segments(files: FileSystem, folder: Path = FOLDER) -> Segments:
    return Segments(OpenFiles(files), folder, SIZE)


def made(files: FileSystem, count: int, first: int = 0) -> Segments:
    stream = segments(files)
    for number in range(count):
        stream.add(first + number * SIZE)
    return stream


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return MemoryFileSystem(clock, capacity=1 << 20)


def test_files_are_named_by_their_first_position_and_have_their_full_length(files: MemoryFileSystem) -> None:
    made(files, 2, first=3000)
    assert files.list(FOLDER) == ["00000000000000003000", "00000000000000004000"]
    assert files.size_of(FOLDER / "00000000000000003000") == SIZE
    again = segments(files)
    again.load()
    assert again.starts == [3000, 4000]
    assert again.end == 5000
    assert again.has(3000)
    assert again.has(4999)
    assert not again.has(2999)
    assert not again.has(5000)


def test_a_missing_folder_is_an_empty_stream(files: MemoryFileSystem) -> None:
    stream = segments(files)
    stream.load()
    assert stream.end == 0
    assert not stream.has(0)
    assert stream.read(0, 10) == b""


def test_a_last_file_without_length_is_deleted(files: MemoryFileSystem) -> None:
    made(files, 2)
    files.write_file(FOLDER / "00000000000000002000", b"")
    stream = segments(files)
    stream.load()
    assert stream.starts == [0, SIZE]
    assert not files.exists(FOLDER / "00000000000000002000")


@pytest.mark.parametrize(
    ("name", "size", "problem"),
    [
        ("00000000000000001000", 999, "999 bytes where the settings say 1000"),
        ("00000000000000003000", SIZE, "no file of 1000 bytes ends here"),
        ("00000000000000000500", SIZE, "no file of 1000 bytes ends here"),
        ("readme.txt", SIZE, "its name is no position"),
        ("1000", SIZE, "its name is no position"),
        ("00000000000000001000.bak", 3, "its name is no position"),
    ],
)
def test_files_that_cannot_be_a_part_of_the_stream_are_refused_by_name(
    files: MemoryFileSystem, name: str, size: int, problem: str
) -> None:
    made(files, 1)
    files.write_file(FOLDER / name, bytes(size))
    with pytest.raises(CorruptStoreError, match=problem) as raised:
        segments(files).load()
    assert name in str(raised.value)


def test_folders_among_the_files_are_left_alone(files: MemoryFileSystem) -> None:
    made(files, 1)
    files.make_folder(FOLDER / "lost+found")
    stream = segments(files)
    stream.load()
    assert stream.starts == [0]


def test_reading_ends_where_a_file_ends(files: MemoryFileSystem) -> None:
    stream = made(files, 2)
    stream.write(990, b"0123456789")
    stream.write(1000, b"abc")
    assert stream.read(990, 20) == b"0123456789"
    assert stream.read(1000, 3) == b"abc"


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_an_ended_stream_has_no_later_files_and_only_zeros_follow(
    is_on_disk: bool, files: MemoryFileSystem, tmp_path: Path
) -> None:
    fs: FileSystem = DiskFileSystem() if is_on_disk else files
    stream = Segments(OpenFiles(fs), tmp_path / "log" if is_on_disk else FOLDER, SIZE)
    for start in (0, 1000, 2000, 3000):
        stream.add(start)
        stream.write(start, bytes([7]) * SIZE)
    assert stream.clear_from(1500)
    assert stream.starts == [0, 1000]
    assert stream.read(0, SIZE) == bytes([7]) * SIZE
    assert stream.read(1000, SIZE) == bytes([7]) * 500 + bytes(500)
    assert fs.size_of(stream.path(1000)) == SIZE
    assert not stream.clear_from(1500), "there was nothing left to drop"
    stream._files.close_all()


def test_the_first_file_stays_though_the_stream_ends_where_it_begins(files: MemoryFileSystem) -> None:
    stream = made(files, 3, first=5000)
    stream.write(5000, b"x" * SIZE)
    stream.clear_from(5000)
    assert stream.starts == [5000]
    assert stream.read(5000, SIZE) == bytes(SIZE)


def test_whenever_dropping_files_stops_there_is_no_gap(clock: FakeClock) -> None:
    for at in range(1, 9):
        disk = FaultyFileSystem(clock)
        stream = made(disk, 5)
        disk.fail(at=at, lasting=True)
        try:
            stream.clear_from(500)
        except OSError:
            pass
        else:
            assert stream.starts == [0]
        for survival in Survival:
            again = segments(disk.crash(survival, seed=at))
            again.load()
            assert again.starts[0] == 0


def test_every_new_file_is_there_in_full_after_a_crash(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    made(disk, 3)
    for seed in range(20):
        for survival in Survival:
            stream = segments(disk.crash(survival, seed=seed))
            stream.load()
            assert stream.starts == [0, 1000, 2000]


def test_the_oldest_files_can_be_dropped_and_deleted(files: MemoryFileSystem) -> None:
    stream = made(files, 3)
    assert stream.drop_first() == FOLDER / "00000000000000000000"
    assert files.exists(FOLDER / "00000000000000000000")
    stream.remove_first()
    assert files.list(FOLDER) == ["00000000000000000000", "00000000000000002000"]
    assert stream.starts == [2000]
    stream.remove_all()
    assert stream.starts == []


def test_a_file_that_cannot_be_deleted_stays_a_part_of_the_stream(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    stream = made(disk, 3)
    disk.fail(at=2, calls=["remove"])
    with pytest.raises(OSError, match="Input/output"):
        stream.remove_all()
    assert stream.starts == [1000, 2000]
    disk.fail(at=1, calls=["remove"])
    with pytest.raises(OSError, match="Input/output"):
        stream.remove_first()
    assert stream.starts == [1000, 2000]
    stream.remove_all()
    assert disk.list(FOLDER) == []


def test_a_stream_that_begins_does_not_take_over_what_another_left(files: MemoryFileSystem) -> None:
    made(files, 1).write(500, b"old")
    stream = made(files, 1)
    assert stream.read(0, SIZE) == bytes(SIZE)


def test_only_so_many_files_stay_open(files: MemoryFileSystem) -> None:
    opened = OpenFiles(files, open_max=2)
    files.make_folder(FOLDER)
    first, second = (opened.get(FOLDER / name, size=10) for name in "ab")
    opened.get(FOLDER / "a")
    opened.get(FOLDER / "c", size=10)
    first.read_at(0, 1)
    with pytest.raises(OSError, match="closed"):
        second.read_at(0, 1)
    assert opened.get(FOLDER / "b").size == 10
    opened.close_all()
