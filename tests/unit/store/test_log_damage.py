"""Damaged records cost themselves and nothing else: no queue offset is given out again, and nothing whole is hidden."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketline.model.message import StoredMessage
from rocketline.store import queue_doctor
from rocketline.store.inspection.check import check_store
from rocketline.store.log import record_walk
from rocketline.store.log.commit_log import CommitLog
from rocketline.store.log.damage import read_spans
from rocketline.store.log.record_scan import Record, scan
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.consume_queue import PRE_BLANK, UNIT, UNIT_BYTES
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import SPACE_CALLS, FaultyFileSystem
from support.stores.small import (
    BATCHED,
    LOG_BYTES,
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
from support.stores.small import open_store as opened

BIG = {"mapped_file_size_commit_log": 1 << 16}
BODY_AT = 95
QUEUE = ROOT / "consumequeue" / "T" / "0" / f"{0:020}"
DAMAGE = ROOT / "damage.json"
UNITS_WRITTEN = (True, False)


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


def log_file(start: int = 0) -> Path:
    return ROOT / "commitlog" / f"{start:020}"


def flip(files: MemoryFileSystem, at: int) -> None:
    """One bit of the log's first file."""
    file = files.open(log_file())
    file.write_at(at, bytes([file.read_at(at, 1)[0] ^ 1]))


def crush(files: MemoryFileSystem, at: int) -> None:
    """Leave nothing of a record by which it could be known."""
    files.open(log_file()).write_at(at, b"\xff" * 60)


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[int]:
    return [int(found.body.strip(b".")) for found in contents(store, topic, queue_id)]


def flip_body(files: MemoryFileSystem, at: int) -> None:
    flip(files, at + BODY_AT)


# --- queue offsets


@pytest.mark.parametrize("is_written", UNITS_WRITTEN)
@pytest.mark.parametrize("stopped_after", [None, 3, 5])
def test_the_offset_of_a_damaged_record_is_not_given_out_again(
    files: MemoryFileSystem,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    stopped_after: int | None,
    is_written: bool,
) -> None:
    """It is the last of its queue, and others follow: nothing whole in the log says that it was there."""
    store = opened(files, clock, **BIG)
    sent = fill(store, stopped_after or 0, topic="A")
    if stopped_after:
        store.close()
        store = opened(files, clock, **BIG)
    sent += fill(store, 5 - len(sent), topic="A")
    fill(store, 5)
    flush(store)
    if is_written:
        flush_queues(store)
    die(store)
    flip_body(files, sent[-1].log_offset)
    for _ in range(2):  # the second life knows of the damage, and passes over it
        store = opened(files, clock, **BIG)
        assert store.max_offset("A", 0) == 5
        assert bodies(store, "A") == [0, 1, 2, 3]
        die(store)
    assert (
        f"messages are damaged topic=A queue=0 first_offset=4 count=1 log_offset={sent[-1].log_offset}" in caplog.text
    )
    store = opened(files, clock, **BIG)
    assert fill(store, 1, topic="A")[0].queue_offset == 5
    store.close()


@pytest.mark.parametrize("has_ends", [True, False])
def test_units_of_damaged_records_of_which_nothing_can_be_read_are_kept(
    files: MemoryFileSystem, clock: FakeClock, has_ends: bool
) -> None:
    """Only the files of the queue know of them."""
    store = opened(files, clock, **BIG)
    sent = fill(store, 3, topic="A")
    quiet = fill(store, 1, topic="Q")
    store.close()
    if not has_ends:
        files.remove(ROOT / "queue_ends.json")
        files.remove(ROOT / "checkpoint")
    store = opened(files, clock, **BIG)
    sent += fill(store, 2, topic="A")
    fill(store, 5)
    flush(store)
    flush_queues(store)
    die(store)
    crush(files, sent[-1].log_offset)
    crush(files, quiet[0].log_offset)
    store = opened(files, clock, **BIG)
    assert store.max_offset("A", 0) == 5
    assert fill(store, 1, topic="A")[0].queue_offset == 5
    assert fill(store, 1, topic="Q")[0].queue_offset == 1
    assert bodies(store, "A") == [0, 1, 2, 3, 5]
    store.close()


@pytest.mark.parametrize("hurt", [flip_body, crush])
def test_what_a_clean_stop_knew_of_a_queue_holds_after_a_crash(
    files: MemoryFileSystem, clock: FakeClock, hurt: Callable[[MemoryFileSystem, int], None]
) -> None:
    store = opened(files, clock, **BIG)
    sent = fill(store, 5, topic="A")
    batches = [store.append(inner_batch(3)) for _ in range(2)]
    fill(store, 1)
    store.close()
    store = opened(files, clock, **BIG)
    die(store)
    files.remove(ROOT / "checkpoint")
    files.remove_tree(ROOT / "consumequeue" / "A")
    files.remove_tree(ROOT / "batchconsumequeue" / BATCHED)
    hurt(files, sent[-1].log_offset)
    hurt(files, batches[-1].log_offset)
    store = opened(files, clock, **BIG)
    assert fill(store, 1, topic="A")[0].queue_offset == 5
    assert store.append(inner_batch(3)).queue_offset == 6
    store.close()


def test_the_offsets_of_a_damaged_batch_are_not_given_out_again(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock, **BIG)
    sent = [store.append(inner_batch(3)) for _ in range(4)]
    fill(store, 3)
    flush(store)
    flush_queues(store)
    die(store)
    flip_body(files, sent[-1].log_offset)
    for _ in range(2):
        store = opened(files, clock, **BIG)
        assert store.max_offset(BATCHED, 0) == 12
        assert store.read(BATCHED, 0, 9, 10, None).next_offset == 12
        die(store)
    store = opened(files, clock, **BIG)
    assert store.append(inner_batch(3)).queue_offset == 12
    store.close()


@pytest.mark.parametrize("offset", [0, 2, 4, 999])
def test_a_damaged_record_is_believed_only_where_its_neighbours_agree(
    files: MemoryFileSystem, clock: FakeClock, offset: int
) -> None:
    """Its queue offset is damaged as well: those of whole records must not be moved by it."""
    store = opened(files, clock, **BIG)
    sent = fill(store, 8)
    flush(store)
    die(store)
    flip_body(files, sent[3].log_offset)
    files.open(log_file()).write_at(sent[3].log_offset + 20, offset.to_bytes(8, "big"))
    store = opened(files, clock, **BIG)
    assert [(found.queue_offset, found.body[:1]) for found in contents(store)] == [
        (number, b"%d" % number) for number in range(8) if number != 3
    ]
    assert fill(store, 1)[0].queue_offset == 8
    store.close()


def test_records_behind_damage_whose_queue_was_further_already_are_remnants(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    """Of a former life of these bytes, stored in the same millisecond: what they say of their queue tells."""
    store = opened(files, clock, **BIG)
    sent = fill(store, 6)
    flush(store)
    die(store)
    file = files.open(log_file())
    file.write_at(sent[4].log_offset, b"\xff" * 60)
    file.write_at(sent[5].log_offset + 20, (2).to_bytes(8, "big"))
    store = opened(files, clock, **BIG)
    assert store.max_offset("T", 0) == 4
    assert store.log.end == sent[4].log_offset
    assert list(store.log.damage) == []
    store.close()


def test_the_checkpoint_alone_proves_that_the_log_went_on(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(files, clock, **BIG)
    sent = fill(store, 5)
    flush(store)
    flush_queues(store)
    flush_queues(store)
    die(store)
    files.remove_tree(ROOT / "consumequeue")
    flip_body(files, sent[-1].log_offset)
    store = opened(files, clock, **BIG)
    assert store.log.end == sent[-1].log_offset + 160
    assert "log has lost what followed its last good record" in caplog.text
    assert bodies(store) == [0, 1, 2, 3]
    assert fill(store, 1)[0].queue_offset == 5
    store.close()


def test_what_a_clean_stop_has_synced_was_there_though_it_is_blank_now(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = opened(files, clock, **BIG)
    sent = fill(store, 5)
    catch_up(store)
    store.close()
    store = opened(files, clock, **BIG)
    die(store)
    files.open(log_file()).write_at(sent[3].log_offset, bytes(320))
    store = opened(files, clock, **BIG)
    assert bodies(store) == [0, 1, 2]
    assert fill(store, 1)[0].queue_offset == 5
    store.close()


# --- what is known of damage


def damaged_store(files: MemoryFileSystem, clock: FakeClock, number: int, count: int = 30) -> list[StoredMessage]:
    """One that was stopped cleanly, and knows that a message of it is damaged."""
    store = opened(files, clock, **BIG)
    sent = fill(store, count)
    flush(store)
    flush_queues(store)
    die(store)
    flip_body(files, sent[number].log_offset)
    store = opened(files, clock, **BIG)
    catch_up(store)
    store.close()
    return sent


def notes_of(files: MemoryFileSystem, clock: FakeClock) -> list[tuple[str, bool]]:
    findings = check_store(files, clock, store_config(**BIG)).findings.kept
    return [(one.problem, one.is_damage) for one in findings if one.path.name == "damage.json"]


def test_a_good_copy_of_a_damaged_file_brings_its_messages_back(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    sent = damaged_store(files, clock, 2)
    assert notes_of(files, clock) == []
    flip_body(files, sent[2].log_offset)
    assert notes_of(files, clock) == [("160 of its 160 damaged bytes are whole messages", False)]
    store = opened(files, clock, **BIG)
    assert bodies(store) == list(range(30))
    assert store.read("T", 0, 0, UNITS, None).message_count == UNITS
    assert "bytes of the log are damaged no more log_offset=320 bytes=160 left=0" in caplog.text
    store.close()
    assert not files.exists(DAMAGE)


def test_a_damaged_list_of_damage_hides_nothing(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    damaged_store(files, clock, 2)
    data = files.read_file(DAMAGE) or b""
    files.write_file(DAMAGE, data.replace(b'"end": 480', b'"end": 4480'))
    assert notes_of(files, clock) == [("cannot be read: its check sum is wrong", True)]
    store = opened(files, clock, **BIG)
    assert "list of damaged bytes cannot be read" in caplog.text
    assert store.read("T", 0, UNITS, UNITS, None).message_count == UNITS
    store.close()


def test_files_that_are_whole_again_are_damaged_no_more_though_others_are(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    """The damage went over the end of a file."""
    store = opened(files, clock)
    sent = fill(store, 20)
    flush(store)
    die(store)
    good = files.read_file(log_file(LOG_BYTES)) or b""
    files.open(log_file()).write_at(sent[5].log_offset, b"\xff" * (LOG_BYTES - sent[5].log_offset))
    files.open(log_file(LOG_BYTES)).write_at(0, b"\xff" * 300)
    store = opened(files, clock)
    assert bodies(store) == [0, 1, 2, 3, 4, *range(8, 20)]
    store.close()
    files.write_file(log_file(LOG_BYTES), good)
    store = opened(files, clock)
    assert list(store.log.damage) == [(sent[5].log_offset, LOG_BYTES)]
    assert bodies(store) == [0, 1, 2, 3, 4, *range(6, 20)]
    store.close()


def test_new_records_of_another_broker_are_not_hidden_by_old_damage(files: MemoryFileSystem, clock: FakeClock) -> None:
    """Apache's broker ends the log at the damage after a crash, and goes on there. What is left of the old bytes behind
    its new records comes not back."""
    sent = damaged_store(files, clock, 3)
    kept = files.read_file(DAMAGE) or b""
    old = files.read_file(log_file()) or b""
    files.open(log_file()).write_at(sent[3].log_offset, bytes(len(old) - sent[3].log_offset))
    for name in ("damage.json", "queue_ends.json", "checkpoint"):
        files.remove(ROOT / name)
    files.remove_tree(ROOT / "consumequeue")
    clock.advance(10)
    store = opened(files, clock, **BIG)
    fill(store, 1, size=20)
    end = store.log.end
    assert sent[3].log_offset < end < sent[4].log_offset
    store.close()
    files.open(log_file()).write_at(end, old[end:])
    files.remove(ROOT / "queue_ends.json")
    files.write_file(DAMAGE, kept)
    store = opened(files, clock, **BIG)
    assert bodies(store) == [0, 1, 2, 3]
    assert (store.log.end, list(store.log.damage)) == (end, [])
    store.close()


def test_damage_that_is_found_while_the_broker_runs_is_remembered(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock, **BIG)
    sent = fill(store, 5)
    fill(store, 1, topic="A")
    catch_up(store)
    store.close()
    flip_body(files, sent[2].log_offset)
    store = opened(files, clock, **BIG)
    assert not store.log.damage
    files.remove_tree(ROOT / "consumequeue" / "A")
    assert store.max_offset("A", 0) == 1
    store.write_behind()
    assert list(store.log.damage) == [(320, 480)] == read_spans(files, DAMAGE)
    die(store)


# --- queues that lack units


def test_lost_batches_have_a_unit_that_points_into_the_damage(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue's files are lost as well: only the last clean stop knows how long it was."""
    store = opened(files, clock, **BIG)
    sent = [store.append(inner_batch(3)) for _ in range(4)]
    fill(store, 3)
    catch_up(store)
    store.close()
    crush(files, sent[-1].log_offset)
    files.remove_tree(ROOT / "batchconsumequeue" / BATCHED / "0")
    for is_first in (True, False):
        store = opened(files, clock, **BIG)
        assert store.max_offset(BATCHED, 0) == 12
        result = store.read(BATCHED, 0, 9, 10, None)
        assert (result.next_offset, result.message_count) == (12, 0)
        assert len(store.units(BATCHED, 0, 0, 100)) == 4
        assert ("queue is derived anew" in caplog.text) is is_first
        caplog.clear()
        store.close()
    store = opened(files, clock, **BIG)
    assert store.append(inner_batch(3)).queue_offset == 12
    assert store.read(BATCHED, 0, 6, 100, None).message_count == 6
    store.close()


WIDE = {"mapped_file_size_commit_log": 1 << 18, "mapped_file_size_consume_queue": 1000 * 20}
GARBAGE = UNIT.pack(77, 160, 5)


def with_wrong_units(
    files: MemoryFileSystem, clock: FakeClock, *offsets: int
) -> tuple[MessageStore, list[StoredMessage]]:
    store = opened(files, clock, **WIDE)
    sent = fill(store, 700)
    catch_up(store)
    store.close()
    file = files.open(QUEUE)
    for offset in offsets:
        file.write_at(offset * UNIT_BYTES, GARBAGE)
    return opened(files, clock, **WIDE), sent


def test_records_behind_unknown_damage_are_found_for_their_units(files: MemoryFileSystem, clock: FakeClock) -> None:
    store, sent = with_wrong_units(files, clock, *range(400, 421))
    crush(files, sent[410].log_offset)
    result = store.read("T", 0, 390, 40, None)
    assert (result.next_offset, result.message_count) == (430, 39)
    assert store.read("T", 0, 420, 1, None).message_count == 1
    assert PRE_BLANK not in (files.read_file(QUEUE) or b""), "it would stand for all that is before it"
    store.close()
    store = opened(files, clock, **WIDE)
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 700)
    store.close()


def test_the_unit_of_a_damaged_record_stays(files: MemoryFileSystem, clock: FakeClock) -> None:
    """It points where the record was, and the damage is known from then on."""
    store, sent = with_wrong_units(files, clock)
    crush(files, sent[410].log_offset)
    before = files.read_file(QUEUE)
    result = store.read("T", 0, 400, 20, None)
    assert (result.next_offset, result.message_count) == (420, 19)
    assert files.read_file(QUEUE) == before
    assert list(store.log.damage) == [(sent[410].log_offset, sent[411].log_offset)]
    store.close()


def test_records_of_wrong_units_are_looked_for_between_their_neighbours(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, int]] = []

    def counting(log: CommitLog, position: int, end: int, **how: bool) -> Iterator[Record]:
        read.append((position, end))
        return scan(log, position, end, **how)

    store, sent = with_wrong_units(files, clock, 400, 420)
    monkeypatch.setattr(record_walk, "scan", counting)
    assert store.read("T", 0, 390, 40, None).message_count == 40
    assert read == [(sent[number - 1].log_offset, sent[number + 1].log_offset) for number in (400, 420)]
    store.close()


def test_a_long_search_is_parted_and_gives_up_nothing(
    files: MemoryFileSystem, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_doctor, "_MENDED_BYTES_MAX", 1000)
    store, _ = with_wrong_units(files, clock, *range(400, 421))
    for _ in range(21 * 160 // 1000):
        with pytest.raises(OSError, match="their records are being looked for"):
            store.read("T", 0, 390, 40, None)
        assert PRE_BLANK not in (files.read_file(QUEUE) or b"")
    assert store.read("T", 0, 390, 40, None).message_count == 40
    store.close()


def test_wrong_units_are_read_right_without_room_to_write_them(files: MemoryFileSystem, clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    store = opened(disk, clock, **WIDE)
    fill(store, 700)
    catch_up(store)
    store.close()
    disk.open(QUEUE).write_at(400 * UNIT_BYTES, GARBAGE)
    store = opened(disk, clock, **WIDE)
    disk.fail(at=1, calls=SPACE_CALLS, error=errno.ENOSPC, lasting=True)
    assert store.read("T", 0, 390, 40, None).message_count == 40
    disk.heal()
    assert (disk.read_file(QUEUE) or b"")[8000:8020] == GARBAGE
    store.close()
