"""Queues as applications name them, and as they are on the wire: the topic has its namespace there or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rocketline.model.queue import MessageQueue


class Names(Protocol):
    """`ClientRuntime`, as far as it is needed here."""

    def with_namespace(self, name: str) -> str: ...

    def without_namespace(self, name: str) -> str: ...


def on_wire(names: Names, queue: MessageQueue) -> MessageQueue:
    """The queue that the application means."""
    return MessageQueue(names.with_namespace(queue.topic), queue.broker_name, queue.queue_id)


def as_seen(names: Names, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
    """The queues as the application knows them."""
    return {MessageQueue(names.without_namespace(one.topic), one.broker_name, one.queue_id) for one in queues}
