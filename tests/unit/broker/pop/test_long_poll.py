"""Pops that wait: who is woken by what, and how many may wait."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import cast

import pytest

from rocketline.broker.filters import Wanted
from rocketline.broker.pop.held_lines import HELD_BYTES_MAX, HELD_BYTES_OF_ONE_MAX
from rocketline.broker.pop.long_poll import HeldBytes, HeldPop, HeldPops, Holding, PopPlace
from rocketline.filter import compile_sql, memory_of
from rocketline.net.channel import Channel
from rocketline.store.queues.queue_table import Queue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import broker_settings, channel
from support.effort import calls_of
from support.long_steps import outcome

ANY = PopPlace("T", "g", -1)


class Arrived:
    """A queue that got messages."""

    def __init__(self, topic: str, queue_id: int, max_offset: int) -> None:
        self.topic, self.queue_id, self.max_offset = topic, queue_id, max_offset


class Scene:
    """Whoever is woken says its name."""

    def __init__(
        self,
        clock: FakeClock,
        *,
        is_last_first: bool = False,
        held_bytes: HeldBytes | None = None,
        **settings: str,
    ) -> None:
        self.clock, self.soon = clock, list[Callable[[], None]]()
        given = broker_settings(**settings)
        held_bytes = held_bytes or HeldBytes()
        self.held = HeldPops(given, clock, self.soon.append, held_bytes, is_last_first=is_last_first)
        self.channel, _ = channel(clock)
        self.woken: list[str] = []

    def hold(
        self,
        name: str,
        place: PopPlace = ANY,
        *,
        tags: Wanted = None,
        poll_ms: int = 10_000,
        on: Channel | None = None,
        text: str = "",
        fields: dict[str, str] | None = None,
        takes_s: float = 0.0,
    ) -> Holding:
        def answer(held: HeldPop) -> None:
            self.woken.append(name)
            self.clock.advance(takes_s)

        request = Command(RequestCode.POP_MESSAGE, {"exp": text, **(fields or {})})
        pop = HeldPop(on or self.channel, request, place, tags, 0.0, answer)
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


def what_is_kept(held: HeldPops) -> list[int]:
    """How many entries are in each table, and in those in it."""
    lines = held._lines
    orders = [len(line.order) for at in lines._places.values() for line in at.lines.values()]
    queues = [at_queue for of_topic in lines._topics.values() for at_queue in of_topic.queues.values()]
    tables: tuple[Sized, ...] = (
        held._held,
        held._ends._at,
        held._ends._ticks,
        held._arrived,
        held._called,
        lines._places,
        lines._of,
        lines._topics,
    )
    return [*orders, *map(len, tables), *(len(at.by_code) for at in queues), *(len(at.wide) for at in queues)]


@pytest.mark.parametrize("tags", [0, 1, 1000])
def test_those_that_come_and_go_leave_nothing(clock: FakeClock, tags: int) -> None:
    """One that waits for hours beside them keeps their place alive. Each wants something else, or all want the same."""
    scene = Scene(clock)
    scene.hold("stays", poll_ms=10**9)
    stays = scene.held.bytes
    for number in range(1000):
        wanted = frozenset(range(number * tags, number * tags + tags)) or None
        scene.hold("goes", poll_ms=100, tags=wanted, text="x" * 8000)
        clock.advance(0.1)
        scene.held.check()
        assert scene.turn() == ["goes"]
    assert (len(scene.held), scene.held.bytes) == (1, stays)
    assert max(what_is_kept(scene.held)) < 200


def test_connections_that_come_and_go_leave_nothing(clock: FakeClock) -> None:
    """Their pops would wait for days, each to another moment."""
    scene = Scene(clock)
    scene.hold("stays", poll_ms=10**9)
    stays = scene.held.bytes
    for number in range(300):
        gone, transport = channel(clock)
        for more in range(10):
            scene.hold("goes", poll_ms=10**8 + 20 * (10 * number + more), tags=frozenset({number}), on=gone)
        transport.closed = True
        scene.held.sweep()
        assert scene.turn() == []
    assert (len(scene.held), scene.held.bytes) == (1, stays)
    assert max(what_is_kept(scene.held)) < 200


# --- bytes


def test_what_pops_and_notifications_of_one_connection_take_is_bounded_together(clock: FakeClock) -> None:
    """With the tags that they want, which take more than their text."""
    held_bytes = HeldBytes()
    scenes = [Scene(clock, held_bytes=held_bytes, popPollingSize="100000") for _ in range(2)]
    line, count = scenes[0].channel, 0
    while True:
        tags = frozenset(range(count * 10_000, count * 10_000 + 10_000))
        if scenes[count % 2].hold("tags", tags=tags, on=line) is Holding.IS_FULL:
            break
        count += 1
    assert 20 < count < 30
    assert HELD_BYTES_OF_ONE_MAX * 0.9 < held_bytes.total <= HELD_BYTES_OF_ONE_MAX
    assert scenes[1].hold("other", tags=frozenset({-1}), on=channel(clock)[0]) is Holding.WAITS
    clock.advance(60)
    for scene in scenes:
        scene.held.check()
        scene.turn()
    assert held_bytes.total == 0


def test_what_all_of_them_take_is_bounded(clock: FakeClock) -> None:
    scene, count = Scene(clock), 0
    while scene.hold("large", text=f"{count:08000000}", on=channel(clock)[0]) is Holding.WAITS:
        count += 1
    assert HELD_BYTES_MAX * 0.9 < scene.held.bytes <= HELD_BYTES_MAX
    assert count == HELD_BYTES_MAX // 8_000_000


def test_everything_that_is_kept_of_a_pop_is_counted(clock: FakeClock) -> None:
    """The names of fields as well, and what an expression takes."""
    scene = Scene(clock)
    scene.hold("names", fields={f"{number}" * 100: "" for number in range(1000)})
    assert scene.held.bytes > 300_000
    scene.hold("wide", fields={"junk": "\N{ROCKET}" + "x" * 100_000})
    assert scene.held.bytes > 700_000, "one such letter makes each of a text take four bytes"
    before, wanted = scene.held.bytes, compile_sql("a > 5 AND b = 'x'")
    scene.hold("sql", tags=wanted)
    assert scene.held.bytes - before > memory_of(wanted.expression) > 3000
    clock.advance(60)
    scene.held.check()
    scene.turn()
    assert scene.held.bytes == 0


def test_those_that_want_the_same_share_it_until_the_last_has_left(clock: FakeClock) -> None:
    scene = Scene(clock)
    for number in range(100):
        text = "||".join(map(str, range(10_000)))
        scene.hold("same", tags=frozenset(range(10_000)), text=text, poll_ms=1000 * (number + 1))
    assert len({id(held.wanted) for held in scene.held._held}) == 1
    assert len({id(held.request.ext["exp"]) for held in scene.held._held}) == 1
    assert 1_280_000 < scene.held.bytes < 1_600_000
    clock.advance(99)
    scene.held.check()
    assert len(scene.turn()) == 99
    assert scene.held.bytes > 1_280_000 + len(text), "whoever came first has left, and the tags are still there"


# --- effort


def effort_of_turns(scene: Scene) -> list[int]:
    """How many calls each turn of the loop makes until nothing is left to do."""
    found = []
    while scene.soon:
        found.append(calls_of(scene.soon.pop(0)))
    return found


def test_message_costs_nothing_for_those_who_do_not_want_it(clock: FakeClock) -> None:
    scene = Scene(clock)
    for number in range(3000):
        scene.hold("others", PopPlace("T", f"g{number}", -1), tags=frozenset({number + 100}))
    wanted = PopPlace("T", "g", -1)
    scene.hold("wanted", wanted, tags=frozenset({7}))
    scene.held.on_arrival({cast("Queue", Arrived("T", 0, 100)): list(range(50))})
    assert sum(effort_of_turns(scene)) < 2000
    assert scene.woken == ["wanted"]


def test_message_that_wakes_a_great_many_wakes_some_in_each_turn(clock: FakeClock) -> None:
    scene = Scene(clock)
    for number in range(3000):
        scene.hold("one of each group", PopPlace("T", f"g{number}", -1), tags=frozenset({7}))
    scene.held.on_arrival({cast("Queue", Arrived("T", 0, 1)): [7]})
    assert max(effort_of_turns(scene)) < 5000
    assert len(scene.woken) == 3000


def test_end_of_a_great_many_takes_several_turns(clock: FakeClock) -> None:
    scene = Scene(clock, popPollingSize="10000")
    for number in range(5000):
        scene.hold("over", poll_ms=1000 + number % 7)
    clock.advance(2)
    efforts = [calls_of(scene.held.check), *effort_of_turns(scene)]
    assert max(efforts) < 20_000
    assert (len(scene.woken), len(scene.held), scene.held.bytes) == (5000, 0, 0)


def test_those_whose_connection_is_gone_are_passed_by_in_steps(clock: FakeClock) -> None:
    scene = Scene(clock, popPollingSize="10000")
    gone, transport = channel(clock)
    for _ in range(5000):
        scene.hold("gone", poll_ms=1000, on=gone)
    scene.hold("here")
    transport.closed = True
    scene.held.on_arrival({cast("Queue", Arrived("T", 0, 1)): [7]})
    assert max(effort_of_turns(scene)) < 20_000
    assert (scene.woken, len(scene.held), scene.held.bytes) == (["here"], 0, 0)


def test_tries_that_take_long_are_few_in_a_turn(clock: FakeClock) -> None:
    scene = Scene(clock)
    for number in range(10):
        scene.hold("slow", PopPlace("T", f"g{number}", -1), takes_s=0.001)
    scene.held.on_arrival({cast("Queue", Arrived("T", 0, 1)): [7]})
    scene.soon.pop(0)()
    assert len(scene.woken) == 2
    assert len(scene.turn()) == 10


def test_who_waits_thousands_of_times_delays_nobody_else(clock: FakeClock) -> None:
    scene = Scene(clock, popPollingSize="10000")
    for _ in range(3000):
        scene.hold("many", poll_ms=1000)
    scene.hold("other", PopPlace("U", "h", -1), poll_ms=1000, on=channel(clock)[0])
    clock.advance(1)
    scene.held.check()
    assert "other" in scene.turn()[:550]


# --- what may be missed


def test_wake_of_a_pop_whose_connection_ends_before_its_turn_is_for_another(clock: FakeClock) -> None:
    scene = Scene(clock)
    gone, transport = channel(clock)
    scene.hold("gone", poll_ms=5000, on=gone)
    scene.hold("here", poll_ms=9000)
    scene.held.on_arrival({cast("Queue", Arrived("T", 0, 1)): [7]})
    scene.held._tell_some()
    transport.closed = True
    assert scene.turn() == ["here"]


@pytest.mark.parametrize(
    ("topic", "codes", "tags", "is_news"),
    [
        ("T", [7], None, True),
        ("T", [7], frozenset({7, 8}), True),
        ("T", [7], frozenset({8}), False),
        ("T", list(range(5000)), frozenset({-1}), True),
        ("%RETRY%g_T", [7], None, True),
        ("U", [7], None, False),
        ("T", [], None, False),
    ],
)
def test_who_looks_in_steps_learns_of_what_came_meanwhile(
    clock: FakeClock, topic: str, codes: list[int], tags: frozenset[int] | None, is_news: bool
) -> None:
    scene = Scene(clock)
    steps = scene.held.watched(ANY, tags, (None for _ in range(2)))
    next(steps)
    scene.held.on_arrival({cast("Queue", Arrived(topic, 0, 1)): codes})
    assert outcome(steps) is is_news
    assert not scene.held._news


def test_who_looks_in_steps_learns_that_somebody_was_to_look(clock: FakeClock) -> None:
    """A queue of a group that pops in order has opened."""
    scene = Scene(clock)
    steps = scene.held.watched(ANY, frozenset({1}), (None for _ in range(2)))
    next(steps)
    scene.held.wake("T", "g", 3)
    assert outcome(steps) is True
