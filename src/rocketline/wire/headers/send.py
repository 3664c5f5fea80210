"""Headers of the commands that bring messages to a broker, and of transactions and replies."""

from __future__ import annotations

from typing import ClassVar

from rocketline.model.integers import Int32
from rocketline.wire.headers.fields import Header, RpcRequestHeader, TopicRequestHeader, converted, header, wire


@header
class SendMessageRequestHeader(TopicRequestHeader):
    """SEND_MESSAGE (10) and SEND_REPLY_MESSAGE (324), with names in full."""

    producer_group: str
    topic: str
    default_topic: str
    """The topic after which a new one is made."""
    default_topic_queue_nums: Int32
    queue_id: Int32
    """-1: any."""
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


@header
class SendMessageRequestHeaderV2(Header):
    """SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320) and SEND_REPLY_MESSAGE_V2 (325): one letter for a name."""

    is_exact: ClassVar = True
    producer_group: str = wire("a")
    topic: str = wire("b")
    default_topic: str = wire("c")
    default_topic_queue_nums: Int32 = wire("d")
    queue_id: Int32 = wire("e")
    sys_flag: Int32 = wire("f")
    born_timestamp: int = wire("g")
    flag: Int32 = wire("h")
    properties: str | None = wire("i", default=None)
    reconsume_times: Int32 | None = wire("j", default=None)
    unit_mode: bool | None = wire("k", default=None)
    max_reconsume_times: Int32 | None = wire("l", default=None)
    batch: bool | None = wire("m", default=None)
    target_broker: str | None = wire("n", default=None)


def send_header_v2(v1: SendMessageRequestHeader) -> SendMessageRequestHeaderV2:
    """The same with short names. What only the long form has is dropped, as Java does: ns, nsd, oway, lo."""
    return converted(SendMessageRequestHeaderV2, v1)


def send_header_v1(v2: SendMessageRequestHeaderV2) -> SendMessageRequestHeader:
    """The same with names in full."""
    return converted(SendMessageRequestHeader, v2)


@header
class SendMessageResponseHeader(Header):
    """The answer to every way of sending, also when the message was stored and not yet safe (codes 10, 11, 12)."""

    msg_id: str
    queue_id: Int32
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = wire("MSG_REGION", default=None)
    trace_on: bool | None = wire("TRACE_ON", default=None)


@header
class ConsumerSendMsgBackRequestHeader(RpcRequestHeader):
    """CONSUMER_SEND_MSG_BACK (36)."""

    offset: int
    """The message's place in the commit log."""
    group: str
    delay_level: Int32
    """-1: to the dead letters; 0: as the retries so far say."""
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


@header
class EndTransactionRequestHeader(RpcRequestHeader):
    """END_TRANSACTION (37)."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: Int32
    """8 commit, 12 rollback, 0 not known yet."""
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


@header
class CheckTransactionStateRequestHeader(RpcRequestHeader):
    """CHECK_TRANSACTION_STATE (39), from the broker to a producer, oneway."""

    topic: str | None = None
    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


@header
class RecallMessageRequestHeader(TopicRequestHeader):
    """RECALL_MESSAGE (370)."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


@header
class RecallMessageResponseHeader(Header):
    """The answer to RECALL_MESSAGE."""

    msg_id: str
    msg_region: str | None = wire("MSG_REGION", default=None)


@header
class ReplyMessageRequestHeader(TopicRequestHeader):
    """PUSH_REPLY_MESSAGE_TO_CLIENT (326), from the broker to the client that asked."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    """As text, ip:port; so is `store_host`."""
    store_host: str
    store_timestamp: int
