"""A broker that is killed again and again while messages are popped, acknowledged and put off: each is consumed, and
none comes again that was acknowledged in time."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from rocketline.model.message import Message
from rocketline.testing.broker import BrokerProcess
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.pop_handles import PopHandle, TopicKind
from support.brokers.pops import about, batch, pop, popped
from support.brokers.questions import BrokerQuestions
from support.clients.clusters import wait_until

pytestmark = pytest.mark.timeout(300)

TOPIC = "T"
MESSAGES = 400
"""That each life of the broker gets."""
SETTINGS = {
    "timerFlushIntervalMs": "50",
    "flushCommitLogThoroughInterval": "100",
    "mappedFileSizeCommitLog": str(1 << 20),
    "brokerFastFailureEnable": "false",
    "reviveInterval": "50",
}


@dataclass
class Workers:
    """What one group has done to the messages of the topic."""

    chance: Random
    sent: set[str] = field(default_factory=set)
    consumed: set[str] = field(default_factory=set)
    acked_ms: dict[str, int] = field(default_factory=dict)
    """When the first acknowledgement of a message that never came again was answered, and that was in time."""
    come_back: list[object] = field(default_factory=list)
    """Such messages that came all the same."""

    def send(self, broker: BrokerQuestions, count: int) -> None:
        for _ in range(count):
            key = f"{len(self.sent):08}"
            broker.send(Message.of(TOPIC, key.encode(), {"UNIQ_KEY": key}), self.chance.randrange(2))
            self.sent.add(key)

    def work(self, broker: BrokerQuestions, *, ends: bool = False) -> int:
        """One pop, and what becomes of its messages; how many it got. `ends`: all is acknowledged."""
        count, invisible_ms = self.chance.randrange(1, 9), self.chance.choice((1000, 3000, 5000))
        now_ms = str(time.time_ns() // 1_000_000)  # the broker's clock is this one
        fields = {"maxMsgNums": str(count), "invisibleTime": "20000" if ends else str(invisible_ms), "bornTime": now_ms}
        answer = broker.ask(Command(RequestCode.POP_MESSAGE, pop().ext | fields))
        if answer.code != ResponseCode.SUCCESS:
            return 0
        found = [(message.body.decode(), handle) for message, handle in popped(answer)]
        self.come_back += [(key, handle.format(), self.acked_ms[key]) for key, handle in found if key in self.acked_ms]
        for key, handle in found:
            fate = 0.0 if ends else self.chance.random()
            if fate < 0.4:
                self._acked(broker, Command(RequestCode.ACK_MESSAGE, about(handle, TOPIC, "g")), key, handle)
            elif fate < 0.6:
                self._acked(broker, Command(RequestCode.BATCH_ACK_MESSAGE, body=batch([handle])), key, handle)
            elif fate < 0.7:
                ext = about(handle, TOPIC, "g") | {"invisibleTime": "500"}
                broker.ask(Command(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext))
        return len(found)

    def _acked(self, broker: BrokerQuestions, request: Command, key: str, handle: PopHandle) -> None:
        answer = broker.ask(request)
        answered_ms = time.time_ns() // 1_000_000
        if answer.code == ResponseCode.SUCCESS and answered_ms < handle.pop_ms + handle.invisible_ms:
            self.consumed.add(key)
            if handle.kind is TopicKind.NORMAL:  # what was coming again when the broker died may do so twice
                self.acked_ms[key] = answered_ms


@pytest.mark.parametrize("merge", ["false", "true"])
@pytest.mark.parametrize(
    ("flush", "kills"),
    [("ASYNC_FLUSH", 2), pytest.param("SYNC_FLUSH", 20, marks=[pytest.mark.interop, pytest.mark.thorough])],
)
def test_kills_with_pops_in_flight_lose_none_and_bring_none_back(
    tmp_path: Path, flush: str, kills: int, merge: str
) -> None:
    """S190, S191, S200."""
    workers = Workers(Random(time.time_ns()))
    settings = {**SETTINGS, "flushDiskType": flush, "enablePopBufferMerge": merge}
    for _ in range(kills):
        with BrokerProcess(tmp_path, name_servers=(), settings=settings) as process:
            with BrokerQuestions(process.address, timeout_s=20) as broker, contextlib.suppress(OSError):
                broker.create_topic(TOPIC, queues=2)
                workers.send(broker, MESSAGES)
                end_s = time.monotonic() + workers.chance.uniform(0.5, 2.5)
                while time.monotonic() < end_s:
                    workers.work(broker)
            process.kill()
    with (
        BrokerProcess(tmp_path, name_servers=(), settings=settings) as process,
        BrokerQuestions(process.address, timeout_s=20) as broker,
    ):

        def is_done() -> bool:
            while workers.work(broker, ends=True):
                continue
            return workers.consumed >= workers.sent

        wait_until(is_done, 60)
    if merge == "false":  # else what was acknowledged in the seconds before a kill may come again
        assert workers.come_back == []
