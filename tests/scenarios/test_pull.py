"""Pull consumers on real servers, with asyncio and blocking."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rocketline.admin.sync import Admin
from rocketline.client.aio.pull_consumer import PullConsumer as AsyncPullConsumer
from rocketline.client.consumer.pulls import PullStatus
from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.received_message import decode_messages
from rocketline.client.sync.producer import Producer
from rocketline.client.sync.pull_consumer import PullConsumer
from rocketline.model.message import Message
from rocketline.testing import setting_up
from support.clients.clusters import ClientCluster, wait_until

COUNT = 100


def send(cluster: ClientCluster, topic: str, count: int = COUNT) -> None:
    """Messages that can be read when this returns."""
    with Producer(cluster.name_server, group="senders", send_timeout_s=30) as producer:
        messages = [
            Message(topic, b"%d" % number, tags="even" if number % 2 == 0 else "odd") for number in range(count)
        ]
        receipts = [producer.send(message) for message in messages]
    wait_until_readable(cluster, receipts)


def wait_until_readable(cluster: ClientCluster, receipts: Sequence[SendReceipt]) -> None:
    """Apache answers a send before the message is in its queue."""
    last = {receipt.queue: receipt.queue_offset for receipt in receipts}
    with Admin(cluster.name_server) as admin:
        wait_until(lambda: all(admin.offsets.max(queue) > offset for queue, offset in last.items()))


def test_queue_is_read_to_its_end_by_hand(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic)
    with PullConsumer(cluster.name_server, group=group) as consumer:
        (queue,) = consumer.queues(topic)
        assert (consumer.min_offset(queue), consumer.max_offset(queue)) == (0, COUNT)
        bodies, offset = [], 0
        while (result := consumer.pull(queue, offset)).status is PullStatus.FOUND:
            bodies += [message.body for message in result.messages]
            offset = result.next_offset
        assert bodies == [b"%d" % number for number in range(COUNT)]
        assert (result.status, offset) == (PullStatus.NO_NEW_MESSAGE, COUNT)
        consumer.update_offset(queue, offset)
        assert consumer.fetch_offset(queue) == COUNT
        assert consumer.pull(queue, 5000).status is PullStatus.OFFSET_ILLEGAL
        odd = consumer.pull(queue, 0, 10, "odd")
        assert [message.tags for message in odd.messages] == ["odd"] * 10
        assert consumer.earliest_store_ms(queue) <= odd.messages[0].store_ms
        assert consumer.offset_for_time(queue, 1) == 0


def test_pull_that_waits_gets_the_next_message(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, 1)
    with PullConsumer(cluster.name_server, group=group) as consumer:
        (queue,) = consumer.queues(topic)
        waiting = consumer.pull_raw_soon(queue, 1, waits=True)
        send(cluster, topic, 1)
        assert waiting.result(30).next_offset == 2


def test_wait_at_the_end_of_a_queue_is_over_in_time(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, 1)
    with PullConsumer(cluster.name_server, group=group, suspend_s=1.0) as consumer:
        (queue,) = consumer.queues(topic)
        assert consumer.pull(queue, 1, waits=True).status is PullStatus.NO_NEW_MESSAGE


def test_inner_batches_are_unwrapped_with_consecutive_offsets(cluster: ClientCluster) -> None:
    """C168: the broker keeps each batch as one record."""
    topic, group = f"{cluster.topic()}-batches", cluster.group()
    setting_up.create_topic(cluster.name_server, cluster.brokers[:1], topic, queues=1, attributes="+queue.type=BatchCQ")
    with Producer(cluster.name_server, group="senders", send_timeout_s=30) as producer:
        producer.send([Message(topic, b"0", tags="a"), Message(topic, b"1", tags="b"), Message(topic, b"2", tags="a")])
        producer.send(Message(topic, b"3", tags="a"))
        last = producer.send([Message(topic, b"4", tags="b"), Message(topic, b"5", tags="a")])
    wait_until_readable(cluster, [last])
    with PullConsumer(cluster.name_server, group=group) as consumer:
        (queue,) = consumer.queues(topic)
        found, offset = [], 0
        while offset < consumer.max_offset(queue):
            result = consumer.pull(queue, offset)
            found += [(message.queue_offset, message.body, message.tags) for message in result.messages]
            offset = result.next_offset
        assert found == [(0, b"0", "a"), (1, b"1", "b"), (2, b"2", "a"), (3, b"3", "a"), (4, b"4", "b"), (5, b"5", "a")]
        assert consumer.pull(queue, 1).messages[0].queue_offset == 1


async def test_raw_pulls_of_one_queue_are_under_way_together(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic)
    async with AsyncPullConsumer(cluster.name_server, group=group) as consumer:
        (queue,) = await consumer.queues(topic)
        pulls = await asyncio.gather(*(consumer.pull_raw(queue, offset, 10) for offset in range(0, COUNT, 10)))
        messages = [message for raw in pulls for message in decode_messages(raw.body, queue)]
    assert [message.queue_offset for message in messages] == list(range(COUNT))
    assert [message.body for message in messages] == [b"%d" % number for number in range(COUNT)]
