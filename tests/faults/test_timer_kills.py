"""A broker that is killed again and again while timer messages are sent, called back, parked and delivered: none that
was acknowledged is lost, none is early, and none whose recall was answered 0 is delivered."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from random import Random

import pytest

from rocketline.model.message import Message
from rocketline.testing.broker import BrokerProcess
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.questions import BrokerQuestions
from support.clients.clusters import wait_until

pytestmark = pytest.mark.timeout(240)

TOPIC = "Timed"
SETTINGS = {
    "recallMessageEnable": "true",
    "timerFlushIntervalMs": "50",
    "flushCommitLogThoroughInterval": "100",
    "mappedFileSizeCommitLog": str(1 << 20),
    "brokerFastFailureEnable": "false",
}


THOROUGH = [pytest.mark.interop, pytest.mark.thorough]


@pytest.mark.parametrize(
    ("flush", "kills"),
    [("SYNC_FLUSH", 4), *(pytest.param(flush, 20, marks=THOROUGH) for flush in ("SYNC_FLUSH", "ASYNC_FLUSH"))],
)
def test_kills_with_timers_pending_lose_none(tmp_path: Path, flush: str, kills: int) -> None:
    """S155."""
    chance = Random(time.time_ns())
    settings = {**SETTINGS, "flushDiskType": flush}
    due: dict[str, int] = {}
    acknowledged: set[str] = set()
    recalled: set[str] = set()
    for round_number in range(kills):
        with BrokerProcess(tmp_path, name_servers=(), settings=settings) as process:
            with BrokerQuestions(process.address, timeout_s=20) as broker, contextlib.suppress(OSError):
                broker.create_topic(TOPIC, queues=1)
                end_s = time.monotonic() + chance.uniform(0.5, 2.5)
                while time.monotonic() < end_s:
                    _send(broker, chance, due, acknowledged, recalled)
            process.kill()
        assert round_number or acknowledged
    with (
        BrokerProcess(tmp_path, name_servers=(), settings=settings) as process,
        BrokerQuestions(process.address, timeout_s=20) as broker,
    ):
        wanted = acknowledged - recalled
        wait_until(lambda: {message.body.decode() for message in broker.queue(TOPIC, 0)} >= wanted, 60)
        time.sleep(2)
        found = broker.queue(TOPIC, 0)
    assert recalled
    assert not {message.body.decode() for message in found} & recalled
    for message in found:
        assert message.store_ms >= due[message.body.decode()]


def _send(
    broker: BrokerQuestions, chance: Random, due: dict[str, int], acknowledged: set[str], recalled: set[str]
) -> None:
    """A message for some moment within the next seconds, and perhaps its recall."""
    key = f"{len(due):032X}"
    due[key] = int(time.time() * 1000) + chance.randrange(1, 6000)  # noqa: TID251  # the broker's clock is this one
    properties = {"TIMER_DELIVER_MS": str(due[key]), "UNIQ_KEY": key}
    receipt = broker.send(Message.of(TOPIC, key.encode(), properties), 0)
    acknowledged.add(key)
    if receipt.recall_handle is not None and chance.random() < 0.2:
        ext = {"topic": TOPIC, "recallHandle": receipt.recall_handle}
        if broker.ask(Command(RequestCode.RECALL_MESSAGE, ext)).code == 0:
            recalled.add(key)
