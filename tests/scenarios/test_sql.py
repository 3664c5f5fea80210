"""Consumers of all kinds that choose by SQL, with asyncio and blocking, on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event

import pytest

from rocketline import MessageQueue, by_sql
from rocketline.admin.sync import Admin
from rocketline.aio import LitePullConsumer as AsyncLitePullConsumer
from rocketline.aio import PushConsumer as AsyncPushConsumer
from rocketline.client.consumer.pulls import PullStatus
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.sync.lite_pull_consumer import LitePullConsumer
from rocketline.client.sync.producer import Producer
from rocketline.client.sync.pull_consumer import PullConsumer
from rocketline.client.sync.push_consumer import PushConsumer
from rocketline.errors import InvalidFilterError
from rocketline.model.message import Message
from rocketline.model.subscription import ConsumeFromWhere
from rocketline.wire.bodies.running import CMResult
from support.clients.clusters import ClientCluster

COUNT = 200
WANTED = "price BETWEEN 50 AND 149 AND region = 'north' AND TAGS = 'even'"
EXPECTED = {number for number in range(50, 150) if number % 4 == 0}
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def send(cluster: ClientCluster, topic: str, first: int = 0) -> None:
    with Producer(cluster.name_server, group="senders", send_timeout_s=30) as producer:
        for number in range(first, first + COUNT):
            properties = {"price": str(number), "region": "north" if number % 4 == 0 else "south", "other": "x"}
            tags = "even" if number % 2 == 0 else "odd"
            producer.send(Message(topic, b"%d" % number, tags=tags, properties=properties))


class Received:
    """What came, until all is there that should."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.all_there = Event()

    def take(self, message: ReceivedMessage) -> None:
        self.numbers.append(int(message.body))
        if set(self.numbers) >= EXPECTED:
            self.all_there.set()

    def check(self) -> None:
        assert sorted(self.numbers) == sorted(EXPECTED)


def blocking_push(cluster: ClientCluster, topic: str) -> Received:
    received = Received()
    with PushConsumer(cluster.name_server, group=cluster.group(), consume_from=FIRST) as consumer:
        consumer.subscribe(topic, by_sql(WANTED), received.take)
        assert received.all_there.wait(30)
    return received


def blocking_lite_pull(cluster: ClientCluster, topic: str) -> Received:
    received = Received()
    with LitePullConsumer(cluster.name_server, group=cluster.group(), consume_from=FIRST) as consumer:
        consumer.subscribe(topic, by_sql(WANTED))
        while not received.all_there.is_set():
            for message in consumer.poll(10):
                received.take(message)
    return received


def blocking_pull(cluster: ClientCluster, topic: str) -> Received:
    received = Received()
    with PullConsumer(cluster.name_server, group=cluster.group()) as consumer:
        for queue in consumer.queues(topic):
            offset = 0
            while (result := consumer.pull(queue, offset, 32, by_sql(WANTED))).status is not PullStatus.NO_NEW_MESSAGE:
                offset = result.next_offset
                for message in result.messages:
                    received.take(message)
    return received


def asyncio_push(cluster: ClientCluster, topic: str) -> Received:
    async def main() -> Received:
        received = Received()

        async def take(message: ReceivedMessage) -> None:
            received.take(message)

        async with AsyncPushConsumer(cluster.name_server, group=cluster.group(), consume_from=FIRST) as consumer:
            consumer.subscribe(topic, by_sql(WANTED), take)
            assert await asyncio.to_thread(received.all_there.wait, 30)
        return received

    return asyncio.run(main())


def asyncio_lite_pull(cluster: ClientCluster, topic: str) -> Received:
    async def main() -> Received:
        received = Received()
        async with AsyncLitePullConsumer(cluster.name_server, group=cluster.group(), consume_from=FIRST) as consumer:
            consumer.subscribe(topic, by_sql(WANTED))
            async with asyncio.timeout(30):
                async for message in consumer:
                    received.take(message)
                    if received.all_there.is_set():
                        break
        return received

    return asyncio.run(main())


@pytest.mark.parametrize("consume", [blocking_push, blocking_lite_pull, blocking_pull, asyncio_push, asyncio_lite_pull])
def test_consumer_gets_what_fulfils_its_expression_and_nothing_else(
    cluster: ClientCluster, consume: Callable[[ClientCluster, str], Received]
) -> None:
    """S228, S232, S240."""
    topic = cluster.topic()
    send(cluster, topic)
    consume(cluster, topic).check()


def test_consumer_that_waits_gets_what_it_wants_soon(cluster: ClientCluster) -> None:
    """The pulls wait at the broker when the messages come, and those that nobody wants wake none."""
    topic, received = cluster.topic(queues=1), Received()
    with PushConsumer(cluster.name_server, group=cluster.group(), consume_from=FIRST) as consumer:
        consumer.subscribe(topic, by_sql(WANTED), received.take)
        send(cluster, topic, first=1000)
        send(cluster, topic)
        assert received.all_there.wait(30)
    received.check()


def test_what_failed_comes_again_and_what_is_given_directly_is_consumed(cluster: ClientCluster) -> None:
    """S240: messages come back by the retry topic, to which everybody subscribes by `*`. An administrator's message is
    consumed though the expression would not have chosen it."""
    topic, group = cluster.topic(queues=1), cluster.group()
    seen: list[tuple[bytes, int]] = []
    done = Event()

    def fail_first(message: ReceivedMessage) -> None:
        seen.append((message.body, message.reconsume_times))
        if not message.reconsume_times and message.body == b"wanted":
            raise ValueError("not yet")
        done.set()

    with (
        PushConsumer(cluster.name_server, group=group, consume_from=FIRST) as consumer,
        Producer(cluster.name_server, group="senders", send_timeout_s=30) as producer,
        Admin(cluster.name_server) as admin,
    ):
        consumer.subscribe(topic, by_sql("price > 5"), fail_first)
        for body, price in ((b"unwanted", "5"), (b"wanted", "6")):
            producer.send(Message(topic, body, properties={"price": price}))
        assert done.wait(90)
        assert seen == [(b"wanted", 0), (b"wanted", 1)]
        (member,) = admin.clients.consumers(group).members
        unwanted = admin.messages.at(MessageQueue(topic, "broker-a", 0), 0)
        told = admin.messages.consume_directly(group, member.client_id or "", topic, unwanted.offset_message_id)
    assert told.consume_result is CMResult.CR_SUCCESS
    assert seen[2:] == [(b"unwanted", 0)]


def test_expression_that_cannot_be_read_never_reaches_a_broker(cluster: ClientCluster) -> None:
    with (
        PullConsumer(cluster.name_server, group=cluster.group()) as consumer,
        pytest.raises(InvalidFilterError, match="unequal is written <>"),
    ):
        consumer.pull(next(iter(consumer.queues(cluster.topic()))), 0, 32, by_sql("price != 5"))
