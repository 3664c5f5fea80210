"""Lite topics (5.5): many small topics within one, each with its own subscribers."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from rocketline.model.integers import Int32
from rocketline.record import record
from rocketline.wire.bodies.stats import OffsetWrapper, TopicOffset


class LiteSubscriptionAction(Enum):
    """What to do with the named topics. Java: LiteSubscriptionAction."""

    PARTIAL_ADD = 0
    PARTIAL_REMOVE = 1
    COMPLETE_ADD = 2
    COMPLETE_REMOVE = 3


class OffsetOptionType(Enum):
    """What the value of an offset option means. Java: OffsetOption.Type."""

    POLICY = 0
    OFFSET = 1
    TAIL_N = 2
    TIMESTAMP = 3


@record
class OffsetOption:
    """Where a new subscription begins. Java: OffsetOption."""

    type: OffsetOptionType | None = None
    value: int = 0


@record
class LiteSubscription:
    """One change of a client's lite subscriptions. Java: LiteSubscriptionDTO."""

    action: LiteSubscriptionAction | None = None
    client_id: str | None = None
    group: str | None = None
    topic: str | None = None
    lite_topic_set: list[str] | None = None
    offset_option: OffsetOption | None = None
    version: int = 0


@record
class LiteSubscriptionCtlRequestBody:
    """Changes of lite subscriptions. Java: LiteSubscriptionCtlRequestBody."""

    subscription_set: list[LiteSubscription] = field(default_factory=list)


@record
class BrokerLiteInfo:
    """A broker's lite topics in numbers. Java: GetBrokerLiteInfoResponseBody."""

    store_type: str | None = None
    max_lmq_num: Int32 = 0
    current_lmq_num: Int32 = 0
    lite_subscription_count: Int32 = 0
    order_info_count: Int32 = 0
    cq_table_size: Int32 = 0
    offset_table_size: Int32 = 0
    event_map_size: Int32 = 0
    topic_meta: dict[str, Int32] = field(default_factory=dict)
    group_meta: dict[str, list[str]] = field(default_factory=dict)


@record
class ParentTopicInfo:
    """The topic that lite topics live in. Java: GetParentTopicInfoResponseBody."""

    topic: str | None = None
    ttl: Int32 = 0
    groups: list[str] = field(default_factory=list)
    lmq_num: Int32 = 0
    lite_topic_count: Int32 = 0


@record
class ClientGroup:
    """A client as a member of a group. Java: ClientGroup."""

    client_id: str | None = None
    group: str | None = None


@record
class LiteTopicInfo:
    """One lite topic. Java: GetLiteTopicInfoResponseBody."""

    parent_topic: str | None = None
    lite_topic: str | None = None
    subscriber: list[ClientGroup] = field(default_factory=list)
    topic_offset: TopicOffset | None = None
    sharding_to_broker: bool = False


@record
class LiteClientInfo:
    """One client's lite topics. Java: GetLiteClientInfoResponseBody."""

    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    last_access_time: int = 0
    last_consume_time: int = 0
    lite_topic_count: Int32 = 0
    lite_topic_set: list[str] = field(default_factory=list)


@record
class LiteLagInfo:
    """How far behind a group is in a lite topic. Java: LiteLagInfo."""

    lite_topic: str | None = None
    lag_count: int = 0
    earliest_unconsumed_timestamp: int = 0


@record
class LiteGroupInfo:
    """How far behind a group is, and where most. Java: GetLiteGroupInfoResponseBody."""

    group: str | None = None
    parent_topic: str | None = None
    lite_topic: str | None = None
    earliest_unconsumed_timestamp: int = 0
    total_lag_count: int = 0
    lite_topic_offset_wrapper: OffsetWrapper | None = None
    lag_count_top_k: list[LiteLagInfo] | None = None
    lag_timestamp_top_k: list[LiteLagInfo] | None = None
