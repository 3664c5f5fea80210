"""PULL_MESSAGE and LITE_PULL_MESSAGE: who may read, what is read, and who waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.java_hash import tags_code
from rocketline.model.subscription import SubscriptionData
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import LATER
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import BROADCASTING, PULL, channel, client_on, consumer
from support.brokers.pulls import COMMIT, SUBSCRIPTION, SUSPEND, Pulls, bodies, pull
from support.brokers.tables import Tables, tables
from support.net.doubles import turn


class Scene:
    """A broker's tables, its pulls, and one connection."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.pulls = tables, Pulls(tables)
        self.channel, self.transport = channel(tables.clock)

    def ask(self, request: Command) -> Command:
        answer = self.pulls.handle(self.channel, request)
        assert isinstance(answer, Command)
        return answer

    def code(self, request: Command) -> int:
        return self.ask(request).code

    def hold(self, request: Command) -> None:
        assert self.pulls.handle(self.channel, request) is LATER

    async def answers(self) -> list[Command]:
        """What was sent so far by itself, a turn of the loop later."""
        due, self.pulls.soon[:] = self.pulls.soon[:], []
        for action in due:
            action()
        await turn()
        return self.transport.commands()


@pytest.fixture
async def scene(clock: FakeClock) -> AsyncIterator[Scene]:
    with tables(clock) as made:
        yield Scene(made)


def update_group(scene: Scene, **changes: object) -> None:
    scene.tables.groups.update(replace(SubscriptionGroupConfig("g"), **changes))  # type: ignore[arg-type]


# --- checks, in their order


async def test_broker_that_may_not_be_read_forbids_it(clock: FakeClock) -> None:
    """S122."""
    with tables(clock, brokerPermission="2") as made:
        answer = Scene(made).ask(pull(topic="unknown"))
    assert (answer.code, answer.ext) == (16, {"forbiddenType": "1"})


async def test_lite_pull_is_forbidden_where_switched_off(clock: FakeClock) -> None:
    with tables(clock, litePullMessageEnable="false") as made:
        scene = Scene(made)
        answer = scene.ask(pull(code=RequestCode.LITE_PULL_MESSAGE))
        assert (answer.code, answer.ext) == (16, {"forbiddenType": "1"})
        assert scene.code(pull()) == 19


async def test_group_that_cannot_be_made_does_not_exist(clock: FakeClock) -> None:
    with tables(clock, autoCreateSubscriptionGroup="false") as made:
        assert Scene(made).code(pull(topic="unknown")) == 26


async def test_disabled_group_is_forbidden(scene: Scene) -> None:
    """S106."""
    update_group(scene, consume_enable=False)
    answer = scene.ask(pull(topic="unknown"))
    assert (answer.code, answer.ext) == (16, {"forbiddenType": "2"})


async def test_unknown_topic_does_not_exist(scene: Scene) -> None:
    """S105."""
    answer = scene.ask(pull(topic="unknown", queueId="99"))
    assert (answer.code, answer.remark) == (17, "the topic unknown does not exist: create it first")


async def test_unreadable_topic_is_forbidden(scene: Scene) -> None:
    scene.tables.topics.update(TopicConfig("T", 2, 2, perm=2))
    answer = scene.ask(pull(queueId="99"))
    assert (answer.code, answer.ext) == (16, {"forbiddenType": "3"})


@pytest.mark.parametrize("queue_id", ["2", "-1", "2147483647"])
async def test_queue_that_does_not_exist_is_a_wrong_parameter(scene: Scene, queue_id: str) -> None:
    """S105. It comes before anything about the subscription."""
    assert scene.code(pull(queueId=queue_id, flags=0)) == 29
    assert scene.code(pull(queueId=queue_id, subscription="||")) == 29


async def test_expression_of_bars_cannot_be_parsed(scene: Scene) -> None:
    assert scene.code(pull(subscription="||")) == 23


async def test_expression_in_sql_is_refused_unless_it_is_enabled(scene: Scene) -> None:
    answer = scene.ask(pull(subscription="a > 1", expressionType="SQL92"))
    assert answer.code == 1
    assert "SQL92" in str(answer.remark)
    assert scene.code(pull(subscription="", expressionType="SQL92")) == 23


async def test_group_that_sent_no_heartbeat_has_no_subscription(scene: Scene) -> None:
    """S107."""
    assert scene.code(pull(flags=0)) == 24


async def test_heartbeat_without_the_topic_is_no_subscription(scene: Scene) -> None:
    """S107."""
    scene.tables.subscribe(scene.channel, "g", "other")
    assert scene.code(pull(flags=0)) == 24


async def test_broadcasting_is_forbidden_to_a_group_that_may_not(scene: Scene) -> None:
    client = client_on(scene.channel, scene.tables.clock)
    scene.tables.consumers.register(consumer("g", "T", model=BROADCASTING), client)
    assert scene.code(pull(flags=0)) == 19
    update_group(scene, consume_broadcast_enable=False)
    answer = scene.ask(pull(flags=0))
    assert (answer.code, answer.ext) == (16, {"forbiddenType": "4"})


async def test_topic_forbidden_to_the_group_is_forbidden_unless_the_pull_brings_its_subscription(scene: Scene) -> None:
    """S123."""
    scene.tables.subscribe(scene.channel, "g", "T")
    scene.tables.groups.set_forbidden("g", "T", is_forbidden=True)
    answer = scene.ask(pull(flags=0))
    assert (answer.code, answer.ext) == (16, {"forbiddenType": "5"})
    assert scene.code(pull()) == 19


async def test_subscription_older_than_the_pull_is_not_the_latest(scene: Scene) -> None:
    """S108."""
    client = client_on(scene.channel, scene.tables.clock)
    scene.tables.consumers.register(consumer("g", SubscriptionData("T", sub_version=7)), client)
    assert scene.code(pull(flags=0, subVersion="8")) == 25
    assert scene.code(pull(flags=0, subVersion="7")) == 19


async def test_strangers_are_refused_where_pull_consumers_are_rejected(clock: FakeClock) -> None:
    with tables(clock, rejectPullConsumerEnable="true") as made:
        scene = Scene(made)
        assert scene.code(pull()) == 24
        assert scene.code(pull(consumerGroup="TOOLS_CONSUMER")) == 19
        other, _ = channel(clock)
        made.consumers.register(consumer("g", "T", consume_type=PULL), client_on(other, clock))
        assert scene.code(pull()) == 24
        made.consumers.register(consumer("g", "T", consume_type=PULL), client_on(scene.channel, clock))
        assert scene.code(pull()) == 19


async def test_expression_in_the_pull_needs_no_heartbeat_and_makes_the_group(scene: Scene) -> None:
    """S109."""
    assert scene.tables.groups.get("fresh") is None
    assert scene.code(pull(consumerGroup="fresh")) == 19
    assert scene.tables.groups.get("fresh") is not None


# --- reading


async def test_queue_without_messages_knows_only_the_offset_zero(scene: Scene) -> None:
    """S110."""
    first, fifth = scene.ask(pull(0)), scene.ask(pull(5))
    assert (first.code, first.remark) == (19, "NO_MESSAGE_IN_QUEUE")
    assert (fifth.code, fifth.ext["nextBeginOffset"]) == (21, "0")


async def test_answer_to_every_outcome_has_all_header_fields(scene: Scene) -> None:
    """S125."""
    scene.tables.append(TAGS="B")
    requests = [pull(0), pull(1), pull(0, subscription="A"), pull(7)]
    answers = [scene.ask(request) for request in requests]
    assert [answer.code for answer in answers] == [0, 19, 20, 21]
    names = {"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag"}
    assert all(answer.ext.keys() == names for answer in answers)
    assert {answer.ext["suggestWhichBrokerId"] for answer in answers} == {"0"}


async def test_offsets_at_and_beyond_the_end(scene: Scene) -> None:
    """S111."""
    for _ in range(3):
        scene.tables.append()
    at_end, beyond = scene.ask(pull(3)), scene.ask(pull(4))
    assert (at_end.code, at_end.remark, at_end.ext["nextBeginOffset"]) == (19, "OFFSET_OVERFLOW_ONE", "3")
    assert (beyond.code, beyond.remark, beyond.ext["nextBeginOffset"]) == (21, "OFFSET_OVERFLOW_BADLY", "3")
    assert scene.ask(pull(-1)).code == 21


async def test_messages_come_as_many_as_asked_for(scene: Scene) -> None:
    """S112."""
    for number in range(5):
        scene.tables.append(b"%d" % number)
    answer = scene.ask(pull(1, maxMsgNums="3"))
    assert bodies(answer) == [b"1", b"2", b"3"]
    assert (answer.remark, answer.ext["nextBeginOffset"], answer.ext["maxOffset"]) == ("FOUND", "4", "5")
    assert bodies(scene.ask(pull(4, maxMsgNums="0"))) == [b"4"]


async def test_limits_that_are_set_count_but_one_message_always_comes(clock: FakeClock) -> None:
    """S112."""
    with tables(clock, maxTransferCountOnMessageInMemory="32", maxTransferBytesOnMessageInMemory="1000") as made:
        scene = Scene(made)
        made.append(b"x" * 5000)
        for _ in range(40):
            made.append(b"y")
        assert bodies(scene.ask(pull(0))) == [b"x" * 5000]
        assert len(bodies(scene.ask(pull(1, maxMsgNums="100")))) < 32


async def test_filter_that_nothing_matches_moves_the_consumer_on(scene: Scene) -> None:
    """S113."""
    for _ in range(3):
        scene.tables.append(TAGS="B")
    answer = scene.ask(pull(0, subscription="A"))
    assert (answer.code, answer.ext["nextBeginOffset"], answer.body) == (20, "3", b"")


async def test_filter_passes_its_tags_and_their_hashes_only(scene: Scene) -> None:
    """S114: "AaBB" and "BBAa" have one hash."""
    for tag in ("A", "C", "B", "AaBB", ""):
        scene.tables.append(tag.encode() or b"none", TAGS=tag)
    assert bodies(scene.ask(pull(0, subscription="A || B || BBAa"))) == [b"A", b"B", b"AaBB"]


async def test_hashes_of_the_heartbeat_filter_a_pull_without_expression(scene: Scene) -> None:
    subscription = SubscriptionData("T", "A", ["A"], [tags_code("A")])
    scene.tables.consumers.register(consumer("g", subscription), client_on(scene.channel, scene.tables.clock))
    for tag in ("A", "B"):
        scene.tables.append(tag.encode(), TAGS=tag)
    assert bodies(scene.ask(pull(flags=0, subscription="B"))) == [b"A"]


async def test_consumer_far_behind_is_sent_to_a_replica_where_those_may_be_read(clock: FakeClock) -> None:
    """S121."""
    with tables(clock, slaveReadEnable="true", accessMessageInMemoryMaxRatio="0") as made:
        scene = Scene(made)
        for _ in range(3):
            made.append()
        assert scene.ask(pull(0, maxMsgNums="1")).ext["suggestWhichBrokerId"] == "1"
        assert scene.ask(pull(3)).ext["suggestWhichBrokerId"] == "0"


# --- offsets


async def test_offset_to_commit_is_kept_whatever_the_pull_finds(scene: Scene) -> None:
    """S120."""
    assert scene.code(pull(0, flags=SUBSCRIPTION | COMMIT, commitOffset="7")) == 19
    assert scene.tables.offsets.query("g", "T", 0) == 7
    scene.hold(pull(0, flags=SUBSCRIPTION | COMMIT | SUSPEND, commitOffset="8"))
    assert scene.tables.offsets.query("g", "T", 0) == 8
    scene.code(pull(0, commitOffset="9"))
    assert scene.tables.offsets.query("g", "T", 0) == 8


async def test_reset_is_told_once_and_not_overwritten_by_the_pull(scene: Scene) -> None:
    for _ in range(5):
        scene.tables.append()
    scene.tables.offsets.assign_reset("g", "T", 0, 2)
    request = pull(5, flags=SUBSCRIPTION | COMMIT | SUSPEND, commitOffset="5")
    answer = scene.ask(request)
    assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (21, "OFFSET_RESET", "2")
    assert (answer.ext["minOffset"], answer.ext["maxOffset"]) == ("0", "5")
    assert scene.tables.offsets.query("g", "T", 0) == 2
    scene.hold(request)


async def test_place_of_the_last_pull_is_known(scene: Scene) -> None:
    scene.tables.append()
    scene.ask(pull(0))
    assert scene.tables.offsets.pull_offset("g", "T", 0) == 1


# --- waiting


async def test_pull_that_may_not_wait_is_answered_at_once(scene: Scene) -> None:
    """S117."""
    assert scene.code(pull(0)) == 19


async def test_message_answers_a_pull_that_waits(scene: Scene) -> None:
    """S115."""
    scene.hold(pull(0, flags=SUBSCRIPTION | SUSPEND))
    scene.tables.append(b"new")
    assert bodies((await scene.answers())[0]) == [b"new"]


async def test_body_of_a_pull_that_waits_is_not_kept(scene: Scene) -> None:
    asked = pull(0, flags=SUBSCRIPTION | SUSPEND)
    asked.body = bytes(5_000_000)
    scene.hold(asked)
    assert [len(held.request.body) for held in scene.pulls.held._held] == [0]


async def test_end_of_the_wait_is_answered_not_found(scene: Scene) -> None:
    """S116, S119: it does not wait again."""
    scene.hold(pull(0, flags=SUBSCRIPTION | SUSPEND))
    scene.tables.clock.advance(14.5)
    scene.pulls.held.check()
    assert not await scene.answers()
    scene.tables.clock.advance(1)
    scene.pulls.held.check()
    assert [answer.code for answer in await scene.answers()] == [19]
    assert len(scene.pulls.held) == 0


async def test_short_polling_waits_its_own_time(clock: FakeClock) -> None:
    with tables(clock, longPollingEnable="false", shortPollingTimeMills="1000") as made:
        scene = Scene(made)
        scene.hold(pull(0, flags=SUBSCRIPTION | SUSPEND))
        clock.advance(1)
        scene.pulls.held.check()
        assert [answer.code for answer in await scene.answers()] == [19]


async def test_message_with_another_tag_moves_a_waiting_pull_on_after_a_while(scene: Scene) -> None:
    """S118."""
    scene.hold(pull(0, flags=SUBSCRIPTION | SUSPEND, subscription="A"))
    scene.tables.append(TAGS="B")
    assert not await scene.answers()
    scene.tables.clock.advance(5)
    scene.pulls.held.check()
    (answer,) = await scene.answers()
    assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "1")


async def test_woken_pull_commits_nothing(scene: Scene) -> None:
    """S120: the offset counted when the pull came; the group may be further by now."""
    scene.hold(pull(0, flags=SUBSCRIPTION | SUSPEND | COMMIT, commitOffset="3"))
    scene.tables.offsets.commit("g", "T", 0, 9)
    scene.tables.append()
    assert scene.tables.offsets.query("g", "T", 0) == 9


async def test_woken_pull_of_a_deleted_topic_is_told_so(scene: Scene) -> None:
    scene.hold(pull(0, flags=SUBSCRIPTION | SUSPEND))
    scene.tables.topics.delete("T")
    scene.tables.clock.advance(15)
    scene.pulls.held.check()
    assert [answer.code for answer in await scene.answers()] == [17]


async def test_waking_a_peer_that_does_not_read_piles_nothing_up(scene: Scene) -> None:
    for _ in range(100):
        scene.hold(pull(0, flags=SUBSCRIPTION | SUSPEND))
    scene.channel.pause_writing()
    scene.tables.append(b"x" * 100_000)
    while scene.pulls.soon:
        scene.pulls.soon.pop(0)()
    answers = await scene.answers()
    assert [(answer.code, answer.ext["nextBeginOffset"], answer.body) for answer in answers] == [(20, "0", b"")] * 100


async def test_failure_while_answering_a_woken_pull_is_its_own(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.hold(pull(0, flags=SUBSCRIPTION | SUSPEND))

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(scene.tables.store, "read", fail)
    scene.tables.append()
    (answer,) = await scene.answers()
    assert (answer.code, answer.remark) == (1, "OSError: the disk is gone")
