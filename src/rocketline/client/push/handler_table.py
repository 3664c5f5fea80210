"""Which handler gets which messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NoReturn

from rocketline.client.consumer.process_queue import Queue
from rocketline.client.push.consume_request import ConsumeRequest, Handler
from rocketline.client.received_message import ReceivedMessage
from rocketline.client.runtime.namespaced import as_seen
from rocketline.errors import ClientError
from rocketline.model.names import retry_topic
from rocketline.model.property_names import RETRY_TOPIC
from rocketline.model.queue import MessageQueue
from rocketline.wire.namespaces import without_namespace


class HandlerTable:
    """The handlers of one consumer by topic, as the application names topics.

    A handler stays here when its topic is unsubscribed: messages that it failed to consume may still come back.
    """

    def __init__(self, group: str, namespace: str, batch_max: int) -> None:
        """`group` is as on the wire, with the namespace."""
        self._retry_topic = retry_topic(group)
        self._namespace, self._batch_max = namespace, batch_max
        self._waited_in = frozenset({self._retry_topic, self._without_namespace(self._retry_topic)})
        self._popped_from = tuple(f"{name}_" for name in self._waited_in)
        """How the names of topics begin where messages wait that were popped and not acknowledged."""
        self._by_topic: dict[str, Handler] = {}

    def put(self, topic: str, handler: Handler) -> None:
        self._by_topic[topic] = handler

    def requests(
        self, queue: MessageQueue, process_queue: Queue, messages: Sequence[ReceivedMessage]
    ) -> list[ConsumeRequest]:
        """The calls to make for these messages, in order. Messages of the retry topic get their own topic back."""
        if not queue.topic.startswith(self._retry_topic):
            return self._cut(queue, process_queue, messages, self._handler(self._without_namespace(queue.topic)))
        self.restore_topics(messages)
        runs = groupby(messages, lambda message: self._handler(message.topic))
        return [request for handler, run in runs for request in self._cut(queue, process_queue, list(run), handler)]

    def of(self, message: ReceivedMessage) -> Handler:
        """The handler of one message, whose topic has been restored."""
        return self._handler(message.topic)

    def restore_topics(self, messages: Sequence[ReceivedMessage]) -> None:
        """Give messages that waited in a retry topic of the group the topic that they were sent to."""
        for message in messages:
            topic = message.topic
            if topic in self._waited_in and (origin := message.properties.get(RETRY_TOPIC)):
                message.topic = topic = self._without_namespace(origin)
            for prefix in self._popped_from:
                if topic.startswith(prefix):
                    message.topic = self._without_namespace(topic.removeprefix(prefix))

    def batch_max(self, topic: str) -> int:
        """How many messages of a queue go to one call."""
        is_batch = topic.startswith(self._retry_topic) or self._handler(self._without_namespace(topic)).is_batch
        return self._batch_max if is_batch else 1

    def _cut(
        self, queue: MessageQueue, process_queue: Queue, messages: Sequence[ReceivedMessage], handler: Handler
    ) -> list[ConsumeRequest]:
        seen = as_seen(self._namespace, queue)
        if not handler.is_batch or self._batch_max == 1:
            return [ConsumeRequest(queue, seen, process_queue, (message,), handler) for message in messages]
        size = self._batch_max
        starts = range(0, len(messages), size)
        return [ConsumeRequest(queue, seen, process_queue, tuple(messages[at : at + size]), handler) for at in starts]

    def _without_namespace(self, topic: str) -> str:
        return without_namespace(topic, self._namespace) if self._namespace else topic

    def _handler(self, topic: str) -> Handler:
        return self._by_topic.get(topic, _NOBODY)


def _refuse(messages: Sequence[ReceivedMessage]) -> NoReturn:
    raise ClientError(
        f"a message of topic {messages[0].topic!r} came back for a retry, and this consumer has no handler for it: "
        "give all members of a group the same subscriptions"
    )


_NOBODY: Final = Handler(_refuse, is_batch=True)
"""For a topic that only other members of the group have subscribed."""
