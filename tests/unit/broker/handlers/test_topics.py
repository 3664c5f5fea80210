"""Topics and groups, as administrators change them. What was kept of deleted ones goes, a little at a time."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from rocketline.broker.handlers.groups import GroupHandlers
from rocketline.broker.handlers.topics import TopicHandlers
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from support.brokers.connections import channel
from support.brokers.tables import Tables, tables
from support.long_steps import AtOnce, at_once

GROUPS = 40


class Scene:
    """The topic T, which groups read by POP: each has two topics of retries."""

    def __init__(self, kept: Tables, files: FaultyFileSystem) -> None:
        self.storage, self.files, self.work = kept, files, AtOnce(kept.clock)
        common = kept.settings, self.work, kept.log
        self._by_code = {
            **TopicHandlers(kept.topics, kept.offsets, kept.store, kept.stats, *common, at_once).by_code(),
            **GroupHandlers(kept.groups, kept.offsets, kept.stats, *common).by_code(),
        }
        self.retries = [f"%RETRY%g{number}{sign}T" for number in range(GROUPS) for sign in "+_"]
        kept.topics.update(*[TopicConfig(name, 1, 1) for name in self.retries], TopicConfig("U", 1, 1))
        for topic in ("T", "U", *self.retries):
            kept.append(topic=topic)
            kept.stats.put(topic, 0, 1, 100)
            for group in range(GROUPS):
                kept.offsets.commit(f"g{group}", topic, 0, 1)

    def ask(self, code: int, **ext: str) -> Command:
        answer = self._by_code[code](channel(self.storage.clock)[0], Command(code, ext))
        assert isinstance(answer, Command)
        return answer

    def traces_of(self, topic: str) -> list[object]:
        kept = self.storage
        found = kept.topics.get(topic), kept.store.queue(topic, 0), kept.stats.data("TOPIC_PUT_NUMS", topic)
        return [each for each in (*found, kept.offsets.groups_of(topic)) if each]


@pytest.fixture
def scene(clock: FakeClock) -> Iterator[Scene]:
    files = FaultyFileSystem(clock)
    with tables(clock, files, clearRetryTopicWhenDeleteTopic="true") as kept:
        yield Scene(kept, files)


async def test_deleted_topic_goes_with_its_retries_a_few_at_a_time(scene: Scene) -> None:
    assert scene.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T").code == 0
    assert [topic for topic in ("T", *scene.retries) if scene.traces_of(topic)] == []
    assert len(scene.traces_of("U")) == 4
    assert scene.work.pauses >= len(scene.retries) // 8


async def test_retries_that_cannot_be_deleted_stay_whole_and_the_topic_goes(scene: Scene) -> None:
    scene.files.fail(at=5, calls=["sync"], lasting=True)
    with pytest.raises(OSError, match="Input/output"):
        scene.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
    left = [topic for topic in scene.retries if scene.traces_of(topic)]
    assert scene.traces_of("T") == []
    assert 0 < len(left) < len(scene.retries)
    assert all(len(scene.traces_of(topic)) == 4 for topic in left)
    scene.files.heal()
    assert scene.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T").code == 0


async def test_topic_that_cannot_be_deleted_stays_as_it_is(scene: Scene) -> None:
    scene.files.fail(at=1, calls=["sync"], error=errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        scene.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")
    assert len(scene.traces_of("T")) == 4


async def test_deleted_group_takes_its_offsets_and_figures_along_in_steps(scene: Scene) -> None:
    kept = scene.storage
    kept.groups.find("g0")
    for number in range(3_000):
        kept.stats.get("g0", f"T{number}", 0, 1, 1)
        kept.offsets.commit("g0", f"T{number}", 0, 1)
        kept.offsets.commit("g0", "U", number, 1)
    assert scene.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="g0", cleanOffset="true").code == 0
    assert (kept.offsets.topics_of("g0"), kept.stats.data("GROUP_GET_NUMS", "T1@g0")) == ([], None)
    assert kept.groups.get("g0") is None
    assert scene.work.pauses >= 3


async def test_group_is_kept_from_topics_within_bounds(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketline.broker.metadata.groups.FORBIDDEN_MAX", 2)

    def forbid(group: str, topic: str, readable: str = "false") -> int:
        code = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
        return scene.ask(code, group=group, topic=topic, readable=readable).code

    assert [forbid("g", "T"), forbid("not-yet", "not-yet"), forbid("g", "T")] == [0, 0, 0]
    assert scene.storage.groups.get("not-yet") is not None
    assert forbid("g", "U") == ResponseCode.INVALID_PARAMETER
    assert [forbid("g", "T", "true"), forbid("made up", "T", "true"), forbid("g", "U")] == [0, 0, 0]
    assert forbid("g", "U" * 300) == ResponseCode.INVALID_PARAMETER
    assert forbid("made up", "T") == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert scene.storage.groups.forbidden == {"not-yet": {"not-yet": 4}, "g": {"U": 4}}
