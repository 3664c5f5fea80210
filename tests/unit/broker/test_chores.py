"""Work that nobody waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator

import pytest

from rocketline.broker.chores import Chores


class Scene:
    def __init__(self) -> None:
        self.turns: deque[Callable[[], None]] = deque()
        self.chores, self.done = Chores(self.turns.append), list[str]()

    def steps(self, name: str, count: int) -> Generator[None, None, None]:
        for number in range(count):
            self.done.append(f"{name}{number}")
            if number + 1 < count:
                yield


def test_first_step_is_done_at_once_and_then_one_in_each_turn() -> None:
    scene = Scene()
    scene.chores.begin(scene.steps("a", 3))
    scene.chores.begin(scene.steps("b", 2))
    scene.chores.begin(scene.steps("c", 1))
    assert scene.done == ["a0", "b0", "c0"]
    while scene.turns:
        assert len(scene.turns) == 1
        scene.turns.popleft()()
    assert scene.done == ["a0", "b0", "c0", "a1", "b1", "a2"]


def test_chore_that_fails_holds_up_no_other() -> None:
    scene = Scene()

    def broken() -> Generator[None, None, None]:
        yield
        raise ValueError("broken")

    scene.chores.begin(broken())
    scene.chores.begin(scene.steps("a", 2))
    with pytest.raises(ValueError, match="broken"):
        scene.turns.popleft()()
    scene.turns.popleft()()
    assert (scene.done, len(scene.chores), len(scene.turns)) == (["a0", "a1"], 0, 0)


def test_owners_take_turns_and_one_that_has_many_waits_for_himself() -> None:
    """16,384 pops of a wide topic on one connection made every other pop wait for a step of each of them."""
    scene = Scene()
    for number in range(100):
        scene.chores.begin(scene.steps(f"his {number}.", 2), "him")
    assert scene.done == ["his 0.0"], "not even the first step of what waits for another of his"
    scene.chores.begin(scene.steps("mine ", 2), "me")
    scene.chores.begin(scene.steps("nobody's ", 2))
    for _ in range(3):
        scene.turns.popleft()()
    assert scene.done == ["his 0.0", "mine 0", "nobody's 0", "his 0.1", "mine 1", "nobody's 1"]
    assert len(scene.chores) == 99
    while scene.turns:
        scene.turns.popleft()()
    assert len(scene.done) == 204


def test_what_a_step_takes_up_comes_after_it() -> None:
    scene = Scene()

    def begins_another(name: str) -> Generator[None, None, None]:
        yield from scene.steps(name, 2)
        scene.chores.begin(scene.steps(f"{name} next ", 2), "owner")

    scene.chores.begin(begins_another("a"), "owner")
    scene.chores.begin(begins_another("b"), "owner")
    while scene.turns:
        assert len(scene.turns) == 1
        scene.turns.popleft()()
    assert scene.done == ["a0", "a1", "b0", "b1", "a next 0", "a next 1", "b next 0", "b next 1"]
    assert len(scene.chores) == 0
