"""Who is connected to a broker."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.integers import Int32
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rocketline.record import record


@record
class ClientConnection:
    """One client's connection. Java: Connection."""

    client_id: str | None = None
    client_addr: str | None = None
    language: str | None = None
    version: Int32 = 0


@record
class ConsumerConnection:
    """The members of a consumer group and their subscriptions. Java: ConsumerConnection."""

    connection_set: list[ClientConnection] = field(default_factory=list)
    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)


@record
class ProducerConnection:
    """The members of a producer group. Java: ProducerConnection."""

    connection_set: list[ClientConnection] = field(default_factory=list)


@record
class ProducerInfo:
    """One producer of a broker. Java: ProducerInfo."""

    client_id: str | None = None
    remote_ip: str | None = field(default=None, metadata={"java": "remoteIP"})
    language: str | None = None
    version: Int32 = 0
    last_update_timestamp: int = 0


@record
class ProducerTable:
    """All producers of a broker, by group. Java: ProducerTableInfo."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)
