"""What a topic holds, read queue by queue with a plain client.

Apache's broker answers a send before consumers find the message: it enters it into its queue a moment later. So whoever
knows how many messages there must be waits for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from rocketline import PullConsumer
from rocketline.client.received_message import ReceivedMessage
from rocketline.model.queue import MessageQueue
from support.clients.clusters import wait_until


@contextmanager
def found_afterwards(address: str, topic: str, count: int) -> Iterator[None]:
    """So many messages are sent inside of the block; after it, consumers find them."""
    with PullConsumer(address, group="TOOLS_CONSUMER") as consumer:
        queues = consumer.queues(topic)
        before = _sum_of_ends(consumer, queues)
        yield
        wait_until(lambda: _sum_of_ends(consumer, queues) >= before + count)


def _sum_of_ends(consumer: PullConsumer, queues: Collection[MessageQueue]) -> int:
    return sum(map(consumer.max_offset, queues))


def queue_contents(address: str, topic: str, *, expected: int = 0) -> dict[tuple[str, int], list[ReceivedMessage]]:
    """All messages of each queue, in the order in which they lie there; queues that are empty too.

    It waits until there are as many as expected.
    """
    contents = {}
    with PullConsumer(address, group="TOOLS_CONSUMER") as consumer:
        queues = sorted(consumer.queues(topic))
        wait_until(lambda: _sum_of_ends(consumer, queues) >= expected)
        for queue in queues:
            messages: list[ReceivedMessage] = []
            offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while offset < end:
                result = consumer.pull(queue, offset, 1000)
                messages += result.messages
                offset = result.next_offset
            contents[queue.broker_name, queue.queue_id] = messages
    return contents


def topic_contents(address: str, topic: str, *, expected: int = 0) -> list[ReceivedMessage]:
    """All messages, queue by queue, once there are as many as expected."""
    contents = queue_contents(address, topic, expected=expected)
    return [message for messages in contents.values() for message in messages]
