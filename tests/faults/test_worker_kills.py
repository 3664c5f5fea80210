"""Workers that are killed at their work: nothing is lost, and nothing comes again that was acknowledged."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rocketline import Message, Producer
from rocketline.testing.apache import fetch
from support.clients.clusters import ClientCluster, apache_cluster, our_cluster

MESSAGES: Final = 600
WORKERS: Final = 3
THOROUGH: Final = (pytest.mark.interop, pytest.mark.thorough)
INVISIBLE_S: Final = 2
PATIENCE_S: Final = 10
WORKER: Final = """
import sys, time
from rocketline import ConsumeFromWhere, SimpleConsumer
from rocketline.errors import HandleError, UnsettledError
address, group, topic, invisible_s = sys.argv[1:]
first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
with SimpleConsumer(address, group=group, consume_from=first) as consumer:
    consumer.subscribe(topic)
    while True:
        messages = consumer.receive(4, float(invisible_s), wait_s=1)
        for message in messages:
            print("got", message.body.decode(), time.monotonic_ns(), flush=True)
            time.sleep(0.01)
        for some in (messages[:1], messages[1:]):
            try:
                consumer.ack(some)
            except (HandleError, UnsettledError):  # the machine was too busy
                continue
            for message in some:
                print("done", message.body.decode(), time.monotonic_ns(), flush=True)
"""

pytestmark = pytest.mark.timeout(240)


class Workers:
    """Processes that work, and what they told of it."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self.told: defaultdict[str, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        """`got` and `done`: number of a message → when, by the clock that all processes of this machine share."""
        self._command = [sys.executable, "-c", WORKER, address, group, topic, str(INVISIBLE_S)]
        self._running: list[tuple[subprocess.Popen[str], threading.Thread]] = []
        self._lock = threading.Lock()

    def start(self) -> None:
        process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        reader = threading.Thread(target=self._read, args=(process,))
        reader.start()
        self._running.append((process, reader))

    def kill(self) -> None:
        """SIGKILL, to the one that has run for longest."""
        process, reader = self._running.pop(0)
        process.kill()
        process.wait()
        reader.join()
        assert process.stdout is not None
        process.stdout.close()

    def close(self) -> None:
        while self._running:
            self.kill()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # else the kill cut it short
                what, number, time_ns = line.split()
                with self._lock:
                    self.told[what][int(number)].append(int(time_ns))

    def _calls(self) -> int:
        with self._lock:
            return sum(map(len, self.told["got"].values()))

    def wait_for_work(self) -> None:
        """Until one of them has got something."""
        before, deadline_s = self._calls(), time.monotonic() + PATIENCE_S
        while self._calls() == before and time.monotonic() < deadline_s:
            time.sleep(0.01)

    def wait_until_calm(self) -> None:
        """Until nothing has come for so long that nothing will."""
        before = -1
        while self._calls() != before:
            before = self._calls()
            time.sleep(INVISIBLE_S + 5)


@pytest.fixture
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClientCluster]:
    with our_cluster() if request.param == "ours" else apache_cluster(fetch(), tmp_path) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("servers", "kills"),
    [
        ("ours", 3),
        pytest.param("ours", 20, marks=THOROUGH),
        pytest.param("apache", 20, marks=THOROUGH),
    ],
    indirect=["servers"],
)
def test_every_message_is_worked_on_and_none_after_it_was_acknowledged(servers: ClientCluster, kills: int) -> None:
    dice = random.Random(17)
    topic, group = servers.topic(queues=2, brokers=2), servers.group()
    with Producer(servers.name_server, group="senders", send_timeout_s=20) as producer:
        producer.send([Message(topic, b"%d" % number) for number in range(MESSAGES // 2)])
        producer.send([Message(topic, b"%d" % number) for number in range(MESSAGES // 2, MESSAGES)])
    workers = Workers(servers.name_server, group, topic)
    try:
        for _ in range(WORKERS):
            workers.start()
        for _ in range(kills):
            workers.wait_for_work()
            time.sleep(dice.uniform(0, 0.2))
            workers.kill()
            workers.start()
        workers.wait_until_calm()
    finally:
        workers.close()
    got, done = workers.told["got"], workers.told["done"]
    assert set(got) == set(range(MESSAGES))
    assert len(done) > MESSAGES - 4 * kills, "of some the broker knew, and we were not told"
    assert not {number: times for number, times in done.items() if max(got[number]) > min(times)}
