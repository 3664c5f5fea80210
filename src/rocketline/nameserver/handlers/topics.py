"""Topics from an administrator's view: lists of them, their deletion, and who may write to them.

WIPE_WRITE_PERM_OF_BROKER (205), GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206), DELETE_TOPIC_IN_NAMESRV (216),
REGISTER_TOPIC_IN_NAMESRV (217), GET_TOPICS_BY_CLUSTER (224), GET_SYSTEM_TOPIC_LIST_FROM_NS (304),
GET_UNIT_TOPIC_LIST (311), GET_HAS_UNIT_SUB_TOPIC_LIST (312), GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST (313),
ADD_WRITE_PERM_OF_BROKER (327).
"""

from __future__ import annotations

from rocketline.model.route import TopicRouteData
from rocketline.nameserver import limits
from rocketline.nameserver.config import NameServerConfig
from rocketline.nameserver.limits import SHORT_BYTES
from rocketline.nameserver.route_table import RouteTable
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.long_work import LongWork, Steps
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.bodies import decode, encode
from rocketline.wire.bodies.lists import TopicList
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_STEP = 5000
"""Topics that are encoded in one go."""
_HEAD, _TAIL = b'{"topicList":[', b"]}"
_UNIT, _UNIT_SUB = 1, 2
"""Bits of a topic's system flag. Java: TopicSysFlag."""


class TopicHandlers:
    """Lists and changes of topics."""

    def __init__(self, table: RouteTable, settings: Settings[NameServerConfig], work: LongWork) -> None:
        self._table, self._settings, self._work = table, settings, work

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add_write_perm,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self._register,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._list_all,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._list_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._list_system,
            RequestCode.GET_UNIT_TOPIC_LIST: self._list_unit,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._list_unit_sub,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._list_unit_sub_without_unit,
        }

    def _wipe_write_perm(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.decode(headers.WipeWritePermOfBrokerRequestHeader, request.ext)

        def work() -> Steps[Command]:
            count = yield from self._table.wipe_write_perm(asked.broker_name)
            header = headers.WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count)
            return response(ResponseCode.SUCCESS, ext=headers.encode(header))

        return self._work.begin(channel, request, work(), is_change=True)

    def _add_write_perm(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.decode(headers.AddWritePermOfBrokerRequestHeader, request.ext)

        def work() -> Steps[Command]:
            count = yield from self._table.add_write_perm(asked.broker_name)
            header = headers.AddWritePermOfBrokerResponseHeader(add_topic_count=count)
            return response(ResponseCode.SUCCESS, ext=headers.encode(header))

        return self._work.begin(channel, request, work(), is_change=True)

    def _delete(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.DeleteTopicFromNamesrvRequestHeader, request.ext)
        self._table.delete_topic(asked.topic, asked.cluster_name or None)
        return response(ResponseCode.SUCCESS)

    def _register(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.RegisterTopicRequestHeader, request.ext)
        if request.body:
            if len(request.body) > SHORT_BYTES:
                return response(ResponseCode.SYSTEM_ERROR, f"the body of this request has at most {SHORT_BYTES} bytes")
            offers = decode(TopicRouteData, request.body).queue_datas
            refusals = [limits.doubt(asked.topic, offer) for offer in offers]
            refusals += [limits.topics_problem(self._table, offer.broker_name, (asked.topic,)) for offer in offers]
            if refusal := next(filter(None, refusals), ""):
                return response(ResponseCode.SYSTEM_ERROR, refusal)
            self._table.register_topic(asked.topic, offers)
        return response(ResponseCode.SUCCESS)

    def _list_all(self, channel: Channel, request: Command) -> Outcome:
        if not self._settings.value.enable_all_topic_list:
            return response(ResponseCode.SYSTEM_ERROR, "the list of all topics is disabled: enableAllTopicList=false")
        return self._work.begin(channel, request, _listed(self._table.listed()))

    def _list_of_cluster(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.decode(headers.GetTopicsByClusterRequestHeader, request.ext)
        return self._list_if_enabled(channel, request, self._table.topics_of_cluster(asked.cluster))

    def _list_system(self, channel: Channel, request: Command) -> Command:
        """The names of clusters and brokers, each of which is a topic that brokers create; and one broker to ask."""
        clusters = self._table.clusters()
        names = dict.fromkeys([*clusters, *(name for names in clusters.values() for name in names)])
        members = [data.broker_addrs for data in self._table.brokers().values() if data.broker_addrs]
        body = encode(TopicList(list(names), members[0][min(members[0])] if members else None))
        return response(ResponseCode.SUCCESS, body=body)

    def _list_unit(self, channel: Channel, request: Command) -> Outcome:
        return self._list_if_enabled(channel, request, self._table.topics_with_sys_flag(present=_UNIT))

    def _list_unit_sub(self, channel: Channel, request: Command) -> Outcome:
        return self._list_if_enabled(channel, request, self._table.topics_with_sys_flag(present=_UNIT_SUB))

    def _list_unit_sub_without_unit(self, channel: Channel, request: Command) -> Outcome:
        chosen = self._table.topics_with_sys_flag(present=_UNIT_SUB, absent=_UNIT)
        return self._list_if_enabled(channel, request, chosen)

    def _list_if_enabled(self, channel: Channel, request: Command, topics: Steps[list[str]]) -> Outcome:
        if not self._settings.value.enable_topic_list:
            return response(ResponseCode.SYSTEM_ERROR, "lists of topics are disabled: enableTopicList=false")

        return self._work.begin(channel, request, _listed(topics))


def _listed(chosen: Steps[list[str]]) -> Steps[Command]:
    """The answer, encoded in steps: the list as it would be, cut in parts and put together again."""
    topics, parts = (yield from chosen), []
    for at in range(0, len(topics), _STEP):
        if at:
            yield
        parts.append(encode(TopicList(topics[at : at + _STEP])).removeprefix(_HEAD).removesuffix(_TAIL))
    return response(ResponseCode.SUCCESS, body=_HEAD + b",".join(parts) + _TAIL)
