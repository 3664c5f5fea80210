"""Producers of both flavours on real servers, read back by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rocketline import PullConsumer
from rocketline.client.producer.queue_choice import by_hash
from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import RouteError, TopicNotExistError
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue
from rocketline.model.sys_flags import CompressionType
from support.clients.clusters import DELAYS_S, ClientCluster
from support.clients.producers import FLAVOURS, MakeProducer, error_of, maker

SLOW_MACHINE_S = 30.0
LATE_MS_MAX = 5000
"""So much after its time a delayed message may come on a busy machine; the next level by default is 57 s later."""


@pytest.fixture(params=list(FLAVOURS))
def make(request: pytest.FixtureRequest) -> MakeProducer:
    return maker(request.param)


@contextmanager
def reading(cluster: ClientCluster) -> Iterator[PullConsumer]:
    with PullConsumer(cluster.name_server, group=cluster.group("readers")) as consumer:
        yield consumer


def read(cluster: ClientCluster, queue: MessageQueue, count: int) -> list[ReceivedMessage]:
    """The first `count` messages of a queue, once they are there: Apache answers a send before that."""
    with reading(cluster) as consumer:
        found: list[ReceivedMessage] = []
        while len(found) < count:
            found += consumer.pull(queue, len(found), waits=True).messages
        return found


async def test_what_is_sent_can_be_read(cluster: ClientCluster, make: MakeProducer) -> None:
    topic = cluster.topic(queues=1)
    sent = [
        Message(topic, b"plain"),
        Message(topic, b"all", tags="a", keys=["k1", "k2"], properties={"color": "rot ü"}, flag=7),
    ]
    async with make(cluster.name_server, send_timeout_s=SLOW_MACHINE_S) as producer:
        receipts = [await producer.send(sent[0]), await producer.send_soon(sent[1])]
        await producer.send_oneway(Message(topic, b"oneway"))
        queue = receipts[0].queue
        assert [receipt.queue_offset for receipt in receipts] == [0, 1]
    plain, full, oneway = await asyncio.to_thread(read, cluster, queue, 3)
    assert (plain.message_id, full.message_id) == (receipts[0].message_id, receipts[1].message_id)
    assert (plain.offset_message_id, full.offset_message_id) == tuple(one.offset_message_id for one in receipts)
    assert (full.body, full.tags, list(full.keys), full.flag) == (b"all", "a", ["k1", "k2"], 7)
    assert full.properties["color"] == "rot ü"
    assert oneway.body == b"oneway"


@pytest.mark.parametrize("kind", list(CompressionType))
async def test_compressed_bodies_are_read_as_they_were(
    cluster: ClientCluster, make: MakeProducer, kind: CompressionType
) -> None:
    """C86."""
    topic = cluster.topic(queues=1)
    body = b"a body that repeats itself " * 1000
    async with make(cluster.name_server, compression=kind, send_timeout_s=SLOW_MACHINE_S) as producer:
        receipt = await producer.send(Message(topic, body))
    (message,) = await asyncio.to_thread(read, cluster, receipt.queue, 1)
    assert message.body == body


async def test_batch_arrives_in_order(cluster: ClientCluster, make: MakeProducer) -> None:
    """C99, on a real broker."""
    topic = cluster.topic(queues=2)
    async with make(cluster.name_server, send_timeout_s=SLOW_MACHINE_S) as producer:
        receipt = await producer.send([Message(topic, b"%d" % number, tags="t") for number in range(20)])
    messages = await asyncio.to_thread(read, cluster, receipt.queue, 20)
    assert [message.body for message in messages] == [b"%d" % number for number in range(20)]
    assert [message.message_id for message in messages] == receipt.message_ids
    assert len(receipt.offset_message_id.split(",")) == 20


async def test_new_topic_is_made_by_its_first_message(cluster: ClientCluster, make: MakeProducer) -> None:
    """C35, on a real broker."""
    topic = f"new-{cluster.group()}"
    async with make(cluster.name_server, send_timeout_s=SLOW_MACHINE_S) as producer:
        receipt = await producer.send(Message(topic, b"first"))
        assert receipt.queue.queue_id < 4
    (message,) = await asyncio.to_thread(read, cluster, receipt.queue, 1)
    assert message.body == b"first"


async def test_delayed_message_comes_later(cluster: ClientCluster, make: MakeProducer) -> None:
    """C119: level 5, which these servers make 3 s of."""
    topic = cluster.topic(queues=1)
    async with make(cluster.name_server, send_timeout_s=SLOW_MACHINE_S) as producer:
        (queue,) = await producer.queues(topic)
        await producer.send(Message(topic, b"later", delay_level=5))
    (message,) = await asyncio.to_thread(read, cluster, queue, 1)
    assert message.body == b"later"
    late_ms = message.store_ms - message.born_ms - DELAYS_S[4] * 1000
    assert 0 <= late_ms < LATE_MS_MAX


async def test_key_keeps_its_queue_and_order(cluster: ClientCluster, make: MakeProducer) -> None:
    topic = cluster.topic(queues=4, brokers=2)
    async with make(cluster.name_server, send_timeout_s=SLOW_MACHINE_S) as producer:
        receipts = [await producer.send(Message(topic, b"%d" % n), selector=by_hash("order-7")) for n in range(10)]
    assert len({receipt.queue for receipt in receipts}) == 1
    assert [receipt.queue_offset for receipt in receipts] == list(range(10))


async def test_both_masters_get_their_share(cluster: ClientCluster, make: MakeProducer) -> None:
    topic = cluster.topic(queues=2, brokers=2)
    async with make(cluster.name_server, send_timeout_s=SLOW_MACHINE_S) as producer:
        receipts = await asyncio.gather(*(producer.send_soon(Message(topic, b"x")) for _ in range(40)))
    assert {(one.queue.broker_name, one.queue.queue_id) for one in receipts} == {
        (broker, number) for broker in ("broker-a", "broker-b") for number in (0, 1)
    }


async def test_topic_that_may_not_be_written_to_is_refused(cluster: ClientCluster, make: MakeProducer) -> None:
    """By the route: brokers do not look at the permission of a topic when a message comes."""
    topic = cluster.topic(queues=1)
    cluster.make_topic(topic, queues=1, perm=4)
    async with make(cluster.name_server, send_timeout_s=SLOW_MACHINE_S) as producer:
        error = await error_of(producer.send(Message(topic, b"x")))
    assert isinstance(error, RouteError)
    assert error.code == 10005


async def test_topic_that_brokers_may_not_make_is_refused(cluster: ClientCluster, make: MakeProducer) -> None:
    """The broker is asked for a topic by a pattern that it does not have."""
    async with make(cluster.name_server, create_topic_key="NoSuchPattern", send_timeout_s=SLOW_MACHINE_S) as producer:
        error = await error_of(
            producer.send(Message("never-made", b"x"), queue=MessageQueue("never-made", "broker-a", 0))
        )
    assert isinstance(error, RouteError | TopicNotExistError)
