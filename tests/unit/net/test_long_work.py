from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from rocketline.errors import StoreError
from rocketline.logs import Throttle
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.long_work import LARGE_BODY_BYTES, LongWork, Steps, WaitingBounds
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response
from support.net.doubles import MemoryTransport, RecordingOwner, connected, turn


class Scene:
    """Long work on a loop whose turns are taken by hand."""

    def __init__(self, **bounds: int) -> None:
        self.clock = FakeClock()
        self.due: deque[Callable[[], None]] = deque()
        self.delays: list[float] = []
        self.work = LongWork(self._call_later, Throttle(self.clock), WaitingBounds(**bounds))
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

    def begin(
        self,
        line: Channel,
        name: str,
        count: int,
        *,
        body: bytes = b"",
        is_change: bool = False,
        key: object = None,
        is_short: bool = False,
    ) -> Outcome:
        steps, request = self.steps(name, count), Command(1, body=body)
        return self.work.begin(line, request, steps, is_change=is_change, key=key, is_short=is_short)

    def connection(self) -> tuple[Channel, MemoryTransport]:
        return connected(RecordingOwner(self.clock))


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
    bounds = WaitingBounds()
    outcomes = [scene.begin(line, "x", 1) for _ in range(bounds.of_one_max + 1)]
    assert outcomes[:-1] == [LATER] * bounds.of_one_max
    refusal = outcomes[-1]
    assert isinstance(refusal, Command)
    assert refusal.code == ResponseCode.SYSTEM_BUSY
    while len(scene.work) < bounds.count_max:
        assert scene.begin(scene.connection()[0], "y", 1) is LATER
    other, _ = scene.connection()
    assert scene.begin(other, "z", 1) is LATER, "the first of a connection that behaves well"
    refusal = scene.begin(other, "z", 1)
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


async def test_bytes_that_wait_have_a_bound_for_each_connection_and_for_all() -> None:
    scene = Scene(bytes_of_one_max=10_000, bytes_max=20_000, first_bytes_max=0)
    lines = [scene.connection()[0] for _ in range(3)]
    outcomes = [scene.begin(line, "x", 1, body=bytes(3000)) for line in lines for _ in range(3)]
    assert [outcome is LATER for outcome in outcomes] == [True, True, False, True, True, False, False, False, False]
    refusal = outcomes[2]
    assert isinstance(refusal, Command)
    assert refusal.code == ResponseCode.SYSTEM_BUSY
    assert scene.work.waiting_bytes <= 20_000
    scene.turns()
    assert scene.work.waiting_bytes == 0
    assert scene.begin(lines[2], "x", 1, body=bytes(3000)) is LATER


async def test_first_requests_of_any_number_of_connections_are_bounded_but_for_small_ones() -> None:
    """Thousands of connections, each with one large batch, took gigabytes."""
    scene = Scene(bytes_max=20_000, first_bytes_max=10_000, small_bytes_max=2_000)
    large = [scene.begin(scene.connection()[0], "x", 1, body=bytes(8_000)) is LATER for _ in range(10)]
    assert large == [True] * 4 + [False] * 6
    assert scene.work.waiting_bytes <= 40_000
    assert all(scene.begin(scene.connection()[0], "x", 1, body=b"x") is LATER for _ in range(10))


async def test_broker_s_bounds_are_few_of_the_largest_frames() -> None:
    bounds = WaitingBounds()
    assert bounds.bytes_of_one_max <= 32 * 1024 * 1024
    assert bounds.bytes_max <= 256 * 1024 * 1024


async def test_fields_of_a_header_count_as_well() -> None:
    scene = Scene(bytes_of_one_max=10_000, first_bytes_max=10_000)
    line, _ = scene.connection()
    refusal = scene.work.begin(line, Command(1, {"topic": "t" * 10_000}), scene.steps("x", 1))
    assert isinstance(refusal, Command)
    assert refusal.code == ResponseCode.SYSTEM_BUSY


async def test_who_is_gone_without_taking_answers_keeps_no_place(scene: Scene) -> None:
    deaf, deaf_end = scene.connection()
    scene.begin(deaf, "deaf", 1)
    deaf.pause_writing()
    deaf_end.close()
    scene.turns(10)
    assert (len(scene.work), scene.work.waiting_bytes) == (0, 0)


async def test_one_connection_with_much_to_do_starves_nobody(scene: Scene) -> None:
    greedy, (line, line_end) = scene.connection()[0], scene.connection()
    for _ in range(20):
        scene.begin(greedy, "greedy", 4)
    scene.begin(line, "other", 4)
    scene.turns(10)
    assert await remarks(line_end) == ["other"]


async def test_short_work_waits_for_nobody(scene: Scene) -> None:
    line, _ = scene.connection()
    scene.begin(line, "long", 9)
    answer = scene.begin(line, "short", 3, is_short=True)
    assert isinstance(answer, Command)
    assert answer.remark == "short"


async def test_short_work_follows_what_its_connection_asked_under_the_same_key(scene: Scene) -> None:
    line, end = scene.connection()
    scene.begin(line, "long", 2, key="k")
    assert scene.begin(line, "short", 0, key="k", is_short=True) is LATER
    scene.turns()
    assert await remarks(end) == ["long", "short"]


async def test_cancelled_work_is_answered_and_not_done(scene: Scene) -> None:
    line, end = scene.connection()
    scene.begin(line, "a", 9, key="k")
    scene.begin(line, "b", 1, key="other")
    scene.work.cancel("k", "overtaken")
    scene.turns()
    assert await remarks(end) == ["overtaken", "b"]
    assert scene.steps_done.count("a") == 1
    assert (len(scene.work), scene.work.waiting_bytes) == (0, 0)


async def test_cancelling_spares_the_connection_that_it_is_told_to(scene: Scene) -> None:
    (old, old_end), (new, new_end) = scene.connection(), scene.connection()
    scene.begin(old, "old", 1, key="k")
    scene.begin(new, "new", 1, key="k")
    scene.work.cancel("k", "overtaken", spared=new)
    scene.turns()
    assert (await remarks(old_end), await remarks(new_end)) == (["overtaken"], ["new"])


async def test_refused_work_is_closed(scene: Scene) -> None:
    ended: list[str] = []

    def steps() -> Steps[Command]:
        try:
            yield
        finally:
            ended.append("closed")
        return response(0)

    scene.work = LongWork(scene._call_later, Throttle(scene.clock), WaitingBounds(count_max=0, first_bytes_max=0))
    scene.work.begin(scene.connection()[0], Command(1), steps())
    assert ended == ["closed"]


async def test_change_is_refused_before_it_has_changed_anything(scene: Scene) -> None:
    line, _ = scene.connection()
    while scene.begin(line, "x", 1) is LATER:
        pass
    scene.steps_done.clear()
    refusal = scene.begin(line, "change", 3, is_change=True)
    assert isinstance(refusal, Command)
    assert (refusal.code, scene.steps_done) == (ResponseCode.SYSTEM_BUSY, [])
