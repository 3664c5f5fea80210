"""Traces across: `mqadmin` reads ours, our command reads Java's and Go's, on our broker and on Apache's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketline import (
    Admin,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from rocketline.client.trace.timeline import MessageTrace
from rocketline.errors import NoMessageError
from rocketline.model.names import TRACE_TOPIC
from rocketline.testing import setting_up
from rocketline.testing.apache import ApacheBroker, ClientJvm, Release
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.clients import Portion, go_client, java_client
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.server_process import ServerProcess
from support.clients.clusters import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180, func_only=True)]

SETTINGS = {
    "traceTopicEnable": "true",
    "messageDelayLevel": "1s 1s 1s 1s 1s 1s",
    "mappedFileSizeCommitLog": str(1 << 20),
}
JAVA_FLUSHES_S = 20.0


@dataclass(frozen=True, slots=True)
class Place:
    """A name server and a broker, which makes the topic of traces when it starts."""

    name_server: str
    broker: str

    def prepare(self, topic: str, group: str) -> None:
        setting_up.create_topic(self.name_server, (self.broker,), topic, queues=1)
        setting_up.create_group(self.name_server, (self.broker,), group)

    def sent(self, topic: str) -> list[ReceivedMessage]:
        with Admin(self.name_server) as admin:
            return admin.messages.last(topic)

    def trace(self, message_id: str, steps: int) -> MessageTrace:
        """Once it has so many steps."""
        due_s = time.monotonic() + JAVA_FLUSHES_S
        with Admin(self.name_server) as admin:
            while True:
                try:
                    trace = admin.messages.trace(message_id)
                    if len(trace.events) >= steps or time.monotonic() > due_s:
                        return trace
                except NoMessageError:
                    if time.monotonic() > due_s:
                        raise
                time.sleep(0.5)


@pytest.fixture(scope="module", params=["ours", "apache"])
def place(
    request: pytest.FixtureRequest, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    home = tmp_path_factory.mktemp(f"traces-{request.param}")
    with NameServerProcess(home / "name-server") as name_server:
        start: Callable[[], ServerProcess] = (
            (lambda: BrokerProcess(home / "b", name_servers=(name_server.address,), settings=SETTINGS))
            if request.param == "ours"
            else (lambda: ApacheBroker(release, home / "b", name_servers=(name_server.address,), settings=SETTINGS))
        )
        with start() as broker:
            yield Place(name_server.address, broker.address)


def lines(output: str, kind: str) -> list[list[str]]:
    """What `queryMsgTraceById` tells of one kind: group, host, day, time, duration, status."""
    return [line.split()[1:] for line in output.splitlines() if line.split()[:1] == [kind]]


def test_topic_of_traces_is_made_as_apaches(place: Place) -> None:
    """One queue, open to all, and there before anybody has sent to it."""
    with Admin(place.name_server) as admin:
        (queue,) = admin.topics.writable_queues(TRACE_TOPIC)
        assert queue.queue_id == 0
        config = admin.topics.config(TRACE_TOPIC)
    shape = {(each.read_queue_nums, each.write_queue_nums, int(each.perm)) for each in config.values()}
    assert shape == {(1, 1, 6)}


def test_mqadmin_reads_what_our_clients_wrote(place: Place, clients: ClientJvm) -> None:
    """C124, C126: the sending, the delivery that failed, and the one that did not."""
    topic, group = "Traced-ours", "ours-billing"
    place.prepare(topic, group)
    seen: list[ReceivedMessage] = []

    def handle(message: ReceivedMessage) -> None:
        seen.append(message)
        if len(seen) == 1:
            raise ValueError

    with (
        Producer(place.name_server, group="ours-shop", trace=True) as producer,
        PushConsumer(place.name_server, group=group, trace=True) as consumer,
    ):
        consumer.subscribe(topic, "*", handle)
        message_id = producer.send(Message(topic, b"a teapot", tags="new", keys=["42"])).message_id
        batch = producer.send([Message(topic, b"1"), Message(topic, b"2", keys=["b2"])])
        wait_until(lambda: len(seen) >= 4)
    shown = clients.mqadmin(place.name_server, "queryMsgTraceById", "-i", message_id)
    assert shown.status == 0, shown.error
    (sent,) = lines(shown.out, "Pub")
    assert (sent[0], sent[-1]) == ("ours-shop", "success")
    assert sent[1] == str(seen[0].born_host).rpartition(":")[0]
    assert [(each[0], each[-1]) for each in lines(shown.out, "Sub")] == [(group, "failed"), (group, "success")]
    for one in batch.message_ids:
        shown = clients.mqadmin(place.name_server, "queryMsgTraceById", "-i", one)
        assert [each[-1] for each in lines(shown.out, "Pub")] == ["success"]
    by_key = clients.mqadmin(place.name_server, "queryMsgByKey", "-t", TRACE_TOPIC, "-k", "b2")
    assert len(by_key.out.splitlines()) > 1, by_key


def test_mqadmin_reads_what_our_transactions_wrote(place: Place, clients: ClientJvm) -> None:
    """C131."""
    topic = "Traced-transactions"
    place.prepare(topic, "unused")
    check = TransactionState.COMMIT
    with (
        TransactionProducer(place.name_server, group="ours-tx", check=lambda _: check, trace=True) as producer,
        producer.transaction(Message(topic, b"one")) as transaction,
    ):
        pass
    shown = clients.mqadmin(place.name_server, "queryMsgTraceById", "-i", transaction.transaction_id)
    (sent,) = lines(shown.out, "Pub")
    assert (sent[0], sent[-1]) == ("ours-tx", "success")
    trace = place.trace(transaction.transaction_id, 3)
    assert [(event.step.value, event.outcome) for event in trace.events] == [
        ("half sent", ""),
        ("stored", "OK"),
        ("transaction ended", "COMMIT_MESSAGE"),
    ]


@pytest.mark.thorough_with(place="ours", language="java")
@pytest.mark.thorough_with(place="ours", language="go")
@pytest.mark.parametrize("language", ["java", "go"])
def test_our_command_reads_what_others_wrote(
    place: Place, release: Release, language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that was sent, failed once, and was delivered again."""
    monkeypatch.setenv("ROCKETLINE_TRACED", "yes")
    client = java_client(release, tmp_path) if language == "java" else go_client(tmp_path)
    topic, group = f"Traced-{language}", f"{language}-billing"
    place.prepare(topic, group)
    sent = client.send(place.name_server, topic, Portion("sync", 0, 2, 1))
    assert (sent.sent, sent.problem) == (2, "")
    client.consume(place.name_server, topic, group, 4)
    for message in place.sent(topic):
        trace = place.trace(message.message_id, 4)
        assert (trace.topic, trace.tags, trace.broken) == (topic, message.tags, 0)
        assert trace.keys.split() == list(message.keys)
        assert [(event.step.value, event.group, event.retries) for event in trace.events] == [
            ("sent", f"senders-{topic}", None),
            ("stored", f"senders-{topic}", None),
            ("delivered", group, 0),
            ("delivered again", group, 1),
        ]
        assert [event.outcome for event in trace.events] == ["", "OK", "FAILED", "SUCCESS"]
        assert all(event.where for event in trace.events)
        assert trace.events[1].where == place.broker


@pytest.mark.thorough_with(place="ours")
def test_our_command_reads_the_transactions_of_javas(
    place: Place, release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETLINE_TRACED", "yes")
    topic = "Traced-java-transactions"
    place.prepare(topic, "unused")
    java = java_client(release, tmp_path)
    java.transact(
        place.name_server, topic, "java-tx", "kept:commit:commit", "lost:rollback:rollback", checks=0, timeout_s=5
    )
    (kept,) = place.sent(topic)
    trace = place.trace(kept.message_id, 3)
    assert [(event.step.value, event.outcome) for event in trace.events] == [
        ("half sent", ""),
        ("stored", "OK"),
        ("transaction ended", "COMMIT_MESSAGE"),
    ]


@pytest.mark.thorough_with(place="ours")
def test_one_group_of_ours_and_javas_is_told_of_as_one(
    place: Place, release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent by ours, consumed by Java's: both tools tell the same story."""
    monkeypatch.setenv("ROCKETLINE_TRACED", "yes")
    topic, group = "Traced-mixed", "mixed-billing"
    place.prepare(topic, group)
    with Producer(place.name_server, group="ours-mixed", trace=True) as producer:
        message_id = producer.send(Message(topic, b"7/0", keys=["k7"])).message_id
    java_client(release, tmp_path).consume(place.name_server, topic, group, 1)
    trace = place.trace(message_id, 3)
    assert [(event.group, event.outcome) for event in trace.events] == [
        ("ours-mixed", ""),
        ("ours-mixed", "OK"),
        (group, "SUCCESS"),
    ]
