"""How far behind groups were when they last read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketline.broker.stats.consumer_lag import FALLS, GROUP_GET_FALL_SIZE, GROUP_GET_FALL_TIME, ConsumerLag
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.stats import BrokerStatsItem
from support.brokers.pulls import Pulls, pull
from support.brokers.tables import Tables, tables


class Scene:
    def __init__(self, tables: Tables) -> None:
        self.tables, self.pulls = tables, Pulls(tables)
        self.falls = ConsumerLag(tables.stats, tables.store, tables.clock)

    def read(self, offset: int, count: int, tags: str = "*") -> None:
        asked = pull(offset, maxMsgNums=str(count), subscription=tags)
        assert self.pulls.answer(None, asked.ext, 7) is not None

    def value(self, stat: str, key: str = "0@T@g") -> int | None:
        data = self.falls.data(stat, key)
        if data is None:
            return None
        assert data.stats_minute == data.stats_hour == data.stats_day == BrokerStatsItem(data.stats_day.sum)
        return data.stats_day.sum


@pytest.fixture
def scene(clock: FakeClock) -> Iterator[Scene]:
    with tables(clock) as made:
        yield Scene(made)


def test_time_is_the_age_of_the_last_message_that_was_read(scene: Scene, clock: FakeClock) -> None:
    for _ in range(3):
        scene.tables.append()
        clock.advance(10)
    scene.read(0, 2)
    clock.advance(500)
    assert scene.value(GROUP_GET_FALL_TIME) == 20_000


def test_size_is_the_log_from_that_message_on(scene: Scene) -> None:
    places = [scene.tables.append().log_offset for _ in range(3)]
    scene.read(0, 2)
    end = scene.tables.store.max_log_offset
    scene.tables.append()
    assert scene.value(GROUP_GET_FALL_SIZE) == end - places[1]


def test_messages_that_a_filter_leaves_out_count_as_read(scene: Scene, clock: FakeClock) -> None:
    """Java: maxPhyOffsetPulling is that of the last unit, whatever its tag."""
    scene.tables.append(TAGS="a")
    clock.advance(5)
    place = scene.tables.append(TAGS="b").log_offset
    scene.read(0, 32, "a")
    assert scene.value(GROUP_GET_FALL_SIZE) == scene.tables.store.max_log_offset - place
    assert scene.value(GROUP_GET_FALL_TIME) == 0


@pytest.mark.parametrize("is_first", [True, False])
def test_pull_whose_messages_were_all_left_out_moves_the_figures_on(
    scene: Scene, clock: FakeClock, is_first: bool
) -> None:
    scene.tables.append(TAGS="a")
    if not is_first:
        scene.read(0, 32, "a")
    place = scene.tables.append(TAGS="b").log_offset
    clock.advance(5)
    scene.read(1, 32, "a")
    end = scene.tables.store.max_log_offset
    scene.tables.append(TAGS="b")
    assert scene.value(GROUP_GET_FALL_SIZE) == end - place
    assert scene.value(GROUP_GET_FALL_TIME) == 5000


def test_message_from_the_future_is_not_read_early(scene: Scene, clock: FakeClock) -> None:
    """The store's times go on where they were, even if the clock was set back."""
    scene.tables.append()
    scene.tables.clock._wall_ms -= 60_000
    scene.read(0, 1)
    assert scene.value(GROUP_GET_FALL_TIME) == 0


def test_message_that_is_gone_tells_no_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.tables.append()
    scene.read(0, 1)
    monkeypatch.setattr(scene.tables.store, "store_ms_at", lambda *_: -1)
    assert scene.value(GROUP_GET_FALL_TIME) is None
    assert scene.value(GROUP_GET_FALL_SIZE) is not None


@pytest.mark.parametrize("key", ["", "0", "0@T", "T@0@g", "1@T@g", "0@T@other", "-1@T@g", "²@T@g", "9" * 5000 + "@T@g"])
def test_there_is_nothing_for_any_other_key(scene: Scene, key: str) -> None:
    scene.tables.append()
    scene.read(0, 1)
    assert [scene.value(stat, key) for stat in FALLS] == [None, None]
