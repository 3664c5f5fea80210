"""What an administrator gets to see. Where the model has a class already (a topic's configuration), that is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rocketline.errors import RocketlineError
from rocketline.model.queue import MessageQueue
from rocketline.model.route import MASTER_ID
from rocketline.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    MessageRequestMode,
    SubscriptionData,
)
from rocketline.wire.bodies.connections import ClientConnection


@dataclass(frozen=True, slots=True, order=True)
class BrokerAddress:
    """One broker that name servers know."""

    cluster: str
    name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a change on several brokers: it took effect on at least one."""

    done: tuple[BrokerAddress, ...]
    failed: Mapping[BrokerAddress, RocketlineError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """What a queue holds. Java: TopicOffset."""

    queue: MessageQueue
    min_offset: int
    """Of the oldest message."""
    max_offset: int
    """The offset that the next message will get."""
    last_stored_ms: int | None
    """When the newest message came; None if there is none."""

    @property
    def message_count(self) -> int:
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """What all queues of a topic hold. Java: TopicStatsTable."""

    topic: str
    queues: tuple[QueueStatus, ...]
    put_per_s: float
    """Messages that come in, over the last minute; 0 from a broker of 4.x."""

    @property
    def message_count(self) -> int:
        return sum(queue.message_count for queue in self.queues)


@dataclass(frozen=True, slots=True)
class QueueLag:
    """How far a group is in a queue. Java: OffsetWrapper, QueueTimeSpan."""

    queue: MessageQueue
    max_offset: int
    """The offset that the next message will get."""
    committed_offset: int
    """The offset that the group will consume next; 0 if it has none. Java: consumerOffset."""
    pulled_offset: int
    """The offset that the group will pull next; 0 from a broker of 4.x. Java: pullOffset."""
    last_consumed_ms: int | None
    """When the last message that the group has consumed was stored; None if that is not known."""
    delay_s: float | None = None
    """How long the message that the group will consume next has waited; None if that is not known."""

    @property
    def lag(self) -> int:
        """Messages that the group has not consumed yet. Java: diff."""
        return self.max_offset - self.committed_offset

    @property
    def in_flight(self) -> int:
        """Messages that were pulled and are not consumed yet."""
        return max(0, self.pulled_offset - self.committed_offset)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a group is in all queues of its topics. Java: ConsumeStats."""

    group: str
    queues: tuple[QueueLag, ...]
    consume_per_s: float

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)

    @property
    def in_flight(self) -> int:
        return sum(queue.in_flight for queue in self.queues)

    @property
    def delay_s(self) -> float | None:
        """The longest of the queues."""
        return max((queue.delay_s for queue in self.queues if queue.delay_s is not None), default=None)


@dataclass(frozen=True, slots=True)
class RequestMode:
    """How a group's push consumers get the messages of a topic. Java: SetMessageRequestModeRequestBody."""

    mode: MessageRequestMode
    share_queue_count: int
    """Whoever pops shares its own queues with so many members; 0 or less: everybody shares all queues."""


@dataclass(frozen=True, slots=True)
class QueueInFlight:
    """What was popped from a queue and is not acknowledged."""

    queue: MessageQueue
    """Where it is stored: of the topic, or of the retry topic of the group and it."""
    message_count: int
    popped_ms: int
    """When the first of them was popped, or extended for the last time."""
    visible_ms: int
    """When the first of them comes again, if it is not acknowledged by then."""
    last_visible_ms: int
    """The same of the last one."""


@dataclass(frozen=True, slots=True)
class GroupInFlight:
    """What a group has popped and not acknowledged."""

    group: str
    queues: tuple[QueueInFlight, ...]
    """Those with such messages."""
    is_complete: bool
    """All that brokers noted was looked at, and not only the newest."""

    @property
    def message_count(self) -> int:
        return sum(queue.message_count for queue in self.queues)


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """Who consumes in a group now, and how; without members nobody does. Java: ConsumerConnection."""

    group: str
    members: tuple[ClientConnection, ...] = ()
    subscriptions: Mapping[str, SubscriptionData] = field(default_factory=dict)
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None

    @property
    def is_online(self) -> bool:
        return bool(self.members)


@dataclass(frozen=True, slots=True)
class Rates:
    """Events per second over the last 10 seconds, minute and 10 minutes; 0 until there is such a span."""

    last_10_s: float = 0.0
    last_minute: float = 0.0
    last_10_minutes: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """How a broker does. Java: the answer to GET_BROKER_RUNTIME_INFO, which has no class."""

    broker: BrokerAddress
    version: str
    """Like V5_5_0."""
    is_active: bool
    """The broker serves clients; a slave that stands in for no master does not."""
    started_ms: int | None
    puts: Rates
    """Messages stored."""
    gets: Rates
    """Messages handed to consumers."""
    put_today: int
    """Messages stored since midnight, the broker's."""
    put_yesterday: int
    get_today: int
    get_yesterday: int
    sends_waiting: int
    pulls_waiting: int
    log_bytes: int
    """How much the commit log holds."""
    disk_used: float
    """Of the disk under the commit log: 0.0 to 1.0."""
    oldest_message_ms: int | None
    problem: RocketlineError | None = None
    """Why the broker did not tell; the rest of this is empty then."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A half message that waits for its end, or whose producers were asked often enough."""

    broker_name: str
    topic: str
    """Where it will be if it counts."""
    group: str
    """Of its producers."""
    message_id: str
    """The transaction's, which its producer knows."""
    offset_message_id: str
    """The broker's, of its newest copy."""
    born_ms: int
    checks: int
    """How often a producer was asked."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster and its brokers, masters first."""

    name: str
    brokers: tuple[BrokerAddress, ...]
