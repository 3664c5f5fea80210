"""Batch queues: Java's units, messages found by halving, ends found again, and everything that shortens them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.errors import CorruptStoreError
from rocketline.store.files.segments import OpenFiles
from rocketline.store.filesystem import FileSystem
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.queues.batch_consume_queue import BATCH_UNIT_BYTES, BatchConsumeQueue, BatchUnit
from rocketline.store.queues.queue_table import QueueTable
from rocketline.testing.fake_clock import FakeClock
from support.golden import read_lines

ROOT = Path("/store")
FOLDER = ROOT / "batchconsumequeue" / "T" / "0"
FILE_UNITS = 4
FILE_BYTES = FILE_UNITS * BATCH_UNIT_BYTES
FIRST_FILE = FOLDER / f"{0:020}"


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return MemoryFileSystem(clock, capacity=1 << 20)


def made(files: FileSystem) -> BatchConsumeQueue:
    return BatchConsumeQueue(OpenFiles(files), FOLDER, FILE_BYTES, "T", 0)


def filled(files: FileSystem, records: int) -> BatchConsumeQueue:
    """Record n of 100 bytes at n × 100, with three messages, the tags code n, stored at n seconds."""
    queue = made(files)
    for number in range(records):
        queue.derive(BatchUnit(number * 100, 100, number, number * 1000, number * 3, 3))
    return queue


def loaded(files: FileSystem, *, is_clean: bool = True) -> BatchConsumeQueue:
    queue = made(files)
    queue.load(is_clean=is_clean)
    return queue


def log_offsets(queue: BatchConsumeQueue) -> list[int]:
    """Of all records that can be read, in order."""
    found: list[int] = []
    offset = queue.min_offset
    while offset < queue.max_offset:
        units = queue.units(offset, 100)
        found += [unit.log_offset for unit in units]
        offset = units[-1].end
    return found


def test_units_have_the_bytes_that_java_writes(files: MemoryFileSystem) -> None:
    queue = made(files)
    queue.max_offset = queue.next_offset = 100
    queue.extend([0, 187, 2598919, 1_700_000_000_123, 10])
    queue.write_behind()
    data = files.read_file(FIRST_FILE)
    assert data is not None
    expected = "0000000000000000000000bb000000000027a8070000018bcfe5687b0000000000000064000affffffff00000000"
    assert data[:BATCH_UNIT_BYTES] == bytes.fromhex(expected)
    assert (queue.min_offset, queue.max_offset, queue.max_log_offset) == (100, 110, 187)


def test_units_of_a_real_broker_are_read(files: MemoryFileSystem) -> None:
    [line] = [line for line in read_lines("store-5.5.0.jsonl") if line["file"] == "batchconsumequeue"]
    files.make_folder(FOLDER)
    files.write_file(FIRST_FILE, bytes.fromhex(line["hex"]).ljust(FILE_BYTES, b"\0"))
    queue = loaded(files)
    assert (queue.min_offset, queue.max_offset, queue.next_offset) == (0, 4, 4)
    assert [(unit.first, unit.messages, unit.size) for unit in queue.units(0, 9)] == [(0, 3, 0x158), (3, 1, 0xBD)]


@pytest.mark.parametrize("is_written", [False, True])
def test_message_is_found_in_the_record_that_holds_it(files: MemoryFileSystem, is_written: bool) -> None:
    queue = filled(files, 10)
    if is_written:
        queue.write_behind()
    assert [queue.unit(offset) for offset in (0, 2, 3, 29)] == [
        (0, 100, 0), (0, 100, 0), (100, 100, 1), (900, 100, 9)
    ]  # fmt: skip
    assert (queue.unit(-1), queue.unit(30)) == (None, None)


def test_units_are_those_of_one_file(files: MemoryFileSystem) -> None:
    """As in Java: the rest comes with the next pull, whether it is in a file already or not."""
    queue = filled(files, 6)
    queue.write_behind()
    queue.extend([600, 100, 6, 6000, 3])
    assert [unit.log_offset for unit in queue.units(4, 100)] == [100, 200, 300]
    assert [unit.log_offset for unit in queue.units(12, 100)] == [400, 500, 600]
    assert [unit.log_offset for unit in queue.units(12, 2)] == [400, 500]


def test_tags_codes_of_new_units_are_told(files: MemoryFileSystem) -> None:
    assert made(files).extend([0, 10, 7, 1, 2, 10, 10, 8, 1, 1]) == [7, 8]


def test_far_behind_is_a_tail_that_should_be_written(files: MemoryFileSystem) -> None:
    queue = made(files)
    assert not queue.is_behind
    queue.extend([0, 10, 0, 0, 1] * 1425)
    assert (queue.is_behind, queue.is_far_behind) == (True, True)
    queue.write_behind()
    assert (queue.is_behind, queue.is_far_behind, queue.max_offset) == (False, False, 1425)


@pytest.mark.parametrize("records", [0, 1, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("is_clean", [False, True])
def test_queue_that_is_opened_again_goes_on(files: MemoryFileSystem, records: int, is_clean: bool) -> None:
    before = filled(files, records)
    before.write_behind()
    queue = loaded(files, is_clean=is_clean)
    assert (queue.min_offset, queue.max_offset, queue.next_offset) == (0, 3 * records, 3 * records)
    assert queue.max_log_offset == (100 * records or -1)
    queue.extend([5000, 100, 0, 0, 1])
    queue.write_behind()
    assert log_offsets(loaded(files)) == [*range(0, 100 * records, 100), 5000]


@pytest.mark.parametrize("at", [0, 8, 28, 36])
def test_queue_ends_before_a_unit_that_is_none(files: MemoryFileSystem, at: int) -> None:
    """A log offset or first message below zero, a size or a count of none."""
    filled(files, 7).write_behind()
    path = FOLDER / f"{FILE_BYTES:020}"
    data = bytearray(files.read_file(path) or b"")
    size = {0: 8, 8: 4, 28: 8, 36: 2}[at]
    data[BATCH_UNIT_BYTES + at : BATCH_UNIT_BYTES + at + size] = (b"\xff" if size == 8 else b"\0") * size
    files.write_file(path, bytes(data))
    queue = loaded(files, is_clean=False)
    assert (queue.max_offset, log_offsets(queue)) == (15, [0, 100, 200, 300, 400])
    assert set((files.read_file(path) or b"")[BATCH_UNIT_BYTES:]) == {0}, "what follows could come back"


def test_file_of_another_size_stops_the_start(files: MemoryFileSystem) -> None:
    files.make_folder(FOLDER)
    files.write_file(FIRST_FILE, bytes(FILE_BYTES + 1))
    with pytest.raises(CorruptStoreError, match=str(FILE_BYTES)):
        loaded(files)


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("log_end", [0, 1, 400, 450, 700, 5000])
def test_records_beyond_the_log_lose_their_units(files: MemoryFileSystem, log_end: int, is_written: bool) -> None:
    queue = filled(files, 7)
    if is_written:
        queue.write_behind()
    queue.truncate(log_end)
    left = min(-(-log_end // 100), 7)
    assert (queue.max_offset, queue.next_offset) == (3 * left, 3 * left)
    assert log_offsets(queue) == list(range(0, left * 100, 100))
    queue.extend([9000, 100, 0, 0, 2])
    queue.write_behind()
    assert log_offsets(loaded(files)) == [*range(0, left * 100, 100), 9000]


def test_topic_made_anew_begins_its_queue_anew(files: MemoryFileSystem) -> None:
    queue = filled(files, 6)
    queue.write_behind()
    queue.derive(BatchUnit(700, 100, 0, 7000, 0, 2))
    assert (queue.min_offset, queue.max_offset, log_offsets(queue)) == (0, 2, [700])


def test_record_whose_predecessors_are_missing_keeps_its_offset(files: MemoryFileSystem) -> None:
    queue = filled(files, 1)
    queue.derive(BatchUnit(7000, 100, 0, 7000, 50, 2))
    assert (queue.max_offset, queue.next_offset) == (52, 52)
    assert queue.unit(20) == (7000, 100, 0)


@pytest.mark.parametrize("damaged", [1, 5, 9, 11, 1 << 20, 1 << 62])
def test_record_with_a_damaged_offset_keeps_its_place(
    files: MemoryFileSystem, damaged: int, caplog: pytest.LogCaptureFixture
) -> None:
    queue = filled(files, 4)
    queue.derive(BatchUnit(400, 100, 0, 4000, damaged, 3))
    queue.derive(BatchUnit(500, 100, 0, 5000, 15, 3))
    assert [(unit.first, unit.log_offset) for unit in queue.units(12, 9)] == [(12, 400), (15, 500)]
    assert "damaged" in caplog.text


@pytest.mark.parametrize(
    ("log_start", "low", "kept"), [(0, 0, 3), (100, 3, 3), (350, 12, 2), (400, 12, 2), (850, 27, 1), (5000, 30, 1)]
)
def test_queue_follows_a_log_that_lost_files(files: MemoryFileSystem, log_start: int, low: int, kept: int) -> None:
    queue = filled(files, 10)
    queue.write_behind()
    assert queue.remove_before(log_start) == 3 - kept
    queue.correct_min(log_start)
    assert (queue.min_offset, queue.max_offset) == (low, 30)
    again = loaded(files)
    again.correct_min(log_start)
    assert (again.min_offset, again.max_offset, len(files.list(FOLDER))) == (low, 30, kept)
    assert [offset for offset in log_offsets(again) if offset < log_start] == []


class TestTable:
    """Which of the two kinds a topic's queues are."""

    @staticmethod
    def table(files: MemoryFileSystem, **kinds: bool) -> QueueTable:
        return QueueTable(files, ROOT, 80, FILE_BYTES, kinds.get)

    def test_kind_is_that_of_the_topic(self, files: MemoryFileSystem) -> None:
        table = self.table(files, T=True, S=False)
        assert [table.make(topic, 0).is_batched for topic in ("T", "S", "unknown")] == [True, False, False]

    def test_queues_of_both_kinds_are_found_again_also_of_topics_that_are_gone(self, files: MemoryFileSystem) -> None:
        table = self.table(files, T=True, S=False)
        for topic in ("T", "S"):
            queue = table.make(topic, 0)
            queue.extend([0, 10, 0, 0, 1] if queue.is_batched else [0, 10, 0])
            table.touched([queue])
        table.write_behind()
        again = self.table(files)
        again.load()
        assert {queue.topic: queue.is_batched for queue in again} == {"T": True, "S": False}

    @pytest.mark.parametrize(("is_batched", "folder"), [(True, "batchconsumequeue"), (False, "consumequeue")])
    def test_topic_whose_queues_lie_in_the_other_folder_stops_the_start(
        self, files: MemoryFileSystem, is_batched: bool, folder: str
    ) -> None:
        files.make_folder(ROOT / folder / "T" / "0")
        with pytest.raises(CorruptStoreError, match=r"/T: .*queue\.type"):
            self.table(files, T=not is_batched).load()

    def test_unknown_topic_with_queues_of_both_kinds_stops_the_start(self, files: MemoryFileSystem) -> None:
        for folder in ("consumequeue", "batchconsumequeue"):
            files.make_folder(ROOT / folder / "T" / "0")
        with pytest.raises(CorruptStoreError, match="batchconsumequeue/T"):
            self.table(files).load()

    def test_topic_that_is_made_gets_rid_of_what_one_of_the_other_kind_left(self, files: MemoryFileSystem) -> None:
        filled(files, 3).write_behind()
        table = self.table(files)
        table.load()
        table.make_way("T", is_batched=True)
        assert table.make("T", 0).max_offset == 9
        table.make_way("T", is_batched=False)
        assert (table.get("T", 0), files.exists(FOLDER)) == (None, False)
