"""Headers of the commands that a name server understands or sends."""

from __future__ import annotations

from rocketline.model.integers import Int32
from rocketline.wire.headers.fields import Header, TopicRequestHeader, header, wire


@header
class PutKvConfigRequestHeader(Header):
    """PUT_KV_CONFIG (100). Java: PutKVConfigRequestHeader."""

    namespace: str
    key: str
    value: str


@header
class GetKvConfigRequestHeader(Header):
    """GET_KV_CONFIG (101). Java: GetKVConfigRequestHeader."""

    namespace: str
    key: str


@header
class GetKvConfigResponseHeader(Header):
    """The answer to GET_KV_CONFIG. Java: GetKVConfigResponseHeader."""

    value: str | None = None


@header
class DeleteKvConfigRequestHeader(Header):
    """DELETE_KV_CONFIG (102). Java: DeleteKVConfigRequestHeader."""

    namespace: str
    key: str


@header
class RegisterBrokerRequestHeader(Header):
    """REGISTER_BROKER (103)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: int
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    """Whether the field is there at all, true or false, says that the broker knows about acting masters."""
    compressed: bool = False
    body_crc32: Int32 = 0
    """CRC-32 of the body as sent, without its top bit; 0 for unchecked."""
    zone_name: str | None = wire("__ZONE_NAME", default=None)


@header
class RegisterBrokerResponseHeader(Header):
    """The answer to REGISTER_BROKER; a slave with a live master is told where that is."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@header
class UnRegisterBrokerRequestHeader(Header):
    """UNREGISTER_BROKER (104)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@header
class GetRouteInfoRequestHeader(TopicRequestHeader):
    """GET_ROUTEINFO_BY_TOPIC (105)."""

    topic: str
    accept_standard_json_only: bool | None = None
    zone_mode: bool | None = wire("__ZONE_MODE", default=None)
    zone_name: str | None = wire("__ZONE_NAME", default=None)


@header
class WipeWritePermOfBrokerRequestHeader(Header):
    """WIPE_WRITE_PERM_OF_BROKER (205)."""

    broker_name: str


@header
class WipeWritePermOfBrokerResponseHeader(Header):
    """The answer to WIPE_WRITE_PERM_OF_BROKER."""

    wipe_topic_count: Int32


@header
class AddWritePermOfBrokerRequestHeader(Header):
    """ADD_WRITE_PERM_OF_BROKER (327)."""

    broker_name: str


@header
class AddWritePermOfBrokerResponseHeader(Header):
    """The answer to ADD_WRITE_PERM_OF_BROKER."""

    add_topic_count: Int32


@header
class DeleteTopicFromNamesrvRequestHeader(TopicRequestHeader):
    """DELETE_TOPIC_IN_NAMESRV (216); with a cluster, only on its brokers."""

    topic: str
    cluster_name: str | None = None


@header
class RegisterTopicRequestHeader(TopicRequestHeader):
    """REGISTER_TOPIC_IN_NAMESRV (217)."""

    topic: str


@header
class GetKvListByNamespaceRequestHeader(Header):
    """GET_KVLIST_BY_NAMESPACE (219). Java: GetKVListByNamespaceRequestHeader."""

    namespace: str


@header
class GetTopicsByClusterRequestHeader(Header):
    """GET_TOPICS_BY_CLUSTER (224)."""

    cluster: str


@header
class QueryDataVersionRequestHeader(Header):
    """QUERY_DATA_VERSION (322)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@header
class QueryDataVersionResponseHeader(Header):
    """The answer to QUERY_DATA_VERSION: whether the broker should register again."""

    changed: bool


@header
class GetBrokerMemberGroupRequestHeader(Header):
    """GET_BROKER_MEMBER_GROUP (901)."""

    cluster_name: str
    broker_name: str


@header
class BrokerHeartbeatRequestHeader(Header):
    """BROKER_HEARTBEAT (904), to a name server or a controller."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int | None = None
    epoch: Int32 | None = None
    max_offset: int | None = None
    confirm_offset: int | None = None
    heartbeat_timeout_millis: int | None = wire("heartbeatTimeoutMills", default=None)
    election_priority: Int32 | None = None


@header
class NotifyMinBrokerIdChangeRequestHeader(Header):
    """NOTIFY_MIN_BROKER_ID_CHANGE (905), from the name server to the members of a broker group, oneway."""

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
