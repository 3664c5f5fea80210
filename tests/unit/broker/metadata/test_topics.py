"""The topic table: what is there at the start, how topics come about, and what is on disk by then."""

from __future__ import annotations

import errno
import itertools

import pytest

from rocketline.broker.metadata.topics import SavedTopics, retry_topic
from rocketline.errors import CorruptStoreError, RemoteProtocolError
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.sys_flags import TOPIC_UNIT, TOPIC_UNIT_SUB
from rocketline.model.topic_config import TopicConfig
from rocketline.store.files.json_files import pretty
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import Survival
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.codec import to_value
from support.brokers.saved_tables import CONFIG, SavedTables
from support.effort import calls_by_step
from support.long_steps import counted, outcome

FILE = CONFIG / "topics.json"


def sent(tables: SavedTables, topic: str = "T", *, template: str = "TBW102", queues: int = 4) -> TopicConfig | None:
    return tables.topics.create_on_send(topic, default_topic=template, default_topic_queue_nums=queues)


def shape(config: TopicConfig | None) -> tuple[int, int, int] | None:
    return None if config is None else (config.read_queue_nums, config.write_queue_nums, config.perm)


# --- at the start


def test_system_topics_are_there_from_the_start() -> None:
    """S221; queues, queues, permission."""
    assert {name: shape(config) for name, config in SavedTables().topics.all().items()} == {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "TBW102": (8, 8, 7),
        "BenchmarkTest": (1024, 1024, 6),
        "C": (16, 16, 7),
        "B": (1, 1, 7),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        "C_REPLY_TOPIC": (1, 1, 6),
        "rmq_sys_REVIVE_LOG_C": (8, 8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_B": (1, 1, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 1, 6),
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": (1, 1, 6),
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC": (1, 1, 6),
        "rmq_sys_wheel_timer": (1, 1, 6),
    }


def test_settings_decide_on_some_of_the_system_topics() -> None:
    topics = SavedTables(
        autoCreateTopicEnable="false",
        clusterTopicEnable="false",
        brokerTopicEnable="false",
        traceTopicEnable="true",
        msgTraceTopicName="traces",
        timerWheelEnable="false",
    ).topics
    assert shape(topics.get("C")) == (16, 16, 1)
    assert shape(topics.get("B")) == (1, 1, 1)
    assert shape(topics.get("traces")) == (1, 1, 6)
    assert topics.get("TBW102") is topics.get("rmq_sys_wheel_timer") is None
    assert topics.is_system("traces")


@pytest.mark.parametrize("name", ["TBW102", "B", "C", "C_REPLY_TOPIC", "rmq_sys_anything", "RMQ_SYS_TRACE_TOPIC"])
def test_names_of_the_system_the_broker_and_the_cluster_are_known_as_such(name: str) -> None:
    topics = SavedTables().topics
    assert topics.is_system(name)
    assert not topics.is_system("T")


def test_nothing_is_written_before_the_first_change() -> None:
    tables = SavedTables()
    assert tables.files.read_file(FILE) is None


def test_saved_topics_count_more_than_those_made_at_the_start() -> None:
    tables = SavedTables(validateSystemTopicWhenUpdateTopic="false")
    tables.topics.update(TopicConfig("BenchmarkTest", 2, 2), TopicConfig("T", 3, 3))
    again = tables.restarted().topics
    assert shape(again.get("BenchmarkTest")) == (2, 2, 6)
    assert shape(again.get("T")) == (3, 3, 6)
    assert again.get("SELF_TEST_TOPIC") is not None
    assert again.data_version == tables.topics.data_version


def test_file_of_apache_is_read() -> None:
    tables = SavedTables()
    tables.files.make_folder(CONFIG)
    tables.files.write_file(
        FILE,
        b"""{
\t"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1700000000000},
\t"topicConfigTable":{
\t\t"T":{"attributes":{"message.type":"FIFO"},"order":true,"perm":6,"readQueueNums":4,
\t\t"topicFilterType":"MULTI_TAG","topicName":"T","topicSysFlag":1,"writeQueueNums":5,"unknown":[1]}
\t}
}""",
    )
    topics = tables.restarted().topics
    assert topics.get("T") == TopicConfig("T", 4, 5, 6, "MULTI_TAG", 1, True, {"message.type": "FIFO"})
    assert topics.data_version.counter == 7


def test_broker_does_not_start_on_files_that_cannot_be_read() -> None:
    tables = SavedTables().with_topic("T").with_topic("U")
    for name in ("topics.json", "topics.json.bak"):
        tables.files.write_file(CONFIG / name, b"{")
    with pytest.raises(CorruptStoreError, match=r"topics\.json"):
        tables.restarted()


# --- made by sending


def test_topic_is_made_with_the_senders_number_of_queues() -> None:
    """S61."""
    tables = SavedTables()
    assert shape(sent(tables, queues=4)) == (4, 4, 6)
    assert shape(tables.restarted().topics.get("T")) == (4, 4, 6)


def test_topic_gets_no_more_queues_than_the_template_and_no_fewer_than_none() -> None:
    """S62."""
    tables = SavedTables()
    assert shape(sent(tables, queues=16)) == (8, 8, 6)
    assert shape(sent(tables, "none", queues=-1)) == (0, 0, 6)


def test_existing_topic_is_left_as_it_is() -> None:
    tables = SavedTables().with_topic("T", 3)
    version = tables.topics.data_version
    assert shape(sent(tables, queues=4)) == (3, 3, 6)
    assert tables.topics.data_version == version


def test_any_topic_that_passes_itself_on_can_be_the_template() -> None:
    tables = SavedTables()
    tables.topics.update(
        TopicConfig("mother", 2, 5, perm=5, topic_filter_type="MULTI_TAG", order=True, topic_sys_flag=3)
    )
    assert sent(tables, template="mother", queues=99) == TopicConfig("T", 5, 5, 4, "MULTI_TAG")
    assert shape(sent(tables, "U", template="C", queues=99)) == (16, 16, 6)


@pytest.mark.parametrize("template", ["SELF_TEST_TOPIC", "no such topic", ""])
def test_template_that_is_unknown_or_does_not_pass_itself_on_makes_nothing(template: str) -> None:
    tables = SavedTables()
    assert sent(tables, template=template) is None
    assert tables.topics.get("T") is None


def test_nothing_is_made_while_auto_creation_is_off_and_again_when_it_is_on() -> None:
    """S63; Apache's broker would stay without it."""
    tables = SavedTables()
    tables.settings.update({"autoCreateTopicEnable": "false"})
    assert sent(tables) is None
    assert shape(sent(tables, "other", template="C")) == (4, 4, 6)  # and something is saved meanwhile
    tables.settings.update({"autoCreateTopicEnable": "true"})
    assert shape(sent(tables)) == (4, 4, 6)


def test_retry_topic_is_made_without_a_template() -> None:
    assert shape(sent(SavedTables(), "%RETRY%g", template="no such topic")) == (1, 1, 6)


def test_unit_mode_marks_topics_and_retry_topics_differently() -> None:
    topics = SavedTables().topics
    made = [
        topics.create_on_send(name, default_topic="TBW102", default_topic_queue_nums=1, unit_mode=True)
        for name in ("T", "%RETRY%g")
    ]
    assert [config and config.topic_sys_flag for config in made] == [TOPIC_UNIT, TOPIC_UNIT_SUB]


# --- made for groups


def test_retry_topic_has_the_groups_number_of_queues_and_dead_letters_have_one() -> None:
    topics = SavedTables().topics
    assert shape(topics.ensure_retry(SubscriptionGroupConfig("g", retry_queue_nums=3))) == (3, 3, 6)
    assert shape(topics.ensure_dlq("g")) == (1, 1, 6)
    assert topics.get("%RETRY%g") is not None
    assert topics.get("%DLQ%g") is not None


def test_many_topics_are_made_with_one_save_and_one_notice() -> None:
    tables = SavedTables()
    told: list[list[str]] = []
    tables.topics.on_change = lambda changed: told.append([config.topic_name for config in changed])
    counter = tables.topics.data_version.counter
    tables.topics.ensure([TopicConfig("T1"), TopicConfig("T2"), TopicConfig("TBW102")])
    tables.topics.ensure([TopicConfig("T1"), TopicConfig("T2")])
    assert told == [["T1", "T2"]]
    assert tables.topics.data_version.counter == counter + 1


def test_retry_topic_takes_the_order_flag_only_if_told_to() -> None:
    topics, group = SavedTables().topics, SubscriptionGroupConfig("g")
    ordered = retry_topic(group, is_order=True)
    topics.ensure([retry_topic(group)])
    topics.ensure([ordered])
    assert topics.get("%RETRY%g") == retry_topic(group)
    topics.ensure([ordered], with_order=True)
    assert topics.get("%RETRY%g") == ordered
    topics.ensure_retry(group)
    assert topics.get("%RETRY%g") == ordered


# --- changed


def test_change_makes_a_new_version_that_is_on_disk(clock: FakeClock) -> None:
    tables = SavedTables(clock)
    before, version = tables.topics.data_version, tables.topics.version
    clock.advance(1)
    tables.topics.update(TopicConfig("T", 4, 4, perm=4))
    after = tables.topics.data_version
    assert (after.counter, after.timestamp) == (before.counter + 1, clock.wall_ms())
    assert tables.topics.version > version
    assert tables.restarted().topics.data_version == after


def test_attributes_are_merged_into_those_there_are() -> None:
    tables = SavedTables()
    tables.topics.update(TopicConfig("T", attributes={"+message.type": "FIFO", "+queue.type": "SimpleCQ"}))
    tables.topics.update(TopicConfig("T", perm=4))
    tables.topics.update(TopicConfig("T", attributes={"-message.type": ""}))
    assert tables.topics.get("T") == TopicConfig("T", attributes={"queue.type": "SimpleCQ"})


def test_one_bad_topic_of_several_leaves_all_unchanged() -> None:
    tables = SavedTables()
    before = dict(tables.topics.all())
    with pytest.raises(RemoteProtocolError, match="nonsense"):
        tables.topics.update(TopicConfig("T"), TopicConfig("U", attributes={"+nonsense": "1"}))
    assert tables.topics.all() == before


def test_order_configuration_marks_the_topics_that_exist() -> None:
    tables = SavedTables().with_topic("T")
    tables.topics.mark_ordered(["T", "unknown"])
    version = tables.topics.data_version
    tables.topics.mark_ordered(["T"])
    config = tables.restarted().topics.get("T")
    assert config is not None
    assert config.order
    assert tables.topics.data_version == version


def test_deleted_topic_is_gone_and_an_unknown_one_makes_no_new_version() -> None:
    tables = SavedTables().with_topic("T")
    tables.topics.delete("T", "unknown")
    version = tables.topics.data_version
    tables.topics.delete("T", "unknown")
    assert tables.topics.get("T") is None
    assert tables.restarted().topics.get("T") is None
    assert tables.topics.data_version == version


def test_touch_makes_a_new_version_of_the_same_topics() -> None:
    tables = SavedTables()
    before, topics = tables.topics.data_version, tables.topics.all()
    tables.topics.touch()
    assert tables.topics.data_version.counter == before.counter + 1
    assert tables.topics.all() == topics


def test_topic_that_cannot_be_saved_does_not_exist_and_nobody_is_told() -> None:
    tables = SavedTables().with_topic("before")
    told: list[object] = []
    tables.topics.on_change = told.append
    version = tables.topics.data_version
    tables.files.fail(at=1, lasting=True, error=errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        sent(tables)
    assert (tables.topics.get("T"), tables.topics.data_version, told) == (None, version, [])


def test_file_says_the_whole_table_once_it_is_saved() -> None:
    tables = SavedTables().with_topic("T").with_topic("U", 7)
    tables.topics.update(TopicConfig("T", 9, 9))
    tables.topics.delete("U")
    tables.topics.table.save()
    whole = SavedTopics(tables.topics.data_version, dict(tables.topics.all()))
    assert (tables.files.read_file(FILE) or b"").decode() == pretty(to_value(whole))


@pytest.mark.parametrize("survival", list(Survival))
@pytest.mark.parametrize("is_torn", [False, True], ids=["whole", "torn"])
def test_topic_that_was_made_survives_a_crash_and_one_that_was_not_does_no_harm(
    survival: Survival, is_torn: bool
) -> None:
    """Whichever call fails, and whatever the crash after it takes away."""
    for failing_call in itertools.count(1):
        tables = SavedTables().with_topic("before")
        tables.files.fail(at=failing_call, lasting=True, torn=is_torn)
        try:
            sent(tables)
            is_made = True
        except OSError:
            is_made = False
        assert (tables.topics.get("T") is not None) == is_made
        again = SavedTables(tables.clock, tables.files.crash(survival, seed=failing_call)).topics
        assert again.get("before") is not None
        if is_made:
            assert shape(again.get("T")) == (4, 4, 6)
            break


# --- pages


def test_pages_together_are_the_whole_table_in_the_order_of_names() -> None:
    topics = SavedTables().topics
    topics.ensure([TopicConfig(f"T{number}") for number in range(10)])
    seen, names = encode(topics.data_version).decode(), list[str]()
    while page := outcome(topics.page(seen, len(names), 7)):
        names += page
    assert names == sorted(topics.all())


@pytest.mark.parametrize("seen", [None, "", " ", '{"counter":99}', "nonsense"])
def test_page_of_another_version_is_the_first_page(seen: str | None) -> None:
    topics = SavedTables().topics
    assert list(outcome(topics.page(seen, 5, 3))) == sorted(topics.all())[:3]


@pytest.mark.parametrize(("first", "size"), [(10_000, 5), (-5, 0), (0, -1)])
def test_page_outside_of_the_table_is_empty(first: int, size: int) -> None:
    topics = SavedTables().topics
    seen = encode(topics.data_version).decode()
    assert outcome(topics.page(seen, first, size)) == {}


def test_names_of_many_topics_are_sorted_some_at_a_time_and_once_for_each_change() -> None:
    topics = SavedTables().topics
    topics.update(*[TopicConfig(f"t{number * 7919 % 50_000}") for number in range(50_000)])
    steps = topics.page(None, 0, 100)
    page, efforts = calls_by_step(steps)
    assert list(page) == sorted(topics.all())[:100]
    assert max(efforts) < 25_000
    assert len(efforts) >= 25
    assert counted(topics.page(None, 0, 100)) == (page, 0)
    topics.update(TopicConfig("a"))
    assert next(iter(outcome(topics.page(None, 0, 100)))) == sorted(topics.all())[0]
