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
