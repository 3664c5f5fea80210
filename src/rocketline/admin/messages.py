"""Messages: found by id, key or time, consumed at once by a consumer of one's choice, or sent again."""

from __future__ import annotations

from typing import Final

from rocketline.admin.calls import Calls
from rocketline.admin.together import settled
from rocketline.admin.views import BrokerAddress
from rocketline.client.received_message import ReceivedMessage, decode_messages
from rocketline.errors import (
    NoMessageError,
    RemoteProtocolError,
    ResponseError,
    RocketlineError,
    TransportError,
)
from rocketline.model.ids import OffsetMessageId
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.running import ConsumeMessageDirectlyResult
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    QueryMessageRequestHeader,
    ViewMessageRequestHeader,
)

END_OF_TIME_MS: Final = 2**63 - 1
_QUERY_TIMEOUT_S: Final = 18.0
"""Java: MQAdminImpl.queryMessage, three times its own."""
_RELAY_TIMEOUT_S: Final = 15.0
"""A broker gives the client ten seconds to answer."""
_UNIQUE_KEY_COUNT_MAX: Final = 32
_UNIQUE_KEY_WINDOW_MS: Final = 3 * 24 * 3600 * 1000


class Messages:
    """`admin.messages`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

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
        return decode(ConsumeMessageDirectlyResult, answer.body)


def _one_of_each_name(brokers: list[BrokerAddress]) -> list[BrokerAddress]:
    """The master of each name, or its first slave."""
    return list({broker.name: broker for broker in sorted(brokers, reverse=True)}.values())
