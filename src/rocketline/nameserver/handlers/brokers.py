"""What brokers say of themselves and ask about each other.

REGISTER_BROKER (103), UNREGISTER_BROKER (104), GET_BROKER_CLUSTER_INFO (106), QUERY_DATA_VERSION (322),
GET_BROKER_MEMBER_GROUP (901), BROKER_HEARTBEAT (904).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.model.route import BrokerMemberGroup, QueueData, TopicQueueMappingInfo
from rocketline.model.topic_config import DataVersion
from rocketline.nameserver import limits
from rocketline.nameserver.config import NameServerConfig
from rocketline.nameserver.kv_config import ORDER_TOPIC_NAMESPACE, KvConfig
from rocketline.nameserver.limits import SHORT_BYTES, TOLD_MAX, doubt, mapping_doubt
from rocketline.nameserver.registration import BrokerRegistration, MinBrokerIdChange, Registered, Unregistration, offer
from rocketline.nameserver.route_table import RouteTable
from rocketline.nameserver.unregistration import Unregistrations
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.long_work import LongWork, Steps
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.bodies import decode, encode, read_register_body
from rocketline.wire.bodies.routes import BrokerMemberGroupBody, ClusterInfo
from rocketline.wire.codes import V3_0_11, RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_STEP = 500
"""Topics that are looked at in one go."""
_VERSION_BYTES_MAX = 4096
"""A data version has some 60."""
_OVERTAKEN = "another request of the same broker came before this was done"


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
        work: LongWork,
        log: Throttle,
    ) -> None:
        self._table, self._kv, self._settings, self._clock = table, kv, settings, clock
        self._unregistrations, self._on_change = unregistrations, on_change
        self._work, self._log = work, log
        self._cluster_info: tuple[int, bytes] = (-1, b"")

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._get_clusters,
            RequestCode.QUERY_DATA_VERSION: self._query_data_version,
            RequestCode.GET_BROKER_MEMBER_GROUP: self._get_members,
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
        }

    def _register(self, channel: Channel, request: Command) -> Outcome:
        """What the broker said last and says again is not read again: it repeats its whole table every 30 s. A new
        table is read in steps."""
        asked = headers.decode(headers.RegisterBrokerRequestHeader, request.ext)
        key = asked.cluster_name, asked.broker_addr
        live = self._table.live.get(key)
        if live is not None and live.connection is channel:
            # It lives, however long its turn is in coming, and whatever becomes of what it says.
            self._table.live.touch(key, self._now_ms())
        # Over another connection it comes from a broker that is there no more; and what is known last shall be last.
        self._work.cancel(key, _OVERTAKEN, spared=channel)
        is_short = len(request.body) <= SHORT_BYTES and not asked.compressed
        steps = self._registering(channel, request, asked, is_short=is_short)
        return self._work.begin(channel, request, steps, key=key, is_short=is_short)

    def _registering(
        self, channel: Channel, request: Command, asked: headers.RegisterBrokerRequestHeader, *, is_short: bool
    ) -> Steps[Command]:
        if not is_short:
            yield
        if asked.body_crc32 not in (0, zlib.crc32(request.body) & 0x7FFFFFFF):
            return response(ResponseCode.SYSTEM_ERROR, "the CRC-32 of the body is not that of the header")
        yield
        digest = _digest(request, asked.compressed)
        yield
        self._unregistrations.apply()
        broker = self._as_before(asked, digest)
        if broker is None:
            broker = _registration(asked, (yield from self._read(request, asked)), digest)
            self._unregistrations.apply()
        return (yield from self._take(channel, broker))

    def _as_before(self, asked: headers.RegisterBrokerRequestHeader, digest: bytes) -> BrokerRegistration | None:
        """The registration, if its body is the last one again and its topics are kept, or without use."""
        live = self._table.live.get((asked.cluster_name, asked.broker_addr))
        if (
            live is None
            or live.registration.body_digest != digest
            or live.registration.broker_name != asked.broker_name
        ):
            return None
        last = live.registration
        said = _Said(last.offers, last.is_increment, last.data_version, last.mappings, last.filter_servers)
        broker = _registration(asked, said, digest)
        return broker if live.has_topics or not self._table.is_publisher(broker) else None

    def _read(self, request: Command, asked: headers.RegisterBrokerRequestHeader) -> Steps[_Said]:
        """The body, in steps; topics that cannot be are left out."""
        body = yield from read_register_body(
            request.body, compressed=asked.compressed, version=request.version, topics_max=TOLD_MAX
        )
        table, name = body.topic_config_serialize_wrapper, asked.broker_name
        offers: dict[str, QueueData] = {}
        mappings: dict[str, TopicQueueMappingInfo] = {}
        for number, topic in enumerate(table.topic_config_table.values(), 1):
            made = offer(name, topic)
            if problem := doubt(topic.topic_name, made):
                self._log.warning("topic left out", problem, broker=name, address=asked.broker_addr)
            else:
                offers[topic.topic_name] = made
            if number % _STEP == 0:
                yield
        looked = 0
        for static, mapping in table.topic_queue_mapping_info_map.items():
            others = self._table.mappings_besides(static, name)
            if problem := mapping_doubt(name, static, mapping, others):
                self._log.warning("mapping left out", problem, broker=name, address=asked.broker_addr)
            else:
                mappings[static] = mapping
            looked += 1 + len(others) + len(mapping.curr_id_map)
            if looked >= _STEP:
                looked = 0
                yield
        # Before 3.0.11 a body said nothing of filter servers.
        filter_servers = body.filter_server_list if request.version >= V3_0_11 else None
        is_increment = len(table.topic_config_table) == 1
        return _Said(offers, is_increment, table.data_version, mappings, filter_servers)

    def _take(self, channel: Channel, broker: BrokerRegistration) -> Steps[Command]:
        if refusal := limits.problem(self._table, broker, channel):
            self._log.warning("broker refused", refusal, broker=broker.broker_name[:255], address=broker.address[:255])
            return response(ResponseCode.SYSTEM_ERROR, f"not registered: {refusal}")
        config, live = self._settings.value, self._table.live.get((broker.cluster, broker.address))
        registered = yield from self._table.registering(
            broker, channel, self._now_ms(), is_dropping_absent_topics=config.delete_topic_with_broker_registration
        )
        if registered is None:
            return response(
                ResponseCode.SYSTEM_ERROR,
                f"broker {broker.broker_name} id {broker.broker_id} must register all its topics before a single one",
            )
        if live is None:
            self._log.info("broker registered", broker.broker_name, id=broker.broker_id, address=broker.address)
        for change in (*registered.left, registered.change):
            if change is not None:
                self._on_change(change)
        self._unregistrations.tidy()
        return self._registered(registered)

    def _registered(self, registered: Registered) -> Command:
        header = headers.RegisterBrokerResponseHeader(
            ha_server_addr=registered.ha_address, master_addr=registered.master_address
        )
        is_told = self._settings.value.return_order_topic_config_to_broker
        body = (self._kv.body(ORDER_TOPIC_NAMESPACE) if is_told else None) or b""
        return response(ResponseCode.SUCCESS, ext=headers.encode(header), body=body)

    def _unregister(self, channel: Channel, request: Command) -> Command:
        """The answer comes before the tables change. A registration that is still being read does not happen."""
        asked = headers.decode(headers.UnRegisterBrokerRequestHeader, request.ext)
        self._work.cancel((asked.cluster_name, asked.broker_addr), _OVERTAKEN)
        broker = Unregistration(asked.cluster_name, asked.broker_name, asked.broker_addr)
        if not self._unregistrations.submit(broker):
            return response(ResponseCode.SYSTEM_ERROR, "too many brokers wait to be unregistered: try again")
        return response(ResponseCode.SUCCESS)

    def _get_clusters(self, channel: Channel, request: Command) -> Command:
        version = self._table.version
        if self._cluster_info[0] != version:
            info = ClusterInfo(self._table.brokers(), self._table.clusters())
            self._cluster_info = version, encode(info)
        return response(ResponseCode.SUCCESS, body=self._cluster_info[1])

    def _query_data_version(self, channel: Channel, request: Command) -> Command:
        """Tells a broker whether to register again, and counts as a sign of life."""
        asked = headers.decode(headers.QueryDataVersionRequestHeader, request.ext)
        theirs = decode(DataVersion, request.body[:_VERSION_BYTES_MAX]) if request.body else None
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


class _Said(NamedTuple):
    """What the body of a registration says."""

    offers: Mapping[str, QueueData]
    is_increment: bool
    data_version: DataVersion
    mappings: Mapping[str, TopicQueueMappingInfo]
    filter_servers: Sequence[str] | None


def _registration(asked: headers.RegisterBrokerRequestHeader, said: _Said, digest: bytes) -> BrokerRegistration:
    return BrokerRegistration(
        cluster=asked.cluster_name,
        broker_name=asked.broker_name,
        broker_id=asked.broker_id,
        address=asked.broker_addr,
        ha_address=asked.ha_server_addr,
        offers=said.offers,
        is_increment=said.is_increment,
        data_version=said.data_version,
        mappings=said.mappings,
        filter_servers=said.filter_servers,
        heartbeat_timeout_ms=asked.heartbeat_timeout_millis,
        enable_acting_master=asked.enable_acting_master,
        zone_name=asked.zone_name,
        body_digest=digest,
    )


def _digest(request: Command, compressed: bool) -> bytes:
    form = f"{request.version} {compressed}".encode()
    return hashlib.blake2b(request.body, key=form, digest_size=16).digest()
