"""Whom a round of checks asks, and for whom it waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.transactions.questions import Questions
from rocketline.errors import RequestTimeoutError
from rocketline.logs import Throttle
from rocketline.model import property_names
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.net.channel import Channel
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.command import Command
from support.brokers.connections import client_on


@dataclass(eq=False)
class Line:
    """A producer's connection; one that does not read takes all the time that it is given."""

    clock: FakeClock
    is_congested: bool = False
    is_closed: bool = False
    peer: str = "10.0.0.1:1"
    asked: list[Command] = field(default_factory=list)

    async def send_oneway(self, command: Command, timeout_s: float) -> None:
        if self.is_congested:
            self.clock.advance(timeout_s)
            raise RequestTimeoutError(self.peer, "the peer took no bytes")
        self.asked.append(command)


class Scene:
    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.producers = clock, ProducerRegistry()
        self.questions = Questions(self.producers, "b", clock, Throttle(clock))

    def line(self, group: str, *, is_deaf: bool = False) -> Line:
        line = Line(self.clock, is_deaf)
        self.producers.register(group, client_on(cast("Channel", line), self.clock, client_id=group))
        return line

    async def round(self, *groups: str) -> float:
        """How many seconds it took."""
        begin_s = self.clock.monotonic()
        self.questions.begin_round()
        await self.questions.ask(map(half_of, groups))
        return self.clock.monotonic() - begin_s


def half_of(group: str) -> StoredMessage:
    host = HostAddress.parse("10.0.0.1:10911")
    properties = {property_names.PGROUP: group, property_names.REAL_TOPIC: "T", property_names.REAL_QID: "0"}
    return StoredMessage("H", b"half", properties, 0, 0, QueueOffset(0), LogOffset(0), 0, 0, host, 0, host)


@pytest.fixture
def scene(clock: FakeClock) -> Scene:
    return Scene(clock)


async def test_those_that_do_not_read_cost_a_round_a_bounded_time(scene: Scene) -> None:
    """A thousand of them held up the questions to everybody else for nearly an hour."""
    groups = [f"g{number}" for number in range(100)]
    for group in groups:
        scene.line(group, is_deaf=True)
    honest = scene.line("honest")
    assert await scene.round(*groups, "honest") <= 15
    assert len(honest.asked) == 1


async def test_one_that_did_not_read_is_waited_for_again_once_it_does(scene: Scene) -> None:
    deaf = scene.line("g", is_deaf=True)
    assert [await scene.round("g", "g") for _ in range(3)] == [3, 0, 0]
    deaf.is_congested = False
    assert await scene.round("g") == 0
    assert len(deaf.asked) == 1


async def test_one_member_of_the_group_is_asked_each_in_its_turn(scene: Scene) -> None:
    """S171, S174."""
    first, second, _ = scene.line("g"), scene.line("g"), scene.line("other")
    for count in range(1, 5):
        await scene.round("g")
        assert len(first.asked) + len(second.asked) == count
    assert len(first.asked) == len(second.asked) == 2
    first.is_closed = True
    for _ in range(3):
        await scene.round("g")
    assert (len(first.asked), len(second.asked)) == (2, 5)
