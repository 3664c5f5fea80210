"""The files of timers, in Apache's bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.errors import CorruptStoreError
from rocketline.model.message import StoredMessage
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.timers.checkpoint import NO_LOCK, TimerCheckpoint, TimerNote
from rocketline.store.timers.timer_log import NONE, UNIT, UNIT_BYTES, TimerLog
from rocketline.store.timers.timer_store import Parked, TimerStore
from rocketline.store.timers.wheel import SLOT, Slot, TimerWheel
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.message_codec import decode_records
from support.effort import calls_of
from support.golden import read_lines
from support.stores.small import ROOT, memory, store_config

FOLDER, WHEEL, CHECK = ROOT / "timerlog", ROOT / "timerwheel", ROOT / "config" / "timercheck"
NOW_MS = 1_700_000_000_000


def opened(files: MemoryFileSystem, clock: FakeClock, *, queue_end: int = 0) -> TimerStore:
    config = store_config()
    timers = TimerStore(lambda: config, files, clock.wall_ms)
    timers.open(lambda log_offset: None, queue_end, lambda log_offset: "T")
    return timers


def test_unit_and_slot_are_those_of_apache(clock: FakeClock) -> None:
    """As a broker of Apache writes them: a message of TopicTest at 4096, five seconds from now."""
    files = memory(clock)
    timers = opened(files, clock)
    timers.park([Parked(NOW_MS + 5000, 4096, 300, "TopicTest", is_delete=False)])
    timers.parked_to(1)
    timers.save(0, 0)
    log = files.open(FOLDER / "00000000000000000000")
    assert log.size == 104_857_600
    assert log.read_at(0, 53).hex() == (
        "00000034ffffffffffffffff000000010000018bcfe568000000138800000000000010000000012c8e987641000000000000000000"
    )
    wheel = files.open(WHEEL)
    assert wheel.size == 38_707_200
    assert wheel.read_at(16_384_160, 32).hex() == "000000006553f105000000000000000000000000000000000000000100000000"
    check = files.read_file(CHECK)
    assert check is not None
    assert len(check) == 4096
    assert TimerCheckpoint.load(files, CHECK, NO_LOCK, NOW_MS) == TimerCheckpoint(
        timers.read_ms, 52, 1, 1, 0, NOW_MS, 1
    )
    assert files.read_file(ROOT / "config" / "timermetrics") == (
        b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1700000000000},'
        b'"timingCount":{"TopicTest":{"count":1,"timeStamp":1700000000000}}}'
    )


def recorded(file: str) -> bytes:
    """What a broker of Apache wrote there."""
    [line] = [line for line in read_lines("store-5.5.0.jsonl") if line["file"] == file]
    return bytes.fromhex(line["hex"])


def test_recorded_units_are_read_and_written_alike(clock: FakeClock) -> None:
    """Four messages, of which the last calls back the one before it."""
    data = recorded("timerlog")
    log = TimerLog(memory(clock), FOLDER, 104_857_600)
    log.append([(0, data)])
    units = [unit for _, unit in log.scan(0)]
    assert [(unit.previous, unit.is_delete, unit.delay_ms) for unit in units] == [
        (NONE, False, 3000), (NONE, False, 100_000), (NONE, False, 4000), (104, True, 4000)
    ]  # fmt: skip
    assert b"".join(UNIT.pack(*unit) for unit in units) == data
    topic = recorded_message("timer message, parked").properties["REAL_TOPIC"]
    for position, unit in enumerate(units):
        timers = opened(memory(clock), FakeClock(wall_ms=unit.write_ms))
        before = [Parked(unit.slot_ms, 0, 0, topic, is_delete=False)] * (unit.previous // 52 + 1)
        timers.park([*before, Parked(unit.slot_ms, unit.log_offset, unit.record_bytes, topic, unit.is_delete)])
        assert timers.log.segments.read(len(before) * 52, 52) == data[position * 52 : position * 52 + 52]


def recorded_message(what: str) -> StoredMessage:
    [line] = [line for line in read_lines("store-5.5.0.jsonl") if line["what"] == what and line["ver"] == "5.5.0"]
    return decode_records(bytes.fromhex(line["hex"]))[0]


def test_recorded_slot_and_checkpoint_are_read_and_written_alike(clock: FakeClock) -> None:
    data = recorded("timerwheel")
    time, *slot = SLOT.unpack(data)
    wheel = TimerWheel(1000)
    wheel.put({time * 1000: Slot(*slot)})
    assert list(wheel.pieces(dict(wheel.items()))) == [[(939_216 * 32, data)]]
    files, data = memory(clock), recorded("config/timercheck")
    files.make_folder(CHECK.parent)
    files.write_file(CHECK, data + bytes(4040))
    checkpoint = TimerCheckpoint.load(files, CHECK, NO_LOCK, time * 1000)
    assert checkpoint is not None
    assert checkpoint.encode() == data
    assert (checkpoint.queue_offset, checkpoint.log_flushed % 52) == (45, 0)


def test_file_of_the_timer_log_ends_with_a_blank(clock: FakeClock) -> None:
    """A unit never crosses two files; the last one of a usual file begins at 104857532."""
    log = TimerLog(memory(clock), FOLDER, 104_857_600)
    assert log.place_from(104_857_532) == 104_857_532
    assert log.place_from(104_857_584) == 104_857_600
    small = TimerLog(memory(clock), FOLDER, 200)
    places = small.places(7)
    assert places == [0, 52, 104, 200, 252, 304, 400]
    small.append([(at, UNIT.pack(UNIT_BYTES, NONE, 1, at, 0, at, 9, 0, 0)) for at in places])
    assert small.segments.read(156, 16).hex() == "0000002c0000000000000000cbd43194"
    assert [position for position, _ in small.scan(0)] == places
    assert [unit.log_offset for _, unit in small.scan(200)] == [200, 252, 304, 400]
    assert small.last_before(small.end) == 400
    assert small.last_before(400) == 304
    assert small.at(156) is None


def test_wheel_reads_what_it_wrote_and_only_what_is_to_come(clock: FakeClock) -> None:
    files, wheel = memory(clock), TimerWheel(1000, 600)
    files.make_folder(ROOT)
    slots = {NOW_MS + ms: Slot(ms, ms + 52, 2) for ms in (1000, 2000, 3000, 600_000)}
    wheel.put(slots)
    file = files.open(WHEEL, size=wheel.file_bytes)
    pieces = [piece for some in wheel.pieces(wheel.take_changed()[0]) for piece in some]
    assert [len(data) // SLOT.size for _, data in pieces] == [1, 3] or [len(d) // 32 for _, d in pieces] == [3, 1]
    for position, data in pieces:
        file.write_at(position, data)
    again = TimerWheel(1000, 600)
    again.load(files, WHEEL, NOW_MS + 2000)
    assert dict(again.items()) == {at: slot for at, slot in slots.items() if at >= NOW_MS + 2000}
    assert (again.first_ms(), again.count) == (NOW_MS + 2000, 6)


def test_wheel_is_written_some_slots_at_a_time() -> None:
    """Each of a hundred thousand messages may be for a second of its own."""
    wheel = TimerWheel(1000)
    wheel.put({NOW_MS + second * 7000: Slot(0, 0, 1) for second in range(5000)})
    some = [len(pieces) for pieces in wheel.pieces(wheel.take_changed()[0])]
    assert (max(some), sum(some)) == (1000, 5000)


@pytest.mark.parametrize("size", [0, 32, 2 * 600 * 32 + 1])
def test_wheel_of_another_length_is_none(clock: FakeClock, size: int) -> None:
    files = memory(clock)
    files.make_folder(ROOT / "config")
    files.write_file(WHEEL, bytes(size))
    with pytest.raises(CorruptStoreError, match=f"{size} bytes where a timer wheel has 38400"):
        TimerWheel(1000, 600).load(files, WHEEL, 0)


def test_checkpoint_that_is_cut_short_is_told(clock: FakeClock) -> None:
    files = memory(clock)
    assert TimerCheckpoint.load(files, Path("/none"), NO_LOCK, NOW_MS) is None
    files.make_folder(CHECK.parent)
    files.write_file(CHECK, b"\1" * 20)
    with pytest.raises(CorruptStoreError, match="20 bytes"):
        TimerCheckpoint.load(files, CHECK, NO_LOCK, NOW_MS)


def test_checkpoint_with_a_flipped_bit_is_told(clock: FakeClock) -> None:
    """It read as a time months ahead, and all that waited until then counted as delivered."""
    files = memory(clock)
    files.make_folder(CHECK.parent)
    note = TimerNote(7, 0, 1000, 2, 3)
    TimerCheckpoint(NOW_MS, 52, 1, 1, 0, NOW_MS, 1, note).save(files, CHECK)
    loaded = TimerCheckpoint.load(files, CHECK, 7, NOW_MS)
    assert loaded is not None
    assert loaded.note == note
    for at in range(56):
        files.open(CHECK).write_at(at, bytes([(files.read_file(CHECK) or b"")[at] ^ 1]))
        with pytest.raises(CorruptStoreError, match=r"check sum|negative"):
            TimerCheckpoint.load(files, CHECK, 7, NOW_MS)
        files.open(CHECK).write_at(at, bytes([(files.read_file(CHECK) or b"")[at] ^ 1]))


def test_note_does_not_count_once_somebody_else_had_the_store(clock: FakeClock) -> None:
    """Apache's broker writes its seven numbers, and leaves what follows as it is."""
    files = memory(clock)
    files.make_folder(CHECK.parent)
    TimerCheckpoint(NOW_MS, 52, 1, 1, 0, NOW_MS, 1, TimerNote(7, 0, 1000, 2, 3)).save(files, CHECK)
    theirs = TimerCheckpoint(NOW_MS + 5000, 104, 2, 2, 0, NOW_MS, 2)
    files.open(CHECK).write_at(0, theirs.encode())
    loaded = TimerCheckpoint.load(files, CHECK, 8, NOW_MS)
    assert loaded == theirs
    assert loaded is not None
    assert loaded.note is None


def test_time_of_a_checkpoint_without_a_sum_must_be_near(clock: FakeClock) -> None:
    files = memory(clock)
    files.make_folder(CHECK.parent)
    TimerCheckpoint(NOW_MS + 86_400_001).save(files, CHECK)
    with pytest.raises(CorruptStoreError, match="far ahead"):
        TimerCheckpoint.load(files, CHECK, 7, NOW_MS)


def test_wheel_of_another_size_is_made_anew_from_the_log(clock: FakeClock) -> None:
    files, config = memory(clock), store_config()
    for slots in (600, 1200, 300):
        timers = TimerStore(lambda: config, files, clock.wall_ms, slots=slots)
        timers.open(lambda log_offset: 0, 1, lambda log_offset: "T")
        if slots == 600:
            timers.park([Parked(NOW_MS + ms, 4096, 300, "T", is_delete=False) for ms in (5000, 5000, 200_000)])
            timers.parked_to(1)
        waiting = {slot_ms: slot.waiting for slot_ms, slot in timers.wheel.items()}
        assert waiting == {NOW_MS + 5000: 2, NOW_MS + 200_000: 1}
        timers.parked_to(1)
        timers._is_changed = True
        timers.save(0, 0)
        timers.close()
        TimerCheckpoint.load(files, CHECK, NO_LOCK, NOW_MS)


def test_slot_that_was_delivered_by_a_clock_that_was_ahead_is_not_found_again(clock: FakeClock) -> None:
    """A message for a time before it turns the wheel back."""
    files, first_ms, second_ms = memory(clock), NOW_MS + 60_000, NOW_MS + 120_000
    timers = opened(files, clock)
    timers.park([Parked(second_ms, 0, 300, "T", is_delete=False)])
    timers.save(0, 0)
    assert len(list(timers.take(second_ms))) == 1
    timers.delivered(second_ms)
    assert not timers.is_over(first_ms)
    timers.park([Parked(first_ms, 4096, 300, "T", is_delete=False)])
    timers.parked_to(2)
    timers.save(0, 0)
    again = opened(files, clock, queue_end=2)
    assert [slot_ms for slot_ms, _ in again.wheel.items()] == [first_ms]
    assert again.next_ms() == first_ms


def test_start_looks_at_the_slots_and_not_at_every_message_that_waits(clock: FakeClock) -> None:
    """A million may wait, and all of them are looked at before the first request."""
    efforts = []
    for count in (1_000, 20_000):
        files = memory(clock)
        timers = opened(files, clock)
        timers.park([Parked(NOW_MS + 1000 * (n % 100 + 5), n, 300, "T", is_delete=False) for n in range(count)])
        timers.parked_to(count)
        timers.save(0, 0)
        timers.close()
        efforts.append(calls_of(lambda files=files, count=count: opened(files, clock, queue_end=count)))  # type: ignore[misc]
    assert efforts[1] < 1.1 * efforts[0]
