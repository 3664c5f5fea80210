"""Messages that gather to batches by themselves, on real brokers: each receipt tells the truth."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from rocketline import Message, MessageQueue, Producer, PullConsumer, ReceivedMessage, SendReceipt, aio
from support.clients.clusters import ClientCluster

_SOON_S = 30.0


def check(cluster: ClientCluster, topic: str, sent: dict[bytes, SendReceipt]) -> None:
    """Each message lies where its receipt says, under the id that it says; and nothing else is there."""
    with PullConsumer(cluster.name_server, group=f"checkers-{topic}", api_timeout_s=_SOON_S) as consumer:
        stored: dict[tuple[MessageQueue, int], ReceivedMessage] = {}
        for queue in consumer.queues(topic):
            offset = 0
            while found := consumer.pull(queue, offset).messages:
                stored |= {(queue, message.queue_offset): message for message in found}
                offset = found[-1].queue_offset + 1
    assert len(stored) == len(sent)
    for body, receipt in sent.items():
        message = stored[receipt.queue, receipt.queue_offset]
        assert (message.body, message.message_id) == (body, receipt.message_id)
        assert message.offset_message_id == receipt.offset_message_id


def test_threads_that_send_at_once_each_learn_where_their_message_is(cluster: ClientCluster) -> None:
    """C102."""
    topic = cluster.topic()
    bodies = [b"%d" % number for number in range(200)]
    with (
        Producer(cluster.name_server, group=f"senders-{topic}", auto_batch=True, send_timeout_s=_SOON_S) as producer,
        ThreadPoolExecutor(20) as threads,
    ):
        receipts = list(threads.map(lambda body: producer.send(Message(topic, body, tags="a")), bodies))
    check(cluster, topic, dict(zip(bodies, receipts, strict=True)))


async def test_tasks_that_send_to_one_queue_keep_their_order(cluster: ClientCluster) -> None:
    """C102: a thousand at once, of several tags, some compressed and sent by themselves."""
    topic = cluster.topic()
    bodies = [b"%d" % number * (3000 if number % 100 == 50 else 1) for number in range(1000)]
    async with aio.Producer(
        cluster.name_server, group=f"senders-{topic}", auto_batch=True, send_timeout_s=_SOON_S
    ) as producer:
        queue = (await producer.queues(topic))[0]
        sending = [
            producer.send_soon(Message(topic, body, tags=f"t{number % 3}"), queue=queue)
            for number, body in enumerate(bodies)
        ]
        receipts = await asyncio.gather(*sending)
    offsets = [receipt.queue_offset for receipt in receipts]
    assert sorted(offsets) == list(range(1000))
    # What one caller sends without waiting Apache's broker takes with many threads, and in any order.
    assert cluster.whose == "apache" or offsets == sorted(offsets)
    check(cluster, topic, dict(zip(bodies, receipts, strict=True)))
