"""Simple consumers on real servers, blocking and with asyncio."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Unpack

import pytest

from rocketline.client.aio.simple_consumer import SimpleConsumer as AsyncSimpleConsumer
from rocketline.client.consumer.subscriptions import by_sql
from rocketline.client.pop.popped_message import PoppedMessage
from rocketline.client.simple.options import SimpleKeywords
from rocketline.client.sync.producer import Producer
from rocketline.client.sync.pull_consumer import PullConsumer
from rocketline.client.sync.simple_consumer import SimpleConsumer
from rocketline.errors import HandleError, HandleExpiredError, ResponseError
from rocketline.model.ids import QueueOffset
from rocketline.model.message import Message
from rocketline.model.names import DLQ_PREFIX
from rocketline.model.subscription import ConsumeFromWhere
from support.clients.clusters import ClientCluster, wait_until

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
PATIENCE_S = 30.0


def send(cluster: ClientCluster, topic: str, bodies: Sequence[bytes], *, tags: str | None = None) -> None:
    with Producer(cluster.name_server, group="senders", send_timeout_s=PATIENCE_S) as producer:
        for body in bodies:
            producer.send(Message(topic, body, tags=tags, properties={"size": str(len(body))}))


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@contextmanager
def worker(
    cluster: ClientCluster, group: str, topic: str, **options: Unpack[SimpleKeywords]
) -> Iterator[SimpleConsumer]:
    options.setdefault("consume_from", FIRST)
    with SimpleConsumer(cluster.name_server, group=group, **options) as consumer:
        consumer.subscribe(topic)
        yield consumer


def take(consumer: SimpleConsumer, count: int, invisible_s: float = 60) -> list[PoppedMessage]:
    """So many messages, or what came in time."""
    messages: list[PoppedMessage] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(messages) < count and time.monotonic() < deadline_s:
        messages += consumer.receive(min(32, count - len(messages)), invisible_s, wait_s=1)
    return messages


def bodies_of(messages: Sequence[PoppedMessage]) -> list[bytes]:
    return sorted((message.body for message in messages), key=int)


def test_messages_are_hidden_from_others_and_gone_once_they_are_acknowledged(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=2, brokers=2), cluster.group()
    send(cluster, topic, numbered(40))
    with worker(cluster, group, topic) as one, worker(cluster, group, topic) as other:
        messages = take(one, 40, invisible_s=3)
        assert bodies_of(messages) == numbered(40)
        assert other.receive(wait_s=0.5) == []
        one.ack(messages[0])
        one.ack(messages[1:])
        assert other.receive(wait_s=7) == []


def test_message_that_nobody_acknowledged_comes_again_and_an_extended_one_does_not(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, numbered(2))
    with worker(cluster, group, topic) as consumer:
        first, second = sorted(take(consumer, 2, invisible_s=2), key=lambda message: message.body)
        consumer.extend(second, 30)
        (again,) = take(consumer, 1)
        assert (again.body, again.attempt, again.topic) == (b"0", 2, topic)
        with pytest.raises(HandleExpiredError):
            consumer.ack(first)
        consumer.ack([again, second])
        with pytest.raises(HandleError, match="before"):
            consumer.ack(again)


DYING = """
import sys
from rocketline import ConsumeFromWhere, SimpleConsumer
consumer = SimpleConsumer(
    sys.argv[1], group=sys.argv[2], invisible_s=2, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
)
consumer.subscribe(sys.argv[3])
consumer.start()
with next(consumer) as message:
    print(message.body.decode(), flush=True)
    sys.stdin.read()
"""


def test_message_of_a_worker_that_was_killed_comes_again(cluster: ClientCluster) -> None:
    """Though it was extended before."""
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, numbered(1))
    command = [sys.executable, "-c", DYING, cluster.name_server, group, topic]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as dying,
        worker(cluster, group, topic) as consumer,
    ):
        assert dying.stdout is not None
        assert dying.stdout.readline() == b"0\n"
        assert consumer.receive(wait_s=4) == []
        dying.kill()
        (message,) = take(consumer, 1)
        assert (message.body, message.attempt) == (b"0", 2)
        consumer.ack(message)


@pytest.mark.thorough_with(cluster="apache")
def test_message_that_is_given_back_comes_again_soon(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, numbered(1))
    with worker(cluster, group, topic) as consumer:
        for attempt in (1, 2, 3):
            (message,) = take(consumer, 1)
            assert message.attempt == attempt
            consumer.nack(message, 0)


def test_message_that_was_tried_often_enough_is_a_dead_letter(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, [b"bad"])
    with worker(cluster, group, topic, max_attempts=2) as consumer:
        for _ in range(2):
            (message,) = take(consumer, 1)
            consumer.nack(message, 0)
        dead = DLQ_PREFIX + group
        wait_until(lambda: not consumer.receive(wait_s=0) and _has_topic(cluster, dead))
    with PullConsumer(cluster.name_server, group="undertaker") as undertaker:
        (queue,) = undertaker.queues(dead)
        (letter,) = undertaker.pull(queue, 0).messages
        assert (letter.body, letter.message_id) == (b"bad", message.message_id)


def _has_topic(cluster: ClientCluster, topic: str) -> bool:
    with PullConsumer(cluster.name_server, group="asking") as consumer:
        try:
            return bool(consumer.queues(topic))
        except Exception:  # noqa: BLE001  # not yet
            return False


def test_workers_share_the_work_and_nothing_is_done_twice(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=4, brokers=2), cluster.group()
    done: Counter[bytes] = Counter()

    def work(consumer: SimpleConsumer) -> None:
        for attempt in consumer:
            with attempt as message:
                done[message.body] += 1

    with worker(cluster, group, topic) as one, worker(cluster, group, topic) as other:
        threads = [threading.Thread(target=work, args=(consumer,)) for consumer in (one, one, other, other)]
        for thread in threads:
            thread.start()
        send(cluster, topic, numbered(200))
        wait_until(lambda: done.total() >= 200)
        one.close()
        other.close()
        for thread in threads:
            thread.join()
    assert done == Counter(numbered(200))


@pytest.mark.thorough_with(cluster="apache")
async def test_block_keeps_its_message_and_gives_it_back_if_it_fails(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, [b"0"])
    options = SimpleKeywords(consume_from=FIRST, invisible_s=2)
    async with (
        AsyncSimpleConsumer(cluster.name_server, group=group, **options) as one,
        AsyncSimpleConsumer(cluster.name_server, group=group, **options) as other,
    ):
        one.subscribe(topic)
        other.subscribe(topic)

        async def fail() -> None:
            async with await anext(one) as message:
                assert await other.receive(wait_s=7) == []
                await one.nack(message, 1)
                raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await fail()
        async with await anext(other) as message:
            assert message.attempt == 2


def test_message_of_any_broker_is_received_at_once(cluster: ClientCluster) -> None:
    """Though the worker waits: each broker tells when it has something."""
    topic, group = cluster.topic(queues=1, brokers=2), cluster.group()
    with worker(cluster, group, topic) as consumer:
        assert consumer.receive(wait_s=1) == []
        for number in range(4):
            received: list[PoppedMessage] = []
            waiting = threading.Thread(target=lambda into=received: into.extend(consumer.receive(wait_s=20)))
            waiting.start()
            time.sleep(0.3)
            begun_s = time.monotonic()
            send(cluster, topic, [b"%d" % number])
            waiting.join()
            assert [message.body for message in received] == [b"%d" % number]
            assert time.monotonic() - begun_s < 5
            consumer.ack(received)


def test_only_what_is_wanted_comes(cluster: ClientCluster) -> None:
    topic = cluster.topic(queues=1)
    for body, tags in ((b"1", "Aa"), (b"2", "BB"), (b"333", "C")):
        send(cluster, topic, [body], tags=tags)
    tagged, sized = cluster.group(), cluster.group()
    for group, selector, wanted in ((tagged, "Aa || C", [b"1", b"333"]), (sized, by_sql("size > 2"), [b"333"])):
        with SimpleConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer:
            consumer.subscribe(topic, selector)
            messages = take(consumer, len(wanted), invisible_s=2)
            assert bodies_of(messages) == wanted
            consumer.ack(messages)
    with worker(cluster, tagged, topic) as consumer:
        assert consumer.receive(wait_s=6) == [], "what nobody wants was acknowledged, too"


def test_broker_that_refuses_is_quoted(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, [b"0"])
    with worker(cluster, group, topic) as consumer:
        (message,) = take(consumer, 1)
        consumer.extend(message, 12 * 3600)
        message.handle = replace(message.handle, queue_offset=QueueOffset(1000))
        with pytest.raises(ResponseError) as caught:
            consumer.ack(message)
        assert caught.value.code == 208
