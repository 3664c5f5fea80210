"""The sink's sockets against a real broker that fails on demand: what is sent is acknowledged, or an error says why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rocketline import Admin
from rocketline.errors import InvalidMessageError, SendFailedError, TopicNotFoundError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.spark.options.source_and_sink import ClientSettings, SinkOptions
from rocketline.spark.sink import client as sink_client
from rocketline.spark.sink import task_sender
from rocketline.spark.sink.client import SinkClient
from rocketline.spark.sink.rows import Parcel
from rocketline.spark.sink.task_sender import SendCounts, TaskSender
from rocketline.testing import setting_up
from rocketline.testing.broker import BrokerProcess
from rocketline.testing.name_server import NameServerProcess
from rocketline.testing.pytest_plugin import RocketMQ
from rocketline.testing.server_process import running
from rocketline.wire.batch import encode_batch
from rocketline.wire.codes import RequestCode
from support.clients.topic_contents import queue_contents, topic_contents

_BATCH = RequestCode.SEND_BATCH_MESSAGE


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_sender, "_FIRST_PAUSE_S", 0.01)


@pytest.fixture
def options(rocketmq: RocketMQ) -> SinkOptions:
    return SinkOptions(client=ClientSettings(name_servers=rocketmq.address), send_timeout_s=2.0, in_flight_max=4)


@pytest.fixture
def client(options: SinkOptions) -> Iterator[SinkClient]:
    client = SinkClient(options)
    yield client
    client.close()


def _parcels(topic: str, count: int, queue: MessageQueue | None = None) -> list[Parcel]:
    """Batches of two messages that count up."""
    return [
        Parcel(topic, 2, 2 * n, encode_batch([Message(topic, b"%d" % (2 * n + i)) for i in range(2)]), queue)
        for n in range(count)
    ]


def _send(client: SinkClient, options: SinkOptions, parcels: list[Parcel]) -> SendCounts:
    with TaskSender(client, options, 0) as sender:
        for parcel in parcels:
            sender.send(parcel)
        return sender.finish()


def _bodies(server: RocketMQ, topic: str) -> list[int]:
    return sorted(int(message.body) for message in topic_contents(server.address, topic))


def test_everything_is_stored_once_and_counted(rocketmq: RocketMQ, client: SinkClient, options: SinkOptions) -> None:
    topic = rocketmq.topic()
    counts = _send(client, options, _parcels(topic, 20))
    assert (dict(counts.rows), counts.requests, counts.retries) == ({topic: 40}, 20, 0)
    assert _bodies(rocketmq, topic) == list(range(40))
    assert all(queue_contents(rocketmq.address, topic).values()), "batches go to all queues in turn"


def test_next_task_uses_the_connection_of_the_last(
    rocketmq: RocketMQ, client: SinkClient, options: SinkOptions
) -> None:
    topic = rocketmq.topic()
    _send(client, options, _parcels(topic, 1))
    address = client.address(client.queues(topic)[0])
    first = client.connect(address)
    client.give_back(first)
    _send(client, options, _parcels(topic, 1))
    assert client.connect(address) is first
    first.close()


def test_busy_broker_gets_it_again(rocketmq: RocketMQ, client: SinkClient, options: SinkOptions) -> None:
    topic = rocketmq.topic()
    rocketmq.faults.refuse(_BATCH, 2, nth=3, times=2)
    counts = _send(client, options, _parcels(topic, 10))
    assert (counts.rows[topic], counts.retries) == (20, 2)
    assert _bodies(rocketmq, topic) == list(range(20))


def test_lost_connection_costs_no_message(rocketmq: RocketMQ, client: SinkClient, options: SinkOptions) -> None:
    topic = rocketmq.topic()
    rocketmq.faults.drop_before(_BATCH, nth=3)
    rocketmq.faults.drop_after(_BATCH, nth=12)
    counts = _send(client, options, _parcels(topic, 20))
    assert counts.rows[topic] == 40
    assert counts.retries >= 2
    assert set(_bodies(rocketmq, topic)) == set(range(40)), "some may be there twice, none may be missing"


def test_answer_that_never_comes_is_not_waited_for_longer_than_its_time(
    rocketmq: RocketMQ, client: SinkClient, options: SinkOptions
) -> None:
    topic = rocketmq.topic()
    rocketmq.faults.ignore(_BATCH, nth=2)
    counts = _send(client, replace(options, send_timeout_s=0.2), _parcels(topic, 6))
    assert counts.rows[topic] == 12
    assert set(_bodies(rocketmq, topic)) == set(range(12))


def test_broker_that_stays_busy_is_an_error_with_every_attempt(
    rocketmq: RocketMQ, client: SinkClient, options: SinkOptions
) -> None:
    topic = rocketmq.topic()
    rocketmq.faults.refuse(_BATCH, 2, "too busy", times=99)
    with pytest.raises(SendFailedError, match="too busy") as raised:
        _send(client, options, _parcels(topic, 1))
    assert len(raised.value.attempts) == 1 + options.retries


def test_refusal_for_good_names_the_rows(rocketmq: RocketMQ, client: SinkClient, options: SinkOptions) -> None:
    topic = rocketmq.topic()
    rocketmq.faults.refuse(_BATCH, 13, "wrong", nth=2)
    with pytest.raises(InvalidMessageError, match=r"2 rows that begin with row 2 of partition 0: .*code 13: wrong"):
        _send(client, options, _parcels(topic, 3))


def test_message_that_is_stored_and_not_on_disk_is_counted_as_such(
    rocketmq: RocketMQ, client: SinkClient, options: SinkOptions
) -> None:
    topic = rocketmq.topic()
    rocketmq.faults.flush_timeout(nth=2)
    counts = _send(client, options, _parcels(topic, 3))
    assert (counts.rows[topic], counts.unsafe_rows) == (6, 2)


def test_parcels_for_one_queue_lie_there_in_order_although_one_was_refused_first(
    rocketmq: RocketMQ, client: SinkClient, options: SinkOptions
) -> None:
    topic = rocketmq.topic()
    queue = client.queues(topic)[2]
    rocketmq.faults.refuse(_BATCH, 2, nth=2)
    rocketmq.faults.drop_before(_BATCH, nth=5)
    _send(client, options, _parcels(topic, 10, queue))
    stored = queue_contents(rocketmq.address, topic)
    assert [int(message.body) for message in stored[queue.broker_name, 2]] == list(range(20))
    assert sum(len(messages) for messages in stored.values()) == 20


def test_message_that_goes_alone_keeps_its_properties(
    rocketmq: RocketMQ, client: SinkClient, options: SinkOptions
) -> None:
    topic = rocketmq.topic()
    message = Message(topic, b"alone", tags="t", properties={"color": "red"})
    counts = _send(client, options, [Parcel(topic, 1, 0, b"", None, message)])
    (stored,) = topic_contents(rocketmq.address, topic)
    assert (stored.body, stored.tags, stored.properties["color"], counts.rows[topic]) == (b"alone", "t", "red", 1)


def test_rows_of_a_broker_that_is_killed_go_to_the_other(options: SinkOptions, tmp_path: Path) -> None:
    with NameServerProcess(tmp_path / "name-server") as name_server:
        masters = [
            BrokerProcess(tmp_path / name, name_servers=(name_server.address,), broker_name=name)
            for name in ("broker-a", "broker-b")
        ]
        with running(*masters):
            setting_up.create_topic(name_server.address, [master.address for master in masters], "pair")
            there = replace(options, client=ClientSettings(name_servers=name_server.address))
            client, parcels = SinkClient(there), _parcels("pair", 40)
            try:
                with TaskSender(client, there, 0) as sender:
                    for parcel in parcels[:20]:
                        sender.send(parcel)
                    masters[0].kill()
                    for parcel in parcels[20:]:
                        sender.send(parcel)
                    assert sender.finish().rows["pair"] == 80
            finally:
                client.close()
            setting_up.create_topic(name_server.address, [masters[1].address], "pair")
            stored = {int(message.body) for message in topic_contents(name_server.address, "pair")}
            assert stored.issuperset(range(40, 80)), "what was sent after its end"


def test_unknown_topic_is_not_made_by_asking_for_its_queues(client: SinkClient, rocketmq: RocketMQ) -> None:
    with pytest.raises(TopicNotFoundError, match="no-such-topic"):
        client.queues("no-such-topic")


def test_broker_is_asked_for_timers_and_stores_nothing(client: SinkClient, rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic()
    assert client.brokers_without_timers(topic) == []
    assert topic_contents(rocketmq.address, topic) == []


def test_group_is_known_while_something_is_written_and_for_a_while_after(
    client: SinkClient, rocketmq: RocketMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = rocketmq.topic()
    monkeypatch.setattr(sink_client, "_IDLE_S", 0.2)
    with Admin(rocketmq.address) as admin:
        with client:
            client.queues(topic)
            assert admin.clients.producers("rocketline_spark")
        deadline_s = time.monotonic() + 10
        while admin.clients.producers("rocketline_spark"):
            assert time.monotonic() < deadline_s, "it never left"
            time.sleep(0.02)
        with client:
            client.queues(topic)
            assert admin.clients.producers("rocketline_spark"), "it came back"
