"""What one step of a pop, or of a question whether there is something, looks at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from rocketline.broker.pop.merge import MergeBuffer
from rocketline.broker.pop.notifications import NotificationHandlers
from rocketline.broker.pop.order_infos import OrderInfos
from rocketline.broker.pop.positions import PopPositions
from rocketline.broker.pop.reading import PopReading, PopWish
from rocketline.broker.pulls.filter_work import FilterWork
from rocketline.model.topic_config import TopicConfig
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from support.brokers.revival import RevivalScene
from support.effort import calls_by_step

CALLS_MAX = 20_000
WIDE = 4096


@pytest.fixture
def scene(clock: FakeClock) -> Iterator[RevivalScene]:
    made = RevivalScene(clock, MemoryFileSystem(clock, capacity=2**30))
    for topic in ("T", "%RETRY%g_T", "%RETRY%g+T"):
        made.tables.topics.update(TopicConfig(topic, WIDE, WIDE))
    yield made
    made.close()


def reading_of(scene: RevivalScene) -> PopReading:
    tables, clock = scene.tables, scene.clock
    positions = PopPositions(tables.offsets)
    orders = OrderInfos(scene.files, Path("/store/config/consumerOrderInfo.json"), clock.wall_ms, lambda *_: True)
    merge = MergeBuffer(scene.topic, positions, tables.settings, clock.wall_ms, tables.log, lambda: None)
    work = FilterWork(lambda action: None)
    kept = tables.store, tables.topics, tables.offsets, positions, orders, merge, scene.topic, tables.stats
    return PopReading(*kept, work, tables.settings, clock)


@pytest.mark.parametrize("queue_id", [-1, 0])
def test_retry_topic_that_somebody_made_wide_is_looked_at_in_steps(scene: RevivalScene, queue_id: int) -> None:
    reading, topic = reading_of(scene), scene.tables.topics.get("T")
    assert topic is not None
    found = reading.begin(is_order=False)
    _, efforts = calls_by_step(reading.take(PopWish("g", "T", queue_id, 32, 60_000, 0, None), topic, found))
    assert sum(efforts) > 2 * CALLS_MAX
    assert max(efforts) < CALLS_MAX


def test_question_lists_no_queues_before_it_looks_at_them(scene: RevivalScene) -> None:
    topic = scene.tables.topics.get("T")
    assert topic is not None
    nobody, topics = Mock(), Mock(wraps=scene.tables.topics)
    given = nobody, scene.store, topics, nobody, nobody, nobody, nobody, nobody, scene.tables.settings
    handlers = NotificationHandlers(*given, nobody, nobody, nobody)
    handlers._random = lambda: 1.0
    places = iter(handlers._queues("g", topic, -1))
    assert next(places) == ("T", 0)
    topics.get.assert_not_called()
    assert len(list(places)) == 3 * WIDE - 1
