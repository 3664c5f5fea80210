from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rocketline.broker.handlers.consume_stats import ConsumeStatsHandlers
from rocketline.broker.long_work import QUEUES_A_STEP
from rocketline.broker.stats.consume_progress import ConsumeProgress
from rocketline.model.queue import MessageQueue
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.stats import ConsumeStats, OffsetWrapper, QueueTimeSpan, TopicOffset
from rocketline.wire.command import Command
from support.brokers.connections import channel
from support.brokers.tables import Tables, tables
from support.long_steps import AtOnce, counted, outcome

BEGIN_MS = FakeClock().wall_ms()
ADDRESS = "127.0.0.1:10911"


@pytest.fixture
def kept() -> Iterator[Tables]:
    with tables(FakeClock()) as made:
        yield made


@pytest.fixture
def progress(kept: Tables) -> ConsumeProgress:
    return ConsumeProgress(kept.topics, kept.groups, kept.offsets, kept.consumers, kept.store, kept.stats, "B")


def append(kept: Tables, count: int, *, topic: str = "T", queue_id: int = 0) -> None:
    """Messages one second apart."""
    for _ in range(count):
        kept.append(topic=topic, queue_id=queue_id)
        kept.clock.advance(1)


def topic(kept: Tables, name: str = "T") -> TopicConfig:
    config = kept.topics.get(name)
    assert config is not None
    return config


def queue(queue_id: int, topic: str = "T") -> MessageQueue:
    return MessageQueue(topic, "B", queue_id)


def test_topic_tells_offsets_and_the_last_store_time_of_each_queue(kept: Tables, progress: ConsumeProgress) -> None:
    append(kept, 3)
    stats = outcome(progress.of_topic(topic(kept)))
    assert stats.offset_table == {queue(0): TopicOffset(0, 3, BEGIN_MS + 2000), queue(1): TopicOffset(0, 0, 0)}
    assert stats.topic_put_tps == 0.0


def test_topic_tells_as_many_queues_as_can_be_read_or_written(kept: Tables, progress: ConsumeProgress) -> None:
    for read, write in ((3, 1), (1, 3)):
        stats = outcome(progress.of_topic(replace(topic(kept), read_queue_nums=read, write_queue_nums=write)))
        assert list(stats.offset_table) == [queue(0), queue(1), queue(2)]


def test_group_without_offsets_is_at_zero(kept: Tables, progress: ConsumeProgress) -> None:
    append(kept, 3)
    stats = outcome(progress.of_group("G", ["T"]))
    assert stats.offset_table == {queue(0): OffsetWrapper(broker_offset=3), queue(1): OffsetWrapper()}


def test_group_tells_commits_pulls_and_the_time_of_the_last_consumed(kept: Tables, progress: ConsumeProgress) -> None:
    append(kept, 10)
    kept.offsets.commit("G", "T", 0, 4)
    kept.offsets.set_pull_offset("G", "T", 0, 9)
    reached = outcome(progress.of_group("G", ["T"])).offset_table[queue(0)]
    assert reached == OffsetWrapper(10, 4, 9, BEGIN_MS + 3000)


def test_pull_offset_is_never_behind_the_commit(kept: Tables, progress: ConsumeProgress) -> None:
    """As Apache 5.5.0: a commit beyond the last pull shows as the pull offset, too."""
    append(kept, 10)
    kept.offsets.set_pull_offset("G", "T", 0, 2)
    kept.offsets.commit("G", "T", 0, 8)
    assert outcome(progress.of_group("G", ["T"])).offset_table[queue(0)].pull_offset == 8


def test_commit_beyond_the_end_has_no_time(kept: Tables, progress: ConsumeProgress) -> None:
    append(kept, 1)
    kept.offsets.commit("G", "T", 0, 500)
    assert outcome(progress.of_group("G", ["T"])).offset_table[queue(0)] == OffsetWrapper(1, 500, 500, 0)


def test_unknown_topics_of_a_group_are_left_out(progress: ConsumeProgress) -> None:
    assert outcome(progress.of_group("G", ["nowhere"])).offset_table == {}


def test_consume_tps_is_that_of_all_topics_together(kept: Tables, progress: ConsumeProgress) -> None:
    kept.topics.update(TopicConfig("U", 1, 1))
    kept.stats.get("G", "T", 0, 30, 300)
    kept.stats.get("G", "U", 0, 20, 200)
    for _ in range(10):
        kept.clock.advance(1)
        kept.stats.tick()
    assert outcome(progress.of_group("G", ["T", "U"])).consume_tps == 5.0
    assert outcome(progress.of_group("G", ["U"])).consume_tps == 2.0


def test_topics_of_a_group_are_those_with_offsets_that_it_subscribes_to(
    kept: Tables, progress: ConsumeProgress
) -> None:
    for name in ("T", "U"):
        kept.offsets.commit("G", name, 0, 1)
    assert list(progress.consumed_topics("G")) == ["T", "U"]
    kept.subscribe(channel(kept.clock)[0], "G", "U", "V")
    assert list(progress.consumed_topics("G")) == ["U"]


def test_online_group_that_subscribes_to_nothing_is_asked_for_all_its_topics(
    kept: Tables, progress: ConsumeProgress
) -> None:
    kept.offsets.commit("G", "T", 0, 1)
    kept.subscribe(channel(kept.clock)[0], "G")
    assert list(progress.consumed_topics("G")) == ["T"]


def test_all_groups_are_listed_with_their_lag_in_sum(kept: Tables, progress: ConsumeProgress) -> None:
    kept.topics.update(TopicConfig("ordered", 1, 1, order=True))
    append(kept, 10)
    append(kept, 5, topic="ordered")
    for group in ("G", "H"):
        kept.groups.find(group)
        kept.offsets.commit(group, "T", 0, 4)
        kept.offsets.commit(group, "ordered", 0, 5)
        kept.offsets.commit(group, "gone", 0, 1)
    kept.offsets.set_pull_offset("G", "T", 0, 7)
    told = outcome(progress.of_all_groups(order_only=False, address=ADDRESS))
    by_group = {group: stats for entry in told.consume_stats_list for group, stats in entry.items()}
    assert by_group.keys() == kept.groups.all().keys()
    assert [list(stats.offset_table) for stats in by_group["G"]] == [[queue(0), queue(1)], [queue(0, "ordered")]]
    assert by_group["TOOLS_CONSUMER"] == []
    assert (told.broker_addr, told.total_diff, told.total_inflight_diff) == (ADDRESS, 12, 3)
    ordered = outcome(progress.of_all_groups(order_only=True, address=ADDRESS))
    assert ordered.total_diff == 0
    assert [len(stats) for entry in ordered.consume_stats_list for group, stats in entry.items() if group == "G"] == [1]


def test_one_group_is_told_of_queues_to_read_and_all_groups_of_queues_to_write(
    kept: Tables, progress: ConsumeProgress
) -> None:
    """As at Apache 5.5.0, GET_CONSUME_STATS and GET_BROKER_CONSUME_STATS differ in it."""
    kept.topics.update(TopicConfig("T", 3, 1))
    kept.groups.find("G")
    kept.offsets.commit("G", "T", 0, 0)
    assert len(outcome(progress.of_group("G", ["T"])).offset_table) == 3
    told = outcome(progress.of_all_groups(order_only=False, address=ADDRESS)).consume_stats_list
    assert [len(entry["G"][0].offset_table) for entry in told if "G" in entry] == [1]


def span(progress: ConsumeProgress, kept: Tables, queue_id: int = 0) -> QueueTimeSpan:
    return outcome(progress.time_spans("G", topic(kept), kept.clock.wall_ms()))[queue_id]


def test_time_span_of_a_group_in_the_middle(kept: Tables, progress: ConsumeProgress) -> None:
    append(kept, 10)
    kept.offsets.commit("G", "T", 0, 4)
    found = span(progress, kept)
    assert found.message_queue == queue(0)
    assert (found.min_time_stamp, found.max_time_stamp) == (BEGIN_MS, BEGIN_MS + 9000)
    assert found.consume_time_stamp == BEGIN_MS + 3000
    assert found.delay_time == 6000, "since the message at offset 4, which is the next"


def test_time_span_of_a_group_at_the_end_has_no_delay(kept: Tables, progress: ConsumeProgress) -> None:
    append(kept, 3)
    kept.offsets.commit("G", "T", 0, 3)
    assert span(progress, kept).delay_time == 0
    kept.offsets.commit("G", "T", 0, 99)
    assert span(progress, kept).delay_time == 0


def test_time_span_of_a_new_group_counts_from_the_first_message(kept: Tables, progress: ConsumeProgress) -> None:
    """Java counts from 1970."""
    append(kept, 3)
    found = span(progress, kept)
    assert (found.consume_time_stamp, found.delay_time) == (BEGIN_MS, 3000)


def test_time_span_of_an_empty_queue_has_no_times(kept: Tables, progress: ConsumeProgress) -> None:
    found = span(progress, kept, queue_id=1)
    assert (found.min_time_stamp, found.max_time_stamp, found.consume_time_stamp, found.delay_time) == (-1, -1, -1, 0)


def test_times_are_also_told_in_the_local_time_zone(
    kept: Tables, progress: ConsumeProgress, local_time_zone: None
) -> None:
    append(kept, 1)
    found = span(progress, kept)
    assert found.min_time_stamp_str == "2023-11-15#03:43:20:000"
    assert span(progress, kept, queue_id=1).max_time_stamp_str == "1970-01-01#05:29:59:999"


@pytest.fixture
def local_time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_thousands_of_queues_are_looked_at_some_at_a_time(kept: Tables, progress: ConsumeProgress) -> None:
    """Whatever goes through all queues of a topic, or all groups, pauses after every few of them."""
    queues = 50 * QUEUES_A_STEP
    kept.topics.update(TopicConfig("wide", queues, queues))
    config = topic(kept, "wide")
    kept.groups.find("G")
    kept.offsets.commit("G", "wide", 0, 1)
    of_topic, of_group = counted(progress.of_topic(config)), counted(progress.of_group("G", ["wide"]))
    spans = counted(progress.time_spans("G", config, kept.clock.wall_ms()))
    of_all = counted(progress.of_all_groups(order_only=False, address=ADDRESS))
    assert (len(of_topic[0].offset_table), len(of_group[0].offset_table), len(spans[0])) == (queues,) * 3
    assert [pauses for _, pauses in (of_topic, of_group, spans, of_all)] == [50, 50, 50, 50]


def test_many_topics_of_few_queues_are_looked_at_some_at_a_time(kept: Tables, progress: ConsumeProgress) -> None:
    """What counts is how many queues there are in all, and topics that have none count as well."""
    kept.topics.update(*[TopicConfig(f"narrow{n}", 4, 4) for n in range(1000)])
    kept.groups.find("G")
    for n in range(1000):
        kept.offsets.commit("G", f"narrow{n}", 0, 1)
    of_group, group_pauses = counted(progress.of_group("G", progress.consumed_topics("G")))
    _, all_pauses = counted(progress.of_all_groups(order_only=False, address=ADDRESS))
    assert len(of_group.offset_table) == 4000
    assert group_pauses >= 4000 // QUEUES_A_STEP
    assert all_pauses >= 4000 // QUEUES_A_STEP


def test_many_names_that_nobody_knows_are_looked_up_some_at_a_time(kept: Tables, progress: ConsumeProgress) -> None:
    _, of_group = counted(progress.of_group("G", (f"nowhere{n}" for n in range(50_000))))
    for n in range(50_000):
        kept.offsets.commit("TOOLS_CONSUMER", f"nowhere{n}", 0, 1)
    _, of_all = counted(progress.of_all_groups(order_only=False, address=ADDRESS))
    assert (of_group, of_all) == (50, 50)


def test_names_in_a_header_are_looked_up_some_at_a_time(kept: Tables, progress: ConsumeProgress) -> None:
    work = AtOnce(kept.clock)
    of_group = ConsumeStatsHandlers(progress, kept.topics, work, kept.clock, ADDRESS).by_code()[208]
    answer = of_group(
        channel(kept.clock)[0], Command(208, ext={"consumerGroup": "G", "topicList": ";T;;" + "a;" * 300_000})
    )
    assert isinstance(answer, Command)
    assert list(decode(ConsumeStats, answer.body).offset_table) == [queue(0), queue(1)]
    assert work.pauses >= 300
