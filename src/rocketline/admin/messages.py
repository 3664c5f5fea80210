"""Messages: found by id, key or time, consumed at once by a consumer of one's choice, or sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from rocketline.admin.calls import Calls, settled, together
from rocketline.admin.offsets import Offsets
from rocketline.admin.reading import END_OF_TIME_MS, Follower, TopicReading, merged
from rocketline.admin.topics import Topics
from rocketline.admin.views import BrokerAddress
from rocketline.client.consumer.subscriptions import MessageSelector
from rocketline.client.received_message import ReceivedMessage, decode_messages
from rocketline.client.trace.timeline import MessageTrace
from rocketline.errors import (
    NoMessageError,
    RemoteProtocolError,
    ResponseError,
    RocketlineError,
    TransportError,
)
from rocketline.model import property_names
from rocketline.model.ids import OffsetMessageId
from rocketline.model.message import Message
from rocketline.model.names import TRACE_TOPIC
from rocketline.model.queue import MessageQueue
from rocketline.wire.bodies import decode_answer
from rocketline.wire.bodies.running import ConsumeMessageDirectlyResult
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    QueryMessageRequestHeader,
    ViewMessageRequestHeader,
)

if TYPE_CHECKING:
    from rocketline.client.aio.producer import Producer
    from rocketline.client.producer.receipts import SendReceipt

_QUERY_TIMEOUT_S: Final = 18.0
"""Java: MQAdminImpl.queryMessage, three times its own."""
_RELAY_TIMEOUT_S: Final = 15.0
"""A broker gives the client ten seconds to answer."""
_PRODUCER_GROUP: Final = "rocketline_admin"
_UNIQUE_KEY_COUNT_MAX: Final = 32
_UNIQUE_KEY_WINDOW_MS: Final = 3 * 24 * 3600 * 1000

_OF_THE_APPLICATION: Final = frozenset({property_names.TAGS, property_names.KEYS, property_names.SHARDING_KEY})
_OF_ROCKETMQ: Final = property_names.REFUSED_FOR_USERS | {
    property_names.TRANSACTION_ID, property_names.TRANSACTION_CHECK_TIMES, property_names.TRANS_OFFSET,
    property_names.CHECK_IMMUNITY_TIME_IN_SECONDS, property_names.REDIRECT, property_names.FORWARD_QUEUE_ID,
    property_names.INNER_NUM, property_names.INNER_BASE, property_names.TIMER_ROLL_LABEL, property_names.TRACE_CONTEXT,
}  # fmt: skip


class Messages:
    """`admin.messages`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._topics, self._offsets = Topics(calls), Offsets(calls)
        self._producer: Producer | None = None
        self._starting = asyncio.Lock()

    async def get(self, topic: str, message_id: str) -> ReceivedMessage:
        """The message with an id of either kind, the broker's or the producer's. Raises `NoMessageError`.

        Java: DefaultMQProducer.viewMessage.
        """
        try:
            return await self.by_offset_id(topic, message_id)
        except (NoMessageError, ResponseError, TransportError):
            return await self.by_unique_key(topic, message_id)

    async def by_offset_id(self, topic: str, offset_message_id: str) -> ReceivedMessage:
        """The message with an id that a broker gave. Raises `NoMessageError`. Java: viewMessage."""
        try:
            place = OffsetMessageId.parse(offset_message_id)
        except RemoteProtocolError as error:
            raise NoMessageError(f"no broker gave the id {offset_message_id!r}: {error}") from None
        header = ViewMessageRequestHeader(topic=topic, offset=place.log_offset)
        answer = await self._calls.ask(str(place.store_host), RequestCode.VIEW_MESSAGE_BY_ID, header)
        found = decode_messages(answer.body)
        if not found:
            raise NoMessageError(f"broker {place.store_host} has no message {offset_message_id}")
        return found[0]

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = 64,
        begin_ms: int = 0,
        end_ms: int = END_OF_TIME_MS,
    ) -> list[ReceivedMessage]:
        """The messages with a key, oldest first, up to `count_max` of each broker. Raises `NoMessageError`.

        Brokers find by hashes, so what has another key is left out; a broker that fails is too. Java: queryMessage.
        """
        header = QueryMessageRequestHeader(
            topic=topic, key=key, max_num=count_max, begin_timestamp=begin_ms, end_timestamp=end_ms, index_type="K"
        )
        found = [each for each in await self._query(header) if key in each.keys and each.topic == topic]
        if not found:
            raise NoMessageError(f"topic {topic!r} has no message with the key {key!r} in that time")
        return sorted(found, key=lambda message: message.store_ms)

    async def trace(
        self,
        message_id: str,
        *,
        topic: str = TRACE_TOPIC,
        count_max: int = 64,
        begin_ms: int = 0,
        end_ms: int = END_OF_TIME_MS,
    ) -> MessageTrace:
        """What became of the message with an id that its producer gave, as clients that trace told.

        Up to `count_max` trace messages are read of each broker. Raises `NoMessageError` if nobody told anything.
        """
        found = await self.by_key(topic, message_id, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms)
        told = list(filter(None, map(_told_in, found)))
        trace = MessageTrace.read(message_id, told, broken=len(found) - len(told))
        if not trace.events:
            broken = f", and {trace.broken} records that cannot be read" if trace.broken else ""
            raise NoMessageError(f"topic {topic!r} has no trace of message {message_id!r} in that time{broken}")
        return trace

    async def by_unique_key(
        self, topic: str, message_id: str, *, begin_ms: int | None = None, end_ms: int = END_OF_TIME_MS
    ) -> ReceivedMessage:
        """The message with an id that its producer gave, of the last three days unless told. Raises `NoMessageError`.

        Java: queryMessageByUniqKey.
        """
        if begin_ms is None:
            begin_ms = self._calls.runtime.clock.wall_ms() - _UNIQUE_KEY_WINDOW_MS
        header = QueryMessageRequestHeader(
            topic=topic,
            key=message_id,
            max_num=_UNIQUE_KEY_COUNT_MAX,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            index_type="U",
            is_unique_key_query=True,
        )
        for message in await self._query(header):
            if message.message_id == message_id:
                return message
        raise NoMessageError(f"topic {topic!r} has no message {message_id!r} in that time")

    async def _query(self, header: QueryMessageRequestHeader) -> list[ReceivedMessage]:
        """What the index of any broker of the topic finds. Raises only if no broker answers at all."""
        brokers = await self._calls.holders(header.topic, with_slaves=True)
        answers = await settled(self._query_at(broker, header) for broker in _one_of_each_name(brokers))
        tables = [answer for answer in answers if not isinstance(answer, RocketlineError)]
        if not tables:
            raise next(answer for answer in answers if isinstance(answer, RocketlineError))
        return [message for table in tables for message in table]

    async def _query_at(self, broker: BrokerAddress, header: QueryMessageRequestHeader) -> list[ReceivedMessage]:
        try:
            answer = await self._calls.ask(
                broker.address, RequestCode.QUERY_MESSAGE, header, timeout_s=_QUERY_TIMEOUT_S
            )
        except ResponseError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return []
            raise
        return decode_messages(answer.body, broker_name=broker.name)

    async def at(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        """The message at an offset of a queue. Raises `NoMessageError`."""
        result = await TopicReading(self._calls.runtime, queue.topic).pull(queue, offset, count_max=1)
        for message in result.messages:
            if message.queue_offset == offset:
                return message
        low, high = result.min_offset, result.max_offset
        raise NoMessageError(
            f"queue {queue.broker_name}:{queue.queue_id} of topic {queue.topic!r} has no message at {offset}: "
            f"it reaches from {low} to {high}"
        )

    async def between(
        self,
        topic: str,
        begin_ms: int,
        end_ms: int = END_OF_TIME_MS,
        *,
        selector: MessageSelector | str | None = None,
        count_max: int = 1000,
    ) -> list[ReceivedMessage]:
        """The messages that were stored from `begin_ms` to before `end_ms`, oldest first; the first `count_max`."""
        reading = TopicReading(self._calls.runtime, topic, selector)

        async def read(queue: MessageQueue) -> list[ReceivedMessage]:
            first, end = await together([self._offsets.at_time(queue, begin_ms), self._offsets.max(queue)])
            return await reading.span(queue, first, end, end_ms=end_ms, count_max=count_max)

        queues = await self._topics.readable_queues(topic)
        return merged(await together(read(queue) for queue in queues))[:count_max]

    async def last(
        self, topic: str, count: int = 10, *, selector: MessageSelector | str | None = None
    ) -> list[ReceivedMessage]:
        """The newest messages of a topic, oldest first."""
        found, _ = await self._last(TopicReading(self._calls.runtime, topic, selector), count)
        return found

    async def follow(
        self,
        topic: str,
        show: Callable[[list[ReceivedMessage]], None],
        *,
        count: int = 10,
        selector: MessageSelector | str | None = None,
        complain: Callable[[MessageQueue, RocketlineError], None] = lambda queue, error: None,
    ) -> None:
        """Show the newest `count` messages, then each that comes, until cancelled.

        A pull that fails is made again a second later; `complain` hears of it.
        """
        reading = TopicReading(self._calls.runtime, topic, selector)
        found, positions = await self._last(reading, count)
        show(found)
        follower = Follower(reading, self._calls.runtime, show, complain)
        await follower.run(positions, lambda: self._topics.readable_queues(topic))

    async def _last(self, reading: TopicReading, count: int) -> tuple[list[ReceivedMessage], dict[MessageQueue, int]]:
        """The newest messages, and where each queue goes on after them."""
        queues = await self._topics.readable_queues(reading.topic)
        ends = await together(self._offsets.max(queue) for queue in queues)
        lows = await together(self._offsets.min(queue) for queue in queues)
        spans = await together(
            reading.last(queue, count, low, high) for queue, low, high in zip(queues, lows, ends, strict=True)
        )
        newest = merged(spans)[-count:] if count else []
        return newest, dict(zip(queues, ends, strict=True))

    async def consume_directly(
        self, group: str, client_id: str, topic: str, message_id: str
    ) -> ConsumeMessageDirectlyResult:
        """Have a consumer that is online consume a message now; its offsets stay. Java: consumeMessageDirectly."""
        message = await self.get(topic, message_id)
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=group, client_id=client_id, msg_id=message.offset_message_id, topic=topic
        )
        answer = await self._calls.ask(
            str(message.store_host), RequestCode.CONSUME_MESSAGE_DIRECTLY, header, timeout_s=_RELAY_TIMEOUT_S
        )
        return decode_answer(ConsumeMessageDirectlyResult, answer.body)

    async def resend(self, topic: str, message_id: str, *, to: str | None = None) -> SendReceipt:
        """Send a copy of a message: body, flag, tags, keys and the application's properties. It gets an id of its own.

        Without `to` it goes to its own topic; what was sent back or given up goes to the topic that it came from.
        """
        message = await self.get(topic, message_id)
        own = message.properties.get(property_names.RETRY_TOPIC) or topic
        producer = await self._started_producer()
        return await producer.send(copied(message, to or own))

    async def _started_producer(self) -> Producer:
        from rocketline.client.aio.producer import Producer  # most administration sends nothing

        async with self._starting:
            if self._producer is None:
                producer = Producer(
                    self._calls.runtime.name_servers, group=_PRODUCER_GROUP, runtime=self._calls.runtime
                )
                await producer.start()
                self._producer = producer
        return self._producer

    async def close(self) -> None:
        """End what `resend` has begun."""
        if self._producer is not None:
            await self._producer.close()


def copied(message: ReceivedMessage, topic: str) -> Message:
    """What the application sent, without what RocketMQ has added since."""
    return Message.of(topic, message.body, of_the_application(message.properties), message.flag)


def of_the_application(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that a message was sent with, without what RocketMQ has added since."""
    return {
        name: value for name, value in properties.items() if name in _OF_THE_APPLICATION or name not in _OF_ROCKETMQ
    }


def _told_in(trace: ReceivedMessage) -> tuple[str, bytes] | None:
    """The host that a trace message came from, and what it told; None if it is broken."""
    try:
        return str(trace.born_host).rpartition(":")[0], trace.body
    except RocketlineError:
        return None


def _one_of_each_name(brokers: list[BrokerAddress]) -> list[BrokerAddress]:
    """The master of each name, or its first slave."""
    return list({broker.name: broker for broker in sorted(brokers, reverse=True)}.values())
