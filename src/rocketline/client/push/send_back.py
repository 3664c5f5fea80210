"""Messages that could not be consumed: handed back to the broker, which delivers them again later.

Java: DefaultMQPushConsumerImpl.sendMessageBack.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from rocketline.client.producer.core import ProducerCore
from rocketline.client.producer.delivery import Delivery
from rocketline.client.producer.hooks import SendMode
from rocketline.client.producer.options import ProducerOptions
from rocketline.client.producer.receipts import SendReceipt
from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import BrokerNotFoundError, RocketlineError
from rocketline.logs import Throttle
from rocketline.model import property_names
from rocketline.model.delay_levels import FIRST_RETRY_LEVEL
from rocketline.model.message import Message
from rocketline.model.names import INNER_PRODUCER_GROUP, retry_topic
from rocketline.model.queue import MessageQueue
from rocketline.wire.headers import ConsumerSendMsgBackRequestHeader

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

RECONSUME_TIMES_MAX: Final = 16
"""How often a concurrent consumer is given a message again, unless the options say otherwise."""
_TIMEOUT_S: Final = 5.0


class InnerProducer:
    """Sends what a broker would not take back, and replies.

    Its group is in every heartbeat already, so it does not register. Java: the producer of the
    group CLIENT_INNER_PRODUCER.
    """

    def __init__(self, runtime: ClientRuntime, *, namespace: str, send_timeout_s: float = 3.0) -> None:
        self._clock = runtime.clock
        self._core = ProducerCore(
            INNER_PRODUCER_GROUP,
            ProducerOptions(send_timeout_s=send_timeout_s),
            client_id=runtime.client_id,
            namespace=namespace,
            common=runtime.options,
            routes=runtime.routes,
            clock=runtime.clock,
        )
        self._delivery = Delivery(runtime, self._core)

    async def send(self, message: Message, queue: MessageQueue | None = None) -> SendReceipt:
        """Raises like `Producer.send`."""
        self._delivery.loop = asyncio.get_running_loop()
        request, timeout_s = self._core.prepare(message), self._core.options.send_timeout_s
        return await self._delivery.send(request, SendMode.SYNC, queue, None, self._clock.monotonic(), timeout_s)


class SendBack:
    """Gives a group's messages back."""

    def __init__(self, runtime: ClientRuntime, group: str, throttle: Throttle, *, reconsume_max: int) -> None:
        """`group` is as on the wire; `reconsume_max` is -1 for the default."""
        self._runtime, self._group, self._throttle = runtime, group, throttle
        self._producer = InnerProducer(runtime, namespace=runtime.namespace)
        self._reconsume_max = RECONSUME_TIMES_MAX if reconsume_max == -1 else reconsume_max

    async def send(self, message: ReceivedMessage, queue: MessageQueue, delay_level: int = 0) -> bool:
        """Have the message delivered again: by its broker or else by sending it anew. False if neither worked.

        The delay grows with the retries if the level is 0; below 0 it goes to the dead letters at once, as it does
        after too many retries.
        """
        try:
            await self._hand_back(message, queue, delay_level)
        except RocketlineError as error:
            self._throttle.warning(
                "message not sent back", "its broker did not take it, so it is sent anew", queue=queue, problem=error
            )
            return await self.publish(message)
        return True

    async def _hand_back(self, message: ReceivedMessage, queue: MessageQueue, delay_level: int) -> None:
        address = self._runtime.routes.master(queue.broker_name)
        if address is None:
            raise BrokerNotFoundError(queue.broker_name, "no master is in any route that was read")
        header = ConsumerSendMsgBackRequestHeader(
            group=self._group,
            origin_topic=self._on_wire(message.topic),
            offset=message.log_offset,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            max_reconsume_times=self._reconsume_max,
            target_broker=queue.broker_name,
        )
        await self._runtime.ask_ok(address, header, timeout_s=_TIMEOUT_S, vip=True)

    async def publish(self, message: ReceivedMessage, reconsume_max: int | None = None) -> bool:
        """Send a copy to the group's retry topic. False if that failed, which is logged."""
        limit = self._reconsume_max if reconsume_max is None else reconsume_max
        try:
            await self._producer.send(retry_copy(message, self._group, self._on_wire(message.topic), limit))
        except RocketlineError as error:
            self._throttle.error("message not sent back", "sending it anew failed too", error=error, group=self._group)
            return False
        return True

    def _on_wire(self, topic: str) -> str:
        return self._runtime.with_namespace(topic)


def retry_copy(message: ReceivedMessage, group: str, topic: str, reconsume_max: int) -> Message:
    """The message as it goes to the retry topic of `group`, one failure older. `topic` is its own, as on the wire."""
    properties = dict(message.properties)
    properties.pop(property_names.TRAN_MSG, None)
    properties.setdefault(property_names.ORIGIN_MESSAGE_ID, message.message_id)
    properties[property_names.RETRY_TOPIC] = topic
    properties[property_names.RECONSUME_TIME] = str(message.reconsume_times + 1)
    properties[property_names.MAX_RECONSUME_TIMES] = str(reconsume_max)
    properties[property_names.DELAY] = str(FIRST_RETRY_LEVEL + message.reconsume_times)
    return Message.of(retry_topic(group), message.body, properties, message.flag)
