"""What topics and groups come to be, and which messages are taken. Java: BrokerConfig."""

from __future__ import annotations

from rocketline.record import record
from rocketline.settings import setting


@record(kw_only=True, slots=False)
class TopicsConfig:
    """Topics and groups."""

    auto_create_topic_enable: bool = setting(
        True, key="autoCreateTopicEnable", live=True, help="Whether a send to an unknown topic creates it."
    )
    default_topic_queue_nums: int = setting(
        8, key="defaultTopicQueueNums", low=1, help="Queues that a topic created by a send has at most."
    )
    cluster_topic_enable: bool = setting(
        True, key="clusterTopicEnable", help="Whether the topic with the cluster's name may be used."
    )
    broker_topic_enable: bool = setting(
        True, key="brokerTopicEnable", help="Whether the topic with the broker's name may be used."
    )
    trace_topic_enable: bool = setting(
        False, key="traceTopicEnable", help="Whether the topic of traces is created at start."
    )
    msg_trace_topic_name: str = setting(
        "RMQ_SYS_TRACE_TOPIC", key="msgTraceTopicName", help="The name of the topic of traces."
    )
    auto_create_subscription_group: bool = setting(
        True, key="autoCreateSubscriptionGroup", live=True, help="Whether an unknown group is created when asked for."
    )
    enable_create_sys_group: bool = setting(
        True, key="enableCreateSysGroup", live=True, help="Whether groups of the system are created even so."
    )
    enable_mixed_message_type: bool = setting(
        False, key="enableMixedMessageType", live=True, help="Whether a topic may take messages of all kinds."
    )
    validate_system_topic_when_update_topic: bool = setting(
        True,
        key="validateSystemTopicWhenUpdateTopic",
        live=True,
        help="Whether the topics of the system are closed to changes.",
    )
    clear_retry_topic_when_delete_topic: bool = setting(
        True,
        key="clearRetryTopicWhenDeleteTopic",
        live=True,
        help="Whether the retry topics of POP are deleted with their topic.",
    )
    enable_split_metadata: bool = setting(
        True, key="enableSplitMetadata", live=True, help="Whether lists of topics and groups are told in parts."
    )
    split_metadata_size: int = setting(
        2000, key="splitMetadataSize", low=1, live=True, help="Topics or groups of each such part."
    )
    revive_queue_num: int = setting(8, key="reviveQueueNum", low=1, help="Queues of the topic that POP revives from.")


@record(kw_only=True, slots=False)
class MessagesConfig:
    """Sends and queries."""

    start_accept_send_request_time_stamp: int = setting(
        0,
        key="startAcceptSendRequestTimeStamp",
        high=2**63 - 1,
        live=True,
        help="The time, in milliseconds since 1970, before which sends are refused.",
    )
    recall_message_enable: bool = setting(
        False, key="recallMessageEnable", live=True, help="Whether timer messages may be called back."
    )
    allow_recall_when_broker_not_writeable: bool = setting(
        True,
        key="allowRecallWhenBrokerNotWriteable",
        live=True,
        help="Whether they may while brokerPermission forbids sends.",
    )
    reject_transaction_message: bool = setting(
        False, key="rejectTransactionMessage", live=True, help="Whether transactional messages are refused."
    )
    store_reply_message_enable: bool = setting(
        True,
        key="storeReplyMessageEnable",
        live=True,
        help="Whether replies to requests are stored in the cluster's reply topic, besides being passed on.",
    )
