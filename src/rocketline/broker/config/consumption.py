"""Pulls, consumers and their offsets. Java: BrokerConfig."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rocketline.settings import setting


class MessageRequestMode(Enum):
    """How the consumers of a group get their messages. Java: MessageRequestMode."""

    PULL = "PULL"
    POP = "POP"


@dataclass(frozen=True, kw_only=True)
class ConsumptionConfig:
    """How messages are handed out."""

    long_polling_enable: bool = setting(
        True, key="longPollingEnable", live=True, help="Whether a pull that finds nothing waits for its own time."
    )
    short_polling_time_mills: int = setting(
        1000, key="shortPollingTimeMills", live=True, help="Milliseconds that it waits otherwise."
    )
    lite_pull_message_enable: bool = setting(
        True, key="litePullMessageEnable", live=True, help="Whether consumers that pull by themselves are served."
    )
    reject_pull_consumer_enable: bool = setting(
        False,
        key="rejectPullConsumerEnable",
        live=True,
        help="Whether pulls of clients without heartbeats are refused.",
    )
    slave_read_enable: bool = setting(
        False, key="slaveReadEnable", live=True, help="Whether a consumer that is far behind is sent to a replica."
    )
    enable_property_filter: bool = setting(
        False,
        key="enablePropertyFilter",
        only_default="filters in SQL are not part of Rocketline yet; subscribe by tags",
        help="Whether subscriptions may filter in SQL; only false is supported.",
    )
    filter_support_retry: bool = setting(
        False, key="filterSupportRetry", live=True, help="Whether such filters count for retries too."
    )
    use_static_subscription: bool = setting(
        False, key="useStaticSubscription", live=True, help="Whether a group gets the topics of its configuration only."
    )
    disable_consume_if_consumer_read_slowly: bool = setting(
        False,
        key="disableConsumeIfConsumerReadSlowly",
        live=True,
        help="Whether a group that is too far behind is barred from consuming.",
    )
    consumer_fallbehind_threshold: int = setting(
        16 * 1024**3,
        key="consumerFallbehindThreshold",
        high=2**63 - 1,
        live=True,
        help="Bytes by which a group may be behind for that.",
    )
    lock_in_strict_mode: bool = setting(
        False, key="lockInStrictMode", live=True, help="Whether a queue must be locked for every orderly pull."
    )
    server_load_balancer_enable: bool = setting(
        True, key="serverLoadBalancerEnable", live=True, help="Whether the broker assigns queues to consumers that ask."
    )
    default_message_request_mode: MessageRequestMode = setting(
        MessageRequestMode.PULL,
        key="defaultMessageRequestMode",
        live=True,
        help="How a group consumes for which nothing was set.",
    )
    default_pop_share_queue_num: int = setting(
        -1, key="defaultPopShareQueueNum", low=-1, live=True, help="Queues that POP consumers share; -1: all."
    )


@dataclass(frozen=True, kw_only=True)
class OffsetsConfig:
    """Where groups are."""

    flush_consumer_offset_interval: int = setting(
        5000, key="flushConsumerOffsetInterval", low=1, help="Milliseconds between two saves of the offsets."
    )
    consumer_offset_update_version_step: int = setting(
        500, key="consumerOffsetUpdateVersionStep", low=1, live=True, help="Commits that raise the offsets' version."
    )
    delay_offset_update_version_step: int = setting(
        200, key="delayOffsetUpdateVersionStep", low=1, live=True, help="Deliveries that raise the delays' version."
    )
    use_server_side_reset_offset: bool = setting(
        True, key="useServerSideResetOffset", live=True, help="Whether the broker itself resets a group's offsets."
    )
    enable_broadcast_offset_store: bool = setting(
        True,
        key="enableBroadcastOffsetStore",
        live=True,
        help="Whether the broker remembers the offsets of broadcast consumers that come through a proxy.",
    )
    broadcast_offset_expire_second: int = setting(
        120, key="broadcastOffsetExpireSecond", live=True, help="Seconds for which they are remembered when unused."
    )
    broadcast_offset_expire_max_second: int = setting(
        300, key="broadcastOffsetExpireMaxSecond", live=True, help="Seconds for which they are remembered at most."
    )


@dataclass(frozen=True, kw_only=True)
class ClientsConfig:
    """Producers and consumers that are connected."""

    notify_consumer_ids_changed_enable: bool = setting(
        True,
        key="notifyConsumerIdsChangedEnable",
        live=True,
        help="Whether the consumers of a group are told when one comes or goes.",
    )
    real_time_notify_consumer_change: bool = setting(
        True, key="realTimeNotifyConsumerChange", live=True, help="Whether they are told at once."
    )
    enable_register_producer: bool = setting(
        True, key="enableRegisterProducer", live=True, help="Whether producers are remembered."
    )
    channel_expired_timeout: int = setting(
        120_000,
        key="channelExpiredTimeout",
        low=1,
        help="Milliseconds without a heartbeat after which a client is gone.",
    )
    subscription_expired_timeout: int = setting(
        600_000,
        key="subscriptionExpiredTimeout",
        low=1,
        help="Milliseconds for which the subscriptions of a group without consumers are kept.",
    )
    print_channel_groups: bool = setting(
        False, key="printChannelGroups", live=True, help="Whether connections with many groups are logged."
    )
    print_channel_groups_min_num: int = setting(
        5, key="printChannelGroupsMinNum", live=True, help="Groups from which on that is so."
    )
