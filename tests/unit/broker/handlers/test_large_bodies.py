"""Bodies of the largest size that is accepted: however much they hold, a step makes some of it."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator

import pytest

from rocketline.broker.clients.locks import LockTable
from rocketline.broker.clients.notifications import Notifications
from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.handlers.groups import GroupHandlers
from rocketline.broker.handlers.heartbeats import HeartbeatHandlers
from rocketline.broker.handlers.locks import LockHandlers
from rocketline.broker.handlers.topics import TopicHandlers
from rocketline.broker.request_body import BODY_BYTES_MAX, LISTED_MAX
from rocketline.errors import RemoteProtocolError
from rocketline.net.channel import Channel, Outcome
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command
from support.brokers.connections import channel
from support.brokers.tables import Tables, tables
from support.effort import Effort, calls_by_step
from support.long_steps import AtOnce, at_once

READ_A_STEP = 25_000
"""Calls that a step makes while a body is read: two or three milliseconds."""
APPLIED_A_STEP = 120_000
"""And where a list, or what one group subscribes to, is taken in: some ten milliseconds."""


class Measured(AtOnce):
    """Does every work where it is begun, and says how many calls its steps made."""

    efforts: list[int]

    def begin(
        self,
        channel: Channel,
        request: Command,
        steps: Generator[None, None, Outcome],
        *,
        is_change: bool = False,
        key: object = None,
        is_short: bool = False,
    ) -> Outcome:
        result, self.efforts = calls_by_step(steps)
        return result


class Scene:
    def __init__(self, kept: Tables) -> None:
        self.storage, self.work = kept, Measured(kept.clock)
        notifications = Notifications(kept.consumers, kept.settings, kept.log)
        families = (
            HeartbeatHandlers(
                kept.consumers,
                ProducerRegistry(),
                notifications,
                kept.topics,
                kept.groups,
                kept.filters,
                kept.stats,
                kept.settings,
                kept.clock,
                self.work,
                kept.log,
            ),
            TopicHandlers(
                kept.topics, kept.offsets, kept.store, kept.stats, kept.settings, self.work, kept.log, at_once
            ),
            GroupHandlers(kept.groups, kept.offsets, kept.stats, kept.settings, self.work, kept.log),
            LockHandlers(LockTable(kept.clock), self.work),
        )
        self._handlers = {code: handler for family in families for code, handler in family.by_code().items()}
        self._channel = channel(kept.clock)[0]

    def ask(self, code: int, value: object) -> Command:
        return self.ask_bytes(code, json.dumps(value, separators=(",", ":")).encode())

    def ask_bytes(self, code: int, body: bytes) -> Command:
        assert len(body) <= BODY_BYTES_MAX
        effort = Effort()
        with effort.measured():
            answer = self._handlers[code](self._channel, Command(code, body=body, language="JAVA"))
        assert effort.taken() <= READ_A_STEP, "before the first step"
        assert isinstance(answer, Command)
        return answer


@pytest.fixture
def scene() -> Iterator[Scene]:
    with tables(FakeClock(), notifyConsumerIdsChangedEnable="false") as kept:
        yield Scene(kept)


def test_heartbeat_with_thousands_of_groups_subscriptions_and_tags_is_read_in_steps(scene: Scene) -> None:
    of_one = {"groupName": "G", "subscriptionDataSet": [{"topic": f"t{n}", "subString": "*"} for n in range(15_000)]}
    tags = {"topic": "tagged", "tagsSet": ["x"] * 50_000, "codeSet": [1] * 50_000}
    of_many = [{"groupName": f"G{n}", "subscriptionDataSet": [{"topic": "T"}]} for n in range(500)]
    last = {"groupName": "H", "subscriptionDataSet": [tags]}
    assert scene.ask(34, {"clientID": "c", "consumerDataSet": [of_one, *of_many, last]}).code == 0
    *_, info = (scene.storage.consumers.info(group) for group in ("G", "G499", "H"))
    assert info is not None
    assert len(info.subscriptions["tagged"].tags_set) == 50_000
    reading = scene.work.efforts[: len(scene.work.efforts) // 2]
    assert max(reading) <= READ_A_STEP
    assert max(scene.work.efforts) <= APPLIED_A_STEP


def test_body_of_more_lists_than_anybody_sends_is_not_parsed(scene: Scene) -> None:
    told = {"clientID": "c", "consumerDataSet": [], "unknown": [[[]]] * 32_800}
    with pytest.raises(RemoteProtocolError, match="lists and objects"):
        scene.ask(34, told)


@pytest.mark.parametrize("code", [18, 225])
def test_list_at_its_bound_is_made_as_a_whole(scene: Scene, code: int) -> None:
    assert scene.ask(code, listed(code, LISTED_MAX)).code == 0
    assert scene.storage.topics.get("t999") if code == 18 else scene.storage.groups.get("g999")
    assert max(scene.work.efforts[:-1]) <= READ_A_STEP
    assert scene.work.efforts[-1] <= APPLIED_A_STEP


@pytest.mark.parametrize("code", [18, 225])
def test_longer_list_is_read_in_steps_and_refused(scene: Scene, code: int) -> None:
    answer = scene.ask(code, listed(code, 40_000))
    assert (answer.code, answer.remark) == (
        ResponseCode.INVALID_PARAMETER,
        f"40000 {'topics' if code == 18 else 'groups'} at once: at most 1000",
    )
    assert (scene.storage.topics.get("t0"), scene.storage.groups.get("g0")) == (None, None)
    assert max(scene.work.efforts) <= READ_A_STEP


def listed(code: int, count: int) -> object:
    if code == 18:
        return {"topicConfigList": [{"topicName": f"t{n}"} for n in range(count)]}
    return {"groupConfigList": [{"groupName": f"g{n}"} for n in range(count)]}


def test_group_with_thousands_of_subscriptions_is_read_in_steps(scene: Scene) -> None:
    subscriptions = [{"topic": f"t{n}", "expression": "*", "version": 1} for n in range(18_000)]
    asked = {"groupName": "G", "subscriptionDataSet": subscriptions}
    assert scene.ask(200, asked).code == ResponseCode.INVALID_PARAMETER
    assert max(scene.work.efforts[:-1]) <= READ_A_STEP


def test_locks_of_thousands_of_queues_are_taken_and_left_in_steps(scene: Scene) -> None:
    queues = [{"topic": f"t{n}", "brokerName": "b", "queueId": 0} for n in range(20_000)]
    asked = {"consumerGroup": "G", "clientId": "c", "mqSet": [*queues, queues[0]]}
    locked = scene.ask(41, asked)
    assert len(json.loads(locked.body)["lockOKMQSet"]) == 20_000
    assert max(scene.work.efforts) <= READ_A_STEP
    assert scene.ask(42, asked).code == 0
    assert max(scene.work.efforts) <= READ_A_STEP
    assert len(json.loads(scene.ask(41, asked | {"clientId": "other"}).body)["lockOKMQSet"]) == 20_000


def test_long_body_that_is_no_standard_json_is_refused_after_one_look(scene: Scene) -> None:
    with pytest.raises(RemoteProtocolError, match="must be standard JSON beyond 65536"):
        scene.ask_bytes(34, b"{" + b"1:1," * 200_000 + b"}")
