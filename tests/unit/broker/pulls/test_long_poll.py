"""Pulls that wait: what wakes them, and what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from rocketline.broker.filters import Wanted
from rocketline.broker.pulls.filter_work import FilterWork
from rocketline.broker.pulls.long_poll import HELD_BYTES_MAX, HELD_BYTES_OF_ONE_MAX, PULL_BYTES, HeldPull, HeldPulls
from rocketline.filter import SqlFilter, compile_sql, memory_of
from rocketline.net.channel import Channel
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.store.reading import ReadResult, ReadStatus
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.command import Command

A, B = 65, 66


@dataclass(frozen=True)
class _Queue:
    topic: str
    queue_id: int
    max_offset: int


@dataclass(eq=False)
class _Line:
    is_closed: bool = False


class Scene:
    """Held pulls at one store, of which only the ends of queues are known."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.ends: dict[tuple[str, int], int] = {}
        self.soon: list[Callable[[], None]] = []
        self.woken: list[HeldPull] = []
        self.looks = 0
        """At messages for pulls by SQL, of which none finds what it wants."""
        self.pulls = HeldPulls(self, clock, self.soon.append, FilterWork(self.soon.append))

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self.ends.get((topic, queue_id), 0)

    def read_matching(
        self, topic: str, queue_id: int, offset: int, max_messages: int, wanted: SqlFilter, work_max: int
    ) -> tuple[ReadResult, int]:
        self.looks += 1
        return ReadResult(ReadStatus.NO_MATCHED_MESSAGE, self.max_offset(topic, queue_id), 0, 0), 1

    def hold(
        self,
        *,
        offset: int = 0,
        wanted: Wanted = None,
        wait_s: float = 15.0,
        line: Channel | None = None,
    ) -> HeldPull:
        channel = line or cast("Channel", _Line())
        deadline_s = self.clock.monotonic() + wait_s
        held = HeldPull(channel, Command(11), offset, wanted, deadline_s, self.woken.append)
        self.pulls.hold("T", 0, held)
        return held

    def arrive(self, *tags: int, queue_id: int = 0) -> None:
        self.note(*tags, queue_id=queue_id)
        self.turn()

    def note(self, *tags: int, queue_id: int = 0) -> None:
        """They arrive, and the turn of the loop in which they do is not over."""
        end = self.ends["T", queue_id] = self.ends.get(("T", queue_id), 0) + len(tags)
        self.pulls.on_arrival({cast("ConsumeQueue", _Queue("T", queue_id, end)): tags})

    def check_after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.pulls.check()
        self.turn()

    def turn(self) -> None:
        """One turn of the loop."""
        due, self.soon[:] = self.soon[:], []
        for action in due:
            action()


@pytest.fixture
def scene(clock: FakeClock) -> Scene:
    return Scene(clock)


def test_message_wakes_the_pull_of_its_queue_at_once(scene: Scene) -> None:
    held = scene.hold()
    scene.arrive(A)
    assert scene.woken == [held]
    assert len(scene.pulls) == 0


def test_message_of_another_queue_wakes_nobody(scene: Scene) -> None:
    scene.hold()
    scene.arrive(A, queue_id=1)
    assert not scene.woken


def test_message_before_the_awaited_offset_wakes_nobody(scene: Scene) -> None:
    scene.hold(offset=5)
    scene.arrive(A)
    assert not scene.woken


def test_one_of_several_messages_with_the_wanted_tag_is_enough(scene: Scene) -> None:
    held = scene.hold(wanted=frozenset({A}))
    scene.arrive(B, B, A)
    assert scene.woken == [held]


def test_other_tag_leaves_the_pull_until_the_look_after_five_seconds(scene: Scene) -> None:
    """S118."""
    held = scene.hold(wanted=frozenset({A}))
    scene.arrive(B)
    scene.check_after(4.9)
    assert not scene.woken
    scene.check_after(0.2)
    assert scene.woken == [held]


def test_look_at_a_queue_that_has_not_grown_lets_the_pull_wait_on(scene: Scene) -> None:
    scene.hold()
    scene.check_after(5.1)
    assert not scene.woken
    assert len(scene.pulls) == 1


def test_end_of_its_time_wakes_a_pull_and_not_the_others(scene: Scene) -> None:
    """S116."""
    short, long = scene.hold(wait_s=15), scene.hold(wait_s=20)
    scene.check_after(14.9)
    assert not scene.woken
    scene.check_after(0.1)
    assert scene.woken == [short]
    scene.check_after(5)
    assert scene.woken == [short, long]


def test_pull_of_a_closed_connection_is_dropped_by_the_next_check(scene: Scene) -> None:
    held = scene.hold()
    cast("Any", held.channel).is_closed = True
    scene.check_after(1)
    assert not scene.woken
    assert len(scene.pulls) == 0


def test_pull_of_a_closed_connection_is_not_answered_by_a_message(scene: Scene) -> None:
    held = scene.hold()
    cast("Any", held.channel).is_closed = True
    scene.arrive(A)
    assert not scene.woken


def test_thousands_of_pulls_are_answered_over_several_turns_in_their_order(scene: Scene) -> None:
    held = [scene.hold() for _ in range(1000)]
    scene.arrive(A)
    assert 0 < len(scene.woken) < 100
    while scene.soon:
        scene.soon.pop(0)()
    assert scene.woken == held


def test_answer_that_brings_a_message_wakes_the_next_pull(scene: Scene) -> None:
    """An answer lets the next request of a full connection in, and that may be a send."""
    first, second = scene.hold(), scene.hold(offset=1)

    def answer(held: HeldPull) -> None:
        scene.woken.append(held)
        scene.arrive(A)

    first.answer = answer
    scene.arrive(A)
    assert scene.woken == [first, second]
    assert len(scene.pulls) == 0


def test_pull_held_again_while_others_are_answered_is_kept(scene: Scene) -> None:
    first, second = scene.hold(), scene.hold()

    def hold_again(held: HeldPull) -> None:
        scene.pulls.hold("T", 0, HeldPull(held.channel, held.request, 9, None, 1e9, print))

    first.answer = hold_again
    scene.arrive(A)
    assert scene.woken == [second]
    assert len(scene.pulls) == 1


class _Asked:
    """A set of tags that counts how often somebody looks into it."""

    looks = 0


class Tags(frozenset[int]):
    def isdisjoint(self, other: Iterable[object], /) -> bool:
        _Asked.looks += 1
        return super().isdisjoint(other)

    def __iter__(self) -> Iterator[int]:
        _Asked.looks += 1
        return super().__iter__()


def test_message_costs_nothing_for_those_who_do_not_want_it(scene: Scene) -> None:
    for number in range(1000):
        scene.hold(wanted=Tags({1000 + number}))
        scene.hold(wanted=Tags({1}))
    good = scene.hold(wanted=Tags({A, B}))
    _Asked.looks = 0
    scene.arrive(B)
    assert scene.woken == [good]
    assert _Asked.looks <= 1, "to take the one away that was woken"


def held_on(scene: Scene, line: Channel, number: int, tags: int, text: str) -> str | None:
    wanted = frozenset(range(number * tags, number * tags + tags))
    request = Command(11, {"subscription": text})
    return scene.pulls.hold("T", 0, HeldPull(line, request, 0, wanted, 1e9, scene.woken.append))


def test_what_pulls_of_one_connection_take_is_bounded(scene: Scene) -> None:
    line = cast("Channel", _Line())
    count = 0
    while (problem := held_on(scene, line, count, 10_000, "x" * 80_000)) is None:
        count += 1
    assert (count < 60, "no room" in problem, scene.pulls.bytes <= HELD_BYTES_OF_ONE_MAX) == (True, True, True)
    assert held_on(scene, cast("Channel", _Line()), count, 10_000, "x") is None, "others are not concerned"


def test_what_all_pulls_take_is_bounded_and_free_again_once_they_are_answered(scene: Scene) -> None:
    count, text = 0, "x" * 8_000_000
    while held_on(scene, cast("Channel", _Line()), count, 10, text) is None:
        count += 1
    assert HELD_BYTES_MAX * 0.9 < scene.pulls.bytes <= HELD_BYTES_MAX
    scene.clock.advance(1e10)
    scene.pulls.check()
    while scene.soon:
        scene.soon.pop()()
    assert (len(scene.woken), scene.pulls.bytes) == (count, 0)


def test_pulls_that_want_the_same_share_it(scene: Scene) -> None:
    line = cast("Channel", _Line())
    texts = ["||".join(map(str, range(10_000))) for _ in range(100)]
    for text in texts:
        wanted = frozenset(range(10_000))
        assert (
            scene.pulls.hold("T", 0, HeldPull(line, Command(11, {"subscription": text}), 0, wanted, 1e9, print)) is None
        )
    assert len({id(held.wanted) for held in scene.pulls._held}) == 1
    assert len({id(held.request.ext["subscription"]) for held in scene.pulls._held}) == 1
    assert scene.pulls.bytes < 100 * PULL_BYTES + 2_000_000


def test_check_looks_at_some_thousands_in_a_turn(scene: Scene) -> None:
    for _ in range(10_000):
        scene.hold(wanted=frozenset({A}), wait_s=1)
    scene.check_after(2)
    assert len(scene.pulls) == 10_000 - 64
    turns = 0
    while scene.soon:
        action = scene.soon.pop(0)
        before = len(scene.woken)
        action()
        assert len(scene.woken) - before <= 64
        turns += 1
    assert len(scene.woken) == 10_000


def test_messages_that_come_while_many_wait_for_their_answers_let_no_more_be_answered_in_a_turn(scene: Scene) -> None:
    scene.hold(wanted=frozenset({B}))
    for _ in range(1000):
        scene.hold()
    for _ in range(20):
        scene.note(A)
    assert (len(scene.woken), len(scene.soon)) == (0, 1), "nobody is answered in the midst of an append"
    scene.turn()
    assert (len(scene.woken), len(scene.soon)) == (64, 1)
    for _ in range(20):
        scene.note(A)
    scene.turn()
    assert (len(scene.woken), len(scene.soon)) == (128, 1)


def test_who_waits_thousands_of_times_delays_nobody_else(scene: Scene) -> None:
    line = cast("Channel", _Line())
    for _ in range(3000):
        scene.hold(line=line)
    scene.arrive(A)
    other = scene.hold(offset=1)
    scene.arrive(A)
    scene.soon.pop()()
    assert other in scene.woken[:67]


def test_message_that_wakes_a_great_many_wakes_some_of_them_in_a_turn(scene: Scene) -> None:
    for _ in range(10_000):
        scene.hold()
    scene.arrive(A)
    assert 5_000 < len(scene.pulls._held) < 10_000
    while scene.soon:
        held = len(scene.pulls._held)
        scene.soon.pop()()
        assert held - len(scene.pulls._held) <= 4096
    assert len(scene.woken) == 10_000


def test_end_of_pulls_with_many_tags_takes_several_turns(scene: Scene) -> None:
    for number in range(10):
        held_on(scene, cast("Channel", _Line()), number, 3000, "")
    scene.clock.advance(1e10)
    scene.pulls.check()
    assert len(scene.pulls._held) == 8
    while scene.soon:
        scene.soon.pop(0)()
    assert (len(scene.woken), len(scene.pulls)) == (10, 0)


def test_pull_of_a_topic_made_anew_waits_on_at_its_queue(scene: Scene) -> None:
    behind, ahead = scene.hold(), scene.hold(offset=2)
    scene.arrive(A)
    assert scene.woken == [behind]
    scene.arrive(A, A)
    assert scene.woken == [behind, ahead]


def test_everything_that_is_kept_of_a_pull_is_counted(scene: Scene) -> None:
    line = cast("Channel", _Line())
    request = Command(11, {"topic": "T", "junk": "\N{ROCKET}" + "x" * 100_000})
    scene.pulls.hold("T", 0, HeldPull(line, request, 0, None, 1e9, print))
    assert scene.pulls.bytes > 400_000, "one such letter makes each of a text take four bytes"
    scene.check_after(1e10)
    assert scene.pulls.bytes == 0


def test_a_message_is_looked_at_for_some_expressions_in_a_turn_and_once_for_each(scene: Scene) -> None:
    """Sixteen thousand connections with an expression each were looked at in one turn, a tenth of a second long."""
    for number in range(1000):
        scene.hold(wanted=compile_sql(f"a > {number}"))
    scene.note(A)
    in_turns = []
    while scene.soon:
        before = scene.looks
        scene.turn()
        in_turns.append(scene.looks - before)
    assert max(in_turns) <= 128
    assert scene.looks == 1000


def test_messages_that_come_meanwhile_are_looked_at_for_all_in_turn(scene: Scene) -> None:
    for number in range(600):
        scene.hold(wanted=compile_sql(f"a > {number}"))
    for _ in range(3):
        scene.note(A)
        scene.turn()
    assert scene.looks == 3 * 128, "those that have not been looked at come first"
    while scene.soon:
        scene.turn()
    alike = scene.pulls._queues["T", 0].by_sql.values()
    assert {one.looked for one in alike} == {3}


def test_what_a_filter_takes_counts_once_for_each_connection_until_its_last_pull_is_answered(scene: Scene) -> None:
    """It is more than its text: a function."""
    line, wanted = cast("Channel", _Line()), compile_sql("a > 5 AND b = 'x'")
    size = memory_of(wanted.expression)
    assert size > 3000
    scene.hold(wanted=wanted, line=line)
    assert scene.pulls.bytes == PULL_BYTES + size
    scene.hold(wanted=wanted, line=line, wait_s=30)
    assert scene.pulls.bytes == 2 * PULL_BYTES + size
    scene.check_after(15)
    assert scene.pulls.bytes == PULL_BYTES + size, "the other one waits"
    scene.check_after(15)
    assert scene.pulls.bytes == 0
    assert not scene.pulls._filters
