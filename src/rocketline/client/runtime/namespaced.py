"""Queues as applications name them, and as they are on the wire: the topic has its namespace there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketline.errors import TopicNotFoundError
from rocketline.model.queue import MessageQueue

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime


def on_wire(runtime: ClientRuntime, queue: MessageQueue) -> MessageQueue:
    """The queue that the application means."""
    return MessageQueue(runtime.with_namespace(queue.topic), queue.broker_name, queue.queue_id)


def as_seen(runtime: ClientRuntime, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
    """The queues as the application knows them."""
    return {MessageQueue(runtime.without_namespace(one.topic), one.broker_name, one.queue_id) for one in queues}


async def find_queues(runtime: ClientRuntime, topic: str) -> set[MessageQueue]:
    """The queues to read of a topic, by its newest route, as the application knows them. Raises
    `TopicNotFoundError`, and what asking for the route raises."""
    name = runtime.with_namespace(topic)
    await runtime.update_route(name)
    queues = runtime.routes.queues_to_read(name)
    if not queues:
        raise TopicNotFoundError(topic, runtime.name_servers)
    return as_seen(runtime, queues)
