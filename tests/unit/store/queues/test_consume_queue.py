"""Consume queues: Java's units, tails that are written behind, ends found again, and everything that shortens them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.model.java_hash import tags_code
from rocketline.store.files.segments import OpenFiles
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.queues import consume_queue
from rocketline.store.queues.consume_queue import UNIT, ConsumeQueue
from rocketline.store.queues.queue_table import QueueTable
from rocketline.testing.fake_clock import FakeClock
from support.golden import read_lines

FOLDER = Path("/store/consumequeue/T/0")
FILE_UNITS = 4
PRE_BLANK = bytes.fromhex("00000000000000007fffffff0000000000000000")


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return MemoryFileSystem(clock, capacity=1 << 20)


def made(files: FileSystem) -> ConsumeQueue:
    return ConsumeQueue(OpenFiles(files), FOLDER, FILE_UNITS * 20, "T", 0)


def filled(files: FileSystem, count: int) -> ConsumeQueue:
    """Message n of 100 bytes at n × 100, with the tags code n."""
    queue = made(files)
    for number in range(count):
        queue.append(number * 100, 100, number)
    return queue


def loaded(files: FileSystem, *, is_clean: bool = True) -> ConsumeQueue:
    queue = made(files)
    queue.load(is_clean=is_clean)
    return queue


def log_offsets(queue: ConsumeQueue, first: int = 0) -> list[int]:
    found: list[int] = []
    while units := queue.units(first + len(found), 100):
        found += [unit[0] for unit in UNIT.iter_unpack(units)]
    return found


def names(files: FileSystem) -> list[int]:
    return [int(name) for name in files.list(FOLDER)]


def test_units_have_the_bytes_that_java_writes(files: MemoryFileSystem) -> None:
    queue = made(files)
    queue.append(0, 187, tags_code("TagA"))
    queue.append(187, 123, tags_code("TagB"))
    queue.extend([310, 100, tags_code("tag-pay"), 410, 100, 1_700_000_000_123 + 10_000])
    queue.write_behind()
    data = files.read_file(FOLDER / "00000000000000000000")
    assert data is not None
    assert data[:20] == bytes.fromhex("0000000000000000000000bb000000000027a807")
    assert data[20:40] == bytes.fromhex("00000000000000bb0000007b000000000027a808")
    assert data[52:60] == bytes.fromhex("ffffffffa39a87f5")
    assert data[72:80] == bytes.fromhex("0000018bcfe58f8b")
    assert (queue.max_offset, queue.max_log_offset) == (4, 510)


def test_units_of_a_real_broker_are_read(files: MemoryFileSystem) -> None:
    [line] = [line for line in read_lines("store-5.5.0.jsonl") if line["file"] == "consumequeue/JT1/0"]
    data = bytes.fromhex(line["hex"])
    files.make_folder(FOLDER)
    files.write_file(FOLDER / "00000000000000000000", data.ljust(FILE_UNITS * 20, b"\0"))
    queue = loaded(files)
    assert (queue.min_offset, queue.max_offset, queue.next_offset) == (0, 3, 3)
    assert queue.units(0, 9) == data
    assert queue.max_log_offset == sum(UNIT.unpack(data[-20:])[:2])


def test_the_newest_units_are_read_from_memory_before_they_are_written(files: MemoryFileSystem) -> None:
    queue = filled(files, 10)
    assert log_offsets(queue) == [number * 100 for number in range(10)]
    assert files.list(FOLDER) == []
    paths = queue.write_behind()
    assert [path.name for path in paths] == [f"{at:020}" for at in (0, 80, 160)]
    assert not queue.is_behind
    assert queue.write_behind() == []
    assert log_offsets(loaded(files)) == [number * 100 for number in range(10)]


def test_memory_keeps_only_the_newest_units(files: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume_queue, "_KEPT_BYTES", 3 * 20)
    queue = filled(files, 20)
    queue.write_behind()
    assert len(queue._tail) == 60
    assert log_offsets(queue) == [number * 100 for number in range(20)]
    assert queue.unit(16) == (1600, 100, 16)
    assert queue.unit(17) == (1700, 100, 17)


def test_places_outside_the_queue_have_no_unit(files: MemoryFileSystem) -> None:
    queue = filled(files, 3)
    for offset in (-1, 3, 1 << 40):
        assert queue.unit(offset) is None
        assert queue.units(offset, 5) == b""
    assert queue.next_file_offset(1) == 4


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("is_clean", [True, False])
def test_the_end_is_found_again(files: MemoryFileSystem, count: int, is_clean: bool) -> None:
    filled(files, count).write_behind()
    queue = loaded(files, is_clean=is_clean)
    assert (queue.max_offset, queue.next_offset, queue.max_log_offset) == (count, count, count * 100)


def test_an_empty_last_file_is_no_end_in_the_wrong_place(files: MemoryFileSystem) -> None:
    """A file that was made ahead, or whose bytes never came."""
    filled(files, 4).write_behind()
    files.write_file(FOLDER / f"{80:020}", bytes(80))
    assert loaded(files).max_offset == 4
    assert names(files) == [0]


def test_nothing_is_left_behind_a_hole_that_a_crash_made(files: MemoryFileSystem) -> None:
    filled(files, 12).write_behind()
    files.open(FOLDER / f"{80:020}").write_at(20, bytes(20))
    queue = loaded(files, is_clean=False)
    assert queue.max_offset == 5
    assert names(files) == [0, 80]
    assert files.read_file(FOLDER / f"{80:020}") == UNIT.pack(400, 100, 4) + bytes(60)
    queue.append(500, 100, 5)
    queue.write_behind()
    assert loaded(files).max_offset == 6


def test_a_queue_that_begins_in_the_middle_gets_pre_blank_units(files: MemoryFileSystem) -> None:
    """Offsets 3, 4, 5 of a log that begins at 1 MiB; the same after a restart."""
    queue = made(files)
    for number in (3, 4, 5):
        queue.derive(number, (1 << 20) + number * 100, 100, number)
    assert (queue.min_offset, queue.max_offset) == (3, 6)
    queue.write_behind()
    data = files.read_file(FOLDER / "00000000000000000000")
    assert data is not None
    assert data[:60] == PRE_BLANK * 3
    again = loaded(files)
    again.correct_min(1 << 20)
    assert (again.min_offset, again.max_offset) == (3, 6)


def test_a_queue_that_begins_in_a_later_file_has_no_earlier_one(files: MemoryFileSystem) -> None:
    queue = made(files)
    queue.derive(9, 5000, 100, 0)
    queue.write_behind()
    assert names(files) == [160]
    again = loaded(files)
    again.correct_min(0)
    assert (again.min_offset, again.max_offset) == (9, 10)


def test_a_queue_made_anew_takes_the_place_of_the_old_one(files: MemoryFileSystem) -> None:
    queue = filled(files, 10)
    queue.write_behind()
    for number in range(3):
        queue.derive(number, 2000 + number * 100, 100, 0)
    assert log_offsets(queue) == [2000, 2100, 2200]
    queue.write_behind()
    assert names(files) == [0]
    assert log_offsets(loaded(files)) == [2000, 2100, 2200]


def test_a_queue_made_anew_takes_the_place_of_one_that_begins_later(files: MemoryFileSystem) -> None:
    """The first units of the old one were deleted with it, and recovery begins behind their records."""
    queue = made(files)
    for number in range(9, 14):
        queue.derive(number, number * 100, 100, 0)
    queue.write_behind()
    assert names(files) == [160, 240]
    queue.derive(0, 2000, 100, 0)
    queue.write_behind()
    assert names(files) == [0]
    assert log_offsets(loaded(files)) == [2000]


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize(("log_end", "count"), [(0, 0), (1, 1), (100, 1), (450, 5), (800, 8), (1000, 10), (9999, 10)])
def test_units_of_records_beyond_the_end_of_the_log_are_dropped(
    files: MemoryFileSystem, log_end: int, count: int, is_written: bool
) -> None:
    queue = filled(files, 10)
    if is_written:
        queue.write_behind()
        queue = loaded(files)
    queue.truncate(log_end)
    assert (queue.max_offset, queue.max_log_offset) == (count, count * 100 if count else -1)
    queue.append(7777, 100, 0)
    queue.write_behind()
    assert log_offsets(loaded(files)) == [*(number * 100 for number in range(count)), 7777]


@pytest.mark.parametrize(("log_start", "first"), [(0, 0), (1, 1), (100, 1), (450, 5), (900, 9), (901, 10), (9999, 10)])
def test_the_first_offset_is_that_of_the_first_record_still_in_the_log(
    files: MemoryFileSystem, log_start: int, first: int
) -> None:
    """With no record left it is one past the last, which keeps the largest offset known."""
    queue = filled(files, 10)
    queue.correct_min(log_start)
    assert (queue.min_offset, queue.max_offset) == (first, 10)


def test_files_whose_records_are_gone_are_deleted_but_never_the_last(files: MemoryFileSystem) -> None:
    queue = filled(files, 10)
    queue.write_behind()
    assert queue.remove_before(350) == 1
    assert names(files) == [80, 160]
    assert queue.remove_before(9999) == 1
    assert names(files) == [160]
    again = loaded(files)
    again.correct_min(9999)
    assert (again.min_offset, again.max_offset) == (10, 10)


def test_long_names_are_laid_out_as_records_of_version_two(files: MemoryFileSystem) -> None:
    short, long = (ConsumeQueue(OpenFiles(files), FOLDER, 80, "%RETRY%" + "g" * count, 0) for count in (120, 121))
    assert (short.magic, short.topic_field[:2]) == (0xDAA320A7, b"\x7f%")
    assert (long.magic, long.topic_field[:3]) == (0xDAA320AB, b"\x00\x80%")


class TestTable:
    ROOT = Path("/store/consumequeue")

    def table(self, files: FileSystem) -> QueueTable:
        return QueueTable(files, self.ROOT.parent, 80, 46 * 4)

    def test_queues_are_found_in_their_folders_and_other_things_are_not_touched(self, files: MemoryFileSystem) -> None:
        table = self.table(files)
        for topic, queue_id in [("T", 0), ("T", 3), ("%RETRY%g", 0)]:
            table.make(topic, queue_id).extend([0, 100, 0])
            table.touched([table.make(topic, queue_id)])
        table.write_behind()
        files.make_folder(self.ROOT / "T" / "lost+found")
        files.write_file(self.ROOT / ".hidden", b"x")
        again = self.table(files)
        again.load()
        assert sorted((queue.topic, queue.queue_id) for queue in again) == [("%RETRY%g", 0), ("T", 0), ("T", 3)]
        assert again.get("T", 1) is None
        assert again.get("U", 0) is None

    def test_a_long_tail_is_written_without_being_asked(
        self, files: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(consume_queue, "_BEHIND_BYTES_MAX", 100)
        table = self.table(files)
        queue = table.make("T", 0)
        for number in range(6):
            queue.extend([number * 100, 100, 0])
            table.touched([queue])
        assert not queue.is_behind
        assert len(table.take_unsynced()) == 2
        assert table.take_unsynced() == []

    def test_one_topic_is_deleted_without_a_look_at_all_others(
        self, files: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """There may be a hundred thousand, and eight are deleted in one go."""

        def all_of_them(table: QueueTable) -> set[str]:
            raise AssertionError("all topics were gathered")

        table = self.table(files)
        for topic in ("T", "U"):
            table.make(topic, 0).extend([0, 100, 0])
        monkeypatch.setattr(QueueTable, "topics", property(all_of_them))
        table.remove("T")
        table.remove("nobody")
        monkeypatch.undo()
        assert set(table.topics) == {"U"}

    def test_a_deleted_topic_leaves_nothing_and_what_still_comes_for_it_goes_nowhere(
        self, files: MemoryFileSystem
    ) -> None:
        table = self.table(files)
        old = table.make("T", 0)
        old.extend([0, 100, 0])
        table.touched([old])
        table.write_behind()
        table.remove("T")
        assert not files.exists(self.ROOT / "T")
        assert table.take_unsynced() == []
        old.extend([100, 100, 0])
        table.touched([old])
        table.write_behind()
        assert not files.exists(self.ROOT / "T")
        assert table.make("T", 0).max_offset == 0
