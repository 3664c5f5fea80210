"""Pops that wait: who is woken by what, and how many may wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from rocketline.broker.pop.long_poll import HELD_BYTES_OF_ONE_MAX, HeldPop, HeldPops, Holding, PopPlace
from rocketline.net.channel import Channel
from rocketline.store.queues.queue_table import Queue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import broker_settings, channel

ANY = PopPlace("T", "g", -1)


class Arrived:
    """A queue that got messages."""

    def __init__(self, topic: str, queue_id: int, max_offset: int) -> None:
        self.topic, self.queue_id, self.max_offset = topic, queue_id, max_offset


class Scene:
    """Whoever is woken says its name."""

    def __init__(self, clock: FakeClock, *, is_last_first: bool = False, **settings: str) -> None:
        self.clock, self.soon = clock, list[Callable[[], None]]()
        self.held = HeldPops(broker_settings(**settings), clock, self.soon.append, is_last_first=is_last_first)
        self.channel, _ = channel(clock)
        self.woken: list[str] = []

    def hold(
        self,
        name: str,
        place: PopPlace = ANY,
        *,
        tags: frozenset[int] | None = None,
        poll_ms: int = 10_000,
        on: Channel | None = None,
        text: str = "",
    ) -> Holding:
        request = Command(RequestCode.POP_MESSAGE, {"exp": text})
        pop = HeldPop(on or self.channel, request, place, tags, 0.0, lambda _: self.woken.append(name))
        now_ms = self.clock.wall_ms()
        return self.held.hold(pop, poll_ms, now_ms, now_ms)

    def arrive(self, *codes: int, topic: str = "T", queue_id: int = 0, end: int = 1) -> list[str]:
        """Who is woken by messages with these tags."""
        self.held.on_arrival({cast("Queue", Arrived(topic, queue_id, end)): list(codes)})
        return self.turn()

    def turn(self) -> list[str]:
        while self.soon:
            self.soon.pop(0)()
        woken, self.woken = self.woken, []
        return woken


def test_message_wakes_the_pop_whose_time_ends_first(clock: FakeClock) -> None:
    """S193."""
    scene = Scene(clock)
    scene.hold("long", poll_ms=20_000)
    scene.hold("short", poll_ms=5000)
    assert scene.arrive(0) == ["short"]
    assert scene.arrive(0, 0, 0) == ["long"]
    assert scene.arrive(0) == []
    assert len(scene.held) == 0


def test_notification_whose_time_ends_last_is_woken_first(clock: FakeClock) -> None:
    scene = Scene(clock, is_last_first=True)
    scene.hold("short", poll_ms=5000)
    scene.hold("long", poll_ms=20_000)
    assert scene.arrive(0) == ["long"]
    clock.advance(5)
    scene.held.check()
    assert scene.turn() == ["short"]


def test_message_wakes_one_of_each_group_and_place(clock: FakeClock) -> None:
    scene = Scene(clock)
    scene.hold("any")
    scene.hold("queue 0", PopPlace("T", "g", 0))
    scene.hold("queue 1", PopPlace("T", "g", 1))
    scene.hold("other", PopPlace("T", "other", -1))
    scene.hold("elsewhere", PopPlace("U", "g", -1))
    assert sorted(scene.arrive(0)) == ["any", "other", "queue 0"]


@pytest.mark.parametrize("topic", ["%RETRY%g_T", "%RETRY%g+T"])
def test_message_that_comes_again_wakes_pops_of_any_queue(clock: FakeClock, topic: str) -> None:
    """S191."""
    scene = Scene(clock)
    scene.hold("queue 5", PopPlace("T", "g", 5))
    scene.hold("other", PopPlace("T", "other", -1))
    assert scene.arrive(0, topic=topic) == ["queue 5"]


def test_retry_topic_that_may_be_of_two_groups_wakes_both(clock: FakeClock) -> None:
    scene = Scene(clock)
    scene.hold("a", PopPlace("b_T", "g", -1))
    scene.hold("b", PopPlace("T", "g_b", -1))
    assert sorted(scene.arrive(0, topic="%RETRY%g_b_T")) == ["a", "b"]


def test_pop_that_wants_other_tags_sleeps_on_until_many_have_gone_by(clock: FakeClock) -> None:
    scene = Scene(clock, popLongPollingForceNotifyInterval="100")
    scene.hold("reds", tags=frozenset({1}))
    assert scene.arrive(2, end=7) == []
    assert scene.arrive(2, end=100) == ["reds"]
    scene.hold("reds", tags=frozenset({1}))
    assert scene.arrive(2, 1, end=102) == ["reds"]


def test_connection_that_is_gone_is_woken_by_nothing(clock: FakeClock) -> None:
    scene = Scene(clock)
    gone, transport = channel(clock)
    scene.hold("gone", poll_ms=1000, on=gone)
    scene.hold("here")
    transport.closed = True
    assert scene.arrive(0) == ["here"]
    scene.hold("gone", on=gone)
    scene.held.sweep()
    scene.turn()
    assert (len(scene.held), scene.held.bytes) == (0, 0)


def test_time_that_is_over_or_beyond_all_times_is_no_wait(clock: FakeClock) -> None:
    """S194."""
    scene = Scene(clock)
    assert scene.hold("none", poll_ms=0) is Holding.IS_OVER
    assert scene.hold("less", poll_ms=-1) is Holding.IS_OVER
    assert scene.hold("short", poll_ms=40) is Holding.IS_OVER
    assert scene.hold("endless", poll_ms=2**63 - 1) is Holding.IS_OVER


def test_as_many_wait_as_the_settings_say_and_memory_allows(clock: FakeClock) -> None:
    """S196."""
    scene = Scene(clock, popPollingSize="2", maxPopPollingSize="5")
    assert [scene.hold("g") for _ in range(4)] == [*[Holding.WAITS] * 3, Holding.IS_FULL]
    other = PopPlace("T", "h", -1)
    assert [scene.hold("h", other) for _ in range(3)] == [*[Holding.WAITS] * 2, Holding.IS_FULL]
    assert (scene.held.waiting(ANY), scene.held.waiting(other)) == (3, 2)
    large = Scene(clock)
    assert large.hold("large", text="x" * HELD_BYTES_OF_ONE_MAX) is Holding.IS_FULL


def test_those_that_come_and_go_leave_nothing(clock: FakeClock) -> None:
    """One that waits for hours beside them keeps their lines alive."""
    scene = Scene(clock)
    scene.hold("stays", poll_ms=10**9)
    for _ in range(2000):
        scene.hold("goes", poll_ms=100)
        clock.advance(0.1)
        scene.held.check()
        assert scene.turn() == ["goes"]
    assert len(scene.held) == 1
    assert len(scene.held._ends) < 200
    assert all(len(line) < 200 for at_place in scene.held._places.values() for line in at_place.lines.values())
