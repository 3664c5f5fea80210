"""What a broker hands to clients: a few at a time on a connection, the others in its line, all of it bounded."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable

import pytest

from rocketline.broker.clients import pushes as module
from rocketline.broker.clients.pushes import AT_ONCE, PUSH_TIMEOUT_S, Pushes
from rocketline.errors import ClosedError, OverloadedError, RequestTimeoutError, RocketlineError
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.command import Command, response
from support.brokers.connections import channel, client_on
from support.net.doubles import MemoryTransport, feed

Told = list["Command | RocketlineError"]


class Alarms:
    """`call_later` by hand."""

    def __init__(self) -> None:
        self.actions: list[Callable[[], None]] = []

    def __call__(self, delay_s: float, action: Callable[[], None], /) -> asyncio.TimerHandle:
        self.actions.append(action)
        return asyncio.get_running_loop().call_later(3600, action)

    def ring(self) -> None:
        actions, self.actions = self.actions, []
        for action in actions:
            action()


def written(transport: MemoryTransport) -> list[Command]:
    reader = frame.FrameReader()
    reader.feed(b"".join(transport.written))
    return [frame.decode(whole) for whole in iter(reader.take, None)]


async def test_a_connection_gets_a_few_at_a_time_and_the_next_with_each_answer(clock: FakeClock) -> None:
    alarms, told = Alarms(), Told()
    pushes, (open_channel, transport) = Pushes(clock, alarms), channel(clock)
    client = client_on(open_channel, clock)
    for number in range(AT_ONCE + 5):
        pushes.push(client, Command(326, body=b"%d" % number), told.append)
    await asyncio.sleep(0)
    first = written(transport)
    assert [each.body for each in first] == [b"%d" % number for number in range(AT_ONCE)]
    assert pushes.waiting_bytes > 0
    for command in first:
        feed(open_channel, frame.encode(_answer(command)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [each.body for each in written(transport)][AT_ONCE:] == [b"%d" % (AT_ONCE + n) for n in range(5)]
    assert (len(told), pushes.waiting_bytes) == (AT_ONCE, 0)
    open_channel.abort()


def _answer(command: Command) -> Command:
    answer = response(0)
    answer.opaque, answer.flag = command.opaque, 1
    return answer


async def test_one_that_takes_no_bytes_is_waited_for_ten_seconds(clock: FakeClock) -> None:
    """S208."""
    alarms, told = Alarms(), Told()
    pushes, (stuck, _) = Pushes(clock, alarms), channel(clock)
    stuck.pause_writing()
    client = client_on(stuck, clock)
    for _ in range(3):
        pushes.push(client, Command(326, body=b"x"), told.append)
    alarms.ring()
    assert told == []
    clock.advance(PUSH_TIMEOUT_S + 0.1)
    alarms.ring()
    assert [type(each) for each in told] == [RequestTimeoutError] * 3
    assert (pushes.waiting_bytes, alarms.actions) == (0, [])
    stuck.abort()


async def test_once_it_takes_bytes_again_its_line_goes_on(clock: FakeClock) -> None:
    alarms, told = Alarms(), Told()
    pushes, (slow, transport) = Pushes(clock, alarms), channel(clock)
    slow.pause_writing()
    pushes.push(client_on(slow, clock), Command(326, body=b"x"), told.append)
    slow.resume_writing()
    alarms.ring()
    await asyncio.sleep(0)
    assert [each.body for each in written(transport)] == [b"x"]
    slow.abort()


async def test_what_waits_is_bounded_in_bytes(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 3000)
    told = Told()
    pushes, (stuck, _) = Pushes(clock, Alarms()), channel(clock)
    stuck.pause_writing()
    for _ in range(3):
        pushes.push(client_on(stuck, clock), Command(326, body=b"x"), told.append)
    assert [type(each) for each in told] == [OverloadedError]
    pushes.close()
    assert [type(each) for each in told] == [OverloadedError, ClosedError, ClosedError]
    pushes.push(client_on(stuck, clock), Command(326, body=b"x"), told.append)
    assert type(told[-1]) is ClosedError
    stuck.abort()


async def test_what_is_written_is_not_kept_until_it_is_answered(clock: FakeClock) -> None:
    """Each connection could make a broker keep 32 of the largest frames for ten seconds."""
    told = Told()
    pushes, (silent, transport) = Pushes(clock, Alarms()), channel(clock)
    client = client_on(silent, clock)
    tracemalloc.start()
    try:
        for _ in range(AT_ONCE):
            pushes.push(client, Command(326, body=bytes(200_000)), told.append)
        await asyncio.sleep(0)
        assert len(written(transport)) == AT_ONCE
        transport.written.clear()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (told, kept < 400_000) == ([], True)
    silent.abort()


async def test_a_client_that_is_gone_is_told_of_at_once(clock: FakeClock) -> None:
    """S208."""
    told = Told()
    pushes, (gone, _) = Pushes(clock, Alarms()), channel(clock)
    client = client_on(gone, clock)
    gone.abort()
    pushes.push(client, Command(326), told.append)
    assert len(told) == 1
    assert isinstance(told[0], RocketlineError)


async def test_a_long_line_of_one_that_is_gone_is_given_up_some_in_a_turn(clock: FakeClock) -> None:
    """Each tells a replier; sixty thousand in one turn kept everybody waiting for a second."""
    alarms, told = Alarms(), Told()
    pushes, (gone, _) = Pushes(clock, alarms), channel(clock)
    gone.pause_writing()
    client = client_on(gone, clock)
    for _ in range(2000):
        pushes.push(client, Command(326, body=b"x"), told.append)
    gone.abort()
    in_turns = []
    while alarms.actions:
        before = len(told)
        alarms.ring()
        in_turns.append(len(told) - before)
    assert (max(in_turns), sum(in_turns), pushes.waiting_bytes) == (256, 2000, 0)
