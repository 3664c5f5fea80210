"""Pulls by SQL: with an expression of their own, by what a heartbeat said, and those that wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from rocketline.broker.pulls import filter_work
from rocketline.errors import ExpressionError
from rocketline.model.java_hash import tags_code
from rocketline.model.subscription import SubscriptionData
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import LATER
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import channel, client_on, consumer
from support.brokers.pulls import SUBSCRIPTION, SUSPEND, Pulls, bodies, pull
from support.brokers.tables import Tables, tables
from support.net.doubles import turn


class Scene:
    def __init__(self, made: Tables) -> None:
        self.tables, self.pulls = made, Pulls(made)
        self.channel, self.transport = channel(made.clock)

    async def handle(self, request: Command) -> Command:
        """The answer, be it given at once or in a turn of its own."""
        answer = self.pulls.handle(self.channel, request)
        if answer is LATER:
            self.go_on()
            await turn()
            return self.transport.commands()[-1]
        assert isinstance(answer, Command)
        return answer

    def go_on(self) -> None:
        due: list[Callable[[], None]]
        due, self.pulls.soon[:] = self.pulls.soon[:], []
        for action in due:
            action()

    async def answers(self) -> list[Command]:
        while self.pulls.soon:
            self.go_on()
        await turn()
        return self.transport.commands()

    def heartbeat(self, expression: str, version: int = 1, topic: str = "T") -> None:
        said = SubscriptionData(topic, expression, sub_version=version, expression_type="SQL92")
        client = client_on(self.channel, self.tables.clock)
        self.tables.consumers.register(consumer("g", said), client)
        try:
            compiled = self.tables.filters.expressions.find(expression)
        except ExpressionError:
            compiled = None
        self.tables.filters.register("g", [said], {expression: compiled})

    async def ask(
        self, expression: str = "a > 5", offset: int = 0, *, code: int = RequestCode.PULL_MESSAGE, **fields: str
    ) -> Command:
        request = pull(offset, code=code)
        request.ext |= {"subscription": expression, "expressionType": "SQL92", **fields}
        return await self.handle(request)


@pytest.fixture
async def scene(clock: FakeClock) -> AsyncIterator[Scene]:
    with tables(clock, enablePropertyFilter="true") as made:
        yield Scene(made)


async def test_own_expression_chooses_among_messages(scene: Scene) -> None:
    """S228, S240, for pulls and for lite pulls."""
    for number in range(10):
        scene.tables.append(b"%d" % number, a=str(number), TAGS="t1" if number % 2 else "t2")
    assert bodies(await scene.ask("a > 5")) == [b"6", b"7", b"8", b"9"]
    answer = await scene.ask("a > 5 AND TAGS = 't1'", code=RequestCode.LITE_PULL_MESSAGE)
    assert bodies(answer) == [b"7", b"9"]
    assert answer.ext["nextBeginOffset"] == "10"


async def test_what_is_found_is_what_was_asked_for_and_no_more(scene: Scene) -> None:
    for number in range(10):
        scene.tables.append(b"%d" % number, a=str(number))
    answer = await scene.ask("a > 2", maxMsgNums="3")
    assert bodies(answer) == [b"3", b"4", b"5"]
    assert answer.ext["nextBeginOffset"] == "6"
    assert bodies(await scene.ask("a > 2", 6)) == [b"6", b"7", b"8", b"9"]


async def test_nothing_that_matches_moves_the_pull_on(scene: Scene) -> None:
    for _ in range(3):
        scene.tables.append(a="1")
    answer = await scene.ask()
    assert (answer.code, answer.ext["nextBeginOffset"], answer.remark) == (20, "3", "NO_MATCHED_MESSAGE")
    assert (await scene.ask(offset=3)).code == 19
    assert (await scene.ask(offset=9)).code == 21


@pytest.mark.parametrize(
    "expression", ["a != 5", "a == 5", "a > 'x'", "a > 0.0", "NOT a > 5", "5", "(" * 5000], ids=lambda text: text[:10]
)
async def test_expression_that_cannot_be_read_is_answered_with_its_place(scene: Scene, expression: str) -> None:
    """S237: a pull is not sent everything for it."""
    answer = await scene.ask(expression)
    assert answer.code == 23
    assert "line 1, column" in str(answer.remark)


async def test_an_unknown_kind_of_expression_is_refused(scene: Scene) -> None:
    answer = await scene.handle(pull(subscription="a", expressionType="XPATH"))
    assert answer.code == 1


async def test_the_setting_is_obeyed_at_once(scene: Scene) -> None:
    """S88."""
    scene.tables.append(a="6")
    assert (await scene.ask()).code == 0
    scene.tables.settings.update({"enablePropertyFilter": "false"})
    assert (await scene.ask()).code == 1
    scene.heartbeat("a > 5")
    assert (await scene.handle(pull(flags=0, subVersion="1"))).code == 1


async def test_heartbeat_says_what_later_pulls_want(scene: Scene) -> None:
    scene.tables.append(b"no", a="5")
    scene.tables.append(b"yes", a="6")
    scene.heartbeat("a > 5")
    for _ in range(2):
        assert bodies(await scene.handle(pull(flags=0, subVersion="1"))) == [b"yes"]
    scene.heartbeat("a <= 5", version=2)
    assert bodies(await scene.handle(pull(flags=0, subVersion="2"))) == [b"no"]


async def test_of_tags_and_an_expression_in_one_group_the_newest_count(scene: Scene) -> None:
    """Members should say the same. Those that do not get what was said last, as with Apache's broker."""
    scene.tables.append(b"tagged", a="5", TAGS="t")
    scene.tables.append(b"greater", a="6")
    by_tag = SubscriptionData("T", "t", ["t"], [tags_code("t")])
    for version in (1, 3):
        by_tag = replace(by_tag, sub_version=version)
        scene.tables.consumers.register(consumer("g", by_tag), client_on(scene.channel, scene.tables.clock))
        scene.tables.filters.register("g", [by_tag], {})
        assert bodies(await scene.handle(pull(flags=0, subVersion=str(version)))) == [b"tagged"]
        scene.heartbeat("a > 5", version=version + 1)
        for said in ("TAG", "SQL92"):  # clients in Go say TAG
            asked = pull(flags=0, subVersion=str(version + 1), expressionType=said)
            assert bodies(await scene.handle(asked)) == [b"greater"]


async def test_filters_that_are_missing_or_old_are_told(scene: Scene) -> None:
    """S242."""
    scene.tables.append(a="6")
    assert (await scene.handle(pull(flags=0))).code == 24
    scene.heartbeat("a != 5")
    answer = await scene.handle(pull(flags=0))
    assert answer.code == 27
    assert "unequal is written <>" in str(answer.remark)
    scene.heartbeat("a > 5", version=2)
    assert (await scene.handle(pull(flags=0, subVersion="2"))).code == 0
    said = SubscriptionData("T", "a > 5", sub_version=3, expression_type="SQL92")
    scene.tables.consumers.register(consumer("g", said), client_on(scene.channel, scene.tables.clock))
    assert (await scene.handle(pull(flags=0, subVersion="3"))).code == 28


async def test_waiting_pull_is_woken_by_what_it_wants_alone(scene: Scene) -> None:
    scene.tables.append(a="1")
    assert (await scene.ask("a > 5")).code == 20
    waiting = pull(1, flags=SUBSCRIPTION | SUSPEND, subscription="a > 5", expressionType="SQL92")
    assert scene.pulls.handle(scene.channel, waiting) is LATER
    before = len(await scene.answers())
    for _ in range(3):
        scene.tables.append(a="2")
        assert len(await scene.answers()) == before
    scene.tables.append(b"found", a="7")
    (answer,) = (await scene.answers())[before:]
    assert bodies(answer) == [b"found"]
    assert answer.ext["nextBeginOffset"] == "5"


async def test_tags_and_expressions_wait_side_by_side(scene: Scene) -> None:
    scene.tables.append(a="1")
    assert (await scene.ask("a > 5")).code == 20
    for fields in ({"subscription": "t1"}, {"subscription": "a > 5", "expressionType": "SQL92"}):
        request = pull(1, flags=SUBSCRIPTION | SUSPEND)
        request.ext |= fields
        assert scene.pulls.handle(scene.channel, request) is LATER
    before = len(await scene.answers())
    scene.tables.append(b"tagged", TAGS="t1")
    assert bodies((await scene.answers())[before]) == [b"tagged"]
    scene.tables.append(b"six", a="6")
    assert len(await scene.answers()) == before + 2
    assert len(scene.pulls.held) == 0


async def test_waiting_pull_moves_on_after_five_seconds(scene: Scene, clock: FakeClock) -> None:
    """S118, for an expression."""
    scene.tables.append(a="1")
    assert (await scene.ask()).code == 20
    waiting = pull(1, flags=SUBSCRIPTION | SUSPEND, subscription="a > 5", expressionType="SQL92")
    assert scene.pulls.handle(scene.channel, waiting) is LATER
    scene.tables.append(a="1")
    before = len(await scene.answers())
    clock.advance(6)
    scene.pulls.held.check()
    (answer,) = (await scene.answers())[before:]
    assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "2")


async def test_one_turn_looks_at_so_much_and_each_pull_gets_on(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_work, "TURN_WORK", 0)
    for _ in range(1000):
        scene.tables.append(a="1" * 100)
    await scene.ask("a = 'x'")
    await scene.answers()
    first, second = [await scene.ask("a = 'x'") for _ in range(2)]
    reached = [int(answer.ext["nextBeginOffset"]) for answer in (first, second)]
    assert all(0 < offset < 1000 for offset in reached)


async def test_waiting_pulls_are_looked_at_some_in_each_turn(scene: Scene) -> None:
    """Thousands of messages at once hold nobody up, and the one that matches is found."""
    scene.tables.topics.update(TopicConfig("T", 2, 2))
    scene.tables.append(a="1")
    assert (await scene.ask("a > 5")).code == 20
    waiting = pull(1, flags=SUBSCRIPTION | SUSPEND, subscription="a > 5", expressionType="SQL92")
    assert scene.pulls.handle(scene.channel, waiting) is LATER
    await scene.answers()
    before = len(scene.transport.commands())
    for _ in range(6000):
        scene.tables.append(a="1", filler="x" * 800)
    scene.tables.append(b"found", a="6")
    turns = 0
    while len(scene.transport.commands()) == before:
        scene.go_on()
        await turn()
        turns += 1
        assert turns < 50
    assert turns > 1
    answer, offset = scene.transport.commands()[-1], 1
    while answer.code == 20:
        offset = int(answer.ext["nextBeginOffset"])
        answer = await scene.ask("a > 5", offset)
    assert bodies(answer) == [b"found"]


async def test_pulls_that_spend_all_work_hold_up_nobody_that_waits(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each turn of the loop others have spent what there was; still what waits is looked at, by turns."""
    monkeypatch.setattr(filter_work, "TURN_WORK", 0)
    monkeypatch.setattr(filter_work, "_PULL_WORK_MIN", 1)
    scene.tables.topics.update(TopicConfig("T", 2, 2))
    for queue_id in range(2):
        scene.tables.append(queue_id=queue_id)
    for queue_id in range(2):
        for expression in ("a > 5", "a > 6"):
            waiting = pull(1, flags=SUBSCRIPTION | SUSPEND, subscription=expression, expressionType="SQL92")
            waiting.ext["queueId"] = str(queue_id)
            scene.tables.filters.expressions.find(expression).matches(b"")
            assert scene.pulls.handle(scene.channel, waiting) is LATER
    for queue_id in range(2):
        for value in ("1", "1", "1", "7"):
            scene.tables.append(value.encode(), queue_id=queue_id, a=value)
    turns = 0
    while len(scene.pulls.held) and turns < 30:
        scene.go_on()
        turns += 1
    assert len(scene.pulls.held) == 0
    assert turns >= 16, "one read a turn"


async def test_a_pull_that_leaves_its_expression_to_the_heartbeat_is_answered_at_once(scene: Scene) -> None:
    """As Java's push consumers send them: with the type of an expression, and no expression."""
    scene.tables.append(b"six", a="6")
    scene.heartbeat("a > 5")
    request = pull(flags=0, subVersion="1", expressionType="SQL92")
    del request.ext["subscription"]
    assert bodies(await scene.handle(request)) == [b"six"]
    assert bodies(scene.pulls.handle(scene.channel, request)) == [b"six"]


async def test_the_hot_path_leaves_expressions_to_the_handler(scene: Scene) -> None:
    scene.tables.append(a="6")
    scene.heartbeat("a > 5")
    assert scene.pulls.answer(scene.channel, pull(subscription="a > 5", expressionType="SQL92").ext, 1) is None
    assert scene.pulls.answer(scene.channel, pull(flags=0, subVersion="1").ext, 1) is None
