"""Whether a pull is allowed, and which messages it wants."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from rocketline.broker.clients.consumers import ConsumerGroupInfo, ConsumerRegistry
from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import SQL_TYPE, Wanted, is_tag_type, wanted_tags
from rocketline.broker.metadata.consumer_filters import ConsumerFilters
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.topics import TopicTable
from rocketline.errors import ExpressionError
from rocketline.filter import SqlFilter
from rocketline.model import names
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.route import PERM_READ
from rocketline.model.subscription import ConsumeType, SubscriptionData
from rocketline.model.sys_flags import PULL_SUBSCRIPTION
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import PullMessageRequestHeader


class Forbidden(IntEnum):
    """Who forbids a pull, told beside code 16. Java: ForbiddenType."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING = 4
    SUBSCRIPTION = 5


@dataclass(frozen=True, slots=True)
class Admitted:
    """A pull that may read: its topic and group as the broker has them, and what it wants of them."""

    topic: TopicConfig
    group: SubscriptionGroupConfig
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Said:
    """What a pull's own expression says."""

    wanted: Wanted


class PullChecks:
    """All that is looked at before a pull reads, in Apache's order; the first that fails is the answer.

    Differs: a pull with an expression in SQL that cannot be read is refused with code 23; Apache's broker sends it all
    messages.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerRegistry,
        filters: ConsumerFilters,
        settings: Settings[BrokerConfig],
    ) -> None:
        self._topics, self._groups, self._consumers, self._settings = topics, groups, consumers, settings
        self._filters = filters

    def admit(
        self, channel: object, asked: PullMessageRequestHeader, said: Said | None = None, *, is_lite: bool
    ) -> Admitted | Command:
        """What the pull may read, or the answer that refuses it. `said`: its own expression was read before."""
        config = self._settings.value
        if not config.broker_permission & PERM_READ:
            return _forbidden(Forbidden.BROKER, f"broker {config.broker_name} may not be read: brokerPermission")
        if is_lite and not config.lite_pull_message_enable:
            return _forbidden(Forbidden.BROKER, "lite pulls are refused: litePullMessageEnable=false")
        group = self._groups.find(asked.consumer_group)
        if group is None:
            return response(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"the group {asked.consumer_group} does not exist: create it"
            )
        if not group.consume_enable:
            return _forbidden(Forbidden.GROUP, f"the group {group.group_name} may not consume: consumeEnable=false")
        topic = self._topics.get(asked.topic)
        if topic is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"the topic {asked.topic} does not exist: create it first")
        if not topic.perm & PERM_READ:
            return _forbidden(Forbidden.TOPIC, f"the topic {asked.topic} may not be read: its perm is {topic.perm}")
        if not 0 <= asked.queue_id < topic.read_queue_nums:
            return bad_queue(asked.queue_id, topic)
        wanted = self._wanted(asked, group, said)
        if isinstance(wanted, Command):
            return wanted
        if config.reject_pull_consumer_enable and not self._is_known_puller(channel, asked.consumer_group):
            return response(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the group {asked.consumer_group} has no such member, and rejectPullConsumerEnable=true",
            )
        return Admitted(topic, group, wanted)

    def _wanted(
        self, asked: PullMessageRequestHeader, group: SubscriptionGroupConfig, said: Said | None
    ) -> Wanted | Command:
        if asked.sys_flag & PULL_SUBSCRIPTION:
            if said is None:
                return self._wanted_by_request(asked)
            is_barred = isinstance(said.wanted, SqlFilter) and not self._settings.value.enable_property_filter
            return _no_sql(asked.expression_type) if is_barred else said.wanted
        info = self._consumers.info(asked.consumer_group)
        if info is None:
            return response(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the group {asked.consumer_group} has sent no heartbeat"
            )
        if info.is_broadcasting and not group.consume_broadcast_enable:
            return _forbidden(
                Forbidden.BROADCASTING, f"the group {group.group_name} may not broadcast: consumeBroadcastEnable=false"
            )
        if self._groups.is_forbidden(asked.consumer_group, asked.topic):
            return _forbidden(
                Forbidden.SUBSCRIPTION, f"the group {asked.consumer_group} is forbidden to read {asked.topic}"
            )
        return self._wanted_by_heartbeat(asked, info)

    def _wanted_by_request(self, asked: PullMessageRequestHeader) -> Wanted | Command:
        if not is_tag_type(asked.expression_type):
            return self._sql_of_request(asked) if asked.subscription else _unreadable("it is empty")
        try:
            return wanted_tags(asked.subscription)
        except ValueError as error:
            return _unreadable(str(error))

    def _sql_of_request(self, asked: PullMessageRequestHeader) -> Wanted | Command:
        if not self._settings.value.enable_property_filter or asked.expression_type != SQL_TYPE:
            return _no_sql(asked.expression_type)
        try:
            return self._filters.expressions.find(asked.subscription or "")
        except ExpressionError as error:
            return _unreadable(str(error))

    def _wanted_by_heartbeat(self, asked: PullMessageRequestHeader, info: ConsumerGroupInfo) -> Wanted | Command:
        subscription = info.subscriptions.get(asked.topic)
        if subscription is None:
            return response(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the group {asked.consumer_group} does not subscribe to {asked.topic}",
            )
        if subscription.sub_version < asked.sub_version:
            return response(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"the subscription of {asked.consumer_group} to {asked.topic} is of version {subscription.sub_version} "
                f"here, the pull has {asked.sub_version}: send a heartbeat",
            )
        if is_tag_type(subscription.expression_type):
            return info.wanted(subscription)
        return self._sql_of_heartbeat(asked, subscription)

    def _sql_of_heartbeat(self, asked: PullMessageRequestHeader, subscription: SubscriptionData) -> Wanted | Command:
        kept = self._filters.get(asked.consumer_group, asked.topic)
        if kept is None or kept.is_dead:
            return self._no_filter(asked, subscription)
        if kept.version < asked.sub_version:
            return response(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                f"the filter of {asked.consumer_group} for {asked.topic} is of version {kept.version} here, the pull "
                f"has {asked.sub_version}: send a heartbeat",
            )
        if not self._settings.value.enable_property_filter or subscription.expression_type != SQL_TYPE:
            return _no_sql(subscription.expression_type)
        try:
            return self._filters.compiled(kept)
        except ExpressionError:
            return self._no_filter(asked, subscription)

    def _no_filter(self, asked: PullMessageRequestHeader, subscription: SubscriptionData) -> Command:
        problem = "there is no room for it, or it is empty"
        try:
            if subscription.sub_string:
                self._filters.expressions.find(subscription.sub_string)
        except ExpressionError as error:
            problem = f"it cannot be read: {error}"
        return response(
            ResponseCode.FILTER_DATA_NOT_EXIST,
            f"no filter of {asked.consumer_group} for {asked.topic} is kept here: {problem}",
        )

    def _is_known_puller(self, channel: object, group: str) -> bool:
        info = self._consumers.info(group)
        if info is not None and (info.consume_type is not ConsumeType.CONSUME_ACTIVELY or channel in info.clients):
            return True
        return names.is_system_group(group)


def _no_sql(expression_type: str | None) -> Command:
    problem = f"expressions of type {expression_type} are not supported: subscribe by tags"
    if expression_type == SQL_TYPE:
        problem += ", or set enablePropertyFilter=true at this broker"
    return response(ResponseCode.SYSTEM_ERROR, problem)


def _unreadable(problem: str) -> Command:
    return response(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"the subscription cannot be read: {problem}")


def _forbidden(by: Forbidden, remark: str) -> Command:
    return response(ResponseCode.NO_PERMISSION, remark, ext={"forbiddenType": str(int(by))})


def bad_queue(queue_id: int, topic: TopicConfig) -> Command:
    return response(
        ResponseCode.INVALID_PARAMETER,
        f"queue {queue_id} of {topic.topic_name} does not exist: {topic.read_queue_nums} can be read, from 0",
    )
