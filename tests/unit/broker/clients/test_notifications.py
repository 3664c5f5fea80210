"""NOTIFY_CONSUMER_IDS_CHANGED: who is told, when, and what a peer costs that takes nothing."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from rocketline.broker.clients import notifications
from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.clients.notifications import Notifications
from rocketline.logs import Throttle
from rocketline.model.subscription import MessageModel
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from support.brokers.connections import BROADCASTING, broker_settings, channel, client_on, consumer
from support.net.doubles import MemoryTransport, turn


class Scene:
    """Consumers on connections without sockets."""

    def __init__(self, clock: FakeClock, **settings: str) -> None:
        self.clock, self.consumers = clock, ConsumerRegistry()
        self.settings = broker_settings(**settings)
        self.notifications = Notifications(self.consumers, self.settings, Throttle(clock, name="notices"))

    def join(self, *groups: str, model: MessageModel = MessageModel.CLUSTERING) -> MemoryTransport:
        member, transport = channel(self.clock)
        for group in groups:
            self.consumers.register(consumer(group, "T", model=model), client_on(member, self.clock))
        return transport


def told(transport: MemoryTransport) -> list[str]:
    """The groups that a member was told of."""
    commands = transport.commands()
    assert all(c.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED and c.is_oneway for c in commands)
    return [command.ext["consumerGroup"] for command in commands]


async def settle() -> None:
    for _ in range(5):
        await turn()


async def test_every_member_is_told_with_the_name_of_the_group(clock: FakeClock) -> None:
    scene = Scene(clock)
    async with scene.notifications:
        members = [scene.join("g"), scene.join("g")]
        other = scene.join("h")
        scene.notifications.members_changed("g")
        await settle()
    assert [told(member) for member in members] == [["g"], ["g"]]
    assert told(other) == []


async def test_broadcasting_group_is_told_nothing(clock: FakeClock) -> None:
    """S83."""
    scene = Scene(clock)
    async with scene.notifications:
        member = scene.join("g", model=BROADCASTING)
        scene.notifications.members_changed("g")
        await settle()
    assert told(member) == []


async def test_group_that_is_not_online_is_nobody(clock: FakeClock) -> None:
    scene = Scene(clock)
    async with scene.notifications:
        scene.notifications.members_changed("g")


async def test_broker_may_be_told_to_tell_nobody(clock: FakeClock) -> None:
    scene = Scene(clock, notifyConsumerIdsChangedEnable="false")
    async with scene.notifications:
        member = scene.join("g")
        scene.notifications.members_changed("g")
        await settle()
    assert told(member) == []


async def test_collected_changes_are_told_once_and_later(clock: FakeClock) -> None:
    scene = Scene(clock, realTimeNotifyConsumerChange="false")
    async with scene.notifications:
        member = scene.join("g")
        for _ in range(3):
            scene.notifications.members_changed("g")
        await settle()
        assert told(member) == []
        scene.notifications.send_collected()
        scene.notifications.send_collected()
        await settle()
    assert told(member) == ["g"]


async def test_member_that_takes_nothing_holds_up_nobody_and_gets_each_notice_once(clock: FakeClock) -> None:
    scene = Scene(clock)
    async with scene.notifications:
        slow, quick = scene.join("g", "h"), scene.join("g", "h")
        slow.protocol.pause_writing()
        for _ in range(3):
            scene.notifications.members_changed("g")
            scene.notifications.members_changed("h")
            await settle()
        assert told(quick) == ["g", "h"] * 3
        assert told(slow) == []
        slow.protocol.resume_writing()
        await settle()
        assert told(slow) == ["g", "h"]
        scene.notifications.members_changed("g")
        await settle()
    assert told(slow) == ["g", "h", "g"]


async def test_member_that_takes_nothing_for_long_loses_its_notice(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notifications, "NOTICE_TIMEOUT_S", 0.0)
    scene = Scene(clock)
    with caplog.at_level(logging.WARNING, "notices"):
        async with scene.notifications:
            slow = scene.join("g")
            slow.protocol.pause_writing()
            scene.notifications.members_changed("g")
            while "notice not delivered" not in caplog.text:  # a busy machine logs slow turns, too
                await turn()
            slow.protocol.resume_writing()
            scene.notifications.members_changed("g")
            await settle()
    assert told(slow) == ["g"]


async def test_closed_connection_is_no_reason_to_stop(clock: FakeClock) -> None:
    scene = Scene(clock)
    async with scene.notifications:
        gone, member = scene.join("g"), scene.join("g")
        gone.close()
        scene.notifications.members_changed("g")
        await settle()
    assert told(member) == ["g"]


async def test_end_drops_what_waits(clock: FakeClock) -> None:
    scene = Scene(clock)
    async with scene.notifications:
        slow = scene.join("g")
        slow.protocol.pause_writing()
        scene.notifications.members_changed("g")
        await settle()
    scene.notifications.members_changed("g")
    assert told(slow) == []


async def test_many_changes_at_once_are_one_notice_to_each_and_some_members_a_turn(clock: FakeClock) -> None:
    """Two hundred who leave a group of hundreds at once cause no forty thousand notices."""
    scene = Scene(clock)
    async with scene.notifications:
        members = [scene.join("g") for _ in range(300)]
        for _ in range(200):
            scene.notifications.members_changed("g")
        counts = []
        for _ in range(8):
            await turn()
            counts.append(len(scene.notifications._due) + sum(len(told(member)) for member in members))
        await settle()
    assert max(after - before for before, after in pairwise(counts)) <= 128 + 128
    assert [told(member) for member in members] == [["g"]] * 300
