"""Queues as applications name them, and as they are on the wire: the topic has its namespace there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketline.errors import TopicNotFoundError
from rocketline.model.queue import MessageQueue
from rocketline.wire.namespaces import with_namespace, without_namespace

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime


def on_wire(namespace: str, queue: MessageQueue) -> MessageQueue:
    """The queue that the application means, as brokers know it."""
    if not namespace:
        return queue
    return MessageQueue(with_namespace(namespace, queue.topic), queue.broker_name, queue.queue_id)


def as_seen(namespace: str, queue: MessageQueue) -> MessageQueue:
    """A queue of brokers, as the application names it."""
    if not namespace:
        return queue
    return MessageQueue(without_namespace(queue.topic, namespace), queue.broker_name, queue.queue_id)


async def find_queues(runtime: ClientRuntime, topic: str) -> set[MessageQueue]:
    """The queues to read of a topic, by its newest route, as the application knows them. Raises
    `TopicNotFoundError`, and what asking for the route raises."""
    name = runtime.with_namespace(topic)
    await runtime.update_route(name)
    queues = runtime.routes.queues_to_read(name)
    if not queues:
        raise TopicNotFoundError(topic, runtime.name_servers)
    return {as_seen(runtime.namespace, queue) for queue in queues}
