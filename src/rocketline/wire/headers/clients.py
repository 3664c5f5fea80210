"""Headers of the commands about who is connected, and of what a broker tells or asks its clients."""

from __future__ import annotations

from typing import ClassVar

from rocketline.model.integers import Int32
from rocketline.wire.headers.fields import Header, RpcRequestHeader, TopicRequestHeader, header, wire


@header
class HeartbeatRequestHeader(RpcRequestHeader):
    """HEART_BEAT (34)."""


@header
class HeartbeatResponseHeader(Header):
    """The answer to HEART_BEAT."""

    is_v2_supported: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_subscription_changed: bool | None = wire("IS_SUB_CHANGE", default=None)
    """The client should send its subscriptions in full again."""


@header
class UnregisterClientRequestHeader(RpcRequestHeader):
    """UNREGISTER_CLIENT (35)."""

    client_id: str = wire("clientID", absent="")
    producer_group: str | None = None
    consumer_group: str | None = None


@header
class GetConsumerListByGroupRequestHeader(RpcRequestHeader):
    """GET_CONSUMER_LIST_BY_GROUP (38)."""

    consumer_group: str


@header
class LockBatchMqRequestHeader(RpcRequestHeader):
    """LOCK_BATCH_MQ (41)."""


@header
class UnlockBatchMqRequestHeader(RpcRequestHeader):
    """UNLOCK_BATCH_MQ (42)."""


@header
class NotifyConsumerIdsChangedRequestHeader(RpcRequestHeader):
    """NOTIFY_CONSUMER_IDS_CHANGED (40), from the broker, oneway."""

    consumer_group: str


@header
class ResetOffsetRequestHeader(TopicRequestHeader):
    """INVOKE_BROKER_TO_RESET_OFFSET (222) and, from the broker, RESET_CONSUMER_CLIENT_OFFSET (220)."""

    is_guarded: ClassVar = True
    group: str = wire(absent="")
    topic: str
    queue_id: Int32 = -1
    offset: int | None = None
    timestamp: int
    """-1: the largest offset."""
    is_force: bool = wire(absent=False)


@header
class GetConsumerStatusRequestHeader(TopicRequestHeader):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223) and, from the broker, GET_CONSUMER_STATUS_FROM_CLIENT (221)."""

    topic: str
    group: str
    client_addr: str | None = None
    """A client id, whatever its name says."""


@header
class GetConsumerRunningInfoRequestHeader(RpcRequestHeader):
    """GET_CONSUMER_RUNNING_INFO (307), to the broker and from it to the client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@header
class ConsumeMessageDirectlyResultRequestHeader(TopicRequestHeader):
    """CONSUME_MESSAGE_DIRECTLY (309), to the broker and from it to the client."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
