"""What clients say of themselves.

HEART_BEAT (34), UNREGISTER_CLIENT (35), CHECK_CLIENT_CONFIG (46).

Differs from Apache:

- A heartbeat is bounded in bytes and in consumer groups, and a connection in groups and in subscriptions.
- One that leaves out subscriptions which this broker does not have, because it was started anew or the group was gone
  meanwhile, is answered IS_SUB_CHANGE=true, so that the client sends them. Apache's broker says false, and has a group
  without subscriptions.
- To unregister from a group that does not exist does not create it.
- Expressions of a type that nobody knows are refused (1), also if `enablePropertyFilter` is on: Apache fails on them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeAlias

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.clients.memberships import NAME_MAX, Client
from rocketline.broker.clients.notifications import Notifications
from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import SQL_TYPE, is_tag_type, not_by_tags
from rocketline.broker.long_work import LongWork, Steps
from rocketline.broker.metadata.consumer_filters import ConsumerFilters
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.topics import TOPICS_MAX, TopicTable, retry_topic
from rocketline.broker.request_body import read_body_in_steps
from rocketline.broker.stats.counters import CONSUMER_REGISTER_TIME, PRODUCER_REGISTER_TIME, BrokerStats
from rocketline.clock import Clock
from rocketline.errors import ExpressionError, RemoteProtocolError
from rocketline.filter import SqlFilter
from rocketline.logs import Log, Throttle
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketline.model.subscription import ConsumeType
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings
from rocketline.store.filesystem import told
from rocketline.wire import headers
from rocketline.wire.bodies.heartbeat import CheckClientRequestBody
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

CONSUMER_GROUPS_MAX = 1000
"""In one heartbeat: each may make a group and a topic, and both are written to disk and told to name servers."""
CONSUMER_GROUPS_OF_ONE_MAX = PRODUCER_GROUPS_MAX = 10_000
"""Groups that one connection may be in."""
SUBSCRIPTIONS_MAX, FILTERS_MAX = 20_000, 4096
"""Subscriptions of one consumer group, and those of them in SQL: all are taken in in one go."""
_CONSUMERS_A_STEP = 50
_SUBSCRIPTIONS_A_STEP = 1000
_PRODUCERS_A_STEP = 200

_Compiled: TypeAlias = "dict[str, SqlFilter | None]"
"""Expressions of a heartbeat; None for those that cannot be read."""

_log = Log(__name__)


class HeartbeatHandlers:
    """Clients come, stay and go."""

    def __init__(
        self,
        consumers: ConsumerRegistry,
        producers: ProducerRegistry,
        notifications: Notifications,
        topics: TopicTable,
        groups: GroupTable,
        filters: ConsumerFilters,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        clock: Clock,
        work: LongWork,
        log: Throttle,
    ) -> None:
        self._consumers, self._producers, self._notifications = consumers, producers, notifications
        self._topics, self._groups, self._stats = topics, groups, stats
        self._filters = filters
        self._settings, self._clock, self._work, self._log = settings, clock, work, log

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.CHECK_CLIENT_CONFIG: self._check_config,
        }

    def _heartbeat(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._heard(channel, request))

    def _heard(self, channel: Channel, request: Command) -> Steps[Command]:
        heard_s, heard_ms = self._clock.monotonic(), self._clock.wall_ms()
        heartbeat = yield from _read(request.body)
        client = Client(channel, heartbeat.client_id, request.language, request.version, heard_s, heard_ms)
        return (yield from self._registered(heartbeat, client))

    def _registered(self, heartbeat: HeartbeatData, client: Client) -> Steps[Command]:
        """Some groups at a time: each may make a group and a topic. A connection that is gone is taken in nowhere."""
        is_sub_wanted = heartbeat.heartbeat_fingerprint == 0
        consumers, producers = heartbeat.consumer_data_set, heartbeat.producer_data_set
        for some, is_last in _slices(consumers):
            compiled = yield from self._compile(some)
            if not client.channel.is_closed:
                is_sub_wanted = self._register_consumers(some, heartbeat, client, compiled) or is_sub_wanted
            if not is_last:
                yield
        for at in range(0, len(producers), _PRODUCERS_A_STEP):
            if at:
                yield
            self._register_producers([] if client.channel.is_closed else producers[at : at + _PRODUCERS_A_STEP], client)
        header = headers.HeartbeatResponseHeader(is_v2_supported=True, is_subscription_changed=is_sub_wanted)
        return response(ResponseCode.SUCCESS, ext=headers.encode(header))

    def _compile(self, some: list[ConsumerData]) -> Steps[_Compiled]:
        """Expressions that are new are read one at a time; what cannot be read is none."""
        compiled: _Compiled = {}
        for data in some:
            for said in not_by_tags(data.subscription_data_set):
                if said.sub_string not in compiled and not self._filters.is_known(data.group_name, said):
                    compiled[said.sub_string] = None
                    with contextlib.suppress(ExpressionError):  # whoever pulls by it is told
                        compiled[said.sub_string] = self._filters.expressions.find(said.sub_string)
                    yield
        return compiled

    def _register_consumers(
        self, some: list[ConsumerData], heartbeat: HeartbeatData, client: Client, compiled: _Compiled
    ) -> bool:
        """Take in every group that exists or may be made. True if the client should send its subscriptions again."""
        new = [data for data in some if not self._consumers.is_member(data.group_name, client.channel)]
        if new and self._consumers.groups_of(client.channel) + len(new) > CONSUMER_GROUPS_OF_ONE_MAX:
            raise RemoteProtocolError(f"one connection can be in {CONSUMER_GROUPS_OF_ONE_MAX} consumer groups")
        accepted = [data for data in some if self._is_accepted(data)]
        configs = self._groups.find_all(data.group_name for data in accepted)
        known = [(data, config) for data in accepted if (config := configs.get(data.group_name)) is not None]
        try:
            retry_topics = (self._retry_topic(data, config) for data, config in known)
            if not self._topics.ensure(retry_topics, with_order=not heartbeat.without_sub):
                problem = f"there are {TOPICS_MAX} topics: delete some"
                self._log.warning("no room for retry topics", problem, client=client.client_id)
        except OSError as error:  # the next heartbeat tries again; members can read without
            self._log.warning("retry topics not made", told(error), client=client.client_id)
        is_sub_wanted = False
        for data, config in known:
            is_sub_wanted = self._is_subscription_wanted(data.group_name, heartbeat) or is_sub_wanted
            self._register(data, config, client, heartbeat, compiled)
        return is_sub_wanted

    def _is_accepted(self, data: ConsumerData) -> bool:
        is_pull = data.consume_type is ConsumeType.CONSUME_ACTIVELY
        return not (is_pull and self._settings.value.reject_pull_consumer_enable)

    def _retry_topic(self, data: ConsumerData, config: SubscriptionGroupConfig) -> TopicConfig:
        topics = (self._topics.get(subscription.topic) for subscription in data.subscription_data_set)
        is_order = any(topic is not None and topic.order for topic in topics)
        return retry_topic(config, is_order=is_order, is_unit=data.unit_mode)

    def _is_subscription_wanted(self, group: str, heartbeat: HeartbeatData) -> bool:
        info = self._consumers.info(group)
        if info is not None and info.fingerprint != heartbeat.heartbeat_fingerprint:
            return True
        return heartbeat.without_sub and (info is None or not info.subscriptions)

    def _register(
        self,
        data: ConsumerData,
        config: SubscriptionGroupConfig,
        client: Client,
        heartbeat: HeartbeatData,
        compiled: _Compiled,
    ) -> None:
        begin_s = self._clock.monotonic()
        # The older form of heartbeats knows no fingerprints, and always has its subscriptions with it.
        fingerprint = heartbeat.heartbeat_fingerprint
        is_without = heartbeat.without_sub and fingerprint != 0
        if self._consumers.register(data, client, fingerprint=fingerprint, without_sub=is_without):
            self._group_changed(data.group_name, config, client)
        if not is_without:
            self._filters.register(data.group_name, data.subscription_data_set, compiled)
        self._stats.registered(CONSUMER_REGISTER_TIME, begin_s)

    def _group_changed(self, group: str, config: SubscriptionGroupConfig, client: Client) -> None:
        _log.debug("consumer group changed", group=group, client=client.client_id, peer=client.channel.peer)
        if config.notify_consumer_ids_changed_enable:
            self._notifications.members_changed(group)

    def _register_producers(self, some: list[ProducerData], client: Client) -> None:
        """Producers are known for the sake of transactions; where those are refused, new ones need not be."""
        config = self._settings.value
        is_open = config.enable_register_producer or not config.reject_transaction_message
        new = [producer for producer in some if client.channel not in self._producers.clients(producer.group_name)]
        if new and self._producers.groups_of(client.channel) + len(new) > PRODUCER_GROUPS_MAX:
            raise RemoteProtocolError(f"one connection can be in {PRODUCER_GROUPS_MAX} producer groups, and no more")
        for producer in some:
            begin_s = self._clock.monotonic()
            if is_open or client.channel in self._producers.clients(producer.group_name):
                self._producers.register(producer.group_name, client)
            self._stats.registered(PRODUCER_REGISTER_TIME, begin_s)

    def _unregister(self, channel: Channel, request: Command) -> Command:
        """The others are told even if this client was no member."""
        asked = headers.read(headers.UnregisterClientRequestHeader, request.ext)
        if asked.producer_group is not None:
            self._producers.unregister(asked.producer_group, channel)
        if asked.consumer_group is not None:
            self._consumers.unregister(asked.consumer_group, channel)
            config = self._groups.get(asked.consumer_group)
            if config is None or config.notify_consumer_ids_changed_enable:
                self._notifications.members_changed(asked.consumer_group)
        return response(ResponseCode.SUCCESS)

    def _check_config(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._config_checked(request.body))

    def _config_checked(self, body: bytes) -> Steps[Command]:
        asked = CheckClientRequestBody()
        if body:
            asked = yield from read_body_in_steps(CheckClientRequestBody, body)
        subscription = asked.subscription_data
        if subscription is None or is_tag_type(subscription.expression_type):
            return response(ResponseCode.SUCCESS)
        kind = subscription.expression_type
        if kind != SQL_TYPE:
            return response(ResponseCode.SYSTEM_ERROR, f"this broker filters by tags and {SQL_TYPE}, not by {kind}")
        if not self._settings.value.enable_property_filter:
            problem = f"this broker filters by tags; {SQL_TYPE} expressions need its setting enablePropertyFilter=true"
            return response(ResponseCode.SYSTEM_ERROR, problem)
        expression = subscription.sub_string
        if not self._filters.expressions.has(expression):
            yield
        try:
            self._filters.expressions.find(expression)
        except ExpressionError as error:
            return response(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"the expression cannot be read: {error}")
        return response(ResponseCode.SUCCESS)


def _slices(consumers: list[ConsumerData]) -> Iterator[tuple[list[ConsumerData], bool]]:
    """So many at a time that a step has few groups, and few subscriptions unless one group has more; and whether it is
    the last time."""
    some: list[ConsumerData] = []
    subscriptions = 0
    for left, data in zip(range(len(consumers) - 1, -1, -1), consumers, strict=True):
        some.append(data)
        subscriptions += len(data.subscription_data_set)
        if not left or len(some) == _CONSUMERS_A_STEP or subscriptions >= _SUBSCRIPTIONS_A_STEP:
            yield some, not left
            some, subscriptions = [], 0


def _read(body: bytes) -> Steps[HeartbeatData]:
    heartbeat = yield from read_body_in_steps(HeartbeatData, body)
    if len(heartbeat.consumer_data_set) > CONSUMER_GROUPS_MAX:
        count = len(heartbeat.consumer_data_set)
        raise RemoteProtocolError(f"a heartbeat with {count} consumer groups: at most {CONSUMER_GROUPS_MAX} are read")
    for data in heartbeat.consumer_data_set:
        subscriptions = data.subscription_data_set
        if len(subscriptions) > SUBSCRIPTIONS_MAX or len(not_by_tags(subscriptions)) > FILTERS_MAX:
            raise RemoteProtocolError(
                f"a group with {len(subscriptions)} subscriptions: at most {SUBSCRIPTIONS_MAX} are read, {FILTERS_MAX} "
                "of them in SQL"
            )
    producers = (data.group_name for data in heartbeat.producer_data_set)  # others must be those of groups that exist
    if (length := max(map(len, (heartbeat.client_id, *producers)))) > NAME_MAX:
        raise RemoteProtocolError(f"a name of {length} characters: those of clients and groups have at most {NAME_MAX}")
    return heartbeat
