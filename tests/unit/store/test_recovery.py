"""Opening a store again: after a clean stop, after a death, after damage, and as Apache's broker leaves one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.errors import CorruptStoreError, IllegalMessageError, StoreLockedError
from rocketline.store.files.checkpoint import Checkpoint
from rocketline.store.inspection.check import check_store
from rocketline.store.inspection.findings import Kind
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.consume_queue import UNIT
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem
from support.stores.damage import walk
from support.stores.small import (
    BATCHED,
    LOG_BYTES,
    ROOT,
    SYNC,
    catch_up,
    contents,
    die,
    fill,
    find_keys,
    flush,
    flush_queues,
    inner_batch,
    memory,
    message,
    store_config,
)
from support.stores.small import open_store as opened

ABORT = ROOT / "abort"
QUEUE_FILE = ROOT / "consumequeue" / "T" / "0" / "00000000000000000000"


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


def log_file(start: int) -> Path:
    return ROOT / "commitlog" / f"{start:020}"


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[int]:
    return [int(found.body.strip(b".")) for found in contents(store, topic, queue_id)]


def saved_checkpoint(files: MemoryFileSystem) -> Checkpoint:
    checkpoint = Checkpoint(files, ROOT / "checkpoint")
    checkpoint.load()
    return checkpoint


# --- clean stops


def test_a_clean_stop_leaves_no_abort_file_and_complete_files(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    assert files.read_file(ABORT) is not None
    sent = fill(store, 12)
    store.close()
    assert not files.exists(ABORT)
    checkpoint = saved_checkpoint(files)
    assert checkpoint.physic_msg_timestamp == checkpoint.logics_msg_timestamp == clock.wall_ms()
    assert checkpoint.logics_log_offset == sent[-1].log_offset
    assert checkpoint.confirm_log_offset == 0, "set by recovery alone"
    assert UNIT.unpack((files.read_file(QUEUE_FILE) or b"")[80:100])[0] == sent[4].log_offset
    store = opened(files, clock)
    assert bodies(store) == list(range(12))
    assert not store.index.is_behind
    assert store.checkpoint.confirm_log_offset == sent[-1].log_offset
    assert fill(store, 1)[0].queue_offset == 12
    store.close()


def test_an_untouched_store_says_the_same_after_each_restart(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    last = fill(store, 5)[-1]
    store.close()
    for _ in range(2):
        clock.advance(100)
        store = opened(files, clock)
        flush_queues(store)
        assert store.checkpoint.logics_log_offset == last.log_offset
        store.close()
        checkpoint = saved_checkpoint(files)
        assert (checkpoint.logics_log_offset, checkpoint.logics_msg_timestamp) == (last.log_offset, last.store_ms)


def test_the_store_time_goes_on_from_the_last_record_though_the_clock_went_back(files: MemoryFileSystem) -> None:
    store = opened(files, FakeClock(wall_ms=5000))
    fill(store, 1)
    store.close()
    files.remove(ROOT / "checkpoint")
    store = opened(files, FakeClock(wall_ms=1000))
    assert fill(store, 1)[0].store_ms == 5000
    store.close()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_flipped_bit_of_the_checkpoint_moves_no_store_time(
    files: MemoryFileSystem, clock: FakeClock, is_clean: bool
) -> None:
    """It would not go back for a thousand years."""
    store = opened(files, clock)
    fill(store, 3)
    flush(store)
    flush_queues(store)
    if is_clean:
        store.close()
    else:
        die(store)
    checkpoint = Checkpoint(files, ROOT / "checkpoint")
    checkpoint.load()
    checkpoint.physic_msg_timestamp ^= 1 << 45
    checkpoint.save()
    checkpoint.close()
    store = opened(files, clock)
    assert fill(store, 1)[0].store_ms == clock.wall_ms()
    assert store.checkpoint.physic_msg_timestamp <= clock.wall_ms()
    store.close()


def test_an_empty_store_opens_and_closes(files: MemoryFileSystem, clock: FakeClock) -> None:
    for _ in range(2):
        store = opened(files, clock)
        assert (store.min_log_offset, store.max_log_offset) == (0, 0)
        assert store.clean() == []
        store.close()


def test_queues_that_lack_units_are_completed_also_after_a_clean_stop(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    """Apache's broker loses the second record and puts the others one place too low."""
    store = opened(files, clock)
    fill(store, 5)
    store.close()
    files.open(QUEUE_FILE).write_at(20, bytes(80))
    store = opened(files, clock)
    assert bodies(store) == [0, 1, 2, 3, 4]
    store.close()


def test_queues_that_were_deleted_are_derived_anew(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    fill(store, 20)
    store.close()
    files.remove_tree(ROOT / "consumequeue")
    store = opened(files, clock)
    assert bodies(store) == list(range(20))
    store.close()


def test_a_unit_that_points_at_no_record_lets_the_whole_log_be_read(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    fill(store, 5)
    store.close()
    files.open(QUEUE_FILE).write_at(80, UNIT.pack(1 << 40, 100, 0))
    store = opened(files, clock)
    assert bodies(store) == [0, 1, 2, 3, 4]
    store.close()


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("known_by", ["consumequeue", "batchconsumequeue", "checkpoint"])
def test_a_log_without_any_file_stops_the_start_if_anything_knows_of_messages(
    files: MemoryFileSystem, clock: FakeClock, known_by: str, is_clean: bool
) -> None:
    """A disk that is not mounted. Apache's broker deletes the queues."""
    store = opened(files, clock)
    fill(store, 5)
    store.append(inner_batch(3))
    flush(store)
    store.close()
    if not is_clean:
        files.write_file(ABORT, b"1")
    if known_by == "checkpoint":  # as versions before 5.5 leave it: times alone
        files.open(ROOT / "checkpoint").write_at(24, bytes(24))
    else:
        files.remove(ROOT / "checkpoint")
    for name in {"consumequeue", "batchconsumequeue"} - {known_by}:
        files.remove_tree(ROOT / name)
    files.remove(ROOT / "queue_ends.json")
    files.rename(ROOT / "commitlog", ROOT / "unmounted")
    before = {path: files.read_file(path) for path in walk(files, ROOT) if path.name != "checkpoint"}
    with pytest.raises(CorruptStoreError, match=r"commitlog: empty: .* mount its disk; to begin anew, move"):
        opened(files, clock)
    assert {path: files.read_file(path) for path in walk(files, ROOT) if path.name != "checkpoint"} == before
    files.remove_tree(ROOT / "commitlog")
    files.rename(ROOT / "unmounted", ROOT / "commitlog")
    files.write_file(ABORT, b"1")
    store = opened(files, clock)
    assert bodies(store) == [0, 1, 2, 3, 4]
    store.close()


def test_queues_without_messages_need_no_log(files: MemoryFileSystem, clock: FakeClock) -> None:
    files.make_folder(ROOT / "consumequeue" / "T" / "0")
    store = opened(files, clock)
    assert fill(store, 1)[0].log_offset == 0
    store.close()


def test_a_missing_last_file_is_known_by_units_where_another_broker_has_left_them(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    """Versions before 5.5 have no logicsPhysicalOffset in their checkpoint."""
    store = opened(files, clock)
    fill(store, 9)
    store.close()
    files.remove(ROOT / "queue_ends.json")
    files.open(ROOT / "checkpoint").write_at(32, bytes(16))
    kept = files.read_file(log_file(LOG_BYTES)) or b""
    files.remove(log_file(LOG_BYTES))
    with pytest.raises(CorruptStoreError, match=rf"{LOG_BYTES:020}: missing: .* {LOG_BYTES}\."):
        opened(files, clock)
    files.write_file(log_file(LOG_BYTES), kept)
    store = opened(files, clock)
    assert bodies(store) == list(range(9))
    store.close()


def test_a_single_unit_far_away_is_no_reason_not_to_start(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    fill(store, 4)
    store.close()
    files.remove(ROOT / "queue_ends.json")
    files.open(QUEUE_FILE).write_at(3 * 20, UNIT.pack(1 << 40, 160, 0))
    store = opened(files, clock)
    assert bodies(store) == [0, 1, 2, 3]
    store.close()


def test_missing_first_files_are_named_after_a_clean_stop(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(files, clock)
    fill(store, 30)
    catch_up(store)
    store.close()
    files.remove(log_file(0))
    (finding,) = [one for one in check_store(files, clock, store_config()).findings.kept if one.is_damage]
    assert (finding.kind, finding.path) == (Kind.LOG_FILE, log_file(0))
    assert f"{LOG_BYTES} bytes are missing" in finding.problem
    opened(files, clock).close()
    assert f"log has lost its first files: their messages are gone bytes={LOG_BYTES}" in caplog.text
    caplog.clear()
    opened(files, clock).close()
    assert "first files" not in caplog.text, "once is enough"


def test_first_files_that_nobody_vouches_for_are_a_note(files: MemoryFileSystem, clock: FakeClock) -> None:
    """They may have expired."""
    store = opened(files, clock)
    fill(store, 30)
    flush(store)
    flush_queues(store)
    die(store)
    files.remove(log_file(0))
    found = [one for one in check_store(files, clock, store_config()).findings.kept if one.kind is Kind.LOG_FILE]
    assert [(one.is_damage, one.path) for one in found] == [(False, log_file(LOG_BYTES))]


@pytest.mark.parametrize("known_by", ["checkpoint", "queue_ends.json"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_missing_last_file_of_the_log_stops_the_start_with_figures(
    files: MemoryFileSystem, clock: FakeClock, known_by: str, is_clean: bool
) -> None:
    store = opened(files, clock)
    end = fill(store, 9)[-1].log_offset
    store.close()
    if not is_clean:
        files.write_file(ABORT, b"1")
    kept = files.read_file(log_file(LOG_BYTES))
    assert kept is not None
    for path in {ROOT / "checkpoint", ROOT / "queue_ends.json"} - {ROOT / known_by}:
        files.remove(path)
    files.remove(log_file(LOG_BYTES))
    with pytest.raises(
        CorruptStoreError, match=rf"{LOG_BYTES:020}: missing: .* up to log offset \d+, .* {LOG_BYTES}\."
    ):
        opened(files, clock)
    assert files.exists(ABORT) is not is_clean, "nothing has changed"
    files.write_file(log_file(LOG_BYTES), kept)
    store = opened(files, clock)
    assert bodies(store) == list(range(9))
    assert store.units("T", 0, 8, 1)[0][0] == end
    store.close()


@pytest.mark.parametrize("lost", [1, 2, 5])
@pytest.mark.parametrize("is_batched", [True, False])
def test_a_missing_last_file_is_known_by_units_after_a_death(
    files: MemoryFileSystem, clock: FakeClock, lost: int, is_batched: bool
) -> None:
    """Neither checkpoint nor ends of queues have come so far. By one unit only if that is where the file began."""
    store = opened(files, clock)
    fill(store, 3, topic="IDLE")
    count = 0
    while len(store.log.segments.starts) < 3 or store.log.end < 2 * LOG_BYTES + lost * 100:
        store.append(inner_batch(4)) if is_batched else fill(store, 1)
        count += 1
    store.write_behind()
    die(store)
    kept = files.read_file(log_file(2 * LOG_BYTES)) or b""
    files.remove(log_file(2 * LOG_BYTES))
    for _ in range(2):
        with pytest.raises(CorruptStoreError, match=rf"{2 * LOG_BYTES:020}: missing: .* {2 * LOG_BYTES}\."):
            opened(files, clock)
    files.write_file(log_file(2 * LOG_BYTES), kept)
    store = opened(files, clock)
    topic = BATCHED if is_batched else "T"
    assert len(contents(store, topic)) == count
    assert store.max_offset(topic, 0) == count * (4 if is_batched else 1)
    store.close()


def test_a_log_whose_last_file_is_full_has_lost_none_if_queues_know_none(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    """A death between two files; and a queue that cannot be read is left to who asks for it."""
    store, count = opened(files, clock), 0
    fill(store, 1, topic="U")
    while len(store.log.segments.starts) < 3:
        store.write_behind()
        fill(store, 1)
        count += 1
    die(store)
    files.remove(log_file(2 * LOG_BYTES))
    files.write_file(ROOT / "consumequeue" / "U" / "0" / "strange", b"1")
    store = opened(files, clock)
    assert store.log.end == 2 * LOG_BYTES
    assert bodies(store) == list(range(count - 1))
    assert fill(store, 1)[0].queue_offset == count - 1
    store.close()


# --- deaths


def test_after_a_death_everything_that_was_written_is_there(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    fill(store, 12)
    fill(store, 3, queue_id=1)
    die(store)
    store = opened(files, clock)
    assert bodies(store) == list(range(12))
    assert bodies(store, "T", 1) == [0, 1, 2]
    assert store.index.is_behind
    catch_up(store)
    assert len(find_keys(store, "k7")) == 1
    store.close()
    assert not files.exists(ABORT)


def test_what_is_found_after_a_death_is_durable_before_it_is_read(clock: FakeClock) -> None:
    disk = FaultyFileSystem(clock)
    store = opened(disk, clock, flush_disk_type=SYNC)
    fill(store, 12)
    assert contents(store) == []
    die(store)
    store = opened(disk, clock, flush_disk_type=SYNC)
    assert bodies(store) == list(range(12))
    for log in store.log.segments.starts:
        assert disk._live[store.log.segments.path(log)] is not None
        assert not disk._live[store.log.segments.path(log)].unsynced  # type: ignore[union-attr]
    store.close()


def test_only_the_files_in_doubt_are_read_again(files: MemoryFileSystem, clock: FakeClock) -> None:
    """From the newest file whose first record was stored three seconds before the checkpoint."""
    store = opened(files, clock)
    for _ in range(30):
        fill(store, 1)
        clock.advance(1)
    flush(store)
    flush_queues(store)
    flush_queues(store)  # the second one saves what the first achieved
    fill(store, 2)
    die(store)
    # Were the first file read again, this would end the log.
    files.open(log_file(0)).write_at(500, b"damage")
    store = opened(files, clock)
    assert store.max_offset("T", 0) == 32
    assert store.checkpoint.confirm_log_offset == store.units("T", 0, 31, 1)[0][0]
    store.close()


def test_garbage_behind_the_last_record_is_dropped_and_zeros_take_its_place(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = opened(files, clock)
    fill(store, 3)
    end = store.max_log_offset
    die(store)
    files.open(log_file(0)).write_at(end, bytes.fromhex("00000050daa320a7") + b"\xff" * 100)
    store = opened(files, clock)
    assert store.max_log_offset == end
    assert bodies(store) == [0, 1, 2]
    assert (files.read_file(log_file(0)) or b"")[end:] == bytes(LOG_BYTES - end)
    store.close()


def test_damage_in_the_midst_costs_the_record_that_has_it(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """One flipped bit; Apache's broker drops all that follows."""
    store = opened(files, clock, flush_disk_type=SYNC)
    sent = fill(store, 20)
    flush(store)
    die(store)
    file, at = files.open(log_file(0)), sent[3].log_offset + 90
    file.write_at(at, bytes([file.read_at(at, 1)[0] ^ 8]))
    store = opened(files, clock)
    assert bodies(store) == [0, 1, 2, *range(4, 20)]
    assert "messages are damaged topic=T queue=0 first_offset=3 count=1" in caplog.text
    assert fill(store, 1)[0].queue_offset == 20, "no offset is given out twice"
    catch_up(store)
    assert len(find_keys(store, "k9")) == 1
    store.close()
    for _ in range(2):  # nobody reads these records again, and yet the damage is known
        store = opened(files, clock)
        assert bodies(store) == [0, 1, 2, *range(4, 21)]
        assert [span.begin for span in store.log.damage] == [sent[3].log_offset]
        store.close()


@pytest.mark.parametrize("is_zeroed", [True, False])
def test_a_damaged_file_end_of_the_log_loses_what_is_damaged(
    files: MemoryFileSystem, clock: FakeClock, is_zeroed: bool
) -> None:
    """Blank record and all: the next file begins with a record that goes on."""
    store = opened(files, clock)
    sent = fill(store, 20)
    die(store)
    lost = [number for number, one in enumerate(sent) if one.log_offset + 160 > 310 and one.log_offset < LOG_BYTES]
    files.open(log_file(0)).write_at(310, bytes(LOG_BYTES - 310) if is_zeroed else b"\xee" * (LOG_BYTES - 310))
    store = opened(files, clock)
    assert bodies(store) == [number for number in range(20) if number not in lost]
    assert store.max_offset("T", 0) == 20
    store.close()


def test_a_damaged_last_record_is_no_torn_one_if_its_queue_knows_it(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    sent = fill(store, 5)
    flush_queues(store)
    die(store)
    files.open(log_file(0)).write_at(sent[4].log_offset + 90, b"damage")
    store = opened(files, clock)
    assert bodies(store) == [0, 1, 2, 3]
    again = fill(store, 1)[0]
    assert (again.queue_offset, again.log_offset) == (5, sent[4].log_offset + 160)
    store.close()


def test_a_damaged_last_record_is_found_after_a_clean_stop(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    sent = fill(store, 5)
    store.close()
    files.open(log_file(0)).write_at(sent[4].log_offset + 90, b"damage")
    store = opened(files, clock)
    assert bodies(store) == [0, 1, 2, 3]
    assert fill(store, 1)[0].queue_offset == 5
    store.close()


def test_what_is_cleared_is_copied_first(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(files, clock)
    end = fill(store, 3)[-1].log_offset + 160
    die(store)
    for number in range(2):
        files.open(log_file(0)).write_at(end, b"torn %d" % number)
        die(opened(files, clock))
    folder = ROOT / "damaged" / "commitlog"
    assert [files.read_file(folder / name) for name in files.list(folder)] == [b"torn 0", b"torn 1"]
    assert str(folder) in caplog.text


def test_records_of_an_earlier_life_do_not_come_back(files: MemoryFileSystem, clock: FakeClock) -> None:
    """Apache's broker moves its end back and leaves what follows. Behind a record that was torn later, old ones stand
    that are whole, and whose queue offsets would go on; they were stored before those in front of the damage."""
    store = opened(files, clock)
    sent = fill(store, 4)
    die(store)
    data = files.read_file(log_file(0)) or b""
    clock.advance(60)
    files.open(log_file(0)).write_at(sent[1].log_offset, bytes(LOG_BYTES - sent[1].log_offset))
    store = opened(files, clock)
    fill(store, 1)
    end = store.max_log_offset
    die(store)
    files.open(log_file(0)).write_at(end, b"torn")
    files.open(log_file(0)).write_at(sent[3].log_offset, data[sent[3].log_offset :])
    store = opened(files, clock)
    assert bodies(store) == [0, 1]
    assert store.max_log_offset == end
    store.close()


def test_a_record_that_has_lost_the_end_of_its_properties_is_torn(files: MemoryFileSystem, clock: FakeClock) -> None:
    """Its body, which alone has a check sum, is whole."""
    store = opened(files, clock)
    fill(store, 2)
    end = store.max_log_offset
    die(store)
    files.open(log_file(0)).write_at(end - 3, bytes(3))
    store = opened(files, clock)
    assert bodies(store) == [0]
    store.close()


@pytest.mark.parametrize("shift", range(0, 512, 97))
def test_a_record_that_has_lost_a_sector_of_its_properties_is_torn(
    files: MemoryFileSystem, clock: FakeClock, shift: int
) -> None:
    store = opened(files, clock, mapped_file_size_commit_log=8192)
    fill(store, 1, size=shift + 1)
    place = store.append(message("T", b"1", X="x" * 1100)).log_offset
    die(store)
    lost = -(-(place + 150) // 512) * 512
    files.open(log_file(0)).write_at(lost, bytes(512))
    store = opened(files, clock, mapped_file_size_commit_log=8192)
    assert bodies(store) == [0]
    store.close()


def test_a_message_whose_properties_would_look_torn_is_refused(files: MemoryFileSystem, clock: FakeClock) -> None:
    """A client could end the log with it: all that follows would be gone after the next crash."""
    store = opened(files, clock, mapped_file_size_commit_log=8192)
    for zeros in (1100, 512):
        with pytest.raises(IllegalMessageError, match="512 zero bytes"):
            store.append(message("T", b"x", X="\0" * zeros))
    store.append(message("T", b"0", X="\0" * 511, Y="\0" * 511))
    fill(store, 1)
    die(store)
    store = opened(files, clock, mapped_file_size_commit_log=8192)
    assert bodies(store) == [0, 1]
    store.close()


@pytest.mark.parametrize("bit", range(64))
def test_a_flipped_bit_in_a_queue_offset_moves_no_message(
    files: MemoryFileSystem, clock: FakeClock, bit: int, caplog: pytest.LogCaptureFixture
) -> None:
    """No check sum covers it. Java gives such a record the next place, too, if the offset is too large."""
    store = opened(files, clock, mapped_file_size_commit_log=8192)
    sent = fill(store, 9)
    die(store)
    file, at = files.open(log_file(0)), sent[5].log_offset + 20 + 7 - bit // 8
    file.write_at(at, bytes([file.read_at(at, 1)[0] ^ 1 << bit % 8]))
    store = opened(files, clock, mapped_file_size_commit_log=8192)
    assert [unit[0] for unit in store.units("T", 0, 0, 99)] == [message.log_offset for message in sent]
    assert "queue offset is damaged" in caplog.text
    assert store.append(message("T")).queue_offset == 9
    store.close()


def test_a_zero_file_that_apache_made_ahead_is_removed(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    fill(store, 3)
    end = store.max_log_offset
    die(store)
    files.write_file(log_file(LOG_BYTES), bytes(LOG_BYTES))
    store = opened(files, clock)
    assert store.max_log_offset == end
    assert not files.exists(log_file(LOG_BYTES))
    assert bodies(store) == [0, 1, 2]
    store.close()


def test_a_log_that_ends_with_a_blank_record_goes_on_in_the_next_file(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = opened(files, clock)
    fill(store, 3)
    store.log.make_room(LOG_BYTES - 8)
    die(store)
    for _ in range(2):
        store = opened(files, clock)
        assert store.max_log_offset == LOG_BYTES
        assert bodies(store) == [0, 1, 2]
        store.close()
    store = opened(files, clock)
    assert fill(store, 1)[0].log_offset == LOG_BYTES
    store.close()


def test_units_beyond_the_end_of_the_log_are_dropped(
    files: MemoryFileSystem, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The power went before the log was synced."""
    store = opened(files, clock)
    sent = fill(store, 5)
    flush_queues(store)
    die(store)
    files.open(log_file(0)).write_at(sent[3].log_offset, bytes(LOG_BYTES - sent[3].log_offset))
    store = opened(files, clock)
    assert bodies(store) == [0, 1, 2]
    assert "queue knows messages that the log has lost topic=T queue=0 first_offset=3 count=2" in caplog.text
    assert fill(store, 1)[0].queue_offset == 3
    store.close()


def test_a_topic_deleted_and_made_again_before_a_death_has_its_new_messages_only(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = opened(files, clock)
    fill(store, 12)
    flush_queues(store)
    store.delete_topics(["T"])
    new = [store.append(message("T", f"{number + 100}".encode())) for number in range(3)]
    assert [sent.queue_offset for sent in new] == [0, 1, 2]
    die(store)
    store = opened(files, clock)
    assert bodies(store) == [100, 101, 102]
    store.close()


def test_prepared_and_rolled_back_records_have_no_unit(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    for number, sys_flag in enumerate((0, 0x4, 0xC, 0x8)):
        sent = message("T", f"{number}".encode(), KEYS=f"k{number}")
        sent.sys_flag = sys_flag
        if sys_flag in (0x4, 0xC):
            store.queues.make("T", 0).next_offset = 0
        store.append(sent)
        store.queues.make("T", 0).next_offset = 1
    die(store)
    store = opened(files, clock)
    assert bodies(store) == [0, 3]
    catch_up(store)
    assert [bool(find_keys(store, f"k{number}")) for number in range(4)] == [True, True, False, True]
    store.close()


def test_records_without_a_checksum_over_all_end_the_log_if_that_is_demanded(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    """With forceVerifyPropCRC."""
    store = opened(files, clock, enabled_append_prop_crc=True)
    fill(store, 2)
    die(store)
    store = opened(files, clock)
    fill(store, 1)
    die(store)
    store = opened(files, clock, force_verify_prop_crc=True)
    assert bodies(store) == [0, 1]
    store.close()


# --- stores that cannot be opened


def test_a_store_in_use_is_not_opened_again(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    with pytest.raises(StoreLockedError):
        opened(files, clock)
    fill(store, 1)
    store.close()


def test_other_file_sizes_are_refused_and_the_store_stays_as_clean_as_it_was(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = opened(files, clock)
    fill(store, 3)
    store.close()
    with pytest.raises(CorruptStoreError, match="1024 bytes where the settings say 2048"):
        opened(files, clock, mapped_file_size_commit_log=2048)
    assert not files.exists(ABORT)
    store = opened(files, clock)
    assert bodies(store) == [0, 1, 2]
    store.close()


def test_other_sizes_of_queue_files_are_refused_after_a_clean_stop_and_derived_anew_after_a_crash(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = opened(files, clock)
    fill(store, 12)
    store.close()
    with pytest.raises(CorruptStoreError, match="100 bytes where the settings say 200"):
        opened(files, clock, mapped_file_size_consume_queue=200)
    store = opened(files, clock)
    die(store)
    store = opened(files, clock, mapped_file_size_consume_queue=200)
    assert bodies(store) == list(range(12))
    store.close()
    store = opened(files, clock, mapped_file_size_consume_queue=200)
    assert bodies(store) == list(range(12))
    store.close()


# --- the index


def test_an_index_that_is_behind_takes_new_messages_in_their_order(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    fill(store, 10)
    die(store)
    store = opened(files, clock)
    assert store.catch_up(50)
    fill(store, 5)
    assert store.index.behind_bytes > 0
    assert find_keys(store, "k14") == []
    catch_up(store)
    assert store.index.behind_bytes == 0
    fill(store, 1)
    assert [len(find_keys(store, f"k{number}")) for number in range(16)] == [1] * 16
    store.close()


def test_an_index_that_is_behind_at_the_stop_is_rebuilt_by_the_next_start(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = opened(files, clock)
    fill(store, 10)
    die(store)
    store = opened(files, clock)
    store.catch_up(50)
    store.close()
    assert store.problem is None
    assert files.exists(ABORT)
    store = opened(files, clock)
    catch_up(store)
    assert [len(find_keys(store, f"k{number}")) for number in range(10)] == [1] * 10
    store.close()
    assert not files.exists(ABORT)


def test_an_index_whose_files_are_lost_is_rebuilt_from_the_first_record(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    """Apache's broker rebuilds it only from where recovery begins."""
    store = opened(files, clock)
    for _ in range(20):
        fill(store, 1)
        clock.advance(1)
    flush(store)
    flush_queues(store)
    flush_queues(store)
    die(store)
    files.remove_tree(ROOT / "index")
    store = opened(files, clock)
    catch_up(store)
    assert [len(find_keys(store, f"k{number}")) for number in range(20)] == [1] * 20
    store.close()


def test_rebuilding_goes_on_with_what_is_left_when_old_files_are_deleted(
    files: MemoryFileSystem, clock: FakeClock
) -> None:
    store = opened(files, clock)
    fill(store, 20)
    flush(store)
    die(store)
    store = opened(files, clock)
    store.catch_up(20)
    store.log.drop_first()
    catch_up(store)
    first = next(n for n, unit in enumerate(store.units("T", 0, 0, 20)) if unit[0] >= store.min_log_offset)
    assert [len(find_keys(store, f"k{number}")) for number in range(first, 20)] == [1] * (20 - first)
    store.close()


def test_a_store_without_an_index_finds_nothing_and_stops_cleanly(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock, message_index_enable=False)
    fill(store, 3)
    assert find_keys(store, "k1") == []
    assert store.index.last_update == (0, 0)
    assert not store.catch_up(10)
    store.close()
    assert not files.exists(ABORT)
    assert not files.exists(ROOT / "index")
