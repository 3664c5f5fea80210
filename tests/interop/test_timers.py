"""Timer messages across the fence: one broker parks them and the other delivers them, and Java's client on ours.

What our clients do on Apache's broker is in `tests/scenarios/test_timers.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketline.model.message import Message, StoredMessage
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.testing import Server
from rocketline.testing.apache import ApacheBroker, ClientJvm, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.server_process import ServerProcess, free_port
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.questions import BrokerQuestions
from support.clients.clusters import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

TOPIC = "Timed"
SETTINGS = {
    "recallMessageEnable": "true",
    "timerFlushIntervalMs": "500",
    "flushCommitLogThoroughInterval": "500",
    "mappedFileSizeCommitLog": str(1 << 20),
}
EARLY, LATE = range(3, 6), range(16, 28)
"""Seconds from the start: delivered by the first broker, and by the second."""
START_MS_MAX = 15_000
"""Within this time the second broker is there, on a busy machine."""

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


def send(broker: BrokerQuestions, begin_ms: int, seconds: int) -> str:
    """A message for so many seconds after the start; its handle."""
    properties = {"TIMER_DELIVER_MS": str(begin_ms + seconds * 1000), "UNIQ_KEY": f"{seconds:032X}"}
    receipt = broker.send(Message.of(TOPIC, b"%d" % seconds, properties), 0)
    assert receipt.recall_handle is not None
    return receipt.recall_handle


def recall(broker: BrokerQuestions, handle: str) -> None:
    answer = broker.ask(Command(RequestCode.RECALL_MESSAGE, {"topic": TOPIC, "recallHandle": handle}))
    assert answer.code == 0, answer.remark


def is_punctual(message: StoredMessage, begin_ms: int, late_ms_max: int) -> bool:
    return 0 <= message.store_ms - begin_ms - int(message.body) * 1000 <= late_ms_max


@pytest.mark.thorough_with(pair="ours first", end="stopped")
@pytest.mark.thorough_with(pair="apache first", end="killed")
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_timers_of_one_broker_are_delivered_by_the_other(pair: Pair, end: str) -> None:
    """S155, S154: the same messages at the same times, and those that were called back before or after never."""
    with served(pair.first) as (process, broker):
        broker.create_topic(TOPIC, queues=1)
        begin_ms = int(time.time() * 1000)  # noqa: TID251  # brokers go by the machine's clock
        handles = {seconds: send(broker, begin_ms, seconds) for seconds in (*EARLY, *LATE, 3600)}
        recall(broker, handles[LATE[0]])
        wait_until(lambda: len(broker.queue(TOPIC, 0)) == len(EARLY))
        early = broker.queue(TOPIC, 0)
        time.sleep(2)  # until how far it is has been written down
        process.close(timeout_s=60) if end == "stopped" else process.kill()
    assert [int(message.body) for message in early] == list(EARLY)
    assert all(is_punctual(message, begin_ms, 5000) for message in early)

    with served(pair.second) as (process, broker):
        recall(broker, handles[LATE[-1]])
        recall(broker, handles[3600])
        wanted = [*EARLY, *LATE[1:-1]]
        wait_until(lambda: len(broker.queue(TOPIC, 0)) >= len(wanted), 60)
        time.sleep(3)
        found = broker.queue(TOPIC, 0)
        parked = broker.queue(WHEEL_TIMER_TOPIC, 0)
    assert [int(message.body) for message in found] == wanted
    assert found[: len(EARLY)] == early
    assert all(is_punctual(message, begin_ms, START_MS_MAX) for message in found)
    assert len(parked) == len(handles) + 3


def test_java_sends_timers_and_recalls_them_on_our_broker(clients: ClientJvm) -> None:
    """S149, S154, and `mqadmin` sees where they wait."""
    with Server(process=True, settings={"recallMessageEnable": "true"}) as server:
        server.create_topic(TOPIC, queues=1)
        begin_ms = time.time() * 1000  # noqa: TID251
        sent = clients._traffic("send", server.address, TOPIC, "recalled:0:5:0", "timed:5:20:0")
        assert sent == {"sent": 25, "failed": 0, "problem": ""}
        shown = clients.mqadmin(server.address, "topicStatus", "-t", WHEEL_TIMER_TOPIC)
        assert shown.status == 0
        assert " 30 " in shown.out
        arguments = ("timed-readers", "concurrent", "*", "20", "60")
        received = clients._traffic("consume", server.address, TOPIC, *arguments)["deliveries"]
        assert sorted(number for number, *_ in received) == list(range(5, 25))
        with BrokerQuestions(server.broker_addresses[0]) as broker:
            time.sleep(max(0.0, begin_ms / 1000 + 8 - time.time()))  # noqa: TID251
            found = broker.queue(TOPIC, 0)
        assert len(found) == 20
        assert all(message.store_ms >= message.born_ms + 2500 for message in found)
