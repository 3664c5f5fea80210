"""Topics and groups, as administrators change them. What was kept of deleted ones goes, a little at a time."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from rocketline.broker.handlers.groups import GroupHandlers
from rocketline.broker.handlers.topics import TopicHandlers
from rocketline.model.group_config import (
    CustomizedRetryPolicy,
    GroupRetryPolicy,
    SimpleSubscriptionData,
    SubscriptionGroupConfig,
)
from rocketline.model.topic_config import TopicConfig
from rocketline.testing.fake_clock import FakeClock
from rocketline.testing.faulty_filesystem import FaultyFileSystem
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.groups import SubscriptionGroupList
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

    def ask(self, code: int, body: bytes = b"", **ext: str) -> Command:
        answer = self._by_code[code](channel(self.storage.clock)[0], Command(code, ext, body))
        assert isinstance(answer, Command)
        return answer

    def make(self, *groups: SubscriptionGroupConfig) -> int:
        """One alone, or a list."""
        if len(groups) == 1:
            return self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, encode(groups[0])).code
        body = encode(SubscriptionGroupList(list(groups)))
        return self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body).code

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


# --- what a group's configuration takes


def waiting(group: str, waits: int) -> SubscriptionGroupConfig:
    """A group with so many waits between retries: 32 bytes each."""
    policy = GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy([1] * waits))
    return SubscriptionGroupConfig(group, group_retry_policy=policy)


def subscribed(group: str, *subscriptions: SimpleSubscriptionData) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(group, subscription_data_set=list(subscriptions))


@pytest.mark.parametrize(
    "config",
    [
        waiting("g", 1025),
        subscribed("g", *[SimpleSubscriptionData("T")] * 200),
        subscribed("g", SimpleSubscriptionData("T", "SQL92", "a" * 40_000)),
        subscribed("g", SimpleSubscriptionData("T", "x" * 40_000)),
        subscribed("g", SimpleSubscriptionData("T" * 40_000)),
    ],
)
async def test_group_that_takes_too_much_is_refused(scene: Scene, config: SubscriptionGroupConfig) -> None:
    """One request of 900 KB had 300,000 waits, and each save of the table stopped the broker for half a second."""
    assert scene.make(config) == ResponseCode.INVALID_PARAMETER
    assert scene.storage.groups.get("g") is None


async def test_what_groups_have_may_have_thirty_two_kilobytes(scene: Scene) -> None:
    config = subscribed("g", *[SimpleSubscriptionData(f"T{number}", "TAG", "a || b") for number in range(100)])
    assert scene.make(config) == 0
    assert scene.storage.groups.get("g") == config
    assert scene.make(waiting("g", 1024)) == 0


async def test_groups_of_one_request_take_no_more_than_a_line_of_the_journal_may(scene: Scene) -> None:
    groups = [waiting(f"new{number}", 1000) for number in range(9)]
    assert scene.make(*groups) == ResponseCode.INVALID_PARAMETER
    assert scene.make(*groups[:8]) == 0


async def test_groups_together_take_no_more_than_so_much(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketline.broker.metadata.groups.CONFIGS_BYTES_MAX", 1700 * 32)
    assert [scene.make(waiting(group, 800)) for group in "abc"] == [0, 0, ResponseCode.INVALID_PARAMETER]
    assert scene.make(waiting("a", 900), waiting("c", 1)) == ResponseCode.INVALID_PARAMETER
    assert scene.make(waiting("c", 50), SubscriptionGroupConfig("plain")) == 0
    assert scene.make(waiting("a", 801)) == 0
    assert scene.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="b").code == 0
    assert [scene.make(waiting("d", waits)) for waits in (850, 849)] == [ResponseCode.INVALID_PARAMETER, 0]


async def test_groups_that_were_there_count_and_may_shrink(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FaultyFileSystem(clock)
    with tables(clock, files) as kept:
        assert Scene(kept, files).make(waiting("a", 900)) == 0
    monkeypatch.setattr("rocketline.broker.metadata.groups.CONFIGS_BYTES_MAX", 10_000)
    with tables(clock, files) as kept:
        again = Scene(kept, files)
        assert [again.make(waiting("a", 800)), again.make(waiting("b", 1))] == [0, ResponseCode.INVALID_PARAMETER]
