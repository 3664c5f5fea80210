"""What a broker keeps of a consumer group."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from rocketline.model.integers import Int32
from rocketline.record import record


class GroupRetryPolicyType(Enum):
    """Which of the two policies counts. Java: GroupRetryPolicyType."""

    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


@record
class ExponentialRetryPolicy:
    """Milliseconds before the first retry, the longest wait, and the factor from one to the next."""

    initial: int = 5_000
    max: int = 7_200_000
    multiplier: int = 2


@record
class CustomizedRetryPolicy:
    """Milliseconds before each retry in turn."""

    next: list[int] = field(default_factory=list)


@record
class GroupRetryPolicy:
    """How long a failed message waits. Java: GroupRetryPolicy."""

    type: GroupRetryPolicyType = GroupRetryPolicyType.CUSTOMIZED
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


@record
class SimpleSubscriptionData:
    """A subscription that is part of the group's configuration. Java: SimpleSubscriptionData."""

    topic: str
    expression_type: str | None = None
    expression: str | None = None
    version: int = 0


@record
class SubscriptionGroupConfig:
    """One consumer group as its broker has it. Java: SubscriptionGroupConfig."""

    group_name: str = field(metadata={"absent": ""})
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    consume_timeout_minute: Int32 = 15
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    attributes: dict[str, str] = field(default_factory=dict)
