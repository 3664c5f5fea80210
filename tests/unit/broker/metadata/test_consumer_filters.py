"""What is kept of filters in SQL, and the file that it is kept in."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketline.broker.metadata import consumer_filters
from rocketline.broker.metadata.consumer_filters import ConsumerFilters, KeptFilter
from rocketline.errors import ExpressionError
from rocketline.filter import SqlFilter
from rocketline.model.subscription import SubscriptionData
from rocketline.store.files.json_files import PIECE_CHARACTERS, pretty
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.testing.fake_clock import FakeClock
from support.brokers.connections import broker_settings

PATH = Path("/store/config/consumerFilter.json")
DAY_MS = 86_400_000


class Scene:
    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.files = clock, MemoryFileSystem(clock, capacity=2**24)
        self.filters = self.load()

    def load(self, **settings: str) -> ConsumerFilters:
        return ConsumerFilters.load(self.files, PATH, broker_settings(**settings), self.clock)

    def saved(self) -> dict[str, object]:
        self.filters.save()
        found: dict[str, object] = json.loads(self.files.read_file(PATH) or b"{}")
        return found


def sql(expression: str, version: int = 1, topic: str = "T") -> SubscriptionData:
    return SubscriptionData(topic, expression, sub_version=version, expression_type="SQL92")


def register(filters: ConsumerFilters, group: str, said: list[SubscriptionData]) -> None:
    """As a heartbeat does."""
    compiled: dict[str, SqlFilter | None] = {}
    for one in said:
        try:
            compiled[one.sub_string] = filters.expressions.find(one.sub_string)
        except ExpressionError:
            compiled[one.sub_string] = None
    filters.register(group, said, compiled)


@pytest.fixture
def scene(clock: FakeClock) -> Scene:
    return Scene(clock)


def version_of(filters: ConsumerFilters) -> int | None:
    kept = filters.get("g", "T")
    return None if kept is None else kept.version


def test_a_broker_without_filters_writes_no_file(scene: Scene) -> None:
    register(scene.filters, "g", [SubscriptionData("T"), SubscriptionData("U", "a || b")])
    scene.filters.save()
    assert not scene.files.exists(PATH)
    assert scene.filters.begin_save() is None


def test_the_file_has_the_form_of_apaches(scene: Scene) -> None:
    register(scene.filters, "g", [sql("a > 5", 7)])
    entry = {
        "bloomFilterData": {"bitNum": 112, "bitPos": [90, 68, 28]},
        "bornTime": scene.clock.wall_ms(),
        "clientVersion": 7,
        "consumerGroup": "g",
        "dead": False,
        "deadTime": 0,
        "expression": "a > 5",
        "expressionType": "SQL92",
        "topic": "T",
    }
    saved = scene.saved()
    assert saved == {"filterDataByTopic": {"T": {"groupFilterData": {"g": entry}, "topic": "T"}}}
    assert list(saved["filterDataByTopic"]["T"]["groupFilterData"]["g"]) == list(entry)  # type: ignore[index]


def test_after_a_restart_all_are_dead_until_they_are_said_again(scene: Scene) -> None:
    register(scene.filters, "g", [sql("a > 5", 7)])
    scene.filters.save()
    again = scene.load()
    kept = again.get("g", "T")
    assert kept is not None
    assert kept.is_dead
    assert again.begin_save() is None
    register(again, "g", [sql("a > 5", 7)])
    kept = again.get("g", "T")
    assert kept is not None
    assert not kept.is_dead
    assert again.compiled(kept).matches(b"a\x016\x02")


def test_a_newer_version_counts_and_an_older_one_does_not(scene: Scene) -> None:
    register(scene.filters, "g", [sql("a > 5", 7)])
    register(scene.filters, "g", [sql("a > 6", 7)])
    kept = scene.filters.get("g", "T")
    assert kept is not None
    assert kept.data.expression == "a > 5"
    register(scene.filters, "g", [sql("a > 6", 8)])
    kept = scene.filters.get("g", "T")
    assert kept is not None
    assert (kept.data.expression, kept.version) == ("a > 6", 8)


def test_of_a_group_that_is_gone_no_version_counts(scene: Scene) -> None:
    """A consumer whose clock is behind gets what it asks for."""
    register(scene.filters, "g", [sql("a > 5", 7)])
    scene.filters.unregister("g")
    register(scene.filters, "g", [sql("a > 6", 3)])
    kept = scene.filters.get("g", "T")
    assert kept is not None
    assert (kept.data.expression, kept.version, kept.is_dead) == ("a > 6", 3, False)


def test_a_wrong_expression_takes_the_place_of_the_one_before(scene: Scene) -> None:
    register(scene.filters, "g", [sql("a > 5", 1)])
    register(scene.filters, "g", [sql("a != 5", 2)])
    assert version_of(scene.filters) is None


def test_a_topic_that_is_not_subscribed_to_any_more_is_dead(scene: Scene) -> None:
    register(scene.filters, "g", [sql("a > 5"), sql("b > 5", topic="U")])
    register(scene.filters, "g", [sql("a > 5")])
    kept = scene.filters.get("g", "U")
    assert kept is not None
    assert kept.is_dead


def test_the_dead_are_forgotten_after_a_day(scene: Scene) -> None:
    register(scene.filters, "g", [sql("a > 5")])
    scene.filters.unregister("g")
    scene.clock.advance(DAY_MS / 1000 - 1)
    assert "T" in json.dumps(scene.saved())
    scene.clock.advance(2)
    assert scene.saved() == {"filterDataByTopic": {}}
    assert len(scene.filters) == 0


def test_a_file_of_another_bloom_filter_is_not_taken_over(scene: Scene) -> None:
    register(scene.filters, "g", [sql("a > 5")])
    scene.filters.save()
    assert len(scene.load(expectConsumerNumUseFilter="64")) == 0
    assert len(scene.load()) == 1


_ENTRY: dict[str, object] = {
    "bloomFilterData": {"bitNum": 112, "bitPos": [90, 68, 28]},
    "bornTime": 5,
    "clientVersion": 7,
    "consumerGroup": "g",
    "dead": False,
    "deadTime": 0,
    "expression": "a > 5",
    "expressionType": "SQL92",
    "topic": "T",
}


_DAMAGED: tuple[object, ...] = (
    *({"T": {"groupFilterData": {"g": _ENTRY | {name: wrong}}}}
      for name in _ENTRY for wrong in (None, [1], 10**30, "(" * 500, -1)),
    None, [], {"T": None}, {"T": {"groupFilterData": None}}, {"T": {"groupFilterData": {"g": None}}},
)  # fmt: skip
_CUT = json.dumps({"filterDataByTopic": {"T": {"groupFilterData": {"g": _ENTRY}}}})[:90]


@pytest.mark.parametrize(
    "text",
    [*(json.dumps({"filterDataByTopic": wrong}) for wrong in _DAMAGED), _CUT, "", "null", "[]", "\0" * 100],
    ids=itertools.count(),
)
def test_a_damaged_file_keeps_no_group_from_its_filter(scene: Scene, text: str) -> None:
    """What it says is nothing, or dead, or cannot be compiled; what a heartbeat says counts, and is saved."""
    scene.files.make_folder(PATH.parent)
    scene.files.write_file(PATH, text.encode())
    filters = scene.load()
    for kept in filters._each():
        with contextlib.suppress(ExpressionError):
            filters.compiled(kept)
    register(filters, "g", [sql("b > 5", 1)])
    kept_now = filters.get("g", "T")
    assert kept_now is not None
    assert filters.compiled(kept_now).matches(b"b\x016\x02")
    filters.save()
    assert scene.load().get("g", "T") is not None


def test_memory_is_bounded_and_the_oldest_dead_give_way(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_filters, "BYTES_MAX", 6000)
    for number in range(50):
        register(scene.filters, f"g{number}", [sql(f"a > {number}")])
        scene.filters.unregister(f"g{number}")
        scene.clock.advance(1)
    assert 0 < len(scene.filters) < 12
    assert scene.filters.get("g49", "T") is not None
    for number in range(50):
        register(scene.filters, f"h{number}", [sql(f"a > {number}")])
    assert scene.filters.get("h49", "T") is None, "all are alive, and there is no room"


def test_the_file_is_written_in_pieces_though_all_is_of_one_topic(scene: Scene) -> None:
    """Thousands of groups with a filter of one topic were one piece, and nobody else was served meanwhile."""
    for number in range(2500):
        register(scene.filters, f"g{number}", [sql("a > 5")])
    job = scene.filters.begin_save()
    assert job is not None
    steps = sum(1 for _ in job.steps())
    job.run()
    written = (scene.files.read_file(PATH) or b"").decode()
    assert steps > len(written) / (2 * PIECE_CHARACTERS)
    assert written == pretty(json.loads(written)), "pieces make no other layout"


def test_a_filter_that_has_no_room_is_refused_without_a_look_at_all(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(scene.filters, "g", [sql("a > 5")])
    monkeypatch.setattr(consumer_filters, "BYTES_MAX", 3000)

    def look(_: ConsumerFilters) -> Iterator[KeptFilter]:
        raise AssertionError("a heartbeat may bring thousands, and there may be thousands")

    monkeypatch.setattr(ConsumerFilters, "_each", look)
    register(scene.filters, "h", [sql("a > 6")])
    assert scene.filters.get("h", "T") is None
    scene.filters.unregister("g")
    register(scene.filters, "h", [sql("a > 6")])
    assert scene.filters.get("g", "T") is None
    assert scene.filters.get("h", "T") is not None
