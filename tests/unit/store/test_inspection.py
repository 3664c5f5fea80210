"""Checking and repairing a store: what is found, what is not, and what a repair leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketline.errors import StoreError, StoreLockedError
from rocketline.model.names import SCHEDULE_TOPIC
from rocketline.model.topic_config import TopicConfig
from rocketline.store.files.json_files import save_json
from rocketline.store.index.index_file import HEADER
from rocketline.store.inspection.check import CheckReport, check_store, with_sizes_found
from rocketline.store.inspection.findings import Finding, Kind
from rocketline.store.inspection.repair import Repaired, repair_store
from rocketline.store.inspection.stand_in import Lost, fill, spread
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.consume_queue import UNIT
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.append_crc import has_valid_append_crc
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.message_codec import decode_record, decode_records
from support.stores.small import (
    BATCHED,
    LOG_BYTES,
    ROOT,
    contents,
    die,
    find_keys,
    flush,
    inner_batch,
    memory,
    message,
    store_config,
)
from support.stores.small import fill as put
from support.stores.small import open_store as opened

QUEUE_FILE = ROOT / "consumequeue" / "T" / "0" / f"{0:020}"
TOPICS = ROOT / "config" / "topics.json"


@pytest.fixture
def files(clock: FakeClock) -> MemoryFileSystem:
    return memory(clock)


def filled(files: MemoryFileSystem, clock: FakeClock, *, is_clean: bool = True) -> MessageStore:
    """Three topics, one with batches; nine files of the log."""
    store = opened(files, clock)
    for _ in range(8):
        put(store, 4)
        put(store, 2, topic="U", queue_id=1)
        store.append(inner_batch(3))
        store.append(message(SCHEDULE_TOPIC, b"later", queue_id=2, DELAY="3"))
        clock.advance(1)
    table = {name: TopicConfig(name, 4, 4) for name in ("T", "U", SCHEDULE_TOPIC)}
    table[BATCHED] = TopicConfig(BATCHED, 1, 1, attributes={"queue.type": "BatchCQ"})
    save_json(files, TOPICS, TopicConfigTable(topic_config_table=table))
    if is_clean:
        store.close()
    else:
        flush(store)
        die(store)
    return store


def check(files: MemoryFileSystem) -> CheckReport:
    return check_store(files, FakeClock(), store_config())


def repair(files: MemoryFileSystem, clock: FakeClock) -> Repaired:
    return repair_store(files, clock, store_config())


def damage(report: CheckReport) -> list[Finding]:
    return [finding for finding in report.findings.kept if finding.is_damage]


def kinds(report: CheckReport) -> set[Kind]:
    return {finding.kind for finding in damage(report)}


def overwrite(files: MemoryFileSystem, path: Path, at: int, data: bytes) -> None:
    file = files.open(path)
    file.write_at(at, data)
    file.close()


def log_file(position: int) -> Path:
    return ROOT / "commitlog" / f"{position - position % LOG_BYTES:020}"


def hurt_record(files: MemoryFileSystem, position: int, at: int = 90) -> None:
    overwrite(files, log_file(position), position % LOG_BYTES + at, b"\xff\xfe")


# --- check


def test_a_whole_store_has_no_findings_and_all_is_counted(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    report = check(files)
    assert report.findings.kept == []
    assert (report.records, report.units, report.queues, report.index_entries) == (64, 64, 4, 48)


def test_after_a_kill_what_the_next_start_does_is_no_damage(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock, is_clean=False)
    report = check(files)
    assert report.findings.is_clean
    assert {finding.kind for finding in report.findings.kept} == {Kind.UNIT, Kind.UNCLEAN}
    assert "64 messages" not in str(report.findings.kept), "three in each of eight batches"


def test_checking_changes_nothing(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock, is_clean=False)
    paths = [QUEUE_FILE.parent / name for name in files.list(QUEUE_FILE.parent)] + [log_file(0), ROOT / "checkpoint"]
    before = [files.read_file(path) for path in paths]
    check(files)
    assert [files.read_file(path) for path in paths] == before


def test_a_checkpoint_that_is_too_long_is_named_and_left_as_it_is(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    data = (files.read_file(ROOT / "checkpoint") or b"") + b"more"
    files.write_file(ROOT / "checkpoint", data)
    assert [one.problem for one in check(files).findings.kept] == ["4100 bytes where 4096 are expected"]
    assert files.read_file(ROOT / "checkpoint") == data


def test_a_damaged_record_is_named_with_its_place(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    store = opened(files, clock)
    lost = contents(store)[5]
    store.close()
    hurt_record(files, lost.log_offset)
    [record, unit] = damage(check(files))
    assert (record.kind, record.path, record.position) == (Kind.RECORD, log_file(lost.log_offset), lost.log_offset)
    assert (record.topic, record.queue_id, record.queue_offset) == ("T", 0, 5)
    assert (unit.kind, unit.topic, unit.queue_offset) == (Kind.UNIT, "T", 5)


@pytest.mark.parametrize(
    ("path", "at", "data", "kind"),
    [
        (QUEUE_FILE, 20, UNIT.pack(0, 200, 0), Kind.UNIT),
        (QUEUE_FILE, 12, b"\1\2\3\4\5\6\7\7", Kind.UNIT),
        (QUEUE_FILE, 40, bytes(20), Kind.UNIT),
        (ROOT / "batchconsumequeue" / BATCHED / "0" / f"{0:020}", 46 + 36, b"\0\7", Kind.UNIT),
        (ROOT / "consumequeue" / SCHEDULE_TOPIC / "2" / f"{0:020}", 18, b"\7", Kind.UNIT),
        (ROOT / "checkpoint", 1, b"\7", Kind.CHECKPOINT),
        (ROOT / "checkpoint", 42, b"\7", Kind.LOG_SHORT),
        (TOPICS, 0, b"[", Kind.TABLE),
        (TOPICS, 9, b"\0", Kind.TABLE),
    ],
)
def test_single_damages_are_named(
    files: MemoryFileSystem, clock: FakeClock, path: Path, at: int, data: bytes, kind: Kind
) -> None:
    filled(files, clock)
    overwrite(files, path, at, data)
    assert kinds(check(files)) == {kind}


@pytest.mark.parametrize(
    "at", [0, 8, 16, 24, 32, 36, HEADER.size, HEADER.size + 40 + 20 + 3, HEADER.size + 40 + 40 + 11]
)
def test_every_part_of_the_index_is_compared(files: MemoryFileSystem, clock: FakeClock, at: int) -> None:
    filled(files, clock)
    path = ROOT / "index" / files.list(ROOT / "index")[1]
    data = bytearray(files.read_file(path) or b"")
    data[at] ^= 0x41
    files.write_file(path, bytes(data))
    if at == 8:
        assert check(files).findings.is_clean, "the end time is only compared with times that are asked for"
    else:
        assert kinds(check(files)) == {Kind.INDEX}


def test_files_of_the_log_that_are_missing_cut_or_strange(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    files.remove(log_file(2 * LOG_BYTES))
    overwrite(files, log_file(4 * LOG_BYTES), LOG_BYTES, b"more")
    files.write_file(ROOT / "commitlog" / "notes.txt", b"")
    found = [
        (finding.path, finding.problem.split(":")[0])
        for finding in damage(check(files))
        if finding.kind is Kind.LOG_FILE
    ]
    assert found == [
        (ROOT / "commitlog" / "notes.txt", "its name is no multiple of 1024"),
        (log_file(4 * LOG_BYTES), "1028 bytes where 1024 are expected"),
        (log_file(2 * LOG_BYTES), "missing, 1 in all, of 1024 bytes"),
    ]


def test_a_missing_last_file_is_told_with_figures(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = filled(files, clock)
    end, last = store.log.end, log_file(store.log.end)
    files.remove(last)
    [short] = [finding for finding in damage(check(files)) if finding.kind is Kind.LOG_SHORT]
    assert short.path == last
    assert f"at least {end - int(last.name)} bytes are missing" in short.problem


def test_swapped_files_say_where_they_belong(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    first, second = log_file(LOG_BYTES), log_file(3 * LOG_BYTES)
    contents = files.read_file(first), files.read_file(second)
    files.write_file(first, contents[1] or b"")
    files.write_file(second, contents[0] or b"")
    problems = [finding.problem for finding in damage(check(files)) if finding.kind is Kind.RECORD]
    assert [problem.rsplit(" ", 1)[1] for problem in problems] == [str(3 * LOG_BYTES), str(LOG_BYTES)]


def test_a_queue_offset_that_is_there_twice_or_missing(files: MemoryFileSystem, clock: FakeClock) -> None:
    """No check sum covers it; its queue and its neighbours contradict."""
    filled(files, clock)
    store = opened(files, clock)
    place = contents(store)[9].log_offset
    store.close()
    overwrite(files, log_file(place), place % LOG_BYTES + 27, b"\5")
    assert {Kind.OFFSET, Kind.UNIT} == kinds(check(files))


def test_a_topic_that_was_deleted_and_made_anew_is_no_damage(files: MemoryFileSystem, clock: FakeClock) -> None:
    store = opened(files, clock)
    put(store, 9)
    put(store, 3, topic="Gone")
    store.delete_topics(["T", "Gone"])
    put(store, 4)
    save_json(files, TOPICS, TopicConfigTable(topic_config_table={"T": TopicConfig("T", 1, 1)}))
    store.close()
    report = check(files)
    assert report.findings.is_clean
    assert [(finding.topic, finding.count) for finding in report.findings.kept] == [("Gone", 3), ("T", 9)]


def test_a_log_whose_first_files_were_deleted_is_no_damage(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    store = opened(files, clock)
    for _ in range(3):
        files.remove(store.log.drop_first())
    store.clean_queues()
    store.close()
    assert check(files).findings.kept == []


def test_a_store_that_is_open_or_none_is_refused(files: MemoryFileSystem, clock: FakeClock) -> None:
    with pytest.raises(StoreError, match="is no store"):
        check(files)
    store = opened(files, clock)
    for work in (check, lambda files: repair(files, clock)):
        with pytest.raises(StoreLockedError):
            work(files)
    store.close()


def test_lengths_of_files_are_found(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    guessed = with_sizes_found(
        files, store_config(mapped_file_size_commit_log=1 << 30, mapped_file_size_consume_queue=6000000)
    )
    assert (guessed.mapped_file_size_commit_log, guessed.mapped_file_size_consume_queue) == (LOG_BYTES, 100)


# --- repair


def test_a_whole_store_is_left_alone(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    assert repair(files, clock).steps == []
    assert not files.exists(ROOT / "damaged")


def test_a_damaged_message_gives_way_to_one_that_says_so(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    store = opened(files, clock)
    before = contents(store)
    store.close()
    hurt_record(files, before[5].log_offset)
    original = (files.read_file(log_file(before[5].log_offset)) or b"")[before[5].log_offset % LOG_BYTES :]

    repaired = repair(files, clock)

    assert repaired.after.findings.kept == []
    store = opened(files, clock)
    after = contents(store)
    assert after[:5] + after[6:] == before[:5] + before[6:]
    stand_in = after[5]
    assert stand_in.properties == {**before[5].properties, "DAMAGED": "true"}
    assert stand_in.body.startswith(b"the message that stood here")
    assert (stand_in.log_offset, stand_in.queue_offset) == (before[5].log_offset, 5)
    assert find_keys(store, "k31") == [before[31].log_offset]
    store.close()
    [copy] = [step.copy for step in repaired.steps if step.copy and step.copy.parent.name == "commitlog"]
    kept = files.read_file(copy) or b""
    assert kept
    assert original.startswith(kept)


def test_a_file_of_the_log_that_is_missing_is_made_anew(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    store = opened(files, clock)
    before = contents(store)
    store.close()
    files.remove(log_file(2 * LOG_BYTES))

    assert repair(files, clock).after.findings.is_clean

    store = opened(files, clock)
    after = contents(store)
    store.close()
    assert [one.queue_offset for one in after] == [one.queue_offset for one in before]
    lost = [one for one in after if one.properties.get("DAMAGED")]
    assert [one.queue_offset for one in lost] == [
        one.queue_offset for one in before if log_file(one.log_offset) == log_file(2 * LOG_BYTES)
    ]
    assert lost


def test_swapped_files_are_put_back(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    store = opened(files, clock)
    before = contents(store)
    store.close()
    test_swapped = files.read_file(log_file(0)), files.read_file(log_file(LOG_BYTES))
    files.write_file(log_file(0), test_swapped[1] or b"")
    files.write_file(log_file(LOG_BYTES), test_swapped[0] or b"")

    assert repair(files, clock).after.findings.is_clean

    store = opened(files, clock)
    assert contents(store) == before
    store.close()


def test_lost_tables_are_moved_and_topics_made_of_what_has_messages(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    files.write_file(TOPICS, b"{damaged")
    repaired = repair(files, clock)
    assert repaired.after.findings.is_clean
    assert files.read_file(ROOT / "damaged" / "config" / "topics.json") == b"{damaged"
    text = (files.read_file(TOPICS) or b"").decode()
    assert all(f'"topicName":"{name}"' in text for name in ("T", "U", BATCHED))
    store = opened(files, clock)
    assert len(contents(store, BATCHED)) == 8
    store.close()


def test_copies_are_never_replaced(files: MemoryFileSystem, clock: FakeClock) -> None:
    filled(files, clock)
    for content in (b"[1", b"[2"):
        files.write_file(TOPICS, content)
        files.remove(TOPICS.with_name("topics.json.bak"))
        repair(files, clock)
    folder = ROOT / "damaged" / "config"
    assert [files.read_file(folder / name) for name in files.list(folder)] == [b"[1", b"[2"]


# --- records that stand in


def test_stand_ins_take_exactly_the_place_of_what_they_replace() -> None:
    lost = [Lost(1100, 150, "T", 1, 7, {"KEYS": "k"}), Lost(1300, 120, "T", 2, 9, {})]
    fillers = fill(1000, 1500, lost, 5, is_to_file_end=False, has_crc=False)
    joined = b"".join(filler.data for filler in fillers)
    assert len(joined) == 500
    records = decode_records(joined, check_crc=True)
    assert [record.log_offset for record in records] == [filler.log_offset for filler in fillers]
    assert [(record.topic, record.queue_offset) for record in records if record.topic == "T"] == [("T", 7), ("T", 9)]
    assert all(record.sys_flag == 0xC for record in records if record.topic != "T"), "no broker puts these into a queue"


def test_a_blank_record_takes_the_end_of_a_file() -> None:
    [first, blank] = fill(1000, 2048, [Lost(1000, 150, "T", 1, 7, {})], 5, is_to_file_end=True, has_crc=False)
    assert len(first.data) == 150
    assert (blank.log_offset, blank.data) == (1150, (2048 - 1150).to_bytes(4, "big") + bytes.fromhex("cbd43194"))


def test_stand_ins_have_the_check_sum_over_all_of_them_if_records_have_it() -> None:
    fillers = fill(0, 500, [Lost(0, 200, "T", 1, 7, {"KEYS": "k"})], 5, is_to_file_end=False, has_crc=True)
    assert all(has_valid_append_crc(filler.data) for filler in fillers)
    assert decode_record(fillers[0].data).properties["DAMAGED"] == "true"


def test_messages_that_share_a_place_get_parts_of_it() -> None:
    parts = spread([Lost(0, 1000, "T", 0, 5, {}), Lost(0, 1000, "T", 0, 6, {}), Lost(2000, 100, "T", 0, 7, {})])
    assert [(one.log_offset, one.size, one.queue_offset) for one in parts] == [
        (0, 500, 5),
        (500, 500, 6),
        (2000, 100, 7),
    ]
    assert len(spread([Lost(0, 200, "T", 0, number, {}) for number in range(9)])) == 1
