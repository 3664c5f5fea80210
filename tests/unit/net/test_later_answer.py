"""An answer that comes before or after its handler returns."""

from __future__ import annotations

import tracemalloc

from rocketline.net.channel import Channel, Outcome
from rocketline.net.later_answer import LaterAnswer
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.command import Command, response
from support.net.doubles import RecordingOwner, connected, feed, turn


async def test_answer_known_in_time_is_the_handlers_own(clock: FakeClock) -> None:
    def handle(channel: Channel, request: Command) -> Outcome:
        answer = LaterAnswer(channel, request)
        answer.give(response(7))
        return answer.outcome()

    channel, transport = connected(RecordingOwner(clock, handle))
    feed(channel, frame.encode(Command(1, opaque=5)))
    assert [(answer.code, answer.opaque) for answer in transport.commands()] == [(7, 5)]


async def test_answer_known_afterwards_is_sent_by_itself(clock: FakeClock) -> None:
    waiting: list[LaterAnswer] = []

    def handle(channel: Channel, request: Command) -> Outcome:
        waiting.append(LaterAnswer(channel, request))
        return waiting[0].outcome()

    channel, transport = connected(RecordingOwner(clock, handle))
    feed(channel, frame.encode(Command(1, opaque=5)))
    assert not transport.commands()
    waiting[0].give(response(7))
    await turn()
    assert [(answer.code, answer.opaque) for answer in transport.commands()] == [(7, 5)]


async def test_what_waits_for_its_answer_keeps_nothing_of_the_request(clock: FakeClock) -> None:
    waiting: list[LaterAnswer] = []

    def handle(channel: Channel, request: Command) -> Outcome:
        waiting.append(LaterAnswer(channel, request))
        return waiting[-1].outcome()

    channel, transport = connected(RecordingOwner(clock, handle))
    tracemalloc.start()
    try:
        for opaque in range(20):
            feed(channel, frame.encode(Command(1, {"a": "b"}, bytes(100_000), opaque=opaque)))
        await turn()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 400_000
    for answer in waiting:
        answer.give(response(7))
    await turn()
    assert [answer.opaque for answer in transport.commands()] == list(range(20))
