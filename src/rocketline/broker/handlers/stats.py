"""VIEW_BROKER_STATS_DATA (315): one counter over the last minute, hour and day. GET_TOPIC_STATS_INFO (202): a topic's
queues. GET_BROKER_RUNTIME_INFO (28): the broker's figures."""

from __future__ import annotations

from rocketline.broker.long_work import LongWork, answered_with
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.stats.consume_progress import ConsumeProgress
from rocketline.broker.stats.consumer_lag import FALLS, ConsumerLag
from rocketline.broker.stats.counters import BrokerStats
from rocketline.broker.stats.runtime_info import RuntimeInfo
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.wire import headers
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.lists import KVTable
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response


class StatsHandlers:
    """What was counted."""

    def __init__(
        self,
        stats: BrokerStats,
        falls: ConsumerLag,
        topics: TopicTable,
        progress: ConsumeProgress,
        runtime: RuntimeInfo,
        work: LongWork,
    ) -> None:
        self._stats, self._falls, self._topics, self._work = stats, falls, topics, work
        self._progress, self._runtime = progress, runtime

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.VIEW_BROKER_STATS_DATA: self._view,
            RequestCode.GET_TOPIC_STATS_INFO: self._topic,
            RequestCode.GET_BROKER_RUNTIME_INFO: self._runtime_info,
        }

    def _view(self, channel: Channel, request: Command) -> Command:
        asked = headers.read(headers.ViewBrokerStatsDataRequestHeader, request.ext)
        ask = self._falls.data if asked.stats_name in FALLS else self._stats.data
        data = ask(asked.stats_name, asked.stats_key)
        if data is None:
            problem = f"The stats <{asked.stats_name}> <{asked.stats_key}> not exist"
            return response(ResponseCode.SYSTEM_ERROR, problem)
        return response(ResponseCode.SUCCESS, body=encode(data))

    def _topic(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.GetTopicStatsInfoRequestHeader, request.ext)
        config = self._topics.get(asked.topic)
        if config is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist")
        return self._work.begin(channel, request, answered_with(self._progress.of_topic(config)))

    def _runtime_info(self, channel: Channel, request: Command) -> Command:
        return response(ResponseCode.SUCCESS, body=encode(KVTable(self._runtime.table())))
