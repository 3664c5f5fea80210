"""Headers of the commands that look at a broker or change it: topics, groups, statistics, replication."""

from __future__ import annotations

from rocketline.model.integers import Int32
from rocketline.wire.headers.fields import Header, RpcRequestHeader, TopicRequestHeader, header, wire


@header
class CreateTopicRequestHeader(TopicRequestHeader):
    """UPDATE_AND_CREATE_TOPIC (17) and UPDATE_AND_CREATE_STATIC_TOPIC (513)."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool = False


@header
class CreateTopicListRequestHeader(RpcRequestHeader):
    """UPDATE_AND_CREATE_TOPIC_LIST (18)."""


@header
class DeleteTopicRequestHeader(TopicRequestHeader):
    """DELETE_TOPIC_IN_BROKER (215)."""

    topic: str


@header
class GetAllTopicConfigRequestHeader(Header):
    """GET_ALL_TOPIC_CONFIG (21); without fields everything is asked for, with them one page."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


@header
class GetAllTopicConfigResponseHeader(Header):
    """The answer to GET_ALL_TOPIC_CONFIG; old brokers, which send all at once, name no number."""

    total_topic_num: Int32 | None = None


@header
class GetTopicConfigRequestHeader(TopicRequestHeader):
    """GET_TOPIC_CONFIG (351)."""

    topic: str


@header
class GetTopicStatsInfoRequestHeader(TopicRequestHeader):
    """GET_TOPIC_STATS_INFO (202)."""

    topic: str


@header
class GetAllSubscriptionGroupRequestHeader(Header):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201); without fields everything is asked for, with them one page."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


@header
class GetAllSubscriptionGroupResponseHeader(Header):
    """The answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG; old brokers name no number."""

    total_group_num: Int32 | None = None


@header
class GetSubscriptionGroupConfigRequestHeader(RpcRequestHeader):
    """GET_SUBSCRIPTIONGROUP_CONFIG (352)."""

    group: str


@header
class DeleteSubscriptionGroupRequestHeader(RpcRequestHeader):
    """DELETE_SUBSCRIPTIONGROUP (207)."""

    group_name: str
    clean_offset: bool = False


@header
class UpdateGroupForbiddenRequestHeader(TopicRequestHeader):
    """UPDATE_AND_GET_GROUP_FORBIDDEN (353)."""

    group: str
    topic: str
    readable: bool | None = None


@header
class GetConsumerConnectionListRequestHeader(RpcRequestHeader):
    """GET_CONSUMER_CONNECTION_LIST (203)."""

    consumer_group: str


@header
class GetProducerConnectionListRequestHeader(RpcRequestHeader):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    producer_group: str


@header
class GetConsumeStatsRequestHeader(TopicRequestHeader):
    """GET_CONSUME_STATS (208)."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None
    """Topics joined by semicolons; with them, `topic` does not count."""


@header
class GetConsumeStatsInBrokerHeader(Header):
    """GET_BROKER_CONSUME_STATS (317)."""

    is_order: bool = wire(absent=False)


@header
class QueryTopicConsumeByWhoRequestHeader(TopicRequestHeader):
    """QUERY_TOPIC_CONSUME_BY_WHO (300)."""

    topic: str


@header
class QueryTopicsByConsumerRequestHeader(RpcRequestHeader):
    """QUERY_TOPICS_BY_CONSUMER (343)."""

    group: str


@header
class QuerySubscriptionByConsumerRequestHeader(TopicRequestHeader):
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345)."""

    group: str
    topic: str | None = None


@header
class QueryConsumeTimeSpanRequestHeader(TopicRequestHeader):
    """QUERY_CONSUME_TIME_SPAN (303)."""

    topic: str
    group: str = wire(absent="")


@header
class QueryConsumeQueueRequestHeader(TopicRequestHeader):
    """QUERY_CONSUME_QUEUE (321)."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: int = 0
    count: Int32 = 0
    consumer_group: str | None = None


@header
class CloneGroupOffsetRequestHeader(RpcRequestHeader):
    """CLONE_GROUP_OFFSET (314)."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@header
class QueryCorrectionOffsetHeader(TopicRequestHeader):
    """QUERY_CORRECTION_OFFSET (308)."""

    filter_groups: str | None = None
    """Joined by commas."""
    compare_group: str = wire(absent="")
    topic: str


@header
class GetBrokerConfigResponseHeader(Header):
    """The answer to GET_BROKER_CONFIG (26)."""

    version: str
    """A data version, as JSON."""


@header
class ViewBrokerStatsDataRequestHeader(Header):
    """VIEW_BROKER_STATS_DATA (315)."""

    stats_name: str
    stats_key: str


@header
class ResumeCheckHalfMessageRequestHeader(Header):
    """RESUME_CHECK_HALF_MESSAGE (323)."""

    topic: str | None = None
    msg_id: str | None = None


@header
class CheckRocksdbCqWriteProgressRequestHeader(Header):
    """CHECK_ROCKSDB_CQ_WRITE_PROGRESS (354)."""

    topic: str
    check_store_time: int = 0


@header
class ExportRocksDbConfigToJsonRequestHeader(Header):
    """EXPORT_ROCKSDB_CONFIG_TO_JSON (355). Java: ExportRocksDBConfigToJsonRequestHeader."""

    config_type: str
    """Of topics, subscriptionGroups and consumerOffsets, joined by semicolons."""


@header
class ExchangeHaInfoRequestHeader(Header):
    """EXCHANGE_BROKER_HA_INFO (906), between brokers. Java: ExchangeHAInfoRequestHeader."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@header
class ExchangeHaInfoResponseHeader(Header):
    """The answer to EXCHANGE_BROKER_HA_INFO. Java: ExchangeHAInfoResponseHeader."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@header
class ResetMasterFlushOffsetHeader(Header):
    """RESET_MASTER_FLUSH_OFFSET (908)."""

    master_flush_offset: int


@header
class NotifyBrokerRoleChangedRequestHeader(Header):
    """NOTIFY_BROKER_ROLE_CHANGED (1008), from a controller."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: int | None = None


@header
class SwitchTimerEngineRequestHeader(Header):
    """SWITCH_TIMER_ENGINE (5001). Java has no class for it."""

    engine_type: str | None = wire("E_T", default=None)
    """R for RocksDB, F for the file wheel."""
