"""Lite pull consumers on real servers, with asyncio and blocking."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

import pytest

from rocketline.client.aio.lite_pull_consumer import LitePullConsumer as AsyncLitePullConsumer
from rocketline.client.lite_pull.options import LitePullKeywords
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.sync.lite_pull_consumer import LitePullConsumer
from rocketline.client.sync.producer import Producer
from rocketline.client.sync.pull_consumer import PullConsumer
from rocketline.errors import InvalidOffsetError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere
from support.clients.clusters import ClientCluster

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
PATIENCE_S = 30.0


def send(cluster: ClientCluster, topic: str, bodies: Sequence[bytes], *, tags: str | None = None) -> None:
    with Producer(cluster.name_server, group="senders", send_timeout_s=PATIENCE_S) as producer:
        for body in bodies:
            producer.send(Message(topic, body, tags=tags))


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


@contextmanager
def consuming(
    cluster: ClientCluster, group: str, topic: str, selector: str | None = None, **options: Unpack[LitePullKeywords]
) -> Iterator[LitePullConsumer]:
    options.setdefault("consume_from", FIRST)
    with LitePullConsumer(cluster.name_server, group=group, **options) as consumer:
        consumer.subscribe(topic, selector)
        yield consumer


def take(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    """So many messages, or what came in time."""
    messages: list[ReceivedMessage] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(messages) < count and time.monotonic() < deadline_s:
        messages += consumer.poll(0.2)
    return messages


def bodies_of(messages: Sequence[ReceivedMessage]) -> list[bytes]:
    return sorted((message.body for message in messages), key=int)


def test_all_messages_come_once_and_the_next_consumer_goes_on(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(brokers=2), cluster.group()
    send(cluster, topic, numbered(100))
    with consuming(cluster, group, topic) as consumer:
        messages = take(consumer, 100)
        assert bodies_of(messages) == numbered(100)
        for queue in consumer.assignment():
            offsets = [message.queue_offset for message in messages if message.queue == queue]
            assert offsets == list(range(len(offsets)))
        consumer.commit()
    send(cluster, topic, numbered(20, 100))
    with consuming(cluster, group, topic) as consumer:
        assert bodies_of(take(consumer, 20)) == numbered(20, 100)
        assert consumer.poll(0.5) == []


async def test_asyncio_consumer_iterates_and_commits(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=2), cluster.group()
    send(cluster, topic, numbered(30))
    async with AsyncLitePullConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer:
        consumer.subscribe(topic)
        messages: list[ReceivedMessage] = []
        async for message in consumer:
            messages.append(message)
            if len(messages) == 30:
                break
        await consumer.commit(is_persisted=True)
        ends = {queue: await consumer.max_offset(queue) for queue in consumer.assignment()}
    assert bodies_of(messages) == numbered(30)
    async with AsyncLitePullConsumer(cluster.name_server, group=group) as consumer:
        assert {queue: await consumer.committed(queue) for queue in ends} == ends


def test_iteration_ends_when_another_thread_closes(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, numbered(3))
    messages: list[ReceivedMessage] = []
    with consuming(cluster, group, topic) as consumer:
        closing = threading.Thread(target=consumer.close)
        for message in consumer:
            messages.append(message)
            if len(messages) == 3:
                closing.start()
        closing.join()
    assert bodies_of(messages) == numbered(3)


def test_only_the_tags_that_are_wanted_come(cluster: ClientCluster) -> None:
    """C163: Aa and BB have the same hash, so brokers deliver both."""
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, [b"1"], tags="Aa")
    send(cluster, topic, [b"2"], tags="BB")
    send(cluster, topic, [b"3"])
    send(cluster, topic, [b"4"], tags="C")
    with consuming(cluster, group, topic, "Aa || C") as consumer:
        assert bodies_of(take(consumer, 2)) == [b"1", b"4"]
        assert consumer.poll(0.5) == []


def test_members_share_the_queues_of_a_topic(cluster: ClientCluster) -> None:
    """C213."""
    topic, group = cluster.topic(queues=4), cluster.group()
    with consuming(cluster, group, topic) as one, consuming(cluster, group, topic) as other:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (len(one.assignment()) == len(other.assignment()) == 2) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert one.assignment() | other.assignment() == one.queues(topic)
        send(cluster, topic, numbered(40))
        first, second = take(one, 20), take(other, 20)
        assert bodies_of(first + second) == numbered(40)


def test_members_that_assign_the_same_queue_both_get_its_messages(cluster: ClientCluster) -> None:
    """C213: in one group and at one time; neither commits, so where the other is matters to none of them."""
    topic, group = cluster.topic(queues=4), cluster.group()
    queue = min(_queues_of(cluster, topic))
    with _assigned(cluster, group, queue) as one, _assigned(cluster, group, queue) as other:
        send(cluster, topic, numbered(40))
        for consumer in (one, other):
            messages = take(consumer, 10)
            assert [message.queue_offset for message in messages] == list(range(10))
            assert {message.queue for message in messages} == {queue}
        assert one.poll(0.5) == other.poll(0.5) == []


@contextmanager
def _assigned(cluster: ClientCluster, group: str, queue: MessageQueue) -> Iterator[LitePullConsumer]:
    with LitePullConsumer(cluster.name_server, group=group, consume_from=FIRST, auto_commit=False) as consumer:
        consumer.assign([queue])
        yield consumer


def _queues_of(cluster: ClientCluster, topic: str) -> set[MessageQueue]:
    with LitePullConsumer(cluster.name_server, group="asking") as consumer:
        return consumer.queues(topic)


def test_seek_goes_to_offsets_ends_and_times(cluster: ClientCluster) -> None:
    """C208, C209."""
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, numbered(20))
    with LitePullConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer:
        (queue,) = consumer.queues(topic)
        consumer.assign([queue])
        assert len(take(consumer, 20)) == 20
        consumer.seek(queue, 15)
        assert bodies_of(take(consumer, 5)) == numbered(5, 15)
        with pytest.raises(InvalidOffsetError, match="from 0 to 20"):
            consumer.seek(queue, 21)
        consumer.seek_to_end(queue)
        assert consumer.poll(0.3) == []
        send(cluster, topic, [b"20"])
        assert bodies_of(take(consumer, 1)) == [b"20"]
        consumer.seek_to_begin(queue)
        messages = take(consumer, 21)
        assert bodies_of(messages) == numbered(21)
        time_ms = messages[20].store_ms
        assert consumer.offset_for_time(queue, time_ms) <= 20
        consumer.seek_to_time(queue, messages[0].store_ms)
        assert take(consumer, 1)[0].queue_offset == 0


def test_paused_queue_comes_again_after_resume(cluster: ClientCluster) -> None:
    """C210."""
    topic, group = cluster.topic(queues=1), cluster.group()
    queues = _queues_of(cluster, topic)
    send(cluster, topic, numbered(5))
    consumer = LitePullConsumer(cluster.name_server, group=group, consume_from=FIRST)
    consumer.assign(queues)
    consumer.pause(queues)
    with consumer:
        assert consumer.poll(1.5) == []
        consumer.resume(queues)
        assert bodies_of(take(consumer, 5)) == numbered(5)


def test_automatic_commits_reach_the_broker(cluster: ClientCluster) -> None:
    """C206: everything but the last poll, while polling goes on."""
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, numbered(20))
    with consuming(cluster, group, topic, auto_commit_period_s=1.0, offset_persist_period_s=0.5) as consumer:
        messages = take(consumer, 20)
        (queue,) = consumer.assignment()
        deadline_s = time.monotonic() + PATIENCE_S
        with PullConsumer(cluster.name_server, group=group) as other:
            while other.fetch_offset(queue) != 20 and time.monotonic() < deadline_s:
                consumer.poll(0.2)
            assert other.fetch_offset(queue) == 20
    assert len(messages) == 20


def test_compressed_batched_and_delayed_messages_come_as_they_were_sent(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    long = b"rocket" * 2000
    with Producer(cluster.name_server, group="senders", send_timeout_s=PATIENCE_S) as producer:
        producer.send(Message(topic, long, keys=["k1", "k2"], properties={"color": "red"}))
        producer.send([Message(topic, b"one"), Message(topic, b"two")])
        producer.send(Message(topic, b"late", delay_level=1))
    with consuming(cluster, group, topic) as consumer:
        messages = take(consumer, 4)
    assert [message.body for message in messages] == [long, b"one", b"two", b"late"]
    first: Any = messages[0]
    assert (first.keys, first.properties["color"], first.topic) == (("k1", "k2"), "red", topic)
    assert first.body_bytes < len(long)
    assert first.store_host.port == int(cluster.brokers[0].rpartition(":")[2])
    assert messages[3].delay_level == 0 or messages[3].properties["DELAY"]
