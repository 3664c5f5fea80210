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
