"""Headers of the commands that read from a broker by offset, time, key or id."""

from __future__ import annotations

from typing import ClassVar

from rocketline.model.integers import Int32
from rocketline.wire.headers.fields import BoundaryType, Header, TopicRequestHeader, header, wire


@header
class PullMessageRequestHeader(TopicRequestHeader):
    """PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361)."""

    is_exact: ClassVar = True
    consumer_group: str
    topic: str
    lite_topic: str | None = None
    queue_id: Int32
    queue_offset: int
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: int
    suspend_timeout_millis: int
    subscription: str | None = None
    sub_version: int
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_forward_client_id: str | None = wire("proxyFrowardClientId", default=None)


@header
class PullMessageResponseHeader(Header):
    """The answer to a pull, whether it found messages (0) or not (19, 20, 21)."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


@header
class QueryConsumerOffsetRequestHeader(TopicRequestHeader):
    """QUERY_CONSUMER_OFFSET (14)."""

    consumer_group: str = wire(absent="")
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


@header
class QueryConsumerOffsetResponseHeader(Header):
    """The answer to QUERY_CONSUMER_OFFSET."""

    offset: int


@header
class UpdateConsumerOffsetRequestHeader(TopicRequestHeader):
    """UPDATE_CONSUMER_OFFSET (15)."""

    consumer_group: str = wire(absent="")
    topic: str
    queue_id: Int32
    commit_offset: int


@header
class SearchOffsetRequestHeader(TopicRequestHeader):
    """SEARCH_OFFSET_BY_TIMESTAMP (29)."""

    topic: str
    lite_topic: str | None = None
    queue_id: Int32
    timestamp: int
    boundary_type: BoundaryType | None = None


@header
class SearchOffsetResponseHeader(Header):
    """The answer to SEARCH_OFFSET_BY_TIMESTAMP."""

    offset: int


@header
class GetMaxOffsetRequestHeader(TopicRequestHeader):
    """GET_MAX_OFFSET (30)."""

    topic: str
    queue_id: Int32
    committed: bool = True


@header
class GetMaxOffsetResponseHeader(Header):
    """The answer to GET_MAX_OFFSET: the offset that will be written next."""

    offset: int


@header
class GetMinOffsetRequestHeader(TopicRequestHeader):
    """GET_MIN_OFFSET (31)."""

    topic: str
    queue_id: Int32


@header
class GetMinOffsetResponseHeader(Header):
    """The answer to GET_MIN_OFFSET."""

    offset: int


@header
class GetEarliestMsgStoretimeRequestHeader(TopicRequestHeader):
    """GET_EARLIEST_MSG_STORETIME (32)."""

    topic: str
    queue_id: Int32


@header
class GetEarliestMsgStoretimeResponseHeader(Header):
    """The answer to GET_EARLIEST_MSG_STORETIME."""

    timestamp: int


@header
class QueryMessageRequestHeader(TopicRequestHeader):
    """QUERY_MESSAGE (12)."""

    topic: str = wire(absent="")
    key: str = wire(absent="")
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    index_type: str | None = None
    """K by key, U by unique id, T by tag."""
    last_key: str | None = None
    is_unique_key_query: bool | None = wire("_UNIQUE_KEY_QUERY", default=None)


@header
class QueryMessageResponseHeader(Header):
    """The answer to QUERY_MESSAGE."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@header
class ViewMessageRequestHeader(Header):
    """VIEW_MESSAGE_BY_ID (33)."""

    topic: str | None = None
    offset: int
    """The message's place in the commit log."""
