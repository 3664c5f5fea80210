"""What a topic holds, read queue by queue with a plain client."""

from __future__ import annotations

from rocketline import PullConsumer
from rocketline.client.received_message import ReceivedMessage


def queue_contents(address: str, topic: str) -> dict[tuple[str, int], list[ReceivedMessage]]:
    """All messages of each queue, in the order in which they lie there; queues that are empty too."""
    contents = {}
    with PullConsumer(address, group="TOOLS_CONSUMER") as consumer:
        for queue in sorted(consumer.queues(topic)):
            messages: list[ReceivedMessage] = []
            offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while offset < end:
                result = consumer.pull(queue, offset, 1000)
                messages += result.messages
                offset = result.next_offset
            contents[queue.broker_name, queue.queue_id] = messages
    return contents


def topic_contents(address: str, topic: str) -> list[ReceivedMessage]:
    """All messages, queue by queue."""
    return [message for messages in queue_contents(address, topic).values() for message in messages]
