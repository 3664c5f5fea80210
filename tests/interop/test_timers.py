"""Timer messages across the fence: one broker parks them and the other delivers them, and Java's client on ours.

What our clients do on Apache's broker is in `tests/scenarios/test_timers.py`.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest

from rocketline.clock import SystemClock
from rocketline.model.message import Message, StoredMessage
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.store.filesystem import DiskFileSystem
from rocketline.store.timers.checkpoint import TimerCheckpoint, lock_ms_of
from rocketline.store.timers.timer_log import UNIT, UNIT_BYTES, TimerUnit
from rocketline.store.timers.wheel import SLOT
from rocketline.testing import Server
from rocketline.testing.apache import ApacheBroker, ClientJvm, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.clients import Portion, go_client
from rocketline.testing.server_process import ServerProcess, free_port
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.stats import TimerMetrics
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
EARLY, LATE = range(3, 6), (*range(16, 27), 40)
"""Seconds from the start: delivered by the first broker, and by the second, which has time until the last to begin."""
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


def now_ms() -> int:
    return int(time.time() * 1000)  # noqa: TID251  # brokers go by the machine's clock


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
        begin_ms = now_ms()
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
        wait_until(lambda: now_ms() > begin_ms + (LATE[-1] + 3) * 1000, 60)
        found = broker.queue(TOPIC, 0)
        parked = broker.queue(WHEEL_TIMER_TOPIC, 0)
    assert [int(message.body) for message in found] == wanted
    assert found[: len(EARLY)] == early
    assert all(is_punctual(message, begin_ms, START_MS_MAX) for message in found)
    assert len(parked) == len(handles) + 3


DAY_S = 86_400


def test_files_that_we_derive_are_those_of_apache(release: Release, tmp_path: Path) -> None:
    """Both park the messages of one and the same timer topic: units, slots, checkpoint and counts must be alike."""
    home, port = tmp_path / "apache", free_port()
    with served(lambda: ApacheBroker(release, home, name_servers=(), port=port, settings=SETTINGS)) as (
        process,
        broker,
    ):
        broker.create_topic(TOPIC, queues=1)
        begin_ms = now_ms()
        moments = [600, 3600, 600, 601, 600, 7 * DAY_S // 2 - DAY_S, 29 * DAY_S // 10]
        handles = [send(broker, begin_ms + number, seconds) for number, seconds in enumerate(moments)]
        recall(broker, handles[1])
        recall(broker, handles[-1])
        wait_until(lambda: waiting(broker) == {TOPIC: len(moments) - 2})
        time.sleep(2)  # until that is on disk
        process.close(timeout_s=60)
    copy = tmp_path / "ours"
    shutil.copytree(home, copy)
    for name in ("timerwheel", "config/timercheck"):
        (copy / "store" / name).unlink()
    shutil.rmtree(copy / "store" / "timerlog")
    with served(lambda: BrokerProcess(copy, name_servers=(), port=port, settings=SETTINGS)) as (process, broker):
        wait_until(lambda: waiting(broker) == {TOPIC: len(moments) - 2})
        process.close(timeout_s=60)
    theirs, ours = TimerFiles.read(home / "store"), TimerFiles.read(copy / "store")
    assert len(ours.units) == len(moments) + 2
    assert [comparable(unit) for unit in ours.units] == [comparable(unit) for unit in theirs.units]
    assert sum(unit.is_roll for unit in ours.units) == 3
    rolled = {unit.slot_ms // 1000 for files in (ours, theirs) for unit in files.units if unit.is_roll}
    assert {time: slot for time, slot in ours.slots.items() if time not in rolled} == {
        time: slot for time, slot in theirs.slots.items() if time not in rolled
    }
    assert len(ours.slots) == len(theirs.slots)
    for checkpoint in (ours.checkpoint, theirs.checkpoint):
        assert checkpoint.queue_offset == checkpoint.master_queue_offset == len(ours.units)
        assert checkpoint.log_flushed == UNIT_BYTES * len(ours.units)
    assert ours.metrics == theirs.metrics


@dataclass(frozen=True, slots=True)
class TimerFiles:
    """What a broker has left behind of its timers."""

    units: list[TimerUnit]
    slots: dict[int, bytes]
    """By their time in seconds."""
    checkpoint: TimerCheckpoint
    metrics: bytes
    """Without times, and how often they changed."""

    @classmethod
    def read(cls, store: Path) -> TimerFiles:
        [log] = (store / "timerlog").iterdir()
        data, wheel = log.read_bytes(), (store / "timerwheel").read_bytes()
        places = range(0, len(data) - UNIT_BYTES, UNIT_BYTES)
        units = [TimerUnit._make(UNIT.unpack_from(data, at)) for at in takewhile(lambda at: data[at + 3], places)]
        slots = {slot[0]: SLOT.pack(*slot) for slot in SLOT.iter_unpack(wheel) if slot[0] > 0}
        for time_s, slot in slots.items():
            at = time_s % (len(wheel) // SLOT.size) * SLOT.size
            assert wheel[at : at + SLOT.size] == slot
        check = (store / "config" / "timercheck").read_bytes()
        assert len(check) == 4096
        files, path = DiskFileSystem(), store / "config" / "timercheck"
        now_ms = SystemClock().wall_ms()
        checkpoint = TimerCheckpoint.load(files, path, lock_ms_of(files, store), now_ms)
        assert checkpoint is not None
        noted_bytes = len(checkpoint.encode()) if checkpoint.note is None else 100  # ours alone has a note behind it
        assert not any(check[noted_bytes:])
        metrics = (store / "config" / "timermetrics").read_bytes()
        return cls(units, slots, checkpoint, re.sub(rb'"(counter|timestamp|timeStamp)":\d+', rb'"\1":0', metrics))


def comparable(unit: TimerUnit) -> TimerUnit:
    """Without the moment at which the message was parked: from then on the way is counted of one that is rolled."""
    return unit._replace(write_ms=0, delay_ms=unit.delay_ms if unit.is_roll else unit.slot_ms)


def waiting(broker: BrokerQuestions) -> dict[str, int]:
    answer = broker.ask(Command(RequestCode.GET_TIMER_METRICS))
    return {topic: metric.count for topic, metric in decode(TimerMetrics, answer.body).timing_count.items()}


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


def test_go_sends_timers_to_our_broker(tmp_path: Path) -> None:
    """S149: its version has no name for that, but a property."""
    with Server(process=True) as server:
        server.create_topic(TOPIC, queues=1)
        go = go_client(tmp_path / "go")
        assert go.send(server.address, TOPIC, Portion("timed", 0, 20)) == (20, 0, "")
        received = go.consume(server.address, TOPIC, "timed-readers", 20, timeout_s=60)
        assert sorted(delivered.number for delivered in received) == list(range(20))
        with BrokerQuestions(server.broker_addresses[0]) as broker:
            found = broker.queue(TOPIC, 0)
        assert all(message.store_ms - int(message.properties["TIMER_DELIVER_MS"]) >= 0 for message in found)
        assert all(message.store_ms >= message.born_ms + 2500 for message in found)
