"""The key index: Java's bytes, Java's answers, and what is left of it after a crash or a full disk."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from rocketline.model.java_hash import java_string_hash
from rocketline.store.filesystem import DiskFileSystem, FileSystem
from rocketline.store.index import key_hashes, key_index
from rocketline.store.index.index_file import ENTRY, HEADER, file_bytes
from rocketline.store.index.key_hashes import hash_keys
from rocketline.store.index.key_index import KeyIndex
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem
from support.long_steps import counted, outcome

FOLDER = Path("store/index")
SLOTS, ENTRIES = 5_000_000, 20_000_000
EVER = (0, 1 << 60)
T0 = 1_700_000_000_123


def memory() -> MemoryFileSystem:
    return MemoryFileSystem(FakeClock(), capacity=1 << 30)


def opened(
    files: FileSystem,
    *,
    slots: int = 100,
    entries: int = 1000,
    is_clean: bool = True,
    safe_until_ms: int = 0,
    log_end: int = 1 << 40,
) -> KeyIndex:
    index = KeyIndex(files, FOLDER, FakeClock(), slot_count=slots, entry_count=entries)
    index.load(is_clean=is_clean, safe_until_ms=safe_until_ms, log_end=log_end)
    return index


def add(
    index: KeyIndex,
    topic: str,
    unique_key: str | None,
    keys: str | None,
    tag: str | None,
    log_offset: int,
    store_ms: int,
) -> None:
    index.add([(topic, (unique_key, keys, tag), log_offset, store_ms)])


def add_numbered(index: KeyIndex, numbers: range) -> None:
    for number in numbers:
        add(index, "T", f"key-{number}", None, None, number * 100, T0 + number * 1000)


def names(files: FileSystem) -> list[str]:
    return list(files.list(FOLDER))


def test_the_bytes_are_those_of_java() -> None:
    """The vectors of the Java classes with default sizes: a record with three keys, then one of them again."""
    files = memory()
    index = opened(files, slots=SLOTS, entries=ENTRIES)
    add(index, "TopicTest", "7F000001162E0102030400A1B2C30000", "order-1 order-2", None, 0, T0)
    add(index, "TopicTest", None, "order-1", None, 187, T0 + 2500)
    assert outcome(index.find("TopicTest", "order-1", 64, *EVER)) == [187, 0]
    assert index.last_update == (T0 + 2500, 187)
    index.close(is_clean=True)
    [name] = names(files)
    file = files.open(FOLDER / name)
    assert file.size == file_bytes(SLOTS, ENTRIES) == 420_000_040
    assert file.read_at(0, 40).hex() == (
        "0000018bcfe5687b0000018bcfe5723f000000000000000000000000000000bb0000000300000005"
    )
    assert [file.read_at(at, 4).hex() for at in (16491288, 16773732, 16773736)] == ["00000001", "00000003", "00000004"]
    assert [file.read_at(at, 20).hex() for at in range(20_000_040, 20_000_121, 20)] == [
        "0000000000000000000000000000000000000000",
        "4cd673fc00000000000000000000000000000000",
        "6d0746d000000000000000000000000000000000",
        "6d0746cf00000000000000000000000000000000",
        "6d0746d000000000000000bb0000000200000002",
    ]


def test_a_second_file_counts_its_first_entry_from_the_end_of_the_first() -> None:
    files = memory()
    index = opened(files, slots=10, entries=3)
    add(index, "TopicTest", "a", "b", None, 187, T0 + 2500)
    add(index, "TopicTest", "c", None, None, 400, T0 + 9500)
    index.close(is_clean=True)
    data = files.read_file(FOLDER / names(files)[1]) or b""
    assert HEADER.unpack_from(data) == (T0 + 9500, T0 + 9500, 400, 400, 1, 2)
    assert ENTRY.unpack_from(data, HEADER.size + 40 + ENTRY.size)[2] == 7


def test_a_second_file_says_at_once_where_it_begins() -> None:
    """Java's broker keeps such a file after a crash, and would otherwise index once more what the first one has."""
    files = memory()
    index = opened(files, entries=11)
    add_numbered(index, range(15))
    index.write_behind()
    first, second = (HEADER.unpack_from(files.read_file(FOLDER / name) or b"") for name in names(files))
    assert first[5] == 11
    assert second == (first[1], first[1], first[3], first[3], 0, 1)


def test_the_first_entry_of_a_second_file_is_found_at_its_own_time() -> None:
    """Java takes it for later by the pause between the files, and misses it."""
    index = opened(memory(), slots=10, entries=3)
    add(index, "T", "a", "b", None, 100, T0)
    add(index, "T", "c", None, None, 200, T0 + 60_000)
    assert outcome(index.find("T", "c", 64, T0 + 60_000, T0 + 60_000)) == [200]


# The files of a 5.5.0 broker with maxHashSlotNum=3 and maxIndexNum=6, and the records they were made from.
APACHE_RECORDS = [  # unique key, keys, tag, log offset, store time
    ("U1", "order-1 \u043a\u043b\u044e\u0447", "TagA", 0, 1794798939185),
    ("U2", " order-1  order-2 ", None, 200, 1794798941928),
    ("U3", "order-1", "TagA", 392, 1794798945209),
    ("U4", None, None, 583, 1794798945212),
]
APACHE_FILES = [
    "000001a1e25a6c31000001a1e25a76e8000000000000000000000000000000c8000000030000000600000002000000040000"
    "000500000000000000000000000000000000000000000026bd0b000000000000000000000000000000006db57fbd00000000"
    "0000000000000000000000006cbf7077000000000000000000000000000000001d373a1b0000000000000000000000000000"
    "00010026bd0c00000000000000c80000000200000003",
    "000001a1e25a76e8000001a1e25a83b900000000000000c80000000000000188000000030000000600000004000000050000"
    "000200000000000000000000000000000000000000006db57fbd00000000000000c800000000000000006db57fbc00000000"
    "000000c800000000000000000026bd0d000000000000018800000003000000016db57fbd0000000000000188000000030000"
    "00031d373a1b00000000000001880000000300000000",
    "000001a1e25a83bc000001a1e25a83bc00000000000002470000000000000247000000010000000200000000000000010000"
    "000000000000000000000000000000000000000000000026bd0e000000000000024700000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000",
]


def test_the_files_of_a_real_broker_come_out_the_same() -> None:
    files = memory()
    index = opened(files, slots=3, entries=6)
    for record in APACHE_RECORDS:
        add(index, "T", *record)
    index.close(is_clean=True)
    assert [(files.read_file(FOLDER / name) or b"").hex() for name in names(files)] == APACHE_FILES


def test_the_files_of_a_real_broker_are_read_and_continued() -> None:
    files = memory()
    files.make_folder(FOLDER)
    for number, content in enumerate(APACHE_FILES):
        files.write_file(FOLDER / f"2023111423132000{number}", bytes.fromhex(content))
    index = opened(files, slots=3, entries=6)
    first, second, third, fourth = [record[3] for record in APACHE_RECORDS]
    assert outcome(index.find("T", "order-1", 64, *EVER)) == [third, second, first]
    assert outcome(index.find("T", "\u043a\u043b\u044e\u0447", 64, *EVER, "K")) == [first]
    assert outcome(index.find("T", "TagA", 64, *EVER, "T")) == [third, first]
    assert outcome(index.find("T", "TagA", 64, *EVER)) == []
    assert outcome(index.find("T", "U4", 64, *EVER, "U")) == [fourth]
    add(index, "T", "U5", "order-1", None, 9_999, T0 * 2)
    assert outcome(index.find("T", "order-1", 2, *EVER)) == [9_999, third]
    index.close(is_clean=True)
    assert outcome(opened(files, slots=3, entries=6).find("T", "order-1", 64, *EVER)) == [9_999, third, second, first]


def test_the_smallest_integer_is_kept_as_zero() -> None:
    """Java: Math.abs of it is itself, and so no place in a table."""
    wanted = (2**31 - java_string_hash("T#") * 31**7 - sum(48 * 31**place for place in range(7))) % 2**32
    key = "".join(chr(48 + wanted // 31**place % 31) for place in reversed(range(7)))
    assert java_string_hash(f"T#{key}") == -(2**31)
    assert hash_keys(["T"] * 20, [key] * 20) == [0] * 20
    assert hash_keys(["T"], [key]) == [0]


def test_a_message_found_twice_is_named_once() -> None:
    index = opened(memory())
    add(index, "T", "a", "a a", None, 100, T0)
    assert outcome(index.find("T", "a", 64, *EVER)) == [100]


def test_the_newest_come_first_and_no_more_than_asked_for() -> None:
    index = opened(memory(), entries=4)
    for number in range(10):
        add(index, "T", "same", None, None, number, T0 + number)
    assert outcome(index.find("T", "same", 4, *EVER)) == [9, 8, 7, 6]
    assert outcome(index.find("T", "other", 4, *EVER)) == []
    assert outcome(index.find("U", "same", 4, *EVER)) == []


def test_times_are_compared_to_the_second() -> None:
    index = opened(memory())
    for number in range(5):
        add(index, "T", "same", None, None, number, T0 + number * 1500)  # seconds 0, 1, 3, 4, 6
    assert outcome(index.find("T", "same", 64, T0, T0)) == [0]
    assert outcome(index.find("T", "same", 64, T0 + 1000, T0 + 3000)) == [2, 1]
    assert outcome(index.find("T", "same", 64, T0 + 1001, T0 + 2999)) == []
    assert outcome(index.find("T", "same", 64, T0 + 6000, T0 + 9000)) == [4]
    assert outcome(index.find("T", "same", 64, T0 + 7000, T0 + 9000)) == []
    assert outcome(index.find("T", "same", 64, 0, T0 - 1)) == []


def test_a_clock_that_went_back_or_far_ahead_stays_within_the_field() -> None:
    files = memory()
    index = opened(files)
    for number, store_ms in enumerate((T0, T0 - 5000, T0 + 2**31 * 1000 + 5000)):
        add(index, "T", f"k{number}", None, None, number, store_ms)
    index.close(is_clean=True)
    data = files.read_file(FOLDER / names(files)[0]) or b""
    seconds = [ENTRY.unpack_from(data, HEADER.size + 400 + number * 20)[2] for number in (1, 2, 3)]
    assert seconds == [0, 0, 2**31 - 1]


def test_a_record_before_the_newest_is_skipped() -> None:
    files = memory()
    index = opened(files)
    add(index, "T", "a", None, None, 500, T0)
    add(index, "T", "b", None, None, 499, T0)
    index.close(is_clean=True)
    index = opened(files)
    assert index.end_log_offset == 500
    add(index, "T", "c", None, None, 400, T0)
    assert outcome(index.find("T", "b", 64, *EVER)) == outcome(index.find("T", "c", 64, *EVER)) == []


def test_a_file_is_named_by_the_local_time_and_each_name_is_greater() -> None:
    files = memory()
    index = opened(files, entries=2)
    add_numbered(index, range(3))
    assert outcome(index.find("T", "key-2", 1, *EVER)) == [200]
    first = int(f"{time.strftime('%Y%m%d%H%M%S', time.localtime(1_700_000_000))}000")
    assert names(files) == [str(first), str(first + 1), str(first + 2)]


def test_after_a_crash_only_files_that_were_full_and_synced_remain() -> None:
    files = memory()
    index = opened(files, entries=4)
    add_numbered(index, range(3))
    index.write_behind()
    assert index.begin_sync() is None, "no file is full yet"
    add_numbered(index, range(3, 8))
    index.write_behind()
    job = index.begin_sync()
    assert job is not None
    job.run()
    index.finish_sync(job)
    assert index.safe_until_ms == T0 + 5000
    assert index.begin_sync() is None
    index.close(is_clean=False)
    assert len(names(files)) == 3
    index = opened(files, entries=4, is_clean=False, safe_until_ms=T0 + 2000)
    assert len(names(files)) == 1
    assert index.end_log_offset == 200, "from here on records must be added again"
    add_numbered(index, range(8))
    for number in range(8):
        assert outcome(index.find("T", f"key-{number}", 64, *EVER)) == [number * 100]


def test_a_file_with_records_that_the_log_lost_is_deleted() -> None:
    """Else the records that come to stand in their places would be taken for known, and never be found."""
    files = memory()
    index = opened(files, entries=4)
    add_numbered(index, range(8))
    index.close(is_clean=True)
    index = KeyIndex(files, FOLDER, FakeClock(), slot_count=100, entry_count=4)
    assert index.load(is_clean=True, safe_until_ms=0, log_end=500)
    assert (len(names(files)), index.end_log_offset) == (1, 200)
    add(index, "T", "new", None, None, 300, T0)
    assert outcome(index.find("T", "new", 64, *EVER)) == [300]
    index.close(is_clean=True)
    assert not KeyIndex(files, FOLDER, FakeClock(), slot_count=100, entry_count=4).load(
        is_clean=True, safe_until_ms=0, log_end=500
    )


def test_a_clean_close_without_any_key_leaves_no_file() -> None:
    files = memory()
    index = opened(files)
    add(index, "T", None, " ", "", 100, T0)
    assert index.last_update == (0, 0)
    index.close(is_clean=True)
    assert names(files) == []


def test_a_file_that_an_end_left_without_header_is_deleted() -> None:
    files = memory()
    files.make_folder(FOLDER)
    files.write_file(FOLDER / "20231114221320000", b"")
    files.open(FOLDER / "20231114221320001", size=file_bytes(100, 1000)).close()
    index = opened(files, is_clean=False)
    assert names(files) == []
    assert index.last_update == (0, 0)


def test_files_of_another_size_and_other_names_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    files = memory()
    index = opened(files, slots=7)
    add_numbered(index, range(3))
    index.close(is_clean=True)
    files.write_file(FOLDER / "notes.txt", b"mine")
    index = opened(files, slots=100)
    assert "another size than maxHashSlotNum and maxIndexNum say" in caplog.text
    assert outcome(index.find("T", "key-1", 64, *EVER)) == []
    assert len(names(files)) == 2


def test_files_are_deleted_when_all_their_records_are_gone_but_never_the_last() -> None:
    files = memory()
    index = opened(files, entries=3)
    add_numbered(index, range(6))
    index.write_behind()
    index.remove_before(10_000)
    assert len(names(files)) == 3, "files on their way to the disk stay"
    job = index.begin_sync()
    assert job is not None
    job.run()
    index.finish_sync(job)
    index.remove_before(100)
    assert len(names(files)) == 3, "the record at 100 is still there"
    index.remove_before(101)
    assert len(names(files)) == 2
    index.remove_before(10_000)
    assert len(names(files)) == 1
    assert outcome(index.find("T", "key-5", 64, *EVER)) == [500]


def test_a_chain_that_leads_in_circles_ends() -> None:
    files = memory()
    index = opened(files, slots=1)
    add_numbered(index, range(3))
    index.close(is_clean=True)
    file = files.open(FOLDER / names(files)[0])
    for before in (2, 3, -1, 900):
        file.write_at(HEADER.size + 4 + 2 * ENTRY.size + 16, before.to_bytes(4, "big", signed=True))
        index = opened(files, slots=1)
        assert outcome(index.find("T", "key-2", 64, *EVER)) == [200]
        assert outcome(index.find("T", "key-0", 64, *EVER)) == []


def test_a_question_to_a_crowded_slot_ends_in_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(key_index, "_WALK_MAX", 50)
    index = opened(memory(), slots=1, entries=40)
    add_numbered(index, range(100))
    assert outcome(index.find("T", "key-60", 64, *EVER)) == [6_000]
    assert outcome(index.find("T", "key-10", 64, *EVER)) == []
    assert "ended early" in caplog.text


def test_entries_that_a_full_disk_refused_are_found_and_written_later() -> None:
    files = FaultyFileSystem(FakeClock())
    index = opened(files)
    add_numbered(index, range(3))
    assert outcome(index.find("T", "key-0", 64, *EVER)) == [0]
    files.fail(at=1, calls=["write"], error=errno.ENOSPC, torn=True)
    with pytest.raises(OSError, match=r"\[Errno 28\]"):
        index.write_behind()
    assert outcome(index.find("T", "key-1", 64, *EVER)) == [100]
    index.write_behind()
    index.close(is_clean=True)
    assert outcome(opened(files).find("T", "key-2", 64, *EVER)) == [200]


def test_a_clean_close_writes_only_the_slots_that_are_used(tmp_path: Path) -> None:
    index = KeyIndex(DiskFileSystem(), tmp_path, FakeClock(), slot_count=SLOTS, entry_count=ENTRIES)
    index.load(is_clean=True, safe_until_ms=0, log_end=1 << 40)
    add_numbered(index, range(3))
    index.close(is_clean=True)
    [path] = tmp_path.iterdir()
    assert path.stat().st_size == 420_000_040
    assert path.stat().st_blocks * 512 < 1 << 20


def test_many_at_once_give_the_bytes_of_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With numpy and without, slots that are shared by old and by new entries."""
    written = []
    key_hashes.load_numpy()
    for numpy in (key_hashes.np, None):
        monkeypatch.setattr(key_hashes, "np", numpy)
        files = memory()
        index = opened(files, slots=7, entries=1000)
        index.add([("T", (f"u{n}", f"k{n % 3} k{n}", "A"), n * 100, T0 + n * 700) for n in range(40)])
        index.write_behind()
        index.add([("T", (f"u{n}", f"k{n % 3} k{n}", "A"), n * 100, T0 - 5000 + n * 700) for n in range(40, 80)])
        index.close(is_clean=True)
        [name] = names(files)
        written.append(files.read_file(FOLDER / name))
    assert written[0] == written[1]


def test_long_chain_is_walked_with_pauses() -> None:
    files = MemoryFileSystem(FakeClock(), capacity=1 << 30)
    index = opened(files, slots=3, entries=6_000)
    for number in range(40):
        index.add_rich(("T", (None, "same " * 100, None), number, T0))
    found, pauses = counted(index.find("T", "other", 64, *EVER))
    assert (found, pauses) == ([], 8 if pauses else 0)
    found, pauses = counted(index.find("T", "same", 64, *EVER))
    assert (len(found), pauses) == (40, 8)
