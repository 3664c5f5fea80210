"""Pops of many queues, which are looked at in steps."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from unittest.mock import Mock

from rocketline.broker.chores import Chores
from rocketline.broker.pop.handler import PopHandlers
from rocketline.broker.pop.long_poll import HeldPop, Holding, PopPlace
from rocketline.broker.pop.reading import PopFound
from rocketline.logs import Throttle
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import LATER
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import broker_settings, channel

POP = {
    "consumerGroup": "g", "topic": "T", "queueId": "-1", "maxMsgNums": "32", "invisibleTime": "60000",
    "pollTime": "15000", "bornTime": "0", "initMode": "0", "order": "false",
}  # fmt: skip


class EndlessReading:
    """Never through with the queues of the topic."""

    def __init__(self) -> None:
        self.steps = 0

    def begin(self, *, is_order: bool) -> PopFound:
        return PopFound(0, 0)

    def take(self, *_: object) -> Generator[None, None, None]:
        while True:
            self.steps += 1
            yield


def watched(_place: object, _wanted: object, looking: Generator[None, None, None]) -> Generator[None, None, bool]:
    yield from looking
    return False


def handlers_of(clock: FakeClock, turns: deque[Callable[[], None]], reading: EndlessReading, held: Mock) -> PopHandlers:
    checks = Mock()
    checks.admit.return_value, held.hold.return_value = TopicConfig("T", 16_384, 16_384), Holding.WAITS
    held.watched = watched
    now, revive = Mock(now_ms=lambda: 0), Mock(delay_ms_max=100_000)
    rest = Mock(), broker_settings(), now, Chores(turns.append), Mock(), Throttle(clock)
    return PopHandlers(checks, reading, Mock(), revive, held, *rest)  # type: ignore[arg-type]


async def test_pop_of_a_connection_that_is_gone_looks_no_further(clock: FakeClock) -> None:
    """Thousands of pops, each of thousands of queues, went on for minutes after their connection had closed."""
    turns: deque[Callable[[], None]] = deque()
    reading = EndlessReading()
    handlers = handlers_of(clock, turns, reading, Mock())
    connection = channel(clock)[0]
    for _ in range(10):
        assert handlers.by_code()[RequestCode.POP_MESSAGE](connection, Command(200_050, dict(POP))) is LATER
    for _ in range(3):
        turns.popleft()()
    assert reading.steps == 4
    connection.close()
    await asyncio.sleep(0)
    while turns:
        turns.popleft()()
    assert (reading.steps, len(handlers._chores)) == (4 + 10, 0)


async def test_what_a_pop_was_woken_for_is_for_another_if_its_connection_goes_meanwhile(clock: FakeClock) -> None:
    turns: deque[Callable[[], None]] = deque()
    held = Mock()
    handlers, connection = handlers_of(clock, turns, EndlessReading(), held), channel(clock)[0]
    woken = HeldPop(connection, Command(200_050, dict(POP)), PopPlace("T", "g", -1), None, 0.0, handlers._again)
    woken.answer(woken)
    connection.close()
    await asyncio.sleep(0)
    while turns:
        turns.popleft()()
    held.wake.assert_called_once_with("T", "g", -1)
    held.hold.assert_not_called()
