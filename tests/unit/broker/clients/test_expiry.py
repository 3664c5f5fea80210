"""Clients that go without a word."""

from __future__ import annotations

import asyncio

from rocketline.broker.chores import Chores
from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.clients.expiry import ClientExpiry
from rocketline.broker.clients.notifications import Notifications
from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.logs import Throttle
from rocketline.net.channel import Channel
from rocketline.testing.fake_clock import FakeClock
from support.brokers.connections import (
    BROADCASTING,
    CLUSTERING,
    broker_settings,
    channel,
    client_on,
    consumer,
    producers_by_group,
)
from support.net.doubles import MemoryTransport, turn


class Scene:
    def __init__(self, clock: FakeClock, **settings: str) -> None:
        self.clock = clock
        self.consumers, self.producers = ConsumerRegistry(), ProducerRegistry()
        self.chores = Chores(asyncio.get_running_loop().call_soon)
        log, own = Throttle(clock), broker_settings(**settings)
        self.notifications = Notifications(self.consumers, own, log)
        self.expiry = ClientExpiry(self.consumers, self.producers, self.notifications, own, self.chores, log)

    def channel(self) -> tuple[Channel, MemoryTransport]:
        return channel(self.clock)

    def beat(self, member: Channel, group: str = "g", *, is_broadcasting: bool = False) -> None:
        model = BROADCASTING if is_broadcasting else CLUSTERING
        self.consumers.register(consumer(group, "T", model=model), client_on(member, self.clock))

    def scan(self) -> None:
        self.expiry.scan(self.clock.monotonic())


async def settle() -> None:
    for _ in range(5):
        await turn()


async def test_silent_consumer_goes_after_its_time_and_nobody_is_told(clock: FakeClock) -> None:
    """S82."""
    scene = Scene(clock)
    (quiet, quiet_line), (other, other_line) = scene.channel(), scene.channel()
    async with scene.notifications:
        scene.beat(quiet)
        clock.advance(60)
        scene.beat(other)
        clock.advance(60)
        scene.scan()
        assert not quiet_line.closed
        clock.advance(0.001)
        scene.scan()
        await settle()
    assert (quiet_line.closed, other_line.closed) == (True, False)
    assert other_line.commands() == []


async def test_limit_of_consumers_is_a_setting_and_that_of_producers_is_not(clock: FakeClock) -> None:
    scene = Scene(clock, channelExpiredTimeout="30000")
    (a, consumer_line), (b, producer_line) = scene.channel(), scene.channel()
    async with scene.notifications:
        scene.beat(a)
        scene.producers.register("p", client_on(b, clock))
        clock.advance(31)
        scene.scan()
        assert (consumer_line.closed, producer_line.closed) == (True, False)
        clock.advance(90)
        scene.scan()
        await settle()
    assert producer_line.closed
    assert producers_by_group(scene.producers) == {}


async def test_lost_connection_leaves_both_registries_and_the_others_are_told(clock: FakeClock) -> None:
    """S81."""
    scene = Scene(clock)
    (gone, _), (other, line) = scene.channel(), scene.channel()
    async with scene.notifications:
        for member in (gone, other):
            scene.beat(member)
            scene.beat(member, "broadcasting", is_broadcasting=True)
        scene.producers.register("p", client_on(gone, clock))
        scene.expiry.connection_closed(gone)
        await settle()
    assert producers_by_group(scene.producers) == {}
    info = scene.consumers.info("g")
    assert info is not None
    assert list(info.clients) == [other]
    assert [command.ext for command in line.commands()] == [{"consumerGroup": "g"}]


async def test_connection_that_expired_in_one_group_is_told_of_in_its_others(clock: FakeClock) -> None:
    scene = Scene(clock)
    (gone, _), (other, line) = scene.channel(), scene.channel()
    async with scene.notifications:
        scene.beat(gone, "quiet")
        scene.beat(other, "quiet")
        clock.advance(121)
        for group in ("quiet", "loud"):
            scene.beat(other, group)
        scene.beat(gone, "loud")
        scene.scan()
        assert gone.is_closed
        scene.expiry.connection_closed(gone)
        await settle()
    assert [command.ext for command in line.commands()] == [{"consumerGroup": "loud"}]


async def test_client_of_thousands_of_groups_leaves_them_in_steps(clock: FakeClock) -> None:
    scene = Scene(clock)
    gone, _ = scene.channel()
    async with scene.notifications:
        for number in range(2_000):
            scene.beat(gone, f"g{number}")
            scene.producers.register(f"p{number}", client_on(gone, clock))
        scene.expiry.connection_closed(gone)
        assert len(scene.producers.groups()) == 1_500
        for _ in range(8):
            await turn()
    assert (scene.producers.groups(), scene.consumers.groups_of(gone), len(scene.chores)) == ([], 0, 0)


async def test_thousands_of_silent_members_expire_in_steps_and_who_speaks_meanwhile_stays(clock: FakeClock) -> None:
    scene = Scene(clock)
    (quiet, _), (late, _) = scene.channel(), scene.channel()
    async with scene.notifications:
        for number in range(2_500):
            scene.beat(quiet, f"g{number}")
        scene.beat(late, "last")
        clock.advance(121)
        scene.scan()
        scene.scan()
        assert (scene.consumers.groups_of(quiet), len(scene.chores)) == (1_500, 1), "one scan at a time"
        scene.beat(late, "last")
        for _ in range(4):
            await turn()
        assert (scene.consumers.groups_of(quiet), scene.consumers.groups_of(late)) == (0, 1)
        clock.advance(121)
        scene.scan()
        assert scene.consumers.groups_of(late) == 0
