"""Consumer groups: their configurations and what they subscribe to."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.integers import Int32
from rocketline.model.subscription import SubscriptionData
from rocketline.model.topic_config import DataVersion
from rocketline.record import record


@record
class SubscriptionGroupTable:
    """All groups of a broker, and which topics each may not read, as bits. Java: SubscriptionGroupWrapper."""

    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, Int32]] = field(default_factory=dict)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)


@record
class SubscriptionGroupList:
    """The groups to create with one command. Java: SubscriptionGroupList."""

    group_config_list: list[SubscriptionGroupConfig]


@record
class GroupForbidden:
    """Whether a group may read a topic. Java: GroupForbidden."""

    group: str | None = None
    topic: str | None = None
    readable: bool | None = None


@record
class GroupSubscription:
    """What a group subscribes to of a topic; nothing if nobody is online. Java: QuerySubscriptionResponseBody."""

    group: str | None = None
    topic: str | None = None
    subscription_data: SubscriptionData | None = None


@record
class BloomFilterData:
    """The bits that stand for one group and topic in a map of so many bits. Java: BloomFilterData."""

    bit_num: Int32 = 0
    bit_pos: list[Int32] | None = None


@record
class ConsumerFilterData:
    """What a group has chosen among a topic's messages. It is `dead` while nobody of the group is online."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: int = 0
    client_version: int = 0
    """Of the subscription: greater is newer."""
    consumer_group: str = ""
    dead: bool = False
    dead_time: int = 0
    expression: str = ""
    expression_type: str = ""
    topic: str = ""


@record
class FilterDataByGroup:
    """The filters of one topic. Java: FilterDataMapByTopic."""

    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)
    topic: str | None = None


@record
class ConsumerFilterTable:
    """All filters in SQL, by topic, as `consumerFilter.json` has them. Java: ConsumerFilterManager."""

    filter_data_by_topic: dict[str, FilterDataByGroup] = field(default_factory=dict)
