"""Consumer groups as administrators make, change, look at and delete them.

UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200), GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201), DELETE_SUBSCRIPTIONGROUP (207),
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225), GET_SUBSCRIPTIONGROUP_CONFIG (352), UPDATE_AND_GET_GROUP_FORBIDDEN
(353).

Differs from Apache:
- a list with a group that is refused changes nothing; Apache keeps those before it until the next start;
- a list may have 1,000 groups, and is made as a whole;
- to let a group read one topic again leaves its other topics forbidden, and is saved; to forbid one makes the group, if
  that may be made, and there may be 10,000 such pairs;
- attributes of groups, all of which belong to features that are not here, are refused;
- a retry topic may have 16,384 queues, not any number; there may be 50,000 groups;
- the subscriptions and waits of a group's configuration may have 32 KiB, those of one request 256, of all
  groups 64 MiB.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import LARGE_TABLE, LongWork, Steps, answered, each_with_pause
from rocketline.broker.metadata.groups import (
    CONFIG_BYTES_MAX,
    CONFIGS_BYTES_MAX,
    FORBIDDEN_MAX,
    GROUPS_MAX,
    GroupTable,
    config_bytes,
)
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.metadata.topics import QUEUES_MAX
from rocketline.broker.request_body import LISTED_MAX, read_body_in_steps
from rocketline.broker.stats.counters import BrokerStats
from rocketline.errors import LocalProtocolError
from rocketline.logs import Throttle
from rocketline.model import names
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.groups import GroupForbidden, SubscriptionGroupList, SubscriptionGroupTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_NAMED_MAX = 10
"""Groups that one line of the log names."""
_CHECKED_A_STEP = 100
REQUEST_BYTES_MAX = 256 * 1024
"""The lists and texts of all groups of a request, which become one line of the journal in one go."""


class GroupHandlers:
    """The group table, as administrators use it."""

    def __init__(
        self,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        stats: BrokerStats,
        settings: Settings[BrokerConfig],
        work: LongWork,
        log: Throttle,
    ) -> None:
        self._groups, self._offsets, self._stats, self._settings = groups, offsets, stats, settings
        self._work, self._log = work, log

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._update,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self._update_list,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._get_all,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._get,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self._delete,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self._forbid,
        }

    def _update(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._one_updated(channel, request.body), is_change=True)

    def _one_updated(self, channel: Channel, body: bytes) -> Steps[Command]:
        configs = [(yield from read_body_in_steps(SubscriptionGroupConfig, body))] if body else []
        return (yield from self._updated(configs, channel))

    def _update_list(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._list_updated(channel, request.body), is_change=True)

    def _list_updated(self, channel: Channel, body: bytes) -> Steps[Command]:
        configs = (yield from read_body_in_steps(SubscriptionGroupList, body)).group_config_list
        if len(configs) > LISTED_MAX:
            return response(ResponseCode.INVALID_PARAMETER, f"{len(configs)} groups at once: at most {LISTED_MAX}")
        return (yield from self._updated(configs, channel))

    def _updated(self, configs: list[SubscriptionGroupConfig], channel: Channel) -> Steps[Command]:
        """Checked some at a time, then made all at once."""
        sizes = dict[str, int]()
        for config, is_step in each_with_pause(configs, _CHECKED_A_STEP):
            if is_step:
                yield
            size = sizes[config.group_name] = config_bytes(config)
            problem = _problem(config, size)
            if problem is not None:
                return response(ResponseCode.INVALID_PARAMETER, problem)
        if (problem := self._no_room(sizes)) is not None:
            return response(ResponseCode.INVALID_PARAMETER, problem)
        self._groups.update(*configs)
        self._log.info(
            "groups updated", ", ".join(config.group_name for config in configs[:_NAMED_MAX]), by=channel.peer
        )
        return response(ResponseCode.SUCCESS)

    def _no_room(self, sizes: Mapping[str, int]) -> str | None:
        """Why groups, each of which might be made, are too many or too much."""
        if not self._groups.has_room(sizes):
            return f"this broker has {GROUPS_MAX} groups, and no room for more"
        if (size := sum(sizes.values())) > REQUEST_BYTES_MAX:
            return f"subscriptions and waits of {size} bytes at once: at most {REQUEST_BYTES_MAX}"
        if not self._groups.has_bytes(sizes):
            return (
                f"subscriptions and waits of all groups have {CONFIGS_BYTES_MAX} bytes, and there is no room for more"
            )
        return None

    def _get_all(self, channel: Channel, request: Command) -> Outcome:
        return self._work.begin(channel, request, self._all(request))

    def _all(self, request: Command) -> Steps[Command]:
        if len(self._groups.all()) > LARGE_TABLE:
            yield
        asked = headers.read(headers.GetAllSubscriptionGroupRequestHeader, request.ext)
        config = self._settings.value
        header = headers.GetAllSubscriptionGroupResponseHeader(total_group_num=len(self._groups.all()))
        data_version, forbidden = self._groups.data_version, self._groups.forbidden
        if config.enable_split_metadata and request.ext.keys() & {"groupSeq", "dataVersion", "maxGroupNum"}:
            size_max = config.split_metadata_size
            size = size_max if asked.max_group_num is None else min(size_max, asked.max_group_num)
            table = yield from self._groups.page(asked.data_version, asked.group_seq, size)
            forbidden = {group: forbidden[group] for group in table if group in forbidden}
        else:
            table = dict(self._groups.all())
        body = SubscriptionGroupTable(data_version, {group: dict(topics) for group, topics in forbidden.items()}, table)
        return (yield from answered(body, headers.encode(header)))

    def _get(self, channel: Channel, request: Command) -> Command:
        """Like most questions about a group, this one makes it, if the settings allow that."""
        asked = headers.read(headers.GetSubscriptionGroupConfigRequestHeader, request.ext)
        config = self._groups.find(asked.group)
        if config is None:
            remark = f"group {asked.group} does not exist on this broker"
            return response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return response(ResponseCode.SUCCESS, body=encode(config))

    def _delete(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.DeleteSubscriptionGroupRequestHeader, request.ext)
        return self._work.begin(channel, request, self._deleted(asked, channel), is_change=True)

    def _deleted(self, asked: headers.DeleteSubscriptionGroupRequestHeader, channel: Channel) -> Steps[Command]:
        """The group goes first: should it be made again meanwhile, it begins anew."""
        self._groups.delete(asked.group_name)
        if asked.clean_offset:
            yield from self._offsets.remove_group(asked.group_name)
        yield from self._stats.forget_groups({asked.group_name})
        self._log.info("group deleted", asked.group_name, with_offsets=asked.clean_offset, by=channel.peer)
        return response(ResponseCode.SUCCESS)

    def _forbid(self, channel: Channel, request: Command) -> Command:
        """Change whether the group may read the topic, if the request says so; tell it in any case."""
        asked = headers.read(headers.UpdateGroupForbiddenRequestHeader, request.ext)
        if asked.readable is not None:
            if not asked.readable and (problem := self._no_forbidding(asked.group, asked.topic)) is not None:
                return problem
            self._groups.set_forbidden(asked.group, asked.topic, is_forbidden=not asked.readable)
        is_readable = not self._groups.is_forbidden(asked.group, asked.topic)
        return response(ResponseCode.SUCCESS, body=encode(GroupForbidden(asked.group, asked.topic, is_readable)))

    def _no_forbidding(self, group: str, topic: str) -> Command | None:
        """Why a group cannot be kept from a topic. Neither need be there yet; but what nothing can be called is not
        kept, nor more than can be written at once."""
        try:
            names.check_topic(topic)
        except LocalProtocolError as error:
            return response(ResponseCode.INVALID_PARAMETER, str(error))
        if self._groups.find(group) is None:
            return response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"group {group} does not exist on this broker")
        if not self._groups.may_forbid(group, topic):
            remark = f"groups are kept from {FORBIDDEN_MAX} topics already: let some read again"
            return response(ResponseCode.INVALID_PARAMETER, remark)
        return None


def _problem(config: SubscriptionGroupConfig, size: int) -> str | None:
    """Why a group may not be made or changed like this."""
    try:
        names.check_group(config.group_name)
    except LocalProtocolError as error:
        return str(error)
    if config.retry_queue_nums > QUEUES_MAX:
        return f"group {config.group_name}: retryQueueNums {config.retry_queue_nums} is more than {QUEUES_MAX}"
    if size > CONFIG_BYTES_MAX:
        return f"group {config.group_name}: subscriptions and waits of more than {CONFIG_BYTES_MAX} bytes"
    return None
