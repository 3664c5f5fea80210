"""Requests that wait for their replies, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rocketline.client.runtime import pending_requests as module
from rocketline.client.runtime.pending_requests import PendingRequests
from rocketline.client.scheduling import Alarm, Timers
from rocketline.errors import NoReplyError
from rocketline.model import property_names as names
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.headers import ReplyMessageRequestHeader
from rocketline.wire.properties import format_properties

MANY = 4_000


class Timing:
    """What a runtime has of it, with a count of alarms."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.timers = clock, Timers(clock)
        self.timers.open()
        self.alarms = 0

    def call_later(self, delay_s: float, action: Callable[[], object]) -> Alarm:
        self.alarms += 1
        return self.timers.call_later(delay_s, action)


def pushed(correlation_id: str) -> ReplyMessageRequestHeader:
    return ReplyMessageRequestHeader(
        producer_group="g",
        topic="C_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=format_properties({names.CORRELATION_ID: correlation_id}),
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:2",
        store_timestamp=0,
    )


async def test_thousands_of_requests_share_a_few_alarms_and_leave_nothing(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C115: none ends early, none later than a fiftieth of a second."""
    monkeypatch.setattr(module, "_REMEMBERED_MAX", MANY // 4)
    timing = Timing(clock)
    waiting = PendingRequests(timing)
    begun = clock.monotonic()
    asked = [waiting.add("P", "T", 3.0 + (n % 10) / 1000, waiting_max=MANY) for n in range(MANY)]
    assert timing.alarms <= 2
    for each in asked[::2]:
        waiting.arrived(pushed(each.correlation_id), b"x")
    assert len(waiting) == MANY // 2
    clock.advance(2.99)
    await asyncio.sleep(0)
    assert len(waiting) == MANY // 2
    clock.advance(0.04)
    for _ in range(3):
        await asyncio.sleep(0)
    assert clock.monotonic() - begun < 3.04
    assert all(isinstance(each.reply.exception(), NoReplyError) for each in asked[1::2])
    assert all(each.reply.result().body == b"x" for each in asked[::2])
    assert (len(waiting), waiting._by_tick, waiting._alarms) == (0, {}, {})
    assert len(waiting._overdue) == module._REMEMBERED_MAX, "what is remembered is bounded"
    waiting.arrived(pushed(asked[-1].correlation_id), b"x")
    waiting.arrived(pushed("another"), b"x")
    assert waiting.counts == (0, 1, 1)
    timing.timers.close()


async def test_whoever_gave_up_is_not_told(clock: FakeClock) -> None:
    timing = Timing(clock)
    waiting = PendingRequests(timing)
    pending = waiting.add("P", "T", 3, waiting_max=10)
    pending.reply.cancel()
    waiting.arrived(pushed(pending.correlation_id), b"x")
    waiting.forget(pending)
    assert waiting.counts == (0, 0, 0)
    timing.timers.close()
