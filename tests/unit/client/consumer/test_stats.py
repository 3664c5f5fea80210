from __future__ import annotations

from rocketline.client.consumer.stats import ConsumerStats
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.running import ConsumeStatus


def test_topic_that_was_never_seen_has_no_figures() -> None:
    assert ConsumerStats(FakeClock()).status("T") == ConsumeStatus()


def test_status_is_that_of_the_last_minute() -> None:
    clock = FakeClock()
    stats = ConsumerStats(clock)
    topic = stats.of("T")
    for tick in range(12):
        stats.tick()
        topic.pulled.value += 100 if tick >= 5 else 7777
        topic.pulled.times += 1
        topic.pull_ms.value += 30
        topic.pull_ms.times += 3
        topic.consume_ok.value += 50
        topic.consume_failed.value += 10
        topic.consume_ms.value += 40
        topic.consume_ms.times += 2
        clock.advance(10)
    stats.tick()
    status = stats.status("T")
    assert (status.pull_tps, status.pull_rt) == (10.0, 10.0)
    assert (status.consume_ok_tps, status.consume_failed_tps, status.consume_rt) == (5.0, 1.0, 20.0)


def test_an_hour_is_looked_at_where_the_minute_brought_nothing() -> None:
    clock = FakeClock()
    stats = ConsumerStats(clock)
    topic = stats.of("T")
    stats.tick()
    topic.consume_ms.value, topic.consume_ms.times = 90, 3
    topic.consume_failed.value = 4
    for _ in range(70):
        clock.advance(10)
        stats.tick()
    status = stats.status("T")
    assert (status.consume_rt, status.consume_failed_tps, status.consume_failed_msgs) == (30.0, 0.0, 4)


def test_forgotten_topic_begins_anew() -> None:
    stats = ConsumerStats(FakeClock())
    stats.of("T").pulled.value = 5
    stats.forget("T")
    stats.forget("T")
    assert stats.of("T").pulled.value == 0
