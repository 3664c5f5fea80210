"""Finding the next record behind damage: what is found, what is passed over, and what is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.store.filesystem import DiskFile, DiskFileSystem
from rocketline.store.log import resync
from rocketline.store.log.record_scan import Record, scan
from rocketline.store.log.resync import next_record
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.testing.fake_clock import FakeClock
from support.stores.small import LOG_BYTES, fill, memory, message, open_store


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


@pytest.fixture
def store(files: MemoryFileSystem, clock: FakeClock) -> MessageStore:
    return open_store(files, clock)


def damage(store: MessageStore, at: int, data: bytes) -> None:
    store.log.segments.file_of(at).write_at(at % LOG_BYTES, data)


def found(store: MessageStore, position: int, after: Record | None = None) -> int | None:
    return next_record(store.log, position, store.log.end, check_crc=True, after=after)


def record_at(store: MessageStore, position: int) -> Record:
    return next(scan(store.log, position, position + 1, check_crc=True))


@pytest.mark.parametrize("field", [0, 4, 8, 28, 36, 84, 100, 148, 155], ids=str)
def test_any_damaged_field_leads_to_the_next_record(store: MessageStore, field: int) -> None:
    sent = fill(store, 4)
    damage(store, sent[1].log_offset + field, b"\xff\xee\xdd")
    assert found(store, sent[1].log_offset) == sent[2].log_offset


def test_a_size_that_would_lead_past_good_records_is_not_followed(store: MessageStore) -> None:
    sent = fill(store, 4)
    size = sent[1].log_offset - sent[0].log_offset
    damage(store, sent[1].log_offset, (2 * size).to_bytes(4, "big"))
    assert found(store, sent[1].log_offset) == sent[2].log_offset


def test_damage_over_several_records_and_the_end_of_a_file(store: MessageStore) -> None:
    places = [int(one.log_offset) for one in fill(store, 14)]
    first, second = places[3], places.index(LOG_BYTES)
    damage(store, first, bytes(LOG_BYTES - first))
    assert found(store, first) == LOG_BYTES
    damage(store, LOG_BYTES, b"\x55" * 40)
    assert found(store, first) == places[second + 1]


def test_nothing_is_found_behind_the_end(store: MessageStore) -> None:
    sent = fill(store, 3)
    damage(store, sent[-1].log_offset + 100, b"!")
    assert found(store, sent[-1].log_offset) is None
    assert next_record(store.log, sent[0].log_offset, sent[1].log_offset, check_crc=True) is None


def test_a_record_in_the_body_of_a_damaged_one_is_none(store: MessageStore) -> None:
    """Whoever sends it may guess its place in the log."""
    fill(store, 1)
    place = store.log.end
    body_at = place + 88
    inner = bytearray(store.record_at(0) or b"")
    inner[28:36] = body_at.to_bytes(8, "big")
    outer = store.append(message("T", bytes(inner), queue_id=0))
    following = fill(store, 1)[0]
    assert record_at(store, body_at).log_offset == body_at, "it would be taken for one"
    damage(store, outer.log_offset + 8, b"\x01\x02\x03\x04")
    assert found(store, outer.log_offset) == following.log_offset


def test_remnants_of_a_former_life_are_passed_over(store: MessageStore, clock: FakeClock) -> None:
    remnant = fill(store, 1)[0]
    clock.advance(10)
    sent = fill(store, 3)
    newest = record_at(store, sent[0].log_offset)
    assert found(store, sent[0].log_offset, newest) == sent[1].log_offset
    later = newest._replace(store_ms=newest.store_ms + 1)
    assert found(store, remnant.log_offset, later) is None


def test_a_record_across_the_bounds_of_what_is_read_at_once(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = fill(store, 4)
    damage(store, sent[0].log_offset, bytes(4))
    for chunk in range(1, 200, 7):
        monkeypatch.setattr(resync, "_CHUNK_BYTES", chunk)
        assert found(store, sent[0].log_offset) == sent[1].log_offset


def test_holes_are_not_read(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log file of one GiB that has a torn record and nothing more costs what was written."""
    sizes = {"mapped_file_size_commit_log": 1 << 30, "store_path_root_dir": tmp_path}
    store = open_store(DiskFileSystem(), clock, **sizes)
    sent = fill(store, 2)
    read = 0
    read_at = DiskFile.read_at

    def counted(file: DiskFile, position: int, size: int) -> bytes:
        nonlocal read
        data = read_at(file, position, size)
        read += len(data)
        return data

    monkeypatch.setattr(DiskFile, "read_at", counted)
    store.log.segments.file_of(0).write_at(sent[1].log_offset + 90, b"\xff")
    assert next_record(store.log, sent[1].log_offset, 1 << 30, check_crc=True) is None
    assert read < 32 << 20, "what is reserved ahead may count as written"
    assert len(list(store.units("T", 0, 0, 10))) == 2
    store.close()
