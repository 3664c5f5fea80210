"""Calling a timer message back before it is delivered. Java: DefaultMQProducer.recallMessage."""

from __future__ import annotations

from rocketline.client.producer.core import ProducerCore
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.validation import check_topic_to_send
from rocketline.errors import InvalidMessageError, InvalidNameError, RemoteProtocolError
from rocketline.model.names import is_dlq_topic, is_retry_topic
from rocketline.wire import headers
from rocketline.wire.headers import RecallMessageRequestHeader, RecallMessageResponseHeader
from rocketline.wire.recall_handle import RecallHandle


class Recalls:
    """Asks the broker that a handle names."""

    def __init__(self, runtime: ClientRuntime, core: ProducerCore) -> None:
        self._runtime, self._core = runtime, core

    async def recall(self, topic: str, handle: str, timeout_s: float) -> str:
        """Call the message back; its id. Raises as `Producer.recall` does."""
        topic_on_wire = self._runtime.with_namespace(topic)
        broker_name = _checked(topic, topic_on_wire, handle).broker_name
        due_s = self._runtime.clock.monotonic() + timeout_s
        address = await self._address(topic_on_wire, broker_name, timeout_s)
        group = self._runtime.with_namespace(self._core.group)
        header = RecallMessageRequestHeader(producer_group=group, topic=topic_on_wire, recall_handle=handle)
        left_s = max(due_s - self._runtime.clock.monotonic(), 0.0)
        answer = await self._runtime.ask_ok(address, header, timeout_s=left_s, vip=True)
        message_id = headers.decode(RecallMessageResponseHeader, answer.ext).msg_id
        if self._core.trace is not None and self._core.options.trace_recalls:
            self._core.trace.recalled(topic, message_id)
        return message_id

    async def _address(self, topic: str, broker_name: str, timeout_s: float) -> str:
        """The master of the broker named in the handle; if nobody knows it, any broker of the topic can tell."""
        routes = self._runtime.routes
        address = routes.master(broker_name)
        if address is None:
            self._core.topics.add(topic)
            async with self._runtime.limit_search(topic, timeout_s):
                await self._runtime.update_route(topic)
            address = routes.master(broker_name) or routes.any_address(topic)
        if address is None:
            raise self._core.no_address(broker_name)
        return address


def _checked(topic: str, topic_on_wire: str, text: str) -> RecallHandle:
    """The handle. Raises `InvalidNameError`, `InvalidMessageError`: nothing is sent then."""
    check_topic_to_send(topic)
    if is_retry_topic(topic) or is_dlq_topic(topic):
        raise InvalidNameError("topic", topic, "messages of a retry or dead letter topic cannot be recalled")
    if not isinstance(text, str):
        raise InvalidMessageError(topic, f"{text!r:.80} is no recall handle: what was due when it was sent has none")
    try:
        handle = RecallHandle.decode(text)
    except RemoteProtocolError as error:
        raise InvalidMessageError(topic, f"{error}; take the recall_handle of the receipt of a timer message") from None
    if handle.topic != topic_on_wire:
        raise InvalidMessageError(topic, f"the recall handle is one of topic {handle.topic!r}")
    return handle
