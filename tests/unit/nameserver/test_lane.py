from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import cast

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.logs import Throttle
from rocketline.nameserver import lane as lane_module
from rocketline.nameserver.lane import Lane, Work
from rocketline.net.channel import LATER, Channel
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.command import Command, response


class Caller:
    """A connection, as far as it matters here."""

    peer = "caller"

    def __init__(self) -> None:
        self.is_closed = False
        self.answers: list[tuple[int, int, str | None]] = []

    def reply(self, request: Command, answer: Command) -> None:
        self.answers.append((request.opaque, answer.code, answer.remark))


class Turns:
    """A loop that is turned by hand."""

    def __init__(self) -> None:
        self.due: deque[Callable[[], None]] = deque()
        self.lane = Lane(self.due.append, Throttle(FakeClock()))
        self.log: list[str] = []

    def turn(self) -> bool:
        if self.due:
            self.due.popleft()()
        return bool(self.due)

    def work(self, name: str, steps: int) -> Work:
        for number in range(steps):
            self.log.append(f"{name}{number}")
            yield
        return response(0, name)

    def do(
        self, caller: Caller, work: Work, *, body: bytes = b"", key: object = None, is_short: bool = False
    ) -> object:
        self.opaque = getattr(self, "opaque", 0) + 1
        request = Command(1, {}, body, opaque=self.opaque)
        return self.lane.do(cast(Channel, caller), request, work, key, is_short=is_short)


def test_one_step_is_done_in_a_turn_however_many_wait() -> None:
    turns, callers = Turns(), [Caller() for _ in range(6)]
    for number, caller in enumerate(callers):
        assert turns.do(caller, turns.work(f"job{number}-", 3)) is LATER
    while turns.due:
        before = len(turns.log)
        turns.turn()
        assert len(turns.log) <= before + 1
        assert len(turns.due) <= 1
    assert turns.log == sorted(turns.log)
    assert [caller.answers for caller in callers] == [[(number, 0, f"job{number - 1}-")] for number in range(1, 7)]


def test_work_of_one_step_is_answered_at_once_if_nobody_waits() -> None:
    turns, caller = Turns(), Caller()
    answer = turns.do(caller, turns.work("a", 0))
    assert isinstance(answer, Command)
    assert (answer.remark, len(turns.lane)) == ("a", 0)


def test_short_work_waits_for_nobody() -> None:
    turns, caller = Turns(), Caller()
    turns.do(caller, turns.work("long", 9))
    answer = turns.do(Caller(), turns.work("short", 3), is_short=True)
    assert isinstance(answer, Command)


def test_short_work_follows_what_has_the_same_key() -> None:
    turns, caller = Turns(), Caller()
    turns.do(caller, turns.work("long", 2), key="k")
    assert turns.do(caller, turns.work("short", 0), key="k", is_short=True) is LATER
    while turns.turn():
        pass
    assert [remark for _, _, remark in caller.answers] == ["long", "short"]


def test_work_of_a_connection_that_is_gone_is_dropped() -> None:
    turns, gone, other = Turns(), Caller(), Caller()
    turns.do(gone, turns.work("gone", 9))
    turns.do(other, turns.work("other", 1))
    gone.is_closed = True
    while turns.turn():
        pass
    assert (gone.answers, other.answers) == ([], [(2, 0, "other")])
    assert "gone1" not in turns.log


def test_cancelled_work_is_answered_and_not_done() -> None:
    turns, caller = Turns(), Caller()
    turns.do(caller, turns.work("a", 9), key="k")
    turns.do(caller, turns.work("b", 1), key="other")
    turns.lane.cancel("k")
    while turns.turn():
        pass
    assert [(opaque, code) for opaque, code, _ in caller.answers] == [(1, 1), (2, 0)]


def test_failure_is_an_answer() -> None:
    def broken() -> Work:
        yield
        raise RemoteProtocolError("no JSON")

    def faulty() -> Work:
        yield
        raise ZeroDivisionError

    turns, caller = Turns(), Caller()
    turns.do(caller, broken())
    turns.do(caller, faulty())
    while turns.turn():
        pass
    assert [code for _, code, _ in caller.answers] == [1, 1]
    assert caller.answers[0][2] == "RemoteProtocolError: no JSON"


def test_bytes_that_wait_have_a_bound_for_each_connection_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "CONNECTION_BYTES_MAX", 10_000)
    monkeypatch.setattr(lane_module, "BYTES_MAX", 20_000)
    turns, callers = Turns(), [Caller() for _ in range(3)]
    waits = [turns.do(caller, turns.work("x", 2), body=bytes(3000)) is LATER for caller in callers for _ in range(3)]
    assert waits == [True, True, False, True, True, False, False, False, False]
    while turns.turn():
        pass
    assert turns.do(callers[2], turns.work("x", 2), body=bytes(3000)) is LATER
