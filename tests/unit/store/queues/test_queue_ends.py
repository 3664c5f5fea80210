"""What is known of where queues end outlives retention, kills, failed tries and deleted topics: no offset is given out
a second time."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketline.errors import QueueNotReadyError
from rocketline.store.filesystem import File
from rocketline.store.inspection.repair import repair_store
from rocketline.store.log.record_walk import RecordWalk
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.consume_queue import PRE_BLANK, UNIT, UNIT_BYTES
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from support.stores.small import (
    BATCHED,
    ROOT,
    UNITS,
    catch_up,
    contents,
    die,
    fill,
    flush,
    flush_queues,
    inner_batch,
    memory,
    store_config,
)
from support.stores.small import (
    message as stored_message,
)
from support.stores.small import open_store as opened

IDLE = ROOT / "consumequeue" / "IDLE" / "0"
ENDS = ROOT / "queue_ends.json"


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start compares no queue with the log."""
    monkeypatch.setattr("rocketline.store.message_store._QUEUES_AT_START", 0)


def file_of(number: int) -> Path:
    return IDLE / f"{number * UNITS * UNIT_BYTES:020}"


def known(files: MemoryFileSystem) -> dict[str, Any]:
    topics: dict[str, Any] = json.loads((files.read_file(ENDS) or b"").split(b"\n")[1])["topics"]
    return topics


def look_at_all(store: MessageStore) -> None:
    while store.look_on(100):
        pass


def expire(store: MessageStore, files: MemoryFileSystem, clock: FakeClock) -> None:
    """Let all files of the log go but the last."""
    clock.advance(80 * 3600)
    fill(store, 5)
    flush(store)
    store.delete_expired()
    for path in store.clean():
        files.remove(path)


def numbers(store: MessageStore, topic: str = "IDLE") -> list[int]:
    return [int(found.body.strip(b".")) for found in contents(store, topic)]


# --- retention


@pytest.mark.parametrize("count", [8, 10])
def test_an_idle_queue_whose_messages_expire_while_it_sleeps_goes_on_where_it_was(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    store = opened(files, clock)
    fill(store, count, topic="IDLE")
    fill(store, 30)
    store.close()
    store = opened(files, clock)
    look_at_all(store)
    expire(store, files, clock)
    store.close()
    store = opened(files, clock)
    assert (store.min_offset("IDLE", 0), store.max_offset("IDLE", 0)) == (count, count)
    assert "derived anew" not in caplog.text
    assert fill(store, 1, topic="IDLE")[0].queue_offset == count
    store.close()


def expired(files: MemoryFileSystem, clock: FakeClock, count: int = 8) -> None:
    """A store that was closed after all messages of its idle queue were gone."""
    store = opened(files, clock)
    fill(store, count, topic="IDLE")
    fill(store, 30)
    flush(store)
    flush_queues(store)
    expire(store, files, clock)
    catch_up(store)
    store.close()


def flip_last(files: MemoryFileSystem) -> None:
    file = files.open(file_of(1))
    file.write_at(2 * UNIT_BYTES + 11, bytes([file.read_at(2 * UNIT_BYTES + 11, 1)[0] ^ 1]))


def lose_folder(files: MemoryFileSystem) -> None:
    files.remove_tree(IDLE)


@pytest.mark.parametrize(("damage", "count"), [(flip_last, 8), (lose_folder, 8), (lose_folder, 10)])
def test_a_damaged_queue_whose_messages_have_all_expired_ends_where_it_did(
    files: MemoryFileSystem, clock: FakeClock, damage: Callable[[MemoryFileSystem], None], count: int
) -> None:
    """Also by what its files say alone, and for a broker that knows nothing else."""
    expired(files, clock, count)
    damage(files)
    store = opened(files, clock)
    assert (store.min_offset("IDLE", 0), store.max_offset("IDLE", 0)) == (count, count)
    store.close()
    assert (files.read_file(file_of(1)) or b"").startswith(PRE_BLANK)
    files.remove(ENDS)
    store = opened(files, clock)
    assert fill(store, 1, topic="IDLE")[0].queue_offset == count
    assert numbers(store) == [count]
    store.close()


def test_so_does_one_of_which_nothing_is_known_but_what_is_left_of_its_files(
    files: MemoryFileSystem, clock: FakeClock, no_looks: None
) -> None:
    store = opened(files, clock)
    fill(store, 8, topic="IDLE")
    fill(store, 30)
    flush(store)
    flush_queues(store)
    expire(store, files, clock)
    for _ in range(2):
        flush_queues(store)
    die(store)
    files.remove(ENDS)
    files.open(file_of(1)).write_at(3 * UNIT_BYTES, UNIT.pack(1 << 40, 77, 0))
    store = opened(files, clock)
    assert store.max_offset("IDLE", 0) == 8
    store.close()


def test_a_batch_queue_without_any_record_ends_where_it_did(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(files, clock)
    store.append(inner_batch(3))
    fill(store, 30)
    expire(store, files, clock)
    store.close()
    files.remove_tree(ROOT / "batchconsumequeue")
    for _ in range(2):
        store = opened(files, clock)
        assert store.max_offset(BATCHED, 0) == 3
        store.close()
    assert caplog.text.count("queue is derived anew") == 1
    store = opened(files, clock)
    assert store.append(inner_batch(2)).queue_offset == 3
    assert [found.queue_offset for found in contents(store, BATCHED)] == [3]
    store.close()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_repair_lets_such_a_queue_end_where_it_did(files: MemoryFileSystem, clock: FakeClock, is_known: bool) -> None:
    expired(files, clock)
    files.open(file_of(1)).write_at(UNIT_BYTES, UNIT.pack(1 << 30, 77, 5))
    if not is_known:
        files.remove(ENDS)
    repaired = repair_store(files, clock, store_config())
    assert repaired.after.findings.is_clean
    store = opened(files, clock)
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 8
    store.close()


# --- kills


def zero_unit(files: MemoryFileSystem) -> None:
    files.open(file_of(1)).write_at(UNIT_BYTES, bytes(UNIT_BYTES))


def sign_bit(files: MemoryFileSystem) -> None:
    files.open(file_of(1)).write_at(0, b"\x80")


def no_last_file(files: MemoryFileSystem) -> None:
    files.remove(file_of(2))


def last_unit(files: MemoryFileSystem) -> None:
    files.open(file_of(2)).write_at(UNIT_BYTES, UNIT.pack(77, 160, 5))


def lived(files: MemoryFileSystem, clock: FakeClock) -> MessageStore:
    """A store that has gone on to many files of the log since it was last closed, if ever, with a queue that is idle
    since the first."""
    store = opened(files, clock)
    fill(store, 12, topic="IDLE")
    clock.advance(10)
    for _ in range(6):
        fill(store, 6)
        clock.advance(10)
        flush(store)
        flush_queues(store)
        flush_queues(store)
    return store


@pytest.mark.parametrize("damage", [zero_unit, sign_bit, no_last_file, last_unit, lose_folder])
@pytest.mark.parametrize("is_topic_deleted", [False, True])
def test_an_idle_queue_that_is_damaged_when_the_process_is_killed_loses_nothing(
    files: MemoryFileSystem, clock: FakeClock, damage: Callable[[MemoryFileSystem], None], is_topic_deleted: bool
) -> None:
    store = lived(files, clock)
    if is_topic_deleted:
        fill(store, 1, topic="GONE")
        store.delete_topics(["GONE"])
    die(store)
    damage(files)
    store = opened(files, clock)
    assert store.log.start < store.queues.looks.doctor.derived_from, "or all is derived anyway"  # type: ignore[attr-defined]
    look_at_all(store)
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    assert numbers(store) == list(range(13))
    store.close()


@pytest.mark.parametrize("damage", [zero_unit, sign_bit, last_unit])
def test_nothing_is_cut_from_a_queue_whose_end_nobody_knows(
    files: MemoryFileSystem, clock: FakeClock, no_looks: None, damage: Callable[[MemoryFileSystem], None]
) -> None:
    die(lived(files, clock))
    files.remove(ENDS)
    damage(files)
    store = opened(files, clock)
    assert store.max_offset("IDLE", 0) == 12
    assert numbers(store) == list(range(12))
    store.close()


def test_a_stop_before_the_looks_have_come_by_notes_no_end_that_nobody_has_proven(
    files: MemoryFileSystem, clock: FakeClock, no_looks: None
) -> None:
    die(lived(files, clock))
    files.remove(ENDS)
    no_last_file(files)
    store = opened(files, clock)
    catch_up(store)
    store.close()
    assert not files.exists(ENDS)
    assert not files.exists(ROOT / "abort")
    store = opened(files, clock)
    look_at_all(store)
    assert numbers(store) == list(range(12))
    store.close()
    assert known(files)["IDLE"][0][2:4] == [0, 12]


def test_a_deleted_topic_is_known_no_more(files: MemoryFileSystem, clock: FakeClock) -> None:
    """And no later than its files are gone: whatever is written of what was known before does not count."""
    store = lived(files, clock)
    fill(store, 6)
    flush(store)
    fill(store, 6)
    flush(store)
    store.write_behind()
    job = store.begin_queue_flush(is_thorough=True)
    job.run()
    assert job.ends is not None
    assert "IDLE" in job.ends.ends.queues
    store.delete_topics(["IDLE"])
    store.finish_queue_flush(job)
    die(store)
    assert "T" in known(files)
    store = opened(files, clock)
    assert list(store.queues.topics) == ["T"]
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 0
    store.close()


def test_ends_count_once_the_log_is_durable_as_far_as_they_go(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = lived(files, clock)
    before = files.read_file(ENDS)
    saved = store.checkpoint.logics_log_offset
    fill(store, 12)
    flush_queues(store)
    assert (files.read_file(ENDS), store.checkpoint.logics_log_offset) == (before, saved)
    flush(store)
    flush_queues(store)
    assert known(files)["T"][0][3] == 48
    assert store.checkpoint.logics_log_offset > saved
    store.close()


def test_a_disk_without_room_for_them_holds_the_checkpoint_and_nothing_else(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    store = opened(disk, clock)
    fill(store, 12)
    flush(store)
    disk.fail(at=1, calls=["create"], error=errno.ENOSPC, lasting=True)
    flush_queues(store)
    assert store.problem is None
    assert store.checkpoint.logics_log_offset == 0
    disk.heal()
    flush_queues(store)
    assert store.checkpoint.logics_log_offset > 0
    store.close()


# --- deriving anew, cut short


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("is_idle", [True, False])
def test_a_queue_whose_deriving_failed_is_derived_by_whoever_asks_next(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, no_looks: None, is_known: bool,
    is_idle: bool,
) -> None:  # fmt: skip
    store = lived(files, clock)
    count = 12
    if not is_idle:
        fill(store, 1, topic="IDLE")
        count = 13
    die(store)
    if not is_known:
        files.remove(ENDS)
    no_last_file(files) if is_known or not is_idle else last_unit(files)
    store = opened(files, clock)
    real_walk, tries = RecordWalk.follow, list[int]()

    def failing_walk(self: RecordWalk, *args: Any) -> Iterator[Any]:
        tries.append(1)
        if len(tries) == 1:
            raise OSError(errno.EIO, "input/output error")
        return real_walk(self, *args)

    monkeypatch.setattr(RecordWalk, "follow", failing_walk)
    with pytest.raises(OSError, match="input/output"):
        store.max_offset("IDLE", 0)
    assert store.max_offset("IDLE", 0) == count
    assert numbers(store) == list(range(count))
    store.close()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_kill_before_derived_units_are_written_loses_nothing(
    files: MemoryFileSystem, clock: FakeClock, no_looks: None, is_known: bool
) -> None:
    die(lived(files, clock))
    if not is_known:
        files.remove(ENDS)
    last_unit(files)
    for _ in range(3):
        store = opened(files, clock)
        assert store.max_offset("IDLE", 0) == 12
        die(store)
    store = opened(files, clock)
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    store.close()


def test_a_flush_that_was_under_way_vouches_for_no_queue_that_is_derived_since(
    files: MemoryFileSystem, clock: FakeClock, no_looks: None
) -> None:
    die(lived(files, clock))
    last_unit(files)
    store = opened(files, clock)
    fill(store, 1)
    flush(store)
    store.write_behind()
    job = store.begin_queue_flush(is_thorough=True)
    job.run()
    assert job.last is not None
    assert store.max_offset("IDLE", 0) == 12
    store.finish_queue_flush(job)
    assert store.checkpoint.logics_msg_timestamp == 0
    flush_queues(store)
    assert store.checkpoint.logics_msg_timestamp > 0
    store.close()


@pytest.mark.parametrize("survival", Survival)
@pytest.mark.parametrize("is_expired", [True, False])
def test_power_lost_at_any_call_of_deriving_loses_nothing(
    clock: FakeClock, survival: Survival, is_expired: bool
) -> None:
    at, was_reached = survival.value, True
    while was_reached:
        disk = FaultyFileSystem(clock)
        store = opened(disk, clock)
        fill(store, 12, topic="IDLE")
        fill(store, 20)
        flush(store)
        flush_queues(store)
        while is_expired and len(store.log.segments.starts) > 1:
            disk.remove(store.log.drop_first())
        store.clean_queues()
        catch_up(store)
        store.close()
        last_unit(disk)  # type: ignore[arg-type]
        disk.fail(at=at, lasting=True, torn=True)
        try:
            store = opened(disk, clock)
            flush_queues(store)
            store.close()
        except OSError:
            pass
        was_reached = disk.call_count >= at
        disk = disk.crash(survival, seed=at)
        disk.write_file(ROOT / "lock", b"lock")  # which this disk forgets, and which is as old as it was
        store = opened(disk, clock)
        assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
        assert numbers(store) == ([12] if is_expired else list(range(13)))
        store.close()
        at += 3
    assert at > 20


def killed(*args: object) -> bool:
    raise KeyboardInterrupt


def test_a_kill_while_the_whole_log_is_read_for_a_folder_of_another_broker_loses_nothing(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queues are cut to nothing first, and its checkpoint vouches for all of them."""
    store = lived(files, clock)
    catch_up(store)
    store.close()
    assert not files.exists(ROOT / "abort")
    files.remove(ENDS)
    last_unit(files)
    with monkeypatch.context() as patch:
        patch.setattr(MessageStore, "look_on", killed)
        with pytest.raises(KeyboardInterrupt):
            opened(files, clock)
    store = opened(files, clock)
    assert numbers(store) == list(range(12))
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    store.close()


# --- deriving anew, in steps


def broken(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> tuple[MessageStore, list[None]]:
    """A running store that somebody looks after, with a damaged queue; what that one is told."""
    monkeypatch.setattr("rocketline.store.queue_doctor._EFFORT_MAX", 1)
    die(lived(files, clock))
    last_unit(files)
    store, told = opened(files, clock), list[None]()
    store.queues.looks.on_broken = lambda: told.append(None)
    return store, told


def test_a_queue_is_derived_anew_in_steps_while_all_others_are_served(
    files: MemoryFileSystem, clock: FakeClock, no_looks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, told = broken(files, clock, monkeypatch)
    with pytest.raises(QueueNotReadyError, match="queue 0 of IDLE was damaged"):
        fill(store, 1, topic="IDLE")
    assert len(told) == 1
    steps = 0
    while store.look_on(20):
        steps += 1
        assert fill(store, 1)[0].queue_offset == 35 + steps
        if steps < 5:
            with pytest.raises(QueueNotReadyError):
                store.append(stored_message("IDLE", b"x"))
        assert store.problem is None
        flush(store)
        flush_queues(store)
    assert steps > 8
    assert numbers(store) == list(range(12))
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    flush(store)
    flush_queues(store)
    assert store.checkpoint.logics_log_offset == store._last_dispatched[0]
    store.close()


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("steps", [1, 3, 6])
def test_an_end_in_the_midst_of_it_loses_nothing(
    files: MemoryFileSystem, clock: FakeClock, no_looks: None, monkeypatch: pytest.MonkeyPatch, is_killed: bool,
    steps: int,
) -> None:  # fmt: skip
    store, _ = broken(files, clock, monkeypatch)
    with pytest.raises(QueueNotReadyError):
        store.max_offset("IDLE", 0)
    for _ in range(steps):
        assert store.look_on(20)
        flush_queues(store)
    die(store) if is_killed else store.close()
    store = opened(files, clock)
    assert numbers(store) == list(range(12))
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 12
    store.close()


def test_a_topic_that_is_deleted_meanwhile_stays_deleted(
    files: MemoryFileSystem, clock: FakeClock, no_looks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = broken(files, clock, monkeypatch)
    with pytest.raises(QueueNotReadyError):
        store.max_offset("IDLE", 0)
    store.look_on(20)
    store.delete_topics(["IDLE"])
    assert fill(store, 1, topic="IDLE")[0].queue_offset == 0
    look_at_all(store)
    assert numbers(store) == [0]
    store.close()


def test_a_queue_that_cannot_be_read_is_no_failure_of_the_log(
    files: MemoryFileSystem, clock: FakeClock, no_looks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived(files, clock).close()
    store = opened(files, clock)
    real_open = files.open

    def failing_open(path: Path, *, size: int | None = None) -> File:
        if "IDLE" in path.parts:
            raise OSError(errno.EIO, "input/output error", str(path))
        return real_open(path, size=size)

    monkeypatch.setattr(files, "open", failing_open)
    with pytest.raises(OSError, match="input/output"):
        store.append(stored_message("IDLE", b"x"))
    assert store.problem is None
    assert fill(store, 1)[0].queue_offset == 36
