"""Stores of which nobody has noted how their queues ended, as Apache's broker leaves them: no message is out of reach
and no offset given out again, whatever a queue has lost."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketline.errors import QueueNotReadyError
from rocketline.store.filesystem import File
from rocketline.store.log.record_scan import Record, messages_in
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from support.stores.small import (
    BATCHED,
    ROOT,
    SYNC,
    UNITS,
    catch_up,
    contents,
    die,
    fill,
    flush,
    flush_queues,
    inner_batch,
    memory,
    message,
    open_store,
)

ENDS = ROOT / "queue_ends.json"
PLAIN, BATCHES = ROOT / "consumequeue", ROOT / "batchconsumequeue"
Step = Callable[[MemoryFileSystem], object]


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is all that a step has time for, and a start takes none."""
    monkeypatch.setattr("rocketline.store.end_proof._EFFORT_MAX", 1)
    monkeypatch.setattr("rocketline.store.message_store._STEPS_AT_START", 0)


def lived(files: MemoryFileSystem, clock: FakeClock, *, is_clean: bool = True, **changes: object) -> None:
    """A busy queue, one that had its last message long ago, and batches likewise; no note of their ends."""
    store = open_store(files, clock, **changes)
    fill(store, 12, topic="IDLE")
    for _ in range(7):
        store.append(inner_batch(4))
    for _ in range(8):
        clock.advance(10)
        fill(store, 4, topic="BUSY")
        flush(store)
        flush_queues(store)
    store.close() if is_clean else die(store)
    files.remove(ENDS)


def server(files: MemoryFileSystem, clock: FakeClock, **changes: object) -> MessageStore:
    """A store that somebody looks after."""
    store = open_store(files, clock, **changes)
    store.queues.looks.on_broken = lambda: None
    return store


def numbers(store: MessageStore, topic: str = "IDLE") -> list[int]:
    return [int(found.body.strip(b".")) for found in contents(store, topic)]


def look_at_all(store: MessageStore) -> int:
    steps = 0
    while store.look_on(20):
        steps += 1
        assert steps < 10_000
    return steps


def file_of(folder: Path, number: int) -> Path:
    unit_bytes = 46 if folder.is_relative_to(BATCHES) else 20
    return folder / f"{number * UNITS * unit_bytes:020}"


def last_missing(folder: Path) -> Step:
    return lambda files: files.remove(folder / files.list(folder)[-1])


def last_empty(folder: Path) -> Step:
    return lambda files: files.write_file(folder / files.list(folder)[-1], b"")


def last_blank(folder: Path) -> Step:
    def do(files: MemoryFileSystem) -> None:
        path = folder / files.list(folder)[-1]
        files.write_file(path, bytes(files.size_of(path)))

    return do


def last_unit_blank(folder: Path) -> Step:
    """What a lost sector leaves of a file."""

    def do(files: MemoryFileSystem) -> None:
        path = folder / files.list(folder)[-1]
        data = files.read_file(path) or b""
        unit_bytes = 46 if folder.is_relative_to(BATCHES) else 20
        end = -(-len(data.rstrip(b"\0")) // unit_bytes) * unit_bytes
        files.write_file(path, (data[: end - unit_bytes]).ljust(len(data), b"\0"))

    return do


def first_missing(folder: Path) -> Step:
    return lambda files: files.remove(file_of(folder, 0))


def folder_missing(folder: Path) -> Step:
    return lambda files: files.remove_tree(folder)


DAMAGES = [last_missing, last_empty, last_blank, last_unit_blank, first_missing, folder_missing]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize("topic", ["IDLE", "BUSY", BATCHED])
def test_a_queue_that_has_lost_something_is_derived_anew(
    files: MemoryFileSystem,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], Step],
    is_clean: bool,
    is_asked: bool,
    topic: str,
    slow: None,
) -> None:
    lived(files, clock, is_clean=is_clean)
    damage((BATCHES if topic == BATCHED else PLAIN) / topic / "0")(files)
    store = open_store(files, clock)
    if is_asked:
        assert store.append(inner_batch(4)).queue_offset == 28
        assert [fill(store, 1, topic=name)[0].queue_offset for name in ("IDLE", "BUSY")] == [12, 32]
    else:
        look_at_all(store)
    if topic != "BUSY" or damage is first_missing:  # the start derives what follows on the units of the other queues
        assert f"queue is derived anew from the log topic={topic} queue=0" in caplog.text
    assert numbers(store) == list(range(12 + is_asked))
    assert numbers(store, "BUSY") == list(range(32 + is_asked))
    assert [one.queue_offset for one in contents(store, BATCHED)] == list(range(0, 28 + 4 * is_asked, 4))
    store.close()
    caplog.clear()
    store = open_store(files, clock)
    look_at_all(store)
    assert len(contents(store, topic)) == {"IDLE": 12, "BUSY": 32, BATCHED: 7}[topic] + is_asked
    assert "derived anew" not in caplog.text
    store.close()


def test_an_idle_queue_takes_messages_once_the_log_was_read_so_far_and_others_at_once(
    files: MemoryFileSystem, clock: FakeClock, slow: None
) -> None:
    """Reading goes on for all of them."""
    lived(files, clock)
    store = server(files, clock)
    with pytest.raises(QueueNotReadyError, match="queue 0 of IDLE is being compared with the log"):
        fill(store, 1, topic="IDLE")
    assert numbers(store) == list(range(12))
    waited = 0
    while True:
        try:
            fill(store, 1, topic="BUSY")
            break
        except QueueNotReadyError:
            waited += 1
            store.look_on(20)
    assert waited < 12, "its last message is in the newest file of the log"
    while store.look_on(20):
        waited += 1
        fill(store, 1, topic="BUSY")
    assert waited > 30
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    store.close()


def test_a_queue_that_never_had_a_message_waits_for_all_of_the_log_but_no_new_topic_does(
    files: MemoryFileSystem, clock: FakeClock, slow: None
) -> None:
    lived(files, clock)
    store = server(files, clock)
    store.look_on(20)
    store.queues.make_way("NEW", is_batched=False)
    assert fill(store, 1, topic="NEW")[0].queue_offset == 0
    with pytest.raises(QueueNotReadyError):
        fill(store, 1, topic="EMPTY")
    look_at_all(store)
    assert fill(store, 1, topic="EMPTY")[0].queue_offset == 0
    assert numbers(store, "NEW") == [0]
    store.close()


def test_who_pulls_behind_an_end_that_may_be_wrong_comes_back_later(
    files: MemoryFileSystem, clock: FakeClock, slow: None
) -> None:
    """His offset must not be put back to what is left of the queue."""
    lived(files, clock)
    folder_missing(PLAIN / "IDLE" / "0")(files)
    last_missing(BATCHES / BATCHED / "0")(files)
    store = server(files, clock)
    for topic, offset in (("IDLE", 7), (BATCHED, 24)):
        with pytest.raises(QueueNotReadyError):
            store.read(topic, 0, offset, 32, None)
    assert store.read("EMPTY", 0, 0, 32, None).message_count == 0
    look_at_all(store)
    assert store.read("IDLE", 0, 7, 32, None).message_count == 5
    assert store.read(BATCHED, 0, 24, 32, None).message_count == 4
    assert store.read("IDLE", 0, 70, 32, None).next_offset == 12
    store.close()


def test_a_queue_that_has_lost_its_end_has_no_hole_although_the_log_goes_on_with_it(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A start reads the log from where the queues end: this one ends before that."""
    store = open_store(files, clock)
    for _ in range(12):
        fill(store, 1, topic="A")
        fill(store, 1, topic="C")
        store.append(inner_batch(4))
    fill(store, 1, topic="A")
    store.append(inner_batch(4))
    store.close()
    files.remove(ENDS)
    for folder, number in ((PLAIN / "A" / "0", 1), (BATCHES / BATCHED / "0", 1)):
        for name in (file_of(folder, number), file_of(folder, number + 1)):
            files.remove(name)
    store = open_store(files, clock)
    look_at_all(store)
    assert numbers(store, "A") == list(range(13))
    assert numbers(store, "C") == list(range(12))
    assert [one.queue_offset for one in contents(store, BATCHED)] == list(range(0, 52, 4))
    assert fill(store, 1, topic="A")[0].queue_offset == 13
    store.close()


@pytest.mark.parametrize("steps", [0, 5, 30])
@pytest.mark.parametrize("is_clean", [True, False])
def test_an_end_before_all_was_read_lets_the_next_start_read_it(
    files: MemoryFileSystem, clock: FakeClock, slow: None, steps: int, is_clean: bool
) -> None:
    lived(files, clock)
    last_missing(PLAIN / "IDLE" / "0")(files)
    store = server(files, clock)
    for _ in range(steps):
        store.look_on(20)
        flush_queues(store)
    assert not files.exists(ENDS)
    store.close() if is_clean else die(store)
    store = open_store(files, clock)
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    assert numbers(store) == list(range(13))
    store.close()


def test_what_was_found_is_written_down(files: MemoryFileSystem, clock: FakeClock, slow: None) -> None:
    """The next start, after whatever, need not read the log again."""
    lived(files, clock)
    store = server(files, clock)
    look_at_all(store)
    for _ in range(2):
        flush_queues(store)
    assert files.exists(ENDS)
    die(store)
    store = server(files, clock)
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    store.close()


def test_a_step_reads_some_hundred_records(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketline.store.message_store._STEPS_AT_START", 0)
    sizes = {"mapped_file_size_commit_log": 1 << 20}
    store = open_store(files, clock, **sizes)
    fill(store, 1500)
    store.close()
    files.remove(ENDS)
    store = server(files, clock, **sizes)
    read: list[int] = []

    def counted(record: Record) -> int:
        read[-1] += 1
        return messages_in(record)

    monkeypatch.setattr("rocketline.store.end_proof.messages_in", counted)
    is_more = True
    while is_more:
        read.append(0)
        is_more = store.look_on(20)
    assert sum(read) == 1500
    assert max(read) < 600
    store.close()


def test_messages_of_a_topic_that_is_gone_stay_gone(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, slow: None
) -> None:
    lived(files, clock)
    files.remove_tree(PLAIN / "IDLE")
    topics = {"BUSY": False, BATCHED: True}
    store = open_store(files, clock)
    monkeypatch.setattr(store.queues, "is_batched", topics.get)
    look_at_all(store)
    assert "IDLE" not in store.queues.topics
    store.close()


def test_a_topic_that_is_deleted_and_made_again_meanwhile_begins_anew(
    files: MemoryFileSystem, clock: FakeClock, slow: None
) -> None:
    lived(files, clock)
    last_missing(PLAIN / "IDLE" / "0")(files)
    store = server(files, clock)
    store.look_on(20)
    store.delete_topics(["IDLE"])
    store.queues.make_way("IDLE", is_batched=False)
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 0
    look_at_all(store)
    assert numbers(store) == [0]
    store.close()


def test_a_former_life_of_a_topic_is_none_of_its_queues(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(files, clock)
    fill(store, 12)
    fill(store, 12, topic="U")
    store.delete_topics(["T"])
    fill(store, 3)
    fill(store, 12, topic="U")
    store.close()
    files.remove(ENDS)
    store = open_store(files, clock)
    look_at_all(store)
    assert "derived anew" not in caplog.text
    assert numbers(store, "T") == [0, 1, 2]
    store.close()


def test_a_queue_that_waits_for_a_flush_is_derived_anew_after_it(
    files: MemoryFileSystem, clock: FakeClock, slow: None
) -> None:
    lived(files, clock, flush_disk_type=SYNC)
    first_missing(PLAIN / "BUSY" / "0")(files)
    store = server(files, clock, flush_disk_type=SYNC)
    sent = 0
    while not sent:
        try:
            fill(store, 1, topic="BUSY")
            sent = 1
        except QueueNotReadyError:
            store.look_on(20)
    for _ in range(100):
        store.look_on(20)
    assert not store.queues.looks.is_broken
    with pytest.raises(QueueNotReadyError):
        fill(store, 1, topic="BUSY")
    flush(store)
    look_at_all(store)
    assert numbers(store, "BUSY") == list(range(33))
    assert fill(store, 1, topic="BUSY")[0].queue_offset == 33
    flush(store)
    store.close()


def test_files_of_the_log_may_expire_meanwhile(files: MemoryFileSystem, clock: FakeClock, slow: None) -> None:
    lived(files, clock, is_clean=True)
    store = server(files, clock)
    expired = []
    while store.look_on(20):
        if len(store.log.segments.starts) > 3:
            expired.append(store.log.drop_first())
            store.unlink(expired[-1:])
            store.clean_queues()
    assert not store.queues.looks.is_broken
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    assert store.min_offset("BUSY", 0) > 0
    store.close()


class BadSector(MemoryFileSystem):
    """What `bad` holds for cannot be opened."""

    bad: Callable[[Path], bool] = staticmethod(lambda path: False)

    def open(self, path: Path, *, size: int | None = None) -> File:
        if self.bad(path):
            raise OSError(errno.EIO, "input/output error", str(path))
        return super().open(path, size=size)


def test_a_queue_that_could_not_be_read_is_compared_when_it_can(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    files = BadSector(clock, capacity=1 << 30)
    lived(files, clock, is_clean=False)
    last_missing(PLAIN / "IDLE" / "0")(files)
    files.bad = lambda path: "IDLE" in path.parts
    store = server(files, clock)
    look_at_all(store)
    with pytest.raises(OSError, match="input/output"):
        fill(store, 1, topic="IDLE")
    files.bad = lambda path: False
    assert store.retry_looks()
    look_at_all(store)
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    assert numbers(store) == list(range(13))
    store.close()


def test_a_log_that_could_not_be_read_is_read_later(
    clock: FakeClock, caplog: pytest.LogCaptureFixture, slow: None
) -> None:
    files = BadSector(clock, capacity=1 << 30)
    lived(files, clock)
    last_missing(PLAIN / "IDLE" / "0")(files)
    store = server(files, clock)
    store.log._files.close_all()
    store.log._maps.clear()
    files.bad = lambda path: path == ROOT / "commitlog" / f"{0:020}"
    look_at_all(store)
    assert "log cannot be compared with its queues" in caplog.text
    with pytest.raises(QueueNotReadyError):
        fill(store, 1, topic="IDLE")
    fill(store, 1, topic="BUSY")
    files.bad = lambda path: False
    assert store.retry_looks()
    look_at_all(store)
    assert not store.retry_looks()
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    store.close()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_damaged_record_tells_which_message_it_was(files: MemoryFileSystem, clock: FakeClock, is_known: bool) -> None:
    """Its queue has lost that unit and no other; its offset is not given out again."""
    store = open_store(files, clock)
    fill(store, 2 * UNITS, topic="IDLE")
    last = store.append(message("IDLE", b"hello", queue_id=0))
    fill(store, 20, topic="BUSY")
    die(store) if is_known else store.close()
    at = last.log_offset % 1024
    files.open(ROOT / "commitlog" / f"{last.log_offset - at:020}").write_at(at + 90, b"j")
    if is_known:  # by a start after a death
        store = open_store(files, clock)
        catch_up(store)
        store.close()
        assert files.exists(ROOT / "damage.json")
        assert not files.exists(ROOT / "abort")
    files.remove(ENDS)
    last_missing(PLAIN / "IDLE" / "0")(files)
    store = open_store(files, clock)
    look_at_all(store)
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 2 * UNITS + 1
    store.close()
