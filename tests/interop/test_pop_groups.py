"""Must hold 2 of POP: Apache's Java push consumer, ours and our simple consumer pop for one group."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rocketline.client.sync.producer import Producer
from rocketline.client.sync.simple_consumer import SimpleConsumer
from rocketline.model.message import Message
from rocketline.testing.apache import Release
from rocketline.testing.clients import Watcher, java_client, own_client
from support.clients import clusters as client_clusters
from support.clients.clusters import ClientCluster, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(200, func_only=True)]
COUNT = 300


@pytest.fixture(scope="module", params=["ours", "apache"])
def servers(
    request: pytest.FixtureRequest, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientCluster]:
    if request.param == "ours":
        with client_clusters.our_cluster() as cluster:
            yield cluster
    else:
        with client_clusters.apache_cluster(release, tmp_path_factory.mktemp("servers")) as cluster:
            yield cluster


def send(servers: ClientCluster, topic: str, numbers: range, *, failures: int = 0) -> None:
    with Producer(servers.name_server, group="senders", send_timeout_s=20) as producer:
        for number in numbers:
            producer.send(Message(topic, b"%d/%d" % (number, failures)))


class Worker:
    """Our simple consumer in a thread, which takes its time."""

    def __init__(self, servers: ClientCluster, topic: str, group: str) -> None:
        self.seen: list[tuple[int, int]] = []
        """Numbers, and how often each had failed."""
        self._consumer = SimpleConsumer(servers.name_server, group=group, api_timeout_s=20)
        self._consumer.subscribe(topic)
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Worker:
        self._consumer.start()
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._consumer.close()
        self._thread.join()

    def _work(self) -> None:
        for attempt in self._consumer:
            with attempt as message:
                number, _, failures = message.body.partition(b"/")
                self.seen.append((int(number), message.reconsume_times))
                if message.reconsume_times < int(failures):
                    self._consumer.nack(message)
                time.sleep(0.01)


@pytest.mark.thorough_with(servers="apache")
def test_members_of_both_languages_and_a_worker_share_every_message(
    servers: ClientCluster, release: Release, tmp_path: Path
) -> None:
    topic = servers.topic("popped", queues=2, brokers=2)
    group = servers.popping_group(topic)
    programs = java_client(release, tmp_path / "java"), java_client(release, tmp_path / "other"), own_client(tmp_path)
    with ExitStack() as stack:
        watchers = [Watcher(program, servers.name_server, topic, group, mode="pop") for program in programs]
        for watcher in watchers:
            stack.enter_context(watcher)
        worker = stack.enter_context(Worker(servers, topic, group))

        def seen() -> list[Counter[tuple[int, int]]]:
            told = [[(one.number, one.reconsume_times) for one in watcher.deliveries] for watcher in watchers]
            return [Counter(some) for some in (*told, worker.seen)]

        time.sleep(3)  # all have been told what to pop
        send(servers, topic, range(COUNT))
        wait_until(lambda: sum(map(Counter.total, seen())) >= COUNT, patience_s=60)
        send(servers, topic, range(COUNT, COUNT + 20), failures=1)
        wait_until(lambda: sum(map(Counter.total, seen())) >= COUNT + 40, patience_s=60)
        time.sleep(2)
        each = seen()
    assert all(each), "everybody had something to do"
    once = [(number, 0) for number in range(COUNT + 20)]
    assert sum(each, Counter()) == Counter([*once, *((number, 1) for number in range(COUNT, COUNT + 20))])
