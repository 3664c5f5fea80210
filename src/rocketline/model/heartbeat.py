"""What a client tells a broker about itself, every 30 seconds."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.integers import Int32
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rocketline.record import record


@record
class ProducerData:
    """A producer group that the client belongs to. Java: ProducerData."""

    group_name: str


@record
class ConsumerData:
    """A consumer group that the client belongs to, and what it reads there. Java: ConsumerData."""

    group_name: str
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


@record
class HeartbeatData:
    """One heartbeat. Java: HeartbeatData."""

    client_id: str = field(metadata={"java": "clientID"})
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: Int32 = 0
    """Other than zero: a heartbeat of version 2, whose subscriptions the broker may know already."""
    without_sub: bool = False
    """The subscriptions are left out, because they have not changed."""
