"""What brokers tell the name server of themselves, and what comes of it: values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from rocketline.model.route import QueueData, TopicQueueMappingInfo
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.record import record


@record(kw_only=True)
class BrokerRegistration:
    """What a broker says of itself. Java: RegisterBrokerRequestHeader and its body."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str = ""
    offers: Mapping[str, QueueData] = field(default_factory=dict)
    """The topics, each as this broker offers it."""
    is_increment: bool = False
    """The broker tells of a single topic, beside those that were told before."""
    data_version: DataVersion = field(default_factory=DataVersion)
    mappings: Mapping[str, TopicQueueMappingInfo] = field(default_factory=dict)
    filter_servers: Sequence[str] | None = None
    """None leaves those that are known; an empty list removes them."""
    heartbeat_timeout_ms: int | None = None
    enable_acting_master: bool | None = None
    """None tells a broker that knows nothing of acting masters."""
    zone_name: str | None = None
    body_digest: bytes = b""
    """Of the bytes that the topics, mappings, filter servers and data version were read from."""


def offer(broker_name: str, topic: TopicConfig) -> QueueData:
    """What a broker offers of a topic."""
    return QueueData(broker_name, topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag)


@record
class Unregistration:
    """A broker's address that is to be forgotten. Java: UnRegisterBrokerRequestHeader."""

    cluster: str
    broker_name: str
    address: str


@record
class MinBrokerIdChange:
    """News for the members of a broker name. Java: NotifyMinBrokerIdChangeRequestHeader."""

    min_broker_id: int
    min_broker_address: str
    offline_address: str | None
    ha_address: str | None
    recipients: tuple[str, ...]


@record
class Registered:
    """The outcome of a registration: where a slave finds its live master, and whom to tell of a new smallest id."""

    master_address: str | None = None
    ha_address: str | None = None
    change: MinBrokerIdChange | None = None
    left: tuple[MinBrokerIdChange, ...] = ()
    """The same, of the broker name that this address had before."""
