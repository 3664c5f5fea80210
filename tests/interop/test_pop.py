"""Pops across the fence: what one broker handed out, the other one goes on with, and both answer alike.

What our clients do on Apache's broker, and Apache's on ours, is in other files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketline.model.message import Message
from rocketline.model.names import REVIVE_GROUP, revive_topic
from rocketline.testing.apache import ApacheBroker, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.server_process import ServerProcess, free_port
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command
from rocketline.wire.pop_handles import PopHandle
from support.brokers.pops import about, batch, bodies, handles, pop
from support.brokers.questions import BrokerQuestions
from support.clients.clusters import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240, func_only=True)]

TOPIC, ORDERED = "T", "Ordered"
INVISIBLE_S = 40
"""Longer than it takes to end one broker and to start the other, on a busy machine."""
SETTINGS = {
    "timerFlushIntervalMs": "500",
    "flushCommitLogThoroughInterval": "500",
    "flushConsumerOffsetInterval": "500",
    "mappedFileSizeCommitLog": str(1 << 20),
    "popFromRetryProbability": "0",
}
Start = Callable[[], ServerProcess]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two brokers for one directory, on the same port; never both at once."""

    first: Start
    second: Start


@pytest.fixture(params=["ours first", "apache first"])
def pair(request: pytest.FixtureRequest, release: Release, tmp_path: Path) -> Pair:
    port = free_port()

    def ours() -> ServerProcess:
        return BrokerProcess(tmp_path, name_servers=(), port=port, settings=SETTINGS)

    def apache() -> ServerProcess:
        return ApacheBroker(release, tmp_path, name_servers=(), port=port, settings=SETTINGS)

    return Pair(*((ours, apache) if request.param == "ours first" else (apache, ours)))


@contextmanager
def served(start: Start) -> Iterator[tuple[ServerProcess, BrokerQuestions]]:
    with start() as process, BrokerQuestions(process.address, timeout_s=20) as broker:
        yield process, broker


def popped(broker: BrokerQuestions, **fields: str) -> Command:
    """The answer to a pop of a short time."""
    now_ms = str(time.time_ns() // 1_000_000)  # brokers go by the machine's clock
    return broker.ask(Command(RequestCode.POP_MESSAGE, pop().ext | {"bornTime": now_ms} | fields))


def pop_some(broker: BrokerQuestions, count: int, **fields: str) -> list[PopHandle]:
    """Of messages that are there."""
    answer = popped(broker, maxMsgNums=str(count), invisibleTime=str(INVISIBLE_S * 1000), **fields)
    found = handles(answer)
    assert len(found) == count
    return found


def acknowledge(broker: BrokerQuestions, handle: PopHandle, *, topic: str = TOPIC) -> None:
    answer = broker.ask(Command(RequestCode.ACK_MESSAGE, about(handle, topic, "g")))
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def put_off(broker: BrokerQuestions, handle: PopHandle, seconds: int) -> PopHandle:
    """The handle that the message has from now on."""
    ext = about(handle, TOPIC, "g") | {"invisibleTime": str(seconds * 1000)}
    answer = broker.ask(Command(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return handle.renewed(int(answer.ext["popTime"]), seconds * 1000, int(answer.ext["reviveQid"]))


def come_again(broker: BrokerQuestions, found: list[bytes]) -> list[bytes]:
    """With those that can be popped now; each is acknowledged."""
    answer = popped(broker, invisibleTime="60000")
    if answer.code == ResponseCode.SUCCESS:
        found += bodies(answer)
        for handle in handles(answer):
            acknowledge(broker, handle)
    return found


def fill(broker: BrokerQuestions) -> None:
    for topic in (TOPIC, ORDERED):
        broker.create_topic(topic, queues=1)
        for number in range(8):
            broker.send(Message.of(topic, b"%d" % number, {"UNIQ_KEY": f"{topic}{number}"}), 0)


@pytest.mark.thorough_with(pair="ours first", end="stopped")
@pytest.mark.thorough_with(pair="apache first", end="killed")
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_what_one_broker_handed_out_the_other_goes_on_with(pair: Pair, end: str) -> None:
    """S190, S191, S200, S201: messages that were acknowledged there do not come here, all others do, at their time."""
    with served(pair.first) as (process, broker):
        fill(broker)
        begin_s = time.monotonic()
        held = pop_some(broker, 6)
        acknowledge(broker, held[0])
        assert broker.ask(Command(RequestCode.BATCH_ACK_MESSAGE, body=batch(held[1:3]))).code == ResponseCode.SUCCESS
        acknowledge(broker, put_off(broker, held[3], INVISIBLE_S))
        later = put_off(broker, held[4], INVISIBLE_S)
        ordered = pop_some(broker, 2, topic=ORDERED, order="true", attemptId="first")
        acknowledge(broker, ordered[1], topic=ORDERED)
        if end == "killed":
            time.sleep(12)  # Apache's broker writes down first after ten seconds how far groups are
        process.close(timeout_s=60) if end == "stopped" else process.kill()

    with served(pair.second) as (process, broker):
        wait_until(lambda: popped(broker, topic="Nobody").code == ResponseCode.TOPIC_NOT_EXIST)  # a JVM must warm up
        assert bodies(popped(broker, maxMsgNums="2")) == [b"6", b"7"]
        if end == "stopped":  # Apache's broker saves it with the first offsets after ten seconds, or when it stops
            assert popped(broker, topic=ORDERED, order="true", attemptId="second").code == ResponseCode.POLLING_TIMEOUT
            acknowledge(broker, ordered[0], topic=ORDERED)
            answer = popped(broker, topic=ORDERED, order="true", attemptId="second", maxMsgNums="1")
            assert bodies(answer) == [b"2"]
        acknowledge(broker, later)
        assert time.monotonic() < begin_s + INVISIBLE_S, "the machine was too busy for this test to tell anything"
        found: list[bytes] = []
        wait_until(lambda: come_again(broker, found), INVISIBLE_S + 30)
        assert time.monotonic() > begin_s + INVISIBLE_S
        time.sleep(6)
        assert come_again(broker, found) == [b"5"]
        process.close(timeout_s=60)

    with served(pair.first) as (_, broker):
        assert popped(broker).code == ResponseCode.POLLING_TIMEOUT
        assert broker.committed(REVIVE_GROUP, revive_topic("DefaultCluster"), held[0].revive_queue_id) >= 0
