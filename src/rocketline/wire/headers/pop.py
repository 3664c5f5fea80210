"""Headers of the POP commands, and of the lite topics that are popped. They travel in JSON headers only."""

from __future__ import annotations

from rocketline.model.integers import Int32
from rocketline.wire.headers.fields import Header, RpcRequestHeader, TopicRequestHeader, header, wire


@header
class PopMessageRequestHeader(TopicRequestHeader):
    """POP_MESSAGE (200050)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    """-1: all queues."""
    max_msg_nums: Int32
    invisible_time: int
    poll_time: int
    born_time: int = wire(absent=0)
    """When the consumer sent it; 0: when it came."""
    init_mode: Int32
    """Where a group without an offset starts: 0 at the smallest, 1 at the largest."""
    expression_type: str | None = wire("expType", default=None)
    expression: str | None = wire("exp", default=None)
    order: bool = False
    attempt_id: str | None = None


@header
class PopMessageResponseHeader(Header):
    """The answer to POP_MESSAGE and PEEK_MESSAGE."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@header
class AckMessageRequestHeader(TopicRequestHeader):
    """ACK_MESSAGE (200051)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    """What the message's property POP_CK says."""
    offset: int
    lite_topic: str | None = None


@header
class PeekMessageRequestHeader(TopicRequestHeader):
    """PEEK_MESSAGE (200052)."""

    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


@header
class ChangeInvisibleTimeRequestHeader(TopicRequestHeader):
    """CHANGE_MESSAGE_INVISIBLETIME (200053)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: int
    invisible_time: int
    lite_topic: str | None = None
    suspend: bool = False


@header
class ChangeInvisibleTimeResponseHeader(Header):
    """The answer to CHANGE_MESSAGE_INVISIBLETIME."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32


@header
class NotificationRequestHeader(TopicRequestHeader):
    """NOTIFICATION (200054)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: int
    born_time: int
    order: bool = False
    attempt_id: str | None = None
    expression_type: str | None = wire("expType", default=None)
    expression: str | None = wire("exp", default=None)


@header
class NotificationResponseHeader(Header):
    """The answer to NOTIFICATION."""

    has_msg: bool
    polling_full: bool = False


@header
class PollingInfoRequestHeader(TopicRequestHeader):
    """POLLING_INFO (200055)."""

    consumer_group: str
    topic: str
    queue_id: Int32


@header
class PollingInfoResponseHeader(Header):
    """The answer to POLLING_INFO."""

    polling_num: Int32


@header
class PopLiteMessageRequestHeader(RpcRequestHeader):
    """POP_LITE_MESSAGE (200070)."""

    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: Int32
    invisible_time: int
    poll_time: int
    born_time: int
    attempt_id: str | None = None


@header
class PopLiteMessageResponseHeader(Header):
    """The answer to POP_LITE_MESSAGE."""

    pop_time: int
    invisible_time: int
    revive_qid: Int32
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@header
class LiteSubscriptionCtlRequestHeader(RpcRequestHeader):
    """LITE_SUBSCRIPTION_CTL (200071)."""


@header
class NotifyUnsubscribeLiteRequestHeader(RpcRequestHeader):
    """NOTIFY_UNSUBSCRIBE_LITE (200073), from the broker to a client, oneway."""

    lite_topic: str
    consumer_group: str
    client_id: str


@header
class GetParentTopicInfoRequestHeader(Header):
    """GET_PARENT_TOPIC_INFO (200075)."""

    topic: str


@header
class GetLiteTopicInfoRequestHeader(Header):
    """GET_LITE_TOPIC_INFO (200076)."""

    parent_topic: str | None = None
    lite_topic: str | None = None


@header
class GetLiteClientInfoRequestHeader(Header):
    """GET_LITE_CLIENT_INFO (200077)."""

    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: Int32 = 1000


@header
class GetLiteGroupInfoRequestHeader(Header):
    """GET_LITE_GROUP_INFO (200078)."""

    group: str
    lite_topic: str | None = None
    top_k: Int32 = 0


@header
class TriggerLiteDispatchRequestHeader(Header):
    """TRIGGER_LITE_DISPATCH (200079)."""

    group: str
    client_id: str | None = None
