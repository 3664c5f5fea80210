"""Pulls that wait: what wakes them, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketline.broker.long_poll import HeldPull, HeldPulls
from rocketline.net.channel import Channel
from rocketline.store.consume_queue import ConsumeQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.command import Command

A, B = 65, 66


@dataclass(frozen=True)
class _Queue:
    topic: str
    queue_id: int
    max_offset: int


class Scene:
    """Held pulls at one store, of which only the ends of queues are known."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.ends: dict[tuple[str, int], int] = {}
        self.soon: list[Callable[[], None]] = []
        self.woken: list[HeldPull] = []
        self.pulls = HeldPulls(self, clock, self.soon.append)

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self.ends.get((topic, queue_id), 0)

    def hold(self, *, offset: int = 0, wanted: frozenset[int] | None = None, wait_s: float = 15.0) -> HeldPull:
        channel = cast("Channel", SimpleNamespace(is_closed=False))
        deadline_s = self.clock.monotonic() + wait_s
        held = HeldPull(channel, Command(11), offset, wanted, deadline_s, self.woken.append)
        self.pulls.hold("T", 0, held)
        return held

    def arrive(self, *tags: int, queue_id: int = 0) -> None:
        end = self.ends["T", queue_id] = self.ends.get(("T", queue_id), 0) + len(tags)
        self.pulls.on_arrival({cast("ConsumeQueue", _Queue("T", queue_id, end)): tags})

    def check_after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.pulls.check()


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
    """H.8 118."""
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
    """H.8 116."""
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
    first.answer = lambda held: scene.pulls.hold("T", 0, HeldPull(held.channel, held.request, 9, None, 1e9, print))
    scene.arrive(A)
    assert scene.woken == [second]
    assert len(scene.pulls) == 1
