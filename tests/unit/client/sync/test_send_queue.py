"""Messages handed over to a loop that takes them late, or never."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import pytest

from rocketline.client.producer.async_sends import AsyncSends
from rocketline.client.producer.back_pressure import Permits, SendRoom
from rocketline.client.sync.portal import CTRL_C_S, Portal
from rocketline.client.sync.send_queue import BlockingRoom, SendQueue
from rocketline.errors import CallTimeoutError, ClosedError, OverloadedError, SelectorError
from rocketline.testing.fake_clock import FakeClock


class Loop:
    """Stands for the portal and for what sends on its loop."""

    def __init__(self, count_max: int = 100) -> None:
        self.posted: list[Callable[[], None]] = []
        self.sent: list[Any] = []
        self.refuses = False
        self.is_open = True
        self.wrong: Future[Any] | None = None
        self.permits = Permits(count_max)

    def check_process(self) -> None:
        """It was not forked."""

    def post(self, action: Callable[[], None]) -> None:
        self.posted.append(action)

    def take_permit(self) -> None:
        if not self.permits.take():
            raise OverloadedError("producer", "too many")

    def give_permit(self) -> None:
        self.permits.give()

    def begin(self, *handed: Any) -> None:
        if self.refuses:
            raise SelectorError("no such queue")
        if self.wrong is not None and self.wrong in handed:
            raise AttributeError("'str' object has no attribute 'topic'")
        self.sent.append(handed)

    def turn(self) -> None:
        posted, self.posted = self.posted, []
        for action in posted:
            action()


class Request:
    body = b"12345"


def send_queue(loop: Loop, room: BlockingRoom | None = None) -> SendQueue:
    return SendQueue(cast("Portal", loop), cast("AsyncSends", loop), room, FakeClock())


def hand(over: SendQueue, timeout_s: float = 3.0) -> Future[Any]:
    return over.send(cast("Any", Request()), None, None, timeout_s)


def test_loop_is_woken_once_for_many() -> None:
    loop = Loop()
    over = send_queue(loop)
    for _ in range(5):
        hand(over)
    assert len(loop.posted) == 1
    loop.turn()
    assert len(loop.sent) == 5
    hand(over)
    assert len(loop.posted) == 1


def test_what_waits_counts() -> None:
    over = send_queue(Loop(count_max=3))
    for _ in range(3):
        hand(over)
    with pytest.raises(OverloadedError):
        hand(over)


def test_what_nobody_takes_any_more_is_told_so() -> None:
    loop = Loop()
    over = send_queue(loop)
    before = hand(over)
    over.close()
    after = hand(over)
    for receipt in (before, after):
        with pytest.raises(ClosedError):
            receipt.result(0)
    loop.turn()
    assert not loop.sent


def test_whatever_is_wrong_with_a_message_is_told_to_its_caller_and_holds_up_nobody() -> None:
    """A queue that is text, say: the error comes up on the loop, where nobody sees it."""
    loop = Loop(count_max=2)
    over = send_queue(loop)
    wrong, right = hand(over), hand(over)
    loop.wrong = wrong
    loop.turn()
    assert isinstance(wrong.exception(0), AttributeError)
    assert [handed[5] for handed in loop.sent] == [right]
    hand(over)


def test_caller_waits_for_room_in_its_time() -> None:
    loop = Loop()
    over = send_queue(loop, BlockingRoom(SendRoom(1, 1000)))
    first = hand(over)
    with pytest.raises(CallTimeoutError):
        hand(over, timeout_s=0.01).result(0)
    later: list[Future[Any]] = []
    waiting = threading.Thread(target=lambda: later.append(hand(over, timeout_s=30)))
    waiting.start()
    first.set_result(None)
    waiting.join()
    assert not later[0].done()


def test_what_is_handed_over_after_the_runtime_was_closed_is_told_so() -> None:
    """By one thread while another closes it: its loop takes nothing any more."""
    loop = Loop(count_max=1)
    over = send_queue(loop)
    loop.is_open = False
    for _ in range(3):
        with pytest.raises(ClosedError):
            hand(over).result(0)


@contextmanager
def interrupted(meanwhile: Callable[[], object]) -> Iterator[None]:
    """Have another thread do something at each step of this one at which a signal's handler may run, and wait for it,
    as handlers do that close something."""
    stuck: list[str] = []

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            at_work = threading.Thread(target=meanwhile, daemon=True)
            at_work.start()
            at_work.join(5)
            if at_work.is_alive():
                stuck.append(frame.f_code.co_name)

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        yield
    finally:
        sys.settrace(before)
    assert not stuck


def test_loop_waits_for_no_thread_that_waits_for_a_receipt() -> None:
    loop = Loop()
    over = send_queue(loop)

    def turn() -> None:
        loop.turn()
        for handed in loop.sent:
            handed[5].done()

    def answer() -> None:
        while not loop.sent:
            time.sleep(0.01)
        loop.sent[0][5].set_result("receipt")

    answering = threading.Timer(0.3, answer)
    answering.start()
    with interrupted(turn):
        receipt: Any = over.send_and_wait(cast("Any", Request()), None, None, 3.0, gathers=False)
    answering.join()
    assert receipt == "receipt"


class Room:
    """Has some once it was given that very much."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self.give = self.given.append  # which is no step of Python's

    def take(self, size: int) -> bool:
        return size in self.given


def test_loop_waits_for_no_thread_that_waits_for_room() -> None:
    room = BlockingRoom(cast("SendRoom", Room()))
    giving = threading.Timer(0.3, lambda: room.give(5))
    giving.start()
    with interrupted(lambda: room.give(1)):
        assert room.take(5, 30)
    giving.join()


def test_whoever_waits_for_room_wakes_when_some_comes_back() -> None:
    """At once, and not when it looks for signals next."""
    room = BlockingRoom(SendRoom(1, 100))
    assert room.take(60, 0)
    assert not room.take(50, 0.01)
    begin_s = time.monotonic()
    for _ in range(20):
        waiting = threading.Thread(target=room.take, args=(60, 30))
        waiting.start()
        room.give(60)
        waiting.join()
    assert time.monotonic() - begin_s < 20 * CTRL_C_S / 2


def test_receipt_cannot_be_called_back() -> None:
    assert not hand(send_queue(Loop())).cancel()


def test_bound_is_exact_whatever_becomes_of_the_messages() -> None:
    """Those that the loop refuses, that found no room and that came too late give their places back, once each."""
    loop = Loop(count_max=3)
    over = send_queue(loop)
    for _ in range(2):
        for _ in range(3):
            hand(over)
        with pytest.raises(OverloadedError):
            hand(over)
        loop.refuses = True
        loop.turn()
        loop.refuses = False
    full = BlockingRoom(SendRoom(1, 1))
    assert full.take(9, 0)
    waiting = SendQueue(cast("Portal", loop), cast("AsyncSends", loop), full, FakeClock())
    for _ in range(5):
        assert isinstance(hand(waiting, 0).exception(), CallTimeoutError)
    receipts = [hand(over) for _ in range(3)]
    over.close()
    assert {type(receipt.exception()) for receipt in receipts} == {ClosedError}
    assert [loop.permits.take() for _ in range(4)] == [True, True, True, False]
