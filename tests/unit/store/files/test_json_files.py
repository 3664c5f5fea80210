"""Metadata files: Apache's layout, the order in which file and `.bak` are believed, and no crash that loses both."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rocketline.errors import CorruptStoreError
from rocketline.model.topic_config import TopicConfig
from rocketline.store.files.json_files import load_json, save_json
from rocketline.store.filesystem import FileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem, Survival
from rocketline.wire.bodies.groups import SubscriptionGroupTable
from rocketline.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from rocketline.wire.bodies.topics import TopicConfigTable

FILE = Path("store/config/delayOffset.json")
BACKUP = FILE.with_name("delayOffset.json.bak")

# Recorded from a 5.5.0 broker.
DELAY_OFFSETS = b"""{
\t"dataVersion":{
\t\t"counter":1,
\t\t"stateVersion":0,
\t\t"timestamp":1794797982792
\t},
\t"offsetTable":{
\t\t1:1,
\t\t3:1,
\t\t18:0
\t}
}"""
CONSUMER_OFFSETS = b"""{
\t"dataVersion":{
\t\t"counter":0,
\t\t"stateVersion":0,
\t\t"timestamp":1794798079689
\t},
\t"groupTopicMap":{
\t\t"g1":[
\t\t\t"TopicIdx1",
\t\t\t"TopicIdx0"
\t\t]
\t},
\t"offsetTable":{
\t\t"TopicIdx0@g1":{
\t\t\t0:5,
\t\t\t1:6
\t\t},
\t\t"TopicIdx1@g1":{
\t\t\t0:5,
\t\t\t1:6
\t\t}
\t},
\t"pullOffsetTable":{}
}"""
GROUPS = b"""{
\t"dataVersion":{
\t\t"counter":1,
\t\t"stateVersion":0,
\t\t"timestamp":1794797973285
\t},
\t"forbiddenTable":{},
\t"subscriptionGroupTable":{
\t\t"CID_ONSAPI_PULL":{
\t\t\t"attributes":{},
\t\t\t"brokerId":0,
\t\t\t"consumeBroadcastEnable":true,
\t\t\t"consumeEnable":true,
\t\t\t"consumeFromMinEnable":true,
\t\t\t"consumeMessageOrderly":false,
\t\t\t"consumeTimeoutMinute":15,
\t\t\t"groupName":"CID_ONSAPI_PULL",
\t\t\t"groupRetryPolicy":{
\t\t\t\t"type":"CUSTOMIZED"
\t\t\t},
\t\t\t"groupSysFlag":0,
\t\t\t"notifyConsumerIdsChangedEnable":true,
\t\t\t"retryMaxTimes":16,
\t\t\t"retryQueueNums":1,
\t\t\t"whichBrokerWhenConsumeSlowly":1
\t\t}
\t}
}"""
TOPIC = b"""\t\t"WithAttr":{
\t\t\t"attributes":{
\t\t\t\t"message.type":"FIFO"
\t\t\t},
\t\t\t"order":true,
\t\t\t"perm":6,
\t\t\t"readQueueNums":2,
\t\t\t"topicFilterType":"SINGLE_TAG",
\t\t\t"topicName":"WithAttr",
\t\t\t"topicSysFlag":0,
\t\t\t"writeQueueNums":3
\t\t}
"""


def disk() -> FaultyFileSystem:
    made = FaultyFileSystem(FakeClock())
    made.make_folder(FILE.parent)
    return made


def offsets(level_one: int) -> DelayOffsetTable:
    return DelayOffsetTable(offset_table={1: level_one})


def loaded(files: FileSystem) -> int | None:
    """The offset of level one, None if nothing was found."""
    body = load_json(files, FILE, DelayOffsetTable)
    return None if body is None else body.offset_table[1]


@pytest.mark.parametrize(
    ("cls", "content"),
    [(DelayOffsetTable, DELAY_OFFSETS), (ConsumerOffsetTable, CONSUMER_OFFSETS), (SubscriptionGroupTable, GROUPS)],
)
def test_a_file_of_apache_is_written_back_byte_for_byte(cls: type[object], content: bytes) -> None:
    files = disk()
    files.write_file(FILE, content)
    save_json(files, FILE, load_json(files, FILE, cls))
    assert files.read_file(FILE) == content


def test_a_topic_is_laid_out_as_apache_does() -> None:
    files = disk()
    topic = TopicConfig("WithAttr", 2, 3, order=True, attributes={"message.type": "FIFO"})
    save_json(files, FILE, TopicConfigTable(topic_config_table={"WithAttr": topic}))
    assert TOPIC in (files.read_file(FILE) or b"")


def test_text_that_utf8_cannot_hold_is_saved_with_a_question_mark() -> None:
    files = disk()
    save_json(files, FILE, ConsumerOffsetTable(offset_table={"T\ud800@g": {0: 1}}))
    body = load_json(files, FILE, ConsumerOffsetTable)
    assert body is not None
    assert body.offset_table == {"T?@g": {0: 1}}


def test_the_state_before_the_last_save_is_kept_beside_the_file() -> None:
    files = disk()
    for level_one in (1, 2, 3):
        save_json(files, FILE, offsets(level_one))
    assert loaded(files) == 3
    files.remove(FILE)
    assert loaded(files) == 2
    assert files.list(FILE.parent) == [BACKUP.name]


def test_nothing_to_load_is_no_error() -> None:
    files = disk()
    assert loaded(files) is None
    files.write_file(FILE, b"")
    files.write_file(BACKUP, b"")
    assert loaded(files) is None


@pytest.mark.parametrize("main", [None, b""], ids=["missing", "empty"])
def test_a_missing_or_empty_file_is_replaced_by_its_backup(main: bytes | None) -> None:
    files = disk()
    files.write_file(BACKUP, DELAY_OFFSETS)
    if main is not None:
        files.write_file(FILE, main)
    assert loaded(files) == 1
    save_json(files, FILE, offsets(9))
    assert files.read_file(BACKUP) == DELAY_OFFSETS, "an empty file took the place of the good one"


@pytest.mark.parametrize(
    "main",
    [DELAY_OFFSETS[:-1], b"not json", b'{"offsetTable":3}', DELAY_OFFSETS.replace(b"18", b"\0\0"), b"\xff\xfe"],
    ids=["cut", "prose", "wrong shape", "lost block", "no text"],
)
def test_a_file_that_cannot_be_read_is_put_aside_for_its_backup(main: bytes, caplog: pytest.LogCaptureFixture) -> None:
    files = disk()
    files.write_file(FILE, main)
    files.write_file(BACKUP, DELAY_OFFSETS)
    assert loaded(files) == 1
    assert "using its .bak" in caplog.text
    assert files.read_file(FILE.with_name("delayOffset.json.corrupt")) == main
    assert not files.exists(FILE)
    save_json(files, FILE, offsets(9))
    assert files.read_file(BACKUP) == DELAY_OFFSETS


def test_a_first_save_that_a_crash_cut_short_means_starting_without() -> None:
    files = disk()
    files.write_file(FILE, DELAY_OFFSETS[:20])
    assert loaded(files) is None


def test_a_backup_that_is_needed_and_broken_stops_the_start() -> None:
    files = disk()
    files.write_file(BACKUP, b"{")
    with pytest.raises(CorruptStoreError, match=r"delayOffset\.json\.bak: .*remove both to start without"):
        loaded(files)


@pytest.mark.parametrize("survival", Survival)
def test_a_crash_at_any_step_of_a_save_leaves_the_old_state_or_the_new_one(survival: Survival) -> None:
    for step in range(1, 100):
        files = disk()
        for level_one in (1, 2):
            save_json(files, FILE, offsets(level_one))
        files.fail(at=step, lasting=True, torn=True)
        try:
            save_json(files, FILE, offsets(3))
            is_saved = True
        except OSError:
            is_saved = False
        for seed in range(20):
            after = files.crash(survival, seed=seed)
            assert loaded(after) in ((3,) if is_saved else (2, 3)), f"step {step}, seed {seed}"
            save_json(after, FILE, offsets(4))
            assert loaded(after) == 4
        if is_saved:
            assert step > 5
            return
    pytest.fail("the save never came to its end")


def test_a_save_that_finds_no_room_leaves_nothing_of_it_behind() -> None:
    """What it wrote may be the last of the disk."""
    files = disk()
    save_json(files, FILE, offsets(1))
    files.fail(at=1, calls=["extend"], error=errno.ENOSPC, torn=True)
    with pytest.raises(OSError, match="No space left on device"):
        save_json(files, FILE, offsets(2))
    assert files.list(FILE.parent) == [FILE.name]
    assert loaded(files) == 1


def test_a_save_that_failed_once_loses_nothing_and_can_be_repeated() -> None:
    for step in range(1, 8):
        files = disk()
        for level_one in (1, 2):
            save_json(files, FILE, offsets(level_one))
        files.fail(at=step, torn=True)
        with pytest.raises(OSError, match=r"\[Errno 5\]"):
            save_json(files, FILE, offsets(3))
        assert loaded(files) in (2, 3)
        save_json(files, FILE, offsets(4))
        assert loaded(files) == 4
