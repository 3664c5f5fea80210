"""Pulls, consumers and their offsets. Java: BrokerConfig."""

from __future__ import annotations

from rocketline.record import record
from rocketline.settings import setting


@record(kw_only=True, slots=False)
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
        False, key="enablePropertyFilter", live=True, help="Whether subscriptions may filter in SQL."
    )
    filter_data_clean_time_span: int = setting(
        86_400_000,
        key="filterDataCleanTimeSpan",
        high=2**63 - 1,
        live=True,
        help="Milliseconds after which the filter in SQL of a group that is gone is forgotten.",
    )
    expect_consumer_num_use_filter: int = setting(
        32,
        key="expectConsumerNumUseFilter",
        low=1,
        high=1_000_000,
        help="Groups with filters in SQL for which consumerFilter.json is laid out, as Apache's broker reads it.",
    )
    max_error_rate_of_bloom_filter: int = setting(
        20, key="maxErrorRateOfBloomFilter", low=1, high=99, help="Percentage of errors for which it is laid out."
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
    server_load_balancer_enable: bool = setting(
        True, key="serverLoadBalancerEnable", live=True, help="Whether the broker assigns queues to consumers that ask."
    )


@record(kw_only=True, slots=False)
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


@record(kw_only=True, slots=False)
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
