from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from broker_clients import channel
from long_steps import counted
from net_doubles import MemoryTransport, turn
from rocketline.broker.long_work import (
    LARGE_BODY_BYTES,
    QUEUES_A_STEP,
    WAITING_MAX,
    WAITING_OF_ONE_MAX,
    LongWork,
    Steps,
    each_with_pause,
    encoded,
)
from rocketline.errors import StoreError
from rocketline.logs import Throttle
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.offsets import CorrectionOffsets
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response


class Scene:
    """Long work on a loop whose turns are taken by hand."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.due: deque[Callable[[], None]] = deque()
        self.delays: list[float] = []
        self.work = LongWork(self._call_later, Throttle(self.clock))
        self.steps_done: list[str] = []

    def _call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        self.delays.append(delay_s)
        self.due.append(action)

    def turns(self, count: int = 10_000) -> int:
        """Take turns while there is something to do, at most so many; how many were taken."""
        taken = 0
        while self.due and taken < count:
            self.due.popleft()()
            taken += 1
        return taken

    def steps(self, name: str, count: int) -> Steps[Command]:
        for _ in range(count):
            self.steps_done.append(name)
            yield
        self.steps_done.append(name)
        return response(0, name)

    def begin(self, line: Channel, name: str, count: int, *, is_change: bool = False) -> Outcome:
        return self.work.begin(line, Command(1), self.steps(name, count), is_change=is_change)

    def connection(self) -> tuple[Channel, MemoryTransport]:
        return channel(self.clock)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def remarks(line: MemoryTransport) -> list[str | None]:
    await turn()
    return [command.remark for command in line.commands()]


async def test_work_of_one_step_is_answered_at_once_even_while_others_wait(scene: Scene) -> None:
    line, _ = scene.connection()
    assert scene.begin(line, "long", 3) is LATER
    answer = scene.begin(line, "short", 0)
    assert isinstance(answer, Command)
    assert answer.remark == "short"


async def test_one_step_is_done_in_a_turn_whoever_asks(scene: Scene) -> None:
    lines = [scene.connection() for _ in range(6)]
    for number, (line, _) in enumerate(lines):
        for _ in range(3):
            assert scene.begin(line, str(number), 4) is LATER
    scene.steps_done.clear()
    while scene.due:
        before = len(scene.steps_done)
        scene.turns(1)
        assert len(scene.steps_done) == before + 1
    assert scene.steps_done[:24:4] == ["0", "1", "2", "3", "4", "5"], "one after the other, and connections take turns"
    assert [await remarks(transport) for _, transport in lines] == [[str(number)] * 3 for number in range(6)]


async def test_too_many_are_refused_of_one_connection_and_in_all(scene: Scene) -> None:
    line, _ = scene.connection()
    outcomes = [scene.begin(line, "x", 1) for _ in range(WAITING_OF_ONE_MAX + 1)]
    assert outcomes[:-1] == [LATER] * WAITING_OF_ONE_MAX
    refusal = outcomes[-1]
    assert isinstance(refusal, Command)
    assert refusal.code == ResponseCode.SYSTEM_BUSY
    while len(scene.work) < WAITING_MAX:
        assert scene.begin(scene.connection()[0], "y", 1) is LATER
    refusal = scene.begin(scene.connection()[0], "z", 1)
    assert isinstance(refusal, Command)
    assert refusal.code == ResponseCode.SYSTEM_BUSY
    scene.turns()
    assert len(scene.work) == 0
    assert scene.begin(line, "x", 1) is LATER


async def test_questions_of_a_closed_connection_are_dropped_and_changes_done_to_their_end(scene: Scene) -> None:
    line, transport = scene.connection()
    scene.begin(line, "question", 5)
    scene.begin(line, "change", 5, is_change=True)
    transport.close()
    scene.turns()
    assert scene.steps_done == ["question", *["change"] * 6]
    assert len(scene.work) == 0


async def test_nothing_is_made_for_who_takes_no_answers(scene: Scene) -> None:
    (deaf, deaf_end), (line, line_end) = scene.connection(), scene.connection()
    scene.begin(deaf, "deaf", 1)
    scene.begin(line, "good", 1)
    deaf.pause_writing()
    scene.turns(3)
    assert (await remarks(line_end), await remarks(deaf_end)) == (["good"], [])
    assert scene.delays[-1] > 0, "and nobody is kept busy with it"
    deaf.resume_writing()
    scene.turns()
    assert await remarks(deaf_end) == ["deaf"]


async def test_error_of_a_later_step_is_the_answer(scene: Scene) -> None:
    def fails() -> Steps[Command]:
        yield
        raise StoreError("the disk is gone")

    line, transport = scene.connection()
    assert scene.work.begin(line, Command(1), fails()) is LATER
    scene.turns()
    assert await remarks(transport) == ["StoreError: the disk is gone"]


async def test_end_finishes_changes(scene: Scene) -> None:
    line, transport = scene.connection()
    scene.begin(line, "question", 5)
    scene.begin(line, "change", 5, is_change=True)
    scene.work.close()
    assert scene.steps_done == ["question", *["change"] * 6]
    scene.turns()
    assert await remarks(transport) == []


async def test_large_bodies_have_a_turn_each(scene: Scene) -> None:
    def handler(line: Channel, request: Command) -> Outcome:
        scene.steps_done.append(str(len(request.body)))
        return response(0) if request.body else None

    line, transport = scene.connection()
    guarded = scene.work.guarded({1: handler})[1]
    assert isinstance(guarded(line, Command(1, body=b"x")), Command)
    for _ in range(3):
        assert guarded(line, Command(1, body=bytes(LARGE_BODY_BYTES))) is LATER
    assert scene.steps_done == ["1"]
    for count in (2, 3, 4):
        scene.turns(1)
        assert len(scene.steps_done) == count
    assert len(await remarks(transport)) == 3


def test_large_body_is_written_in_steps() -> None:
    body, pauses = counted(encoded(CorrectionOffsets(dict.fromkeys(range(16384), 2**63 - 1))))
    assert pauses > 20
    assert len(body) / pauses < 32_768


def test_step_ends_after_so_many_things() -> None:
    assert sum(is_step for _, is_step in each_with_pause(range(10 * QUEUES_A_STEP))) == 10
