"""The queues of topics in the whole cluster: asked for once, kept while in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rocketline.broker.cluster import routes
from rocketline.broker.cluster.routes import Queues, Routes
from rocketline.logs import Throttle
from rocketline.model.queue import MessageQueue
from rocketline.model.route import QueueData, TopicRouteData
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import encode
from rocketline.wire.command import Command, response

ROUTE = TopicRouteData([QueueData("a", 2, 4, 6), QueueData("b", 1, 1, 4), QueueData("closed", 8, 8, 2)])
QUEUES = (MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0))


class NameServer:
    """Answers every question with `answer`, once `is_open`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Command | None = response(0, body=encode(ROUTE))
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def ask(self, command: Command) -> Command | None:
        self.asked.append(command.ext["topic"])
        await self.is_open.wait()
        return self.answer


class Scene:
    def __init__(self) -> None:
        self.clock, self.server = FakeClock(), NameServer()
        self.routes = Routes(self.server.ask, clock=self.clock, log=Throttle(self.clock, name="test"))
        self.found: list[Queues | None] = []

    def find(self, topic: str = "T") -> None:
        self.routes.find(topic, self.found.append)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    async with scene.routes:
        yield scene


async def turn() -> None:
    """Let the tasks that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_readable_queues_of_all_brokers_are_found(scene: Scene) -> None:
    scene.find()
    assert scene.found == []
    await turn()

    assert scene.found == [QUEUES]


async def test_known_topic_is_answered_at_once_without_asking_again(scene: Scene) -> None:
    scene.find()
    await turn()
    scene.find()

    assert scene.found == [QUEUES, QUEUES]
    assert scene.server.asked == ["T"]


async def test_those_who_ask_meanwhile_share_one_question(scene: Scene) -> None:
    scene.server.is_open.clear()
    scene.find()
    scene.find()
    await turn()
    scene.server.is_open.set()
    await turn()

    assert scene.found == [QUEUES, QUEUES]
    assert scene.server.asked == ["T"]


@pytest.mark.parametrize("answer", [None, response(17, "no such topic"), response(0, body=b"{")])
async def test_topic_that_nobody_can_tell_of_is_none(scene: Scene, answer: Command | None) -> None:
    scene.server.answer = answer
    scene.find()
    await turn()

    assert scene.found == [None]


async def test_refresh_takes_over_what_changed(scene: Scene) -> None:
    scene.find()
    await turn()
    scene.server.answer = response(0, body=encode(TopicRouteData([QueueData("b", 1, 1, 4)])))
    scene.routes.refresh()
    await turn()
    scene.find()

    assert scene.found[-1] == (MessageQueue("T", "b", 0),)


async def test_refresh_without_an_answer_leaves_what_was_known(scene: Scene) -> None:
    scene.find()
    await turn()
    scene.server.answer = None
    scene.routes.refresh()
    await turn()
    scene.find()

    assert scene.found == [QUEUES, QUEUES]


async def test_topic_that_is_gone_is_forgotten(scene: Scene) -> None:
    scene.find()
    await turn()
    scene.server.answer = response(17)
    scene.routes.refresh()
    await turn()
    scene.find()
    await turn()

    assert scene.found == [QUEUES, None]


async def test_topic_that_nobody_uses_is_not_asked_for_any_more(scene: Scene) -> None:
    scene.find()
    await turn()
    scene.clock.advance(121)
    scene.routes.refresh()
    await turn()

    assert scene.server.asked == ["T"]


async def test_too_many_questions_at_once_are_answered_with_nothing(scene: Scene) -> None:
    scene.server.is_open.clear()
    for number in range(65):
        scene.find(f"T{number}")
    await turn()

    assert scene.found == [None]
    scene.server.is_open.set()
    await turn()
    assert [found is not None and found[0].topic for found in scene.found[1:]] == [f"T{number}" for number in range(64)]


async def test_names_that_no_server_knows_leave_nothing_behind(scene: Scene) -> None:
    scene.server.answer = response(17)
    for topic in ("made-up", "x" * 256):
        scene.find(topic)
        await turn()

    assert scene.found == [None, None]
    assert scene.server.asked == ["made-up"]
    assert (scene.routes._used_at_s, scene.routes._known, scene.routes._waiting) == ({}, {}, {})


async def test_too_many_who_wait_are_answered_with_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketline.broker.cluster.routes._WAITERS_MAX", 3)
    scene.server.is_open.clear()
    for topic in ("T", "T", "U", "T"):
        scene.find(topic)
    assert scene.found == [None]
    scene.server.is_open.set()
    await turn()
    scene.find("V")
    await turn()
    assert [found is None for found in scene.found] == [True, False, False, False, False]


async def test_what_is_remembered_is_bounded_and_what_is_used_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who registers thousands of topics with thousands of queues, and asks for each, took gigabytes."""
    monkeypatch.setattr(routes, "_KNOWN_MAX", 40)
    for number in range(30):
        scene.find(f"t{number}")
        scene.find("used")
        await turn()
    assert scene.found[-1] is not None
    assert scene.server.asked.count("used") == 1
    assert len(scene.routes._known) == len(scene.routes._used_at_s) == 5
    scene.clock.advance(200)
    scene.routes.refresh()
    await turn()
    assert (len(scene.routes._known), scene.routes._cost) == (0, 0)
