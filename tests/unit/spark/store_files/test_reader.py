"""Stores on disk read without a broker: every message of the log once, and what is damaged is told, or left out."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from rocketline.errors import ConfigError, CorruptStoreError
from rocketline.model.message import StoredMessage
from rocketline.model.sys_flags import CompressionType
from rocketline.spark.options.store import StoreOptions
from rocketline.spark.schema import COLUMNS, arrow_schema
from rocketline.spark.sources.store_source import RocketMQStoreDataSource
from rocketline.spark.store_files import reader as store_reader
from rocketline.spark.store_files.planner import LogSlices, plan_store
from rocketline.spark.store_files.reader import read_slices
from rocketline.store.log.record_scan import SECTOR_BYTES
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.compression import compress
from support.spark.records import rows_of
from support.stores.on_disk import LOG_BYTES, log_paths, overwrite, put, store_at
from support.stores.small import append_batch, inner_batch, message

QUEUED = ("topic", "queueId", "queueOffset", "body")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def read(root: Path, *, columns: Sequence[str] = QUEUED, **changes: Any) -> list[dict[str, Any]]:
    options = StoreOptions(path=str(root), **changes)
    return [row for task in plan_store(options) for row in read_task(task, options, columns)]


def read_task(task: LogSlices, options: StoreOptions, columns: Sequence[str] = QUEUED) -> list[dict[str, Any]]:
    return [row for batch in read_slices(task, options, columns) for row in rows_of(batch)]


def expected(messages: Sequence[StoredMessage]) -> list[dict[str, Any]]:
    return [
        {"topic": one.topic, "queueId": one.queue_id, "queueOffset": one.queue_offset, "body": one.body}
        for one in messages
    ]


def filled(root: Path, clock: FakeClock, count: int = 1000, *, dies: bool = False) -> list[StoredMessage]:
    with store_at(root, clock, dies=dies) as store:
        return put(store, clock, count)


# --- what is there


@pytest.mark.parametrize("dies", [False, True], ids=["closed", "killed"])
def test_every_message_is_read_once_in_the_order_of_the_log(root: Path, clock: FakeClock, dies: bool) -> None:
    messages = filled(root, clock, dies=dies)
    assert len(log_paths(root)) == 3
    assert read(root) == expected(messages)


def test_all_columns_say_what_a_consumer_would_see(root: Path, clock: FakeClock) -> None:
    with store_at(root, clock) as store:
        one = store.append(message("T", b"hello", queue_id=1, TAGS="a", KEYS="k", UNIQ_KEY="U1", shop="Zürich ☃"))
    (row,) = read(root, columns=COLUMNS, broker_name="broker-x")
    assert row == {
        "topic": "T",
        "brokerName": "broker-x",
        "queueId": 1,
        "queueOffset": 0,
        "msgId": "U1",
        "tags": "a",
        "keys": "k",
        "body": b"hello",
        "properties": {"TAGS": "a", "KEYS": "k", "UNIQ_KEY": "U1", "shop": "Zürich ☃"},
        "flag": 0,
        "bornTimestamp": one.born_ms * 1000,
        "storeTimestamp": one.store_ms * 1000,
        "reconsumeTimes": 0,
    }


def test_batches_have_the_schema_that_spark_wants(root: Path, clock: FakeClock) -> None:
    filled(root, clock, 50)
    options = StoreOptions(path=str(root))
    (task,) = plan_store(options)
    for batch in read_slices(task, options, COLUMNS):
        assert batch.schema == arrow_schema()
        batch.validate(full=True)


def test_compressed_bodies_inner_batches_and_long_topics_are_read(root: Path, clock: FakeClock) -> None:
    long_topic = "%RETRY%" + "g" * 150
    with store_at(root, clock) as store:
        packed = message("T", compress(b"x" * 500, CompressionType.LZ4))
        packed.sys_flag = CompressionType.LZ4.sys_flag
        store.append(packed)
        store.append(message(long_topic, b"long"))
        append_batch(store, [message("T", b"%d" % number) for number in range(3)])
        store.append(inner_batch(4))
    rows = read(root)
    assert [(row["topic"], row["queueOffset"], row["body"]) for row in rows] == [
        ("T", 0, b"x" * 500),
        (long_topic, 0, b"long"),
        ("T", 1, b"0"),
        ("T", 2, b"1"),
        ("T", 3, b"2"),
        ("B", 0, b"0"),
        ("B", 1, b"1"),
        ("B", 2, b"2"),
        ("B", 3, b"3"),
    ]


def test_an_empty_store_has_no_messages(root: Path, clock: FakeClock) -> None:
    with store_at(root, clock):
        pass
    (root / "commitlog").mkdir(exist_ok=True)
    assert read(root) == []


def test_a_store_without_messages_has_a_task_that_reads_nothing(root: Path, clock: FakeClock) -> None:
    filled(root, clock, 10)
    schema = StructType([StructField("queueOffset", LongType())])
    later = {"path": str(root), "startingTimestamp": str(clock.wall_ms() + 10 * 24 * 3_600_000)}
    (root / "empty" / "commitlog").mkdir(parents=True)
    for options in (later, {"path": str(root / "empty")}):
        reader = RocketMQStoreDataSource(options).reader(schema)
        assert [list(reader.read(task)) for task in reader.partitions()] == [[]]


# --- what is wanted


def several_topics(root: Path, clock: FakeClock) -> None:
    names = (
        "T",
        "Other",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "rmq_sys_wheel_timer",
        "%RETRY%g",
        "c_REPLY_TOPIC",
    )
    with store_at(root, clock) as store:
        for number in range(70):
            store.append(message(names[number % 7], b"%d" % number, TAGS=f"t{number % 3}"))
            clock.advance(1)


def topics_of(rows: Sequence[dict[str, Any]]) -> set[str]:
    return {row["topic"] for row in rows}


def test_the_products_own_topics_are_left_out_unless_asked_for(root: Path, clock: FakeClock) -> None:
    several_topics(root, clock)
    assert topics_of(read(root)) == {"T", "Other", "%RETRY%g"}
    assert len(topics_of(read(root, with_system_topics=True))) == 7
    assert topics_of(read(root, topics=("SCHEDULE_TOPIC_XXXX", "T"))) == {"SCHEDULE_TOPIC_XXXX", "T"}
    assert topics_of(read(root, pattern=".*T.*")) == {"T", "Other", "%RETRY%g"} - {"Other"}


def test_topic_that_the_folder_does_not_know_is_refused_with_those_that_it_knows(root: Path, clock: FakeClock) -> None:
    several_topics(root, clock)
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"topicConfigTable": {"Empty": {"topicName": "Empty"}}}')
    with pytest.raises(ConfigError) as refused:
        plan_store(StoreOptions(path=str(root), topics=("T", "nowhere")))

    assert refused.value.problems == (
        f"{root} knows no topic 'nowhere', but %RETRY%g, Empty, Other, T. Set failOnDataLoss=false to look "
        "for messages of a deleted topic in the log",
    )
    assert read(root, topics=("Empty",)) == []
    assert read(root, topics=("TRANS_CHECK_MAX_TIME_TOPIC",)) == [], "the product's own, which nobody needed yet"


@pytest.mark.parametrize("name", ["%RETRY%nobody", "%DLQ%nobody"])
def test_topics_that_come_when_they_are_needed_are_not_missed(root: Path, clock: FakeClock, name: str) -> None:
    several_topics(root, clock)

    assert read(root, topics=(name,)) == []


@pytest.mark.parametrize("kept", ["config/topics", "config/metadata", "consumequeue_rocksdb", "consumequeue/CURRENT"])
def test_list_of_topics_beside_a_rocksdb_says_nothing(root: Path, clock: FakeClock, kept: str) -> None:
    several_topics(root, clock)
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"topicConfigTable": {"Old": {}}}')
    with pytest.raises(ConfigError, match="knows no topic 'new'"):
        read(root, topics=("new",))
    (root / kept).mkdir()

    assert read(root, topics=("new",)) == []


@pytest.mark.parametrize("torn", [b'{"topicConfigTable": {"T"', b"[]", b'{"topicConfigTable": 7}'])
def test_list_of_topics_that_is_torn_is_replaced_by_the_one_before(root: Path, clock: FakeClock, torn: bytes) -> None:
    several_topics(root, clock)
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_bytes(torn)
    (root / "config" / "topics.json.bak").write_text('{"topicConfigTable": {"Empty": {}}}')

    assert read(root, topics=("Empty",)) == []


def test_messages_of_a_deleted_topic_are_found_in_the_log(root: Path, clock: FakeClock) -> None:
    several_topics(root, clock)
    shutil.rmtree(root / "consumequeue" / "Other")
    with pytest.raises(ConfigError, match="knows no topic 'Other'"):
        read(root, topics=("Other",))

    assert topics_of(read(root, topics=("Other",), fail_on_data_loss=False)) == {"Other"}
    shutil.rmtree(root / "consumequeue")
    assert topics_of(read(root, topics=("Other",))) == {"Other"}, "a log alone knows no topics"
    assert read(root, topics=("nowhere",)) == []


def test_tags_are_compared_exactly(root: Path, clock: FakeClock) -> None:
    several_topics(root, clock)
    rows = read(root, tags=("t1", "t2"), topics=("T",))
    assert [int(row["body"]) for row in rows] == [number for number in range(0, 70, 7) if number % 3]
    with_tags = read(root, columns=("tags", "body"), tags=("t1",), topics=("T",))
    assert {row["tags"] for row in with_tags} == {"t1"}


def test_times_choose_messages_by_when_they_were_stored(root: Path, clock: FakeClock) -> None:
    begin_ms = clock.wall_ms()
    messages = filled(root, clock)
    wanted = [one for one in messages if begin_ms + 300 <= one.store_ms < begin_ms + 400]
    assert len(wanted) == 100
    assert read(root, start_ms=begin_ms + 300, end_ms=begin_ms + 400) == expected(wanted)
    assert read(root, start_ms=begin_ms + 10**9) == []


def test_files_of_another_day_are_not_even_opened(root: Path, clock: FakeClock) -> None:
    with store_at(root, clock) as store:
        put(store, clock, 500)
        clock.advance(24 * 3600)
        middle_ms = clock.wall_ms()
        wanted = put(store, clock, 500)
        clock.advance(24 * 3600)
        put(store, clock, 500)
    options = StoreOptions(path=str(root), start_ms=middle_ms, end_ms=middle_ms + 10_000)
    slices = [one for task in plan_store(options) for one in task.slices]
    assert len(slices) < len(log_paths(root))
    assert read(root, start_ms=middle_ms, end_ms=middle_ms + 10_000) == expected(wanted)


def test_half_messages_that_old_brokers_marked_by_a_flag_are_nobodys(root: Path, clock: FakeClock) -> None:
    with store_at(root, clock) as store:
        for flag in (0, 4, 8, 12):
            one = message("T", b"%d" % flag)
            one.sys_flag = flag
            store.append(one)
    assert [row["body"] for row in read(root)] == [b"0", b"8"]


# --- whose it is


def test_the_brokers_name_is_found_in_its_topics_or_is_null(root: Path, clock: FakeClock) -> None:
    filled(root, clock, 3)
    assert {row["brokerName"] for row in read(root, columns=("brokerName",))} == {None}
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json.bak").write_text('{"topicConfigTable":{"rmq_sys_SYNC_BROKER_MEMBER_broker-9":{}}}')
    assert {row["brokerName"] for row in read(root, columns=("brokerName",))} == {"broker-9"}
    assert {row["brokerName"] for row in read(root, columns=("brokerName",), broker_name="mine")} == {"mine"}


def test_the_log_may_lie_elsewhere_or_be_all_that_is_left(root: Path, clock: FakeClock, tmp_path: Path) -> None:
    messages = filled(root, clock)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    for number, path in enumerate(log_paths(root)):
        shutil.copy(path, (first, second)[number % 2])
    assert read(root, log_paths=(str(first), str(second))) == expected(messages)
    assert read(root / "commitlog") == expected(messages)
    shutil.rmtree(root / "consumequeue")
    assert read(root) == expected(messages)


def test_a_folder_that_is_no_store_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="commitlog"):
        read(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="commitlog"):
        read(tmp_path)


# --- tasks


def test_the_log_is_cut_where_records_begin(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock)
    options = StoreOptions(path=str(root), partition_bytes_max=10_000)
    tasks = plan_store(options)
    assert len(tasks) > 15
    assert max(sum(map(len, task.slices)) for task in tasks) < 11_000
    assert [row for task in tasks for row in read_task(task, options)] == expected(messages)


def test_at_least_as_many_tasks_as_asked_for(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock)
    assert len(plan_store(StoreOptions(path=str(root)))) == 1
    options = StoreOptions(path=str(root), min_partitions=9)
    tasks = plan_store(options)
    assert len(tasks) >= 9
    assert [row for task in tasks for row in read_task(task, options)] == expected(messages)


def test_without_queues_files_are_not_cut(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock)
    shutil.rmtree(root / "consumequeue")
    options = StoreOptions(path=str(root), partition_bytes_max=10_000)
    tasks = plan_store(options)
    assert len(tasks) == len(log_paths(root))
    assert [row for task in tasks for row in read_task(task, options)] == expected(messages)


def test_a_message_that_looks_like_records_is_never_cut(root: Path, clock: FakeClock) -> None:
    with store_at(root, clock) as store:
        put(store, clock, 20)
        log = log_paths(root)[0].read_bytes()
        copied = store.append(message("T", log[:9000]))  # bodies that hold whole records, with their places
        put(store, clock, 20)
    options = StoreOptions(path=str(root), partition_bytes_max=500)
    rows = [row for task in plan_store(options) for row in read_task(task, options)]
    assert len(rows) == 41
    assert rows[20]["body"] == copied.body


def test_a_store_may_have_more_queues_than_files_may_be_open(root: Path, clock: FakeClock) -> None:
    with store_at(root, clock) as store:
        messages = put(store, clock, 1000, queues=100)
    low, high = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = len(os.listdir("/proc/self/fd")) + 40  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, high))
    try:
        options = StoreOptions(path=str(root), partition_bytes_max=10_000)
        tasks = plan_store(options)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (low, high))
    assert len(tasks) > 15
    assert [row for task in tasks for row in read_task(task, options)] == expected(messages)


def test_rows_wait_for_others_up_to_a_size_only(root: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(root, clock)
    options = StoreOptions(path=str(root))
    (task,) = plan_store(options)
    assert len(list(read_slices(task, options, QUEUED))) == 1
    monkeypatch.setattr(store_reader, "BATCH_BYTES", 20_000)
    assert len(list(read_slices(task, options, QUEUED))) == len(log_paths(root))


def test_messages_that_come_after_the_plan_are_not_in_it(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock, 100)
    options = StoreOptions(path=str(root))
    tasks = plan_store(options)
    with store_at(root, clock) as store:
        put(store, clock, 100)
    assert [row for task in tasks for row in read_task(task, options)] == expected(messages)


# --- the end of the log


def test_records_that_no_queue_has_yet_are_read_too(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock)
    for path in (root / "consumequeue" / "T").rglob("0*"):
        if path.is_file() and int(path.name) > 4000:
            path.unlink()
    assert read(root) == expected(messages)


def test_units_that_point_beyond_the_log_are_not_believed(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock, 100)
    unit = next((root / "consumequeue" / "T" / "0").iterdir())
    overwrite(unit, 50 * 20 - 20, (10**9).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8))
    assert read(root) == expected(messages)


def torn(root: Path, clock: FakeClock, missing: int) -> tuple[list[StoredMessage], Path]:
    """A store whose last record lost its last bytes; and the file with it."""
    messages = filled(root, clock, 100, dies=True)
    last = messages[-1]
    shutil.rmtree(root / "consumequeue")
    path = log_paths(root)[last.log_offset // LOG_BYTES]
    size = int.from_bytes(path.read_bytes()[last.log_offset % LOG_BYTES :][:4], "big")
    overwrite(path, last.log_offset % LOG_BYTES + size - missing, bytes(missing))
    return messages, path


@pytest.mark.parametrize("missing", [1, 30, 80])
def test_a_last_record_that_is_cut_short_is_told_or_left_out(root: Path, clock: FakeClock, missing: int) -> None:
    messages, path = torn(root, clock, missing)
    with pytest.raises(CorruptStoreError, match="no whole record") as found:
        read(root)
    assert str(path) in str(found.value)
    assert "failOnDataLoss=false" in str(found.value)
    assert read(root, fail_on_data_loss=False) == expected(messages[:-1])


def test_bytes_behind_the_last_record_are_told(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock, 100)
    shutil.rmtree(root / "consumequeue")
    end = messages[-1].log_offset + 5000
    overwrite(log_paths(root)[end // LOG_BYTES], end % LOG_BYTES, b"something")
    with pytest.raises(CorruptStoreError, match="no whole record"):
        read(root)
    assert read(root, fail_on_data_loss=False) == expected(messages)


def test_a_preallocated_file_of_zeros_is_nothing(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock, 100)
    files = log_paths(root)
    with (root / "commitlog" / f"{len(files) * LOG_BYTES:020}").open("wb") as file:
        file.truncate(LOG_BYTES)
    with (root / "commitlog" / f"{(len(files) + 1) * LOG_BYTES:020}").open("wb"):
        pass
    assert read(root) == expected(messages)


# --- damage in between


def test_a_body_that_changed_on_disk_is_told_or_left_out(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock)
    at = messages[500].log_offset
    overwrite(log_paths(root)[at // LOG_BYTES], at % LOG_BYTES + 90, b"?")
    with pytest.raises(CorruptStoreError, match=rf"record at byte {at % LOG_BYTES}: .*CRC"):
        read(root)
    assert read(root, fail_on_data_loss=False) == expected(messages[:500] + messages[501:])


def test_a_body_that_cannot_be_expanded_is_told_or_left_out(root: Path, clock: FakeClock) -> None:
    with store_at(root, clock) as store:
        messages = put(store, clock, 10)
        flagged = message("T", b"not compressed at all")
        flagged.sys_flag = CompressionType.ZLIB.sys_flag
        at = store.append(flagged).log_offset
        messages += put(store, clock, 10)
    with pytest.raises(CorruptStoreError, match=f"record at byte {at}: .*expanded"):
        read(root)
    assert read(root, fail_on_data_loss=False) == expected(messages)


def test_properties_that_were_never_written_are_told_or_left_out(root: Path, clock: FakeClock) -> None:
    with store_at(root, clock) as store:
        messages = put(store, clock, 10)
        long = store.append(message("T", b"x", shop="s" * 3000))
        messages += put(store, clock, 10)
    path = log_paths(root)[0]
    overwrite(path, messages[5].log_offset - 1, bytes(1))
    overwrite(path, long.log_offset + 1500 & -SECTOR_BYTES, bytes(SECTOR_BYTES))
    with pytest.raises(CorruptStoreError, match=f"record at byte {messages[4].log_offset}: .*never written"):
        read(root)
    assert read(root, fail_on_data_loss=False) == expected(messages[:4] + messages[5:])


def test_zeros_that_fill_no_sector_belong_to_a_property(root: Path, clock: FakeClock) -> None:
    """Apache's broker stores what it is sent; the disk loses whole sectors."""
    with store_at(root, clock) as store:
        long = store.append(message("T", b"x", shop="s" * 3000))
    at = (long.log_offset + 1500 & -SECTOR_BYTES) + 1
    overwrite(log_paths(root)[0], at, bytes(2 * SECTOR_BYTES - 2))
    assert len(read(root)) == 1


def test_a_chain_that_breaks_is_told_or_goes_on_at_the_next_safe_place(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock)
    at = messages[500].log_offset
    overwrite(log_paths(root)[at // LOG_BYTES], at % LOG_BYTES, bytes(8))
    with pytest.raises(CorruptStoreError, match=f"no record begins at byte {at % LOG_BYTES}"):
        read(root)
    rows = read(root, fail_on_data_loss=False, partition_bytes_max=5000)
    lost = len(messages) - len(rows)
    assert 1 <= lost < 40
    assert [row for row in rows if row not in expected(messages)] == []


def test_a_file_that_is_missing_is_told_or_passed_over(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock)
    gone = log_paths(root)[1]
    gone.unlink()
    with pytest.raises(CorruptStoreError, match="the next file is"):
        read(root)
    rows = read(root, fail_on_data_loss=False)
    assert rows == expected([one for one in messages if one.log_offset // LOG_BYTES != 1])


def test_a_file_that_is_deleted_before_its_task_runs_is_told(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock)
    options = StoreOptions(path=str(root))
    tasks = plan_store(options)
    log_paths(root)[0].unlink()
    with pytest.raises(CorruptStoreError, match="deleted before it could be read"):
        [read_task(task, options) for task in tasks]
    going_on = replace(options, fail_on_data_loss=False)
    rows = [row for task in tasks for row in read_task(task, going_on)]
    assert rows == expected([one for one in messages if one.log_offset >= LOG_BYTES])


@pytest.mark.parametrize("fails", [True, False])
def test_a_folder_that_an_executor_does_not_see_is_an_error_whatever_is_asked_for(
    root: Path, clock: FakeClock, fails: bool
) -> None:
    filled(root, clock)
    options = StoreOptions(path=str(root), fail_on_data_loss=fails)
    (task,) = plan_store(options)
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(ConfigError, match=r"commitlog is no folder on .*: path must name a folder that all executors"):
        read_task(task, options)


def test_a_file_that_is_cut_short_is_told(root: Path, clock: FakeClock) -> None:
    messages = filled(root, clock)
    os.truncate(log_paths(root)[1], 1000)
    with pytest.raises(CorruptStoreError, match="the next file is"):
        read(root)
    rows = read(root, fail_on_data_loss=False)
    assert 0 < len(messages) - len(rows) < 700
    assert rows == [row for row in expected(messages) if row in rows]


def test_a_store_is_never_written_to(root: Path, clock: FakeClock) -> None:
    filled(root, clock)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert len(read(root)) == 1000
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
