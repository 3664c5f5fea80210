"""Messages that are requests: sent as others are, and waited for until somebody replies.

Java: DefaultMQProducerImpl.request.
"""

from __future__ import annotations

from rocketline.client.producer.async_sends import AsyncSends
from rocketline.client.producer.auto_batch import AutoBatch
from rocketline.client.producer.core import ProducerCore
from rocketline.client.producer.delivery import Delivery
from rocketline.client.producer.queue_choice import QueueSelector
from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.replies import ReceivedReply
from rocketline.client.runtime.pending_requests import PendingRequest
from rocketline.client.runtime.routes import PublishInfo
from rocketline.client.runtime.runtime import ClientRuntime
from rocketline.client.runtime.shared_waits import SharedWaits
from rocketline.errors import CallTimeoutError
from rocketline.model import property_names
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue


class _Sent:
    """What is told that a request is stored, or is not. Only the latter ends the wait."""

    __slots__ = ("_pending",)

    def __init__(self, pending: PendingRequest) -> None:
        self._pending = pending

    def done(self) -> bool:
        return False

    def set_result(self, receipt: SendReceipt, /) -> None:
        self._pending.receipt = receipt

    def set_exception(self, error: Exception, /) -> None:
        self._pending.fail(error)


class Requests:
    """The requests of one producer. On one loop."""

    def __init__(
        self,
        runtime: ClientRuntime,
        core: ProducerCore,
        delivery: Delivery,
        soon: AsyncSends,
        batches: AutoBatch | None,
    ) -> None:
        """A request waits in none of the `batches`, and overtakes none of them."""
        self._runtime, self._core, self._delivery, self._soon = runtime, core, delivery, soon
        self._batches = batches
        self._owner = runtime.with_namespace(core.group)
        self._waits = SharedWaits(runtime)
        self._introduced: dict[str, PublishInfo] = {}
        """By topic: the queues whose brokers were told who is here."""

    async def ask(
        self, message: Message, queue: MessageQueue | None, selector: QueueSelector | None, timeout_s: float
    ) -> ReceivedReply:
        """Send the message and wait for the reply to it. See `Producer.request`."""
        if not isinstance(message, Message):
            raise TypeError(f"a request is one Message, not {message!r:.100}")
        started_s, options = self._runtime.clock.monotonic(), self._core.options
        waiting, waiting_max = self._runtime.requests, options.async_in_flight_max
        pending = waiting.add(self._owner, message.topic, timeout_s, waiting_max=waiting_max)
        try:
            request = self._core.prepare(self._marked(message, pending, timeout_s))
            if not self._is_introduced(request.topic):
                await self._introduce(request.topic, started_s, timeout_s)
            if self._batches is not None:
                queue = self._batches.make_way(request, queue, selector)
            self._soon.send(request, queue, selector, started_s, timeout_s, _Sent(pending))
            return await pending.reply
        finally:
            waiting.forget(pending)

    def end_all(self) -> None:
        """The producer closes: whoever waits is told so."""
        self._runtime.requests.end_all(self._owner)

    def _marked(self, message: Message, pending: PendingRequest, timeout_s: float) -> Message:
        """The message with what makes it a request."""
        properties = dict(message.properties)
        properties[property_names.CORRELATION_ID] = pending.correlation_id
        properties[property_names.REPLY_TO_CLIENT] = self._runtime.client_id
        properties[property_names.TTL] = str(int(timeout_s * 1000))
        return Message.of(message.topic, message.body, properties, message.flag)

    # --- a reply reaches only a client that its broker knows

    def _is_introduced(self, topic: str) -> bool:
        info = self._introduced.get(topic)
        return info is not None and info is self._core.publish_info(topic)

    async def _introduce(self, topic: str, started_s: float, timeout_s: float) -> None:
        """Find the topic's brokers and have them know this client, before the first request goes there."""
        await self._delivery.find_queues(topic, timeout_s)
        what = f"introduce this client to the brokers of {topic}"
        try:
            left_s = started_s + timeout_s - self._runtime.clock.monotonic()
            await self._waits.wait(what, lambda: self._tell_brokers(topic), left_s)
        except TimeoutError:
            raise CallTimeoutError(f"introducing this client to the brokers of topic {topic!r}", timeout_s) from None

    async def _tell_brokers(self, topic: str) -> None:
        info, routes = self._core.publish_info(topic), self._core.routes
        if info is None:  # it is gone again: sending tells
            return
        addresses = [routes.master(routes.broker_of(queue)) for queue in info.queues]
        await self._runtime.introduce(filter(None, addresses))
        self._introduced[topic] = info
