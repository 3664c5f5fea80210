"""Pull consumers on real servers, with asyncio and blocking."""

from __future__ import annotations

import asyncio

from client_clusters import ClientCluster
from rocketline.client.pull_consumer import PullConsumer as AsyncPullConsumer
from rocketline.client.pulling import PullStatus
from rocketline.client.received_message import decode_messages
from rocketline.model.message import Message
from rocketline.sync.producer import Producer
from rocketline.sync.pull_consumer import PullConsumer

COUNT = 100


def send(cluster: ClientCluster, topic: str, count: int = COUNT) -> None:
    with Producer(cluster.name_server, group="senders", send_timeout_s=30) as producer:
        for number in range(count):
            producer.send(Message(topic, b"%d" % number, tags="even" if number % 2 == 0 else "odd"))


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
        waiting = consumer.pull_raw_async(queue, 1, waits=True)
        send(cluster, topic, 1)
        assert waiting.result(30).next_offset == 2


def test_wait_at_the_end_of_a_queue_is_over_in_time(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic, 1)
    with PullConsumer(cluster.name_server, group=group, suspend_s=1.0) as consumer:
        (queue,) = consumer.queues(topic)
        assert consumer.pull(queue, 1, waits=True).status is PullStatus.NO_NEW_MESSAGE


async def test_raw_pulls_of_one_queue_are_under_way_together(cluster: ClientCluster) -> None:
    topic, group = cluster.topic(queues=1), cluster.group()
    send(cluster, topic)
    async with AsyncPullConsumer(cluster.name_server, group=group) as consumer:
        (queue,) = await consumer.queues(topic)
        pulls = await asyncio.gather(*(consumer.pull_raw(queue, offset, 10) for offset in range(0, COUNT, 10)))
        messages = [message for raw in pulls for message in decode_messages(raw.body, queue)]
    assert [message.queue_offset for message in messages] == list(range(COUNT))
    assert [message.body for message in messages] == [b"%d" % number for number in range(COUNT)]
