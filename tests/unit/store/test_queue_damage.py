"""Queues that do not agree with the log: found when they are asked for, or soon after the start, and derived anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketline.store.filesystem import File
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.store.queues import queue_table
from rocketline.store.queues.consume_queue import UNIT, UNIT_BYTES
from rocketline.testing.fake_clock import FakeClock
from support.stores.small import LOG_BYTES, ROOT, UNITS, contents, die, fill, flush_queues, memory, plain_queue
from support.stores.small import open_store as opened

QUEUE = ROOT / "consumequeue" / "T" / "0"
ENDS = ROOT / "queue_ends.json"


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


def file_of(number: int, folder: Path = QUEUE) -> Path:
    return folder / f"{number * UNITS * UNIT_BYTES:020}"


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[int]:
    return [int(found.body.strip(b".")) for found in contents(store, topic, queue_id)]


def filled(files: MemoryFileSystem, clock: FakeClock, *, dies: bool = False) -> None:
    """Three queues; of the first there are two full files and a third."""
    store = opened(files, clock)
    fill(store, 12)
    fill(store, 3, queue_id=1)
    fill(store, 12, topic="U")
    flush_queues(store)
    die(store) if dies else store.close()


def last_file_missing(files: MemoryFileSystem) -> None:
    files.remove(file_of(2))


def last_file_empty(files: MemoryFileSystem) -> None:
    files.write_file(file_of(2), b"")


def last_file_zero(files: MemoryFileSystem) -> None:
    files.write_file(file_of(2), bytes(UNITS * UNIT_BYTES))


def last_file_short(files: MemoryFileSystem) -> None:
    files.write_file(file_of(2), bytes(7))


def first_file_missing(files: MemoryFileSystem) -> None:
    files.remove(file_of(0))


def folder_missing(files: MemoryFileSystem) -> None:
    files.remove_tree(QUEUE)


def files_of_topics_swapped(files: MemoryFileSystem) -> None:
    other = file_of(0, ROOT / "consumequeue" / "U" / "0")
    mine, theirs = files.read_file(file_of(0)), files.read_file(other)
    assert mine is not None
    assert theirs is not None
    files.write_file(file_of(0), theirs)
    files.write_file(other, mine)


def last_unit_garbage(files: MemoryFileSystem) -> None:
    files.open(file_of(2)).write_at(UNIT_BYTES, UNIT.pack(77, 160, 5))


def unit_behind_the_end(files: MemoryFileSystem) -> None:
    files.open(file_of(2)).write_at(2 * UNIT_BYTES, UNIT.pack(77, 160, 5))


DAMAGES = [
    last_file_missing,
    last_file_empty,
    last_file_zero,
    last_file_short,
    first_file_missing,
    folder_missing,
    files_of_topics_swapped,
    last_unit_garbage,
    unit_behind_the_end,
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_queue_whose_ends_are_damaged_is_derived_anew(
    files: MemoryFileSystem,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[MemoryFileSystem], None],
    is_asked: bool,
) -> None:
    """By whoever asks for it first, or by the looks behind the running broker."""
    filled(files, clock)
    damage(files)
    monkeypatch.setattr("rocketline.store.message_store._QUEUES_AT_START", 0)
    store = opened(files, clock)
    if is_asked:
        assert fill(store, 1)[0].queue_offset == 12
    while store.look_on(1):
        pass
    assert "queue is derived anew from the log topic=T queue=0" in caplog.text
    assert bodies(store) == list(range(13 if is_asked else 12))
    assert bodies(store, "U") == list(range(12))
    assert bodies(store, "T", 1) == [0, 1, 2]
    store.close()
    caplog.clear()
    store = opened(files, clock)
    assert bodies(store) == list(range(13 if is_asked else 12))
    assert "derived anew" not in caplog.text
    store.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_same_after_a_death(
    files: MemoryFileSystem, clock: FakeClock, damage: Callable[[MemoryFileSystem], None]
) -> None:
    filled(files, clock, dies=True)
    damage(files)
    store = opened(files, clock)
    assert bodies(store) == list(range(12))
    assert fill(store, 1)[0].queue_offset == 12
    assert bodies(store, "U") == list(range(12))
    store.close()


@pytest.mark.parametrize("damage", [damage for damage in DAMAGES if damage is not last_file_short])
@pytest.mark.parametrize("is_asked", [True, False])
def test_the_same_where_nobody_wrote_down_the_ends(
    files: MemoryFileSystem, clock: FakeClock, damage: Callable[[MemoryFileSystem], None], is_asked: bool
) -> None:
    """As in a folder that Apache's broker has left. A file of another length stops the start there, since the settings
    may be wrong."""
    filled(files, clock)
    files.remove(ENDS)
    damage(files)
    store = opened(files, clock)
    if is_asked:
        assert fill(store, 1)[0].queue_offset == 12
    assert bodies(store) == list(range(12 + is_asked))
    assert bodies(store, "U") == list(range(12))
    store.close()


def test_what_was_replaced_lies_aside(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    last_unit_garbage(files)
    before = files.read_file(file_of(2))
    opened(files, clock).close()
    assert files.read_file(file_of(2, ROOT / "damaged" / "consumequeue" / "T" / "0")) == before


@pytest.mark.parametrize(
    "unit", [UNIT.pack(77, 160, 5), UNIT.pack(1 << 40, 160, 0), UNIT.pack(-1, -1, -1), bytes(20), UNIT.pack(160, 9, 0)]
)
def test_garbage_in_the_midst_is_mended_when_it_is_read(
    files: MemoryFileSystem, clock: FakeClock, unit: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    filled(files, clock)
    before = files.read_file(file_of(1))
    files.open(file_of(1)).write_at(2 * UNIT_BYTES, unit)
    store = opened(files, clock)
    result = store.read("T", 0, 5, 5, None)
    assert (result.message_count, result.next_offset) == (5, 10)
    assert bodies(store) == list(range(12))
    assert "units of a queue did not point at their records" in caplog.text
    assert "first_offset=7 count=1 lost=0" in caplog.text
    store.close()
    assert files.read_file(file_of(1)) == before


def test_idle_queues_are_not_opened_by_a_start(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(files, clock)
    monkeypatch.setattr("rocketline.store.message_store._QUEUES_AT_START", 0)
    for _ in range(2):
        store = opened(files, clock)
        assert list(store.queues.awake) == []
        assert sorted(store.queues.topics) == ["T", "U"]
        assert store.queue("T", 2) is None
        assert store.max_offset("T", 1) == 3
        assert len(list(store.queues.awake)) == 1
        store.close()


def test_a_start_after_a_death_opens_no_file_of_a_queue(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(files, clock)
    store = opened(files, clock)
    fill(store, 2)
    die(store)
    monkeypatch.setattr("rocketline.store.message_store._QUEUES_AT_START", 0)
    opens: list[Path] = []
    real_open = files.open

    def noted_open(path: Path, *, size: int | None = None) -> File:
        opens.append(path)
        return real_open(path, size=size)

    monkeypatch.setattr(files, "open", noted_open)
    store = opened(files, clock)
    assert [path for path in opens if "consumequeue" in path.parts] == []
    assert bodies(store) == list(range(14))
    store.close()


def test_ends_count_no_more_once_another_broker_has_had_the_store(files: MemoryFileSystem, clock: FakeClock) -> None:
    """Apache's broker writes the lock file at each start."""
    filled(files, clock)
    clock.advance(5)
    files.write_file(ROOT / "lock", b"lock")
    files.open(file_of(2)).write_at(2 * UNIT_BYTES, UNIT.pack(0, 160, 0))
    store = opened(files, clock)
    assert len(list(store.queues.awake)) == 3, "all were looked at"
    assert bodies(store) == list(range(12))
    store.close()


def test_ends_of_other_topics_count_when_one_was_deleted(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    store = opened(files, clock)
    store.delete_topics(["U"])
    die(store)
    last_file_missing(files)
    store = opened(files, clock)
    assert bodies(store) == list(range(12))
    store.close()


def test_damaged_ends_are_no_reason_not_to_start(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    filled(files, clock)
    data = bytearray(files.read_file(ENDS) or b"")
    data[len(data) // 2] ^= 4
    files.write_file(ENDS, bytes(data))
    store = opened(files, clock)
    assert bodies(store) == list(range(12))
    assert "check sum" in caplog.text
    store.close()


def test_queues_together_keep_a_bounded_part_of_what_is_written(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_table, "KEPT_BYTES_MAX", 100)
    store = opened(files, clock, mapped_file_size_commit_log=LOG_BYTES * 64)
    for queue_id in range(20):
        fill(store, 3, queue_id=queue_id)
        store.write_behind()
    kept = [plain_queue(store, "T", queue_id).kept_bytes for queue_id in range(20)]
    assert sum(kept) <= 100
    assert kept[-1] == 60
    for queue_id in range(20):
        assert bodies(store, "T", queue_id) == [0, 1, 2]
    store.close()
