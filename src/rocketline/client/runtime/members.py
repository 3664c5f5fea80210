"""Who uses a runtime: its producers and consumers, one for each group.

Names of groups and topics are those on the wire, with their namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from rocketline.errors import GroupInUseError
from rocketline.model.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketline.model.names import INNER_PRODUCER_GROUP
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rocketline.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

if TYPE_CHECKING:
    from rocketline.client.received_message import ReceivedMessage
    from rocketline.net.channel import Channel
    from rocketline.wire.headers import CheckTransactionStateRequestHeader


class TransactionCheck(NamedTuple):
    """A broker's question what became of a transaction, and the connection that it came by."""

    header: CheckTransactionStateRequestHeader
    message: ReceivedMessage
    size: int
    """Of the message as it came."""
    channel: Channel


class ProducerMember(Protocol):
    """A producer, as its runtime sees it. Java: MQProducerInner."""

    @property
    def group(self) -> str: ...

    def topics(self) -> Collection[str]:
        """The topics that it has sent to, or tried to: their routes are kept up to date."""
        ...

    def check_transaction(self, check: TransactionCheck) -> None:
        """Find out what became of a transaction of its group, and tell the broker; for CHECK_TRANSACTION_STATE (39)."""
        ...

    def runtime_closed(self) -> None:
        """The runtime was closed under it: nothing is sent any more, and whoever waits must be told."""
        ...


class ConsumerMember(Protocol):
    """A consumer, as its runtime sees it. Java: MQConsumerInner.

    `rebalance`, `persist_offsets` and what the broker asks for are called on the runtime's loop, each on its own; what
    they raise is logged and, where a broker asked, told to it.
    """

    @property
    def group(self) -> str: ...

    @property
    def consume_type(self) -> ConsumeType: ...

    @property
    def message_model(self) -> MessageModel: ...

    @property
    def consume_from_where(self) -> ConsumeFromWhere: ...

    @property
    def unit_mode(self) -> bool: ...

    def subscriptions(self) -> Collection[SubscriptionData]: ...

    async def rebalance(self) -> bool:
        """Share the queues out anew. False: not all is as it should be, try again in a second."""
        ...

    async def persist_offsets(self) -> None:
        """Save the offsets of all queues; called every 5 s."""
        ...

    def runtime_closed(self) -> None:
        """The runtime was closed under it: nothing will come any more, and whoever waits must be told."""
        ...

    def running_info(self, is_with_stacks: bool) -> ConsumerRunningInfo:
        """For GET_CONSUMER_RUNNING_INFO (307)."""
        ...

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """All of RESET_CONSUMER_CLIENT_OFFSET (220), with its wait of 10 s. Only push consumers do something."""
        ...

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        """The offsets in memory, of all topics if `topic` is empty, for GET_CONSUMER_STATUS_FROM_CLIENT (221)."""
        ...

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult:
        """Have the listener consume this one message now, for CONSUME_MESSAGE_DIRECTLY (309)."""
        ...


Member = TypeVar("Member")


class _Groups(dict[str, Member], Generic[Member]):
    """Group → its member here."""

    def add(self, group: str, member: Member, client_id: str) -> None:
        if group in self:
            raise GroupInUseError(group, client_id)
        self[group] = member


class Members:
    """The members of one runtime. Pure."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self.producers: _Groups[ProducerMember] = _Groups()
        self.consumers: _Groups[ConsumerMember] = _Groups()

    def __len__(self) -> int:
        return len(self.producers) + len(self.consumers)

    def add_producer(self, group: str, producer: ProducerMember) -> None:
        """Raises `GroupInUseError`."""
        self.producers.add(group, producer, self._client_id)

    def add_consumer(self, group: str, consumer: ConsumerMember) -> None:
        """Raises `GroupInUseError`."""
        self.consumers.add(group, consumer, self._client_id)

    def remove_producer(self, group: str) -> bool:
        """Whether it was there."""
        return self.producers.pop(group, None) is not None

    def remove_consumer(self, group: str) -> bool:
        """Whether it was there."""
        return self.consumers.pop(group, None) is not None

    def topics(self) -> set[str]:
        """All topics whose routes are wanted."""
        wanted = {topic for producer in self.producers.values() for topic in producer.topics()}
        for consumer in self.consumers.values():
            wanted.update(subscription.topic for subscription in consumer.subscriptions())
        return wanted

    def heartbeat(self) -> HeartbeatData:
        """What brokers are told. Java's clients always name their inner producer too, and so do we."""
        return HeartbeatData(
            self._client_id,
            [ProducerData(group) for group in sorted({*self.producers, INNER_PRODUCER_GROUP})],
            [_consumer_data(group, consumer) for group, consumer in sorted(self.consumers.items())],
        )


def _consumer_data(group: str, consumer: ConsumerMember) -> ConsumerData:
    return ConsumerData(
        group,
        consumer.consume_type,
        consumer.message_model,
        consumer.consume_from_where,
        list(consumer.subscriptions()),
        consumer.unit_mode,
    )
