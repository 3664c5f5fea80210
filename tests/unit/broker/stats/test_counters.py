from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketline.broker.stats import counters as module
from rocketline.broker.stats.counters import SAMPLED_A_TURN, BrokerStats, LastRead
from rocketline.model.names import SCHEDULE_TOPIC
from rocketline.net.server import ChannelEvent
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.stats import BrokerStatsItem
from support.brokers.connections import broker_settings
from support.effort import calls_of
from support.long_steps import outcome

CLUSTER = "DefaultCluster"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def stats_on(clock: FakeClock, **settings: str) -> BrokerStats:
    return BrokerStats(broker_settings(brokerName="b", **settings), clock)


def pass_seconds(stats: BrokerStats, clock: FakeClock, seconds: int) -> None:
    for _ in range(seconds):
        clock.advance(1)
        stats.tick()


def minute(stats: BrokerStats, stat: str, key: str) -> BrokerStatsItem:
    data = stats.data(stat, key)
    assert data is not None, (stat, key)
    return data.stats_minute


def test_unknown_statistic_and_unknown_key_are_none(clock: FakeClock) -> None:
    stats = stats_on(clock)
    stats.put("T", 0, 1, 100)
    assert stats.data("NO_SUCH_STAT", "T") is None
    assert stats.data("TOPIC_PUT_NUMS", "other") is None
    assert stats.data("NO_SUCH_STAT", "T") is None, "asking makes nothing"


def test_put_counts_for_topic_queue_and_broker(clock: FakeClock) -> None:
    stats = stats_on(clock)
    stats.put("T", 3, messages=20, size=4000, requests=5, took_ms=2)
    pass_seconds(stats, clock, 10)
    assert minute(stats, "TOPIC_PUT_NUMS", "T") == BrokerStatsItem(sum=20, tps=2.0, avgpt=4.0)
    assert minute(stats, "TOPIC_PUT_SIZE", "T") == BrokerStatsItem(sum=4000, tps=400.0, avgpt=800.0)
    assert minute(stats, "TOPIC_PUT_LATENCY", "3@T") == BrokerStatsItem(sum=10, tps=1.0, avgpt=2.0)
    for stat in ("BROKER_PUT_NUMS", "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"):
        assert minute(stats, stat, CLUSTER) == BrokerStatsItem(sum=20, tps=2.0, avgpt=0.0)
    assert stats.put_tps("T") == 2.0
    assert stats.put_total == 20
    assert (stats.throughput.put_messages, stats.throughput.put_bytes) == (20, 4000)


def test_get_counts_for_group_queue_and_broker(clock: FakeClock) -> None:
    stats = stats_on(clock)
    stats.get("G", "T", 3, 32, 3200, took_ms=4, fall_bytes=77)
    stats.get("G", "T", 3, 8, 800)
    stats.get_missed()
    pass_seconds(stats, clock, 10)
    assert minute(stats, "GROUP_GET_NUMS", "T@G") == BrokerStatsItem(sum=40, tps=4.0, avgpt=20.0)
    assert minute(stats, "GROUP_GET_SIZE", "T@G") == BrokerStatsItem(sum=4000, tps=400.0, avgpt=2000.0)
    assert minute(stats, "GROUP_GET_LATENCY", "3@T@G") == BrokerStatsItem(sum=4, tps=0.4, avgpt=2.0)
    assert minute(stats, "BROKER_GET_NUMS", CLUSTER).sum == 40
    assert stats.get_tps("G", "T") == 4.0
    assert stats.get_total == 40
    assert (stats.throughput.found, stats.throughput.missed, stats.throughput.transferred) == (2, 1, 40)
    assert stats.throughput.get_ms_max == 4
    assert stats.fall_bytes == {("G", "T", 3): 0}, "what was true at the last read"


def test_parts_of_a_millisecond_add_up(clock: FakeClock) -> None:
    stats = stats_on(clock)
    for _ in range(10):
        for _ in range(3):
            stats.get("G", "T", 3, 1, 100, took_ms=0.25)
        pass_seconds(stats, clock, 1)
    assert minute(stats, "GROUP_GET_LATENCY", "3@T@G").sum == 7


def test_last_read_is_that_of_a_pull_until_the_group_has_caught_up(clock: FakeClock) -> None:
    stats = stats_on(clock)
    stats.caught_up("G", "T", 3)
    stats.get("G", "T", 3, 1, 100)
    assert stats.last_read("G", "T", 3) is None, "not by a pull"
    stats.get("G", "T", 3, 1, 100, fall_bytes=77, next_offset=5, read_s=1000.0)
    assert stats.last_read("G", "T", 3) == LastRead(77, 5, 1000.0)
    stats.caught_up("G", "T", 3)
    assert stats.last_read("G", "T", 3) == LastRead(0, -1, 1000.0)
    assert stats.last_read("G", "T", 4) is None


def test_latency_of_gets_is_told_by_group_if_queues_are_not_counted(clock: FakeClock) -> None:
    stats = stats_on(clock, enableDetailStat="false")
    stats.get("G", "T", 3, 1, 100)
    assert stats.data("GROUP_GET_LATENCY", "T@G") is not None
    assert stats.data("GROUP_GET_LATENCY", "3@T@G") is None


@pytest.mark.parametrize(
    "topic", [SCHEDULE_TOPIC, "rmq_sys_anything", "DefaultCluster", "b", "DefaultCluster_REPLY_TOPIC"]
)
def test_system_topics_count_for_the_broker_only_with_system_topics(clock: FakeClock, topic: str) -> None:
    stats = stats_on(clock)
    stats.put(topic, 2, 5, 500)
    stats.get("G", topic, 2, 3, 300)
    pass_seconds(stats, clock, 10)
    assert (stats.put_total, stats.get_total) == (0, 0)
    assert minute(stats, "BROKER_PUT_NUMS", CLUSTER).sum == 5
    assert minute(stats, "BROKER_GET_NUMS", CLUSTER).sum == 3
    assert minute(stats, "TOPIC_PUT_NUMS", topic).sum == 5


def test_queues_of_the_schedule_topic_are_counted_and_no_others(clock: FakeClock) -> None:
    """As at Apache 5.5.0, QUEUE_PUT_NUMS exists for delay levels only, whatever enableDetailStat says."""
    stats = stats_on(clock)
    stats.put(SCHEDULE_TOPIC, 2, 5, 500)
    stats.get("SCHEDULE_CONSUMER", SCHEDULE_TOPIC, 2, 4, 400)
    stats.put("T", 0, 1, 100)
    stats.get("G", "T", 0, 1, 100)
    pass_seconds(stats, clock, 10)
    assert minute(stats, "QUEUE_PUT_NUMS", f"{SCHEDULE_TOPIC}@2").sum == 5
    assert minute(stats, "QUEUE_PUT_SIZE", f"{SCHEDULE_TOPIC}@2").sum == 500
    assert minute(stats, "QUEUE_GET_NUMS", f"{SCHEDULE_TOPIC}@2@SCHEDULE_CONSUMER").sum == 4
    assert stats.data("QUEUE_PUT_NUMS", "T@0") is None
    assert stats.data("QUEUE_GET_NUMS", "T@0@G") is None


def test_spans_are_sampled_every_ten_seconds_ten_minutes_and_hour(clock: FakeClock) -> None:
    stats = stats_on(clock)
    stats.add("SNDBCK_PUT_NUMS", "T@G", 1)
    sums = {}
    for seconds in (9, 1, 589, 1, 2999, 1):
        pass_seconds(stats, clock, seconds)
        data = stats.data("SNDBCK_PUT_NUMS", "T@G")
        assert data is not None
        sums[round(clock.monotonic() - 1000)] = (data.stats_minute.sum, data.stats_hour.sum, data.stats_day.sum)
    assert sums == {9: (0, 0, 0), 10: (1, 0, 0), 599: (0, 0, 0), 600: (0, 1, 0), 3599: (0, 1, 0), 3600: (0, 1, 1)}


def test_deleted_topic_takes_its_counters_along(clock: FakeClock) -> None:
    stats = stats_on(clock)
    for topic in ("T", "G"):
        stats.put(topic, 1, 1, 100)
        stats.get("G", topic, 1, 1, 100)
        stats.add("SNDBCK_PUT_NUMS", f"{topic}@G", 1)
    outcome(stats.forget_topics({"T"}))
    gone = [
        ("TOPIC_PUT_NUMS", "T"),
        ("TOPIC_PUT_LATENCY", "1@T"),
        ("GROUP_GET_NUMS", "T@G"),
        ("SNDBCK_PUT_NUMS", "T@G"),
    ]
    gone.append(("GROUP_GET_LATENCY", "1@T@G"))
    assert [stats.data(*item) for item in gone] == [None] * 5
    kept = [(stat, key.replace("T", "G")) for stat, key in gone]
    assert None not in [stats.data(*item) for item in kept]
    assert list(stats.fall_bytes) == [("G", "G", 1)]
    stats.put("T", 1, 7, 700)
    pass_seconds(stats, clock, 10)
    assert minute(stats, "TOPIC_PUT_NUMS", "T").sum == 7, "counted anew, not in counters that nobody sees"


def test_deleted_group_takes_its_counters_along(clock: FakeClock) -> None:
    stats = stats_on(clock)
    stats.put("G", 1, 1, 100)
    for group in ("G", "H"):
        stats.get(group, "T", 1, 1, 100)
    outcome(stats.forget_groups({"G"}))
    assert stats.data("GROUP_GET_SIZE", "T@G") is None
    assert stats.data("GROUP_GET_LATENCY", "1@T@G") is None
    assert stats.data("GROUP_GET_SIZE", "T@H") is not None
    assert stats.data("TOPIC_PUT_NUMS", "G") is not None, "a topic may be called like a group"
    assert list(stats.fall_bytes) == [("H", "T", 1)]


def test_counters_of_what_was_deleted_stay_if_so_configured(clock: FakeClock) -> None:
    stats = stats_on(clock, autoDeleteUnusedStats="false")
    stats.put("T", 1, 1, 100)
    stats.get("G", "T", 1, 1, 100)
    outcome(stats.forget_topics({"T"}))
    outcome(stats.forget_groups({"G"}))
    assert stats.data("TOPIC_PUT_NUMS", "T") is not None
    assert stats.data("GROUP_GET_NUMS", "T@G") is not None


def test_idle_counters_are_dropped_after_their_time_if_so_configured(clock: FakeClock) -> None:
    stats = stats_on(clock, maxStatsIdleTimeInMinutes="20")
    stats.put("idle", 0, 5, 100)
    for _ in range(4):
        stats.put("busy", 0, 1, 100)
        pass_seconds(stats, clock, 600)
    assert stats.data("TOPIC_PUT_NUMS", "idle") is None
    assert stats.data("TOPIC_PUT_NUMS", "busy") is not None
    assert stats.put_total == 9, "what the whole broker has stored is told since its start"


@pytest.mark.parametrize(("minutes", "kept_min", "gone_min"), [("0", 30, 50), ("10", 30, 50), ("40", 40, 60)])
def test_idle_time_that_is_not_longer_than_a_scan_counts_as_half_an_hour(
    clock: FakeClock, minutes: str, kept_min: int, gone_min: int
) -> None:
    stats = stats_on(clock, maxStatsIdleTimeInMinutes=minutes)
    stats.put("idle", 0, 5, 100)
    pass_seconds(stats, clock, kept_min * 60)
    assert stats.data("TOPIC_PUT_NUMS", "idle") is not None
    pass_seconds(stats, clock, (gone_min - kept_min) * 60)
    assert stats.data("TOPIC_PUT_NUMS", "idle") is None
    stats.put("idle", 0, 7, 100)
    pass_seconds(stats, clock, 10)
    assert minute(stats, "TOPIC_PUT_NUMS", "idle").sum == 7, "counted anew, not in counters that nobody sees"


def test_what_is_counted_of_the_whole_broker_is_never_idle(clock: FakeClock) -> None:
    stats = stats_on(clock, maxStatsIdleTimeInMinutes="20")
    stats.channel_event(ChannelEvent.IDLE)
    stats.registered("PRODUCER_REGISTER_TIME", clock.monotonic())
    pass_seconds(stats, clock, 3600)
    assert stats.data("CHANNEL_ACTIVITY", "IDLE") is not None
    assert stats.data("PRODUCER_REGISTER_TIME", CLUSTER) is not None


def test_scan_for_idle_counters_leaves_alone_where_busy_groups_were(clock: FakeClock) -> None:
    stats = stats_on(clock, maxStatsIdleTimeInMinutes="20")
    stats.get("idle", "T", 0, 1, 100, fall_bytes=9)
    for _ in range(4):
        stats.get("busy", "T", 0, 1, 100, fall_bytes=7)
        pass_seconds(stats, clock, 600)
    assert stats.fall_bytes == {("busy", "T", 0): 7}


def test_idle_counters_stay_by_default(clock: FakeClock) -> None:
    stats = stats_on(clock)
    stats.put("idle", 0, 5, 100)
    pass_seconds(stats, clock, 3600)
    assert stats.data("TOPIC_PUT_NUMS", "idle") is not None


def test_put_times_turn_every_minute(clock: FakeClock) -> None:
    stats = stats_on(clock)
    stats.put("T", 0, 1, 100, took_ms=7)
    pass_seconds(stats, clock, 59)
    assert stats.put_times.percentile(0.99) == 0.0
    pass_seconds(stats, clock, 1)
    assert stats.put_times.percentile(0.99) == 7.0


def test_totals_of_the_day_are_noted_at_midnight(clock: FakeClock) -> None:
    stats = stats_on(clock)
    stats.tick()
    stats.put("T", 0, 3, 100)
    clock.advance(24 * 3600)
    stats.tick()
    assert (stats.put_days.yesterday_morning, stats.put_days.today_morning) == (0, 3)


def test_many_counters_are_sampled_some_a_turn(clock: FakeClock) -> None:
    stats = stats_on(clock)
    for number in range(5_000):
        stats.put(f"T{number}", 0, 10, 100)
    turns: list[Callable[[], None]] = []
    stats.call_soon = turns.append
    pass_seconds(stats, clock, 10)
    assert len(turns) == 1
    done = 0
    for turn in turns:
        assert calls_of(turn) < 20 * SAMPLED_A_TURN
        done += 1
        if done == 2:
            pass_seconds(stats, clock, 10)
            assert len(turns) == 3, "the next samples wait for their turn, too"
    assert done == 2 * 15_002 // SAMPLED_A_TURN, "besides those that were taken at once"
    assert stats.put_tps("T0") == stats.put_tps("T4999") == 0.5


def test_figures_of_queues_have_a_bound_and_those_of_the_broker_count_all(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues_max, counters_max = 2_000, 8_000  # as many as ours take half a minute
    monkeypatch.setattr(module, "QUEUES_MAX", queues_max)
    monkeypatch.setattr(module, "COUNTERS_MAX", counters_max)
    stats = stats_on(clock)
    for number in range(queues_max + 100):
        stats.get(f"G{number}", "T", 0, 2, 100, fall_bytes=1)
        stats.put("T", 0, 1, 10)
    stats.put("U", 0, 1, 10)
    stats.put(SCHEDULE_TOPIC, 1, 1, 10)
    pass_seconds(stats, clock, 10)
    assert stats.data("GROUP_GET_NUMS", f"T@G{queues_max - 2}") is not None
    assert stats.data("GROUP_GET_NUMS", f"T@G{queues_max - 1}") is None
    assert stats.data("TOPIC_PUT_NUMS", "U") is None
    assert len(stats.fall_bytes) == queues_max - 1
    assert (stats.get_total, stats.put_total) == (2 * (queues_max + 100), queues_max + 100 + 1)
    assert minute(stats, "BROKER_PUT_NUMS", CLUSTER).sum == queues_max + 100 + 2
    outcome(stats.forget_groups({"G7"}))
    stats.put("U", 0, 1, 10)
    assert stats.data("TOPIC_PUT_NUMS", "U") is not None
    for number in range(counters_max):
        stats.add("SNDBCK_PUT_NUMS", f"T@{number}", 1)
    assert sum(map(len, stats._counters.values())) <= counters_max
