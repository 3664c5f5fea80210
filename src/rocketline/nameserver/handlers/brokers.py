"""What brokers say of themselves and ask about each other.

REGISTER_BROKER (103), UNREGISTER_BROKER (104), GET_BROKER_CLUSTER_INFO (106), QUERY_DATA_VERSION (322),
GET_BROKER_MEMBER_GROUP (901), BROKER_HEARTBEAT (904).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable

from rocketline.clock import Clock
from rocketline.logs import Log
from rocketline.model.route import BrokerMemberGroup
from rocketline.model.topic_config import DataVersion
from rocketline.nameserver.config import NameServerConfig
from rocketline.nameserver.kv_config import ORDER_TOPIC_NAMESPACE, KvConfig
from rocketline.nameserver.registration import MinBrokerIdChange, Registered, Registration, Unregistration
from rocketline.nameserver.route_table import RouteTable
from rocketline.nameserver.unregistration import Unregistrations
from rocketline.net.channel import Channel
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.bodies import decode, decode_register_body, encode
from rocketline.wire.bodies.lists import KVTable
from rocketline.wire.bodies.routes import BrokerMemberGroupBody, ClusterInfo
from rocketline.wire.codes import V3_0_11, RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_log = Log(__name__)


class BrokerHandlers:
    """Registration and liveness."""

    def __init__(
        self,
        table: RouteTable,
        kv: KvConfig,
        settings: Settings[NameServerConfig],
        unregistrations: Unregistrations,
        on_change: Callable[[MinBrokerIdChange], None],
        clock: Clock,
    ) -> None:
        self._table, self._kv, self._settings, self._clock = table, kv, settings, clock
        self._unregistrations, self._on_change = unregistrations, on_change

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._get_clusters,
            RequestCode.QUERY_DATA_VERSION: self._query_data_version,
            RequestCode.GET_BROKER_MEMBER_GROUP: self._get_members,
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
        }

    def _register(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.RegisterBrokerRequestHeader, request.ext)
        if asked.body_crc32 not in (0, zlib.crc32(request.body) & 0x7FFFFFFF):
            return response(ResponseCode.SYSTEM_ERROR, "the CRC-32 of the body is not that of the header")
        self._unregistrations.apply()
        live = self._table.live.get((asked.cluster_name, asked.broker_addr))
        broker = _registration(asked, request, live.registration if live else None)
        config = self._settings.value
        registered = self._table.register(
            broker, channel, self._now_ms(), is_dropping_absent_topics=config.delete_topic_with_broker_registration
        )
        if registered is None:
            return response(
                ResponseCode.SYSTEM_ERROR,
                f"broker {broker.broker_name} id {broker.broker_id} must register all its topics before a single one",
            )
        if live is None:
            _log.info("broker registered", broker=broker.broker_name, id=broker.broker_id, address=broker.address)
        if registered.change is not None:
            self._on_change(registered.change)
        return self._registered(registered)

    def _registered(self, registered: Registered) -> Command:
        header = headers.RegisterBrokerResponseHeader(
            ha_server_addr=registered.ha_address, master_addr=registered.master_address
        )
        is_told = self._settings.value.return_order_topic_config_to_broker
        order_topics = self._kv.table(ORDER_TOPIC_NAMESPACE) if is_told else None
        body = b"" if order_topics is None else encode(KVTable(dict(order_topics)))
        return response(ResponseCode.SUCCESS, ext=headers.encode(header), body=body)

    def _unregister(self, channel: Channel, request: Command) -> Command:
        """The answer comes before the tables change."""
        asked = headers.decode(headers.UnRegisterBrokerRequestHeader, request.ext)
        broker = Unregistration(asked.cluster_name, asked.broker_name, asked.broker_addr)
        if not self._unregistrations.submit(broker):
            return response(ResponseCode.SYSTEM_ERROR, "too many brokers wait to be unregistered: try again")
        return response(ResponseCode.SUCCESS)

    def _get_clusters(self, channel: Channel, request: Command) -> Command:
        return response(ResponseCode.SUCCESS, body=encode(ClusterInfo(self._table.brokers(), self._table.clusters())))

    def _query_data_version(self, channel: Channel, request: Command) -> Command:
        """Tells a broker whether to register again, and counts as a sign of life."""
        asked = headers.decode(headers.QueryDataVersionRequestHeader, request.ext)
        theirs = decode(DataVersion, request.body) if request.body else None
        key = asked.cluster_name, asked.broker_addr
        self._table.live.touch(key, self._now_ms())
        live = self._table.live.get(key)
        ours = None if live is None else live.registration.data_version
        header = headers.QueryDataVersionResponseHeader(changed=ours is None or ours != theirs)
        body = b"" if ours is None else encode(ours)
        return response(ResponseCode.SUCCESS, ext=headers.encode(header), body=body)

    def _get_members(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.GetBrokerMemberGroupRequestHeader, request.ext)
        addresses = self._table.member_addresses(asked.broker_name)
        group = BrokerMemberGroup(asked.cluster_name, asked.broker_name, addresses)
        return response(ResponseCode.SUCCESS, body=encode(BrokerMemberGroupBody(group)))

    def _heartbeat(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.BrokerHeartbeatRequestHeader, request.ext)
        self._table.live.touch((asked.cluster_name, asked.broker_addr), self._now_ms())
        return response(ResponseCode.SUCCESS)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _registration(
    asked: headers.RegisterBrokerRequestHeader, request: Command, last: Registration | None
) -> Registration:
    """What the broker says, read from the request; what it said last and says again is not read again.

    A broker repeats its whole topic table every 30 s, and reading 10,000 topics would hold the loop for 80 ms.
    """
    digest = _digest(request, asked.compressed)
    if last is not None and last.body_digest == digest:
        topics, data_version, mappings, filter_servers = (
            last.topics,
            last.data_version,
            last.mappings,
            last.filter_servers,
        )
    else:
        body = decode_register_body(request.body, compressed=asked.compressed, version=request.version)
        table = body.topic_config_serialize_wrapper
        topics, data_version = table.topic_config_table, table.data_version
        mappings = table.topic_queue_mapping_info_map
        # Before 3.0.11 a body said nothing of filter servers.
        filter_servers = body.filter_server_list if request.version >= V3_0_11 else None
    return Registration(
        cluster=asked.cluster_name,
        broker_name=asked.broker_name,
        broker_id=asked.broker_id,
        address=asked.broker_addr,
        ha_address=asked.ha_server_addr,
        topics=topics,
        data_version=data_version,
        mappings=mappings,
        filter_servers=filter_servers,
        heartbeat_timeout_ms=asked.heartbeat_timeout_millis,
        enable_acting_master=asked.enable_acting_master,
        zone_name=asked.zone_name,
        body_digest=digest,
    )


def _digest(request: Command, compressed: bool) -> bytes:
    form = f"{request.version} {compressed}".encode()
    return hashlib.blake2b(request.body, key=form, digest_size=16).digest()
