"""Clusters and their brokers: who is there, how they do, how they are set up, and what they can be told to clean."""

from __future__ import annotations

from collections.abc import Mapping

from rocketline.admin import placement
from rocketline.admin.calls import Calls, settled
from rocketline.admin.runtime_figures import broker_status
from rocketline.admin.views import BrokerAddress, BrokerStatus, Cluster, Outcome
from rocketline.model.topic_config import TopicConfig
from rocketline.settings.properties import format_properties, parse_properties
from rocketline.wire.bodies import decode_answer
from rocketline.wire.bodies.lists import KVTable
from rocketline.wire.bodies.stats import BrokerStatsData
from rocketline.wire.bodies.topics import TopicConfigTable
from rocketline.wire.codes import RequestCode
from rocketline.wire.headers import GetAllTopicConfigRequestHeader, ViewBrokerStatsDataRequestHeader


class Brokers:
    """`admin.brokers`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def clusters(self) -> list[Cluster]:
        """All clusters and their brokers. Java: examineBrokerClusterInfo."""
        return placement.clusters(await self._calls.cluster_info())

    async def addresses(
        self, *, cluster: str | None = None, broker: str | None = None, with_slaves: bool = True
    ) -> list[BrokerAddress]:
        """Brokers by cluster, name and id. Raises `BrokerNotFoundError` if there is none such."""
        return await self._calls.brokers(cluster=cluster, broker=broker, with_slaves=with_slaves)

    async def status(self, *, cluster: str | None = None, broker: str | None = None) -> list[BrokerStatus]:
        """How brokers do, slaves too; one that does not answer is told with its `problem`."""
        brokers = await self.addresses(cluster=cluster, broker=broker)
        tables = await settled(self._figures(each) for each in brokers)
        return [broker_status(broker, table) for broker, table in zip(brokers, tables, strict=True)]

    async def figures(self, broker: str) -> dict[BrokerAddress, dict[str, str]]:
        """All that a broker tells of itself, and its slaves if it is named. Java: fetchBrokerRuntimeStats."""
        return await self._calls.each(await self.addresses(broker=broker), self._figures)

    async def _figures(self, broker: BrokerAddress) -> dict[str, str]:
        answer = await self._calls.ask(broker.address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return decode_answer(KVTable, answer.body).table

    async def statistic(self, broker: str, name: str, key: str) -> dict[BrokerAddress, BrokerStatsData]:
        """A count over the last minute, hour and day: TOPIC_PUT_NUMS of a topic, say. Java: viewBrokerStatsData."""
        header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
        answers = await self._calls.each(
            await self._calls.brokers(broker=broker),
            lambda target: self._calls.ask(target.address, RequestCode.VIEW_BROKER_STATS_DATA, header),
        )
        return {target: decode_answer(BrokerStatsData, answer.body) for target, answer in answers.items()}

    async def config(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[BrokerAddress, dict[str, str]]:
        """The settings in force, slaves too. Java: getBrokerConfig."""
        answers = await self._calls.each(
            await self.addresses(cluster=cluster, broker=broker),
            lambda target: self._calls.ask(target.address, RequestCode.GET_BROKER_CONFIG),
        )
        return {
            target: {pair.key: pair.value for pair in parse_properties(answer.body)}
            for target, answer in answers.items()
        }

    async def set_config(
        self, settings: Mapping[str, str], *, cluster: str | None = None, broker: str | None = None
    ) -> Outcome:
        """Change settings on masters, by Apache's names of them. Java: updateBrokerConfig."""
        body = format_properties(settings).encode()
        return await self._calls.change(
            await self._calls.brokers(cluster=cluster, broker=broker),
            lambda target: self._calls.ask(target.address, RequestCode.UPDATE_BROKER_CONFIG, body=body),
        )

    async def topics(self, broker: str) -> dict[BrokerAddress, dict[str, TopicConfig]]:
        """All topics of a broker as it has them. Java: getAllTopicConfig."""
        answers = await self._calls.each(
            await self._calls.brokers(broker=broker),
            lambda target: self._calls.ask(
                target.address, RequestCode.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigRequestHeader()
            ),
        )
        return {
            target: decode_answer(TopicConfigTable, answer.body).topic_config_table
            for target, answer in answers.items()
        }

    # --- cleaning

    async def clean_expired_queues(self, *, cluster: str | None = None, broker: str | None = None) -> Outcome:
        """Delete what queues hold of messages that the log no longer has. Java: cleanExpiredConsumerQueue."""
        return await self._clean(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, cluster, broker)

    async def delete_expired_logs(self, *, cluster: str | None = None, broker: str | None = None) -> Outcome:
        """Delete log files that are past their time, now and not at the hour for it. Java: deleteExpiredCommitLog."""
        return await self._clean(RequestCode.DELETE_EXPIRED_COMMITLOG, cluster, broker)

    async def clean_unused_topics(self, *, cluster: str | None = None, broker: str | None = None) -> Outcome:
        """Delete the queues of topics that there are no more. Java: cleanUnusedTopic."""
        return await self._clean(RequestCode.CLEAN_UNUSED_TOPIC, cluster, broker)

    async def _clean(self, code: RequestCode, cluster: str | None, broker: str | None) -> Outcome:
        brokers = await self._calls.brokers(cluster=cluster, broker=broker)
        return await self._calls.change(brokers, lambda target: self._calls.ask(target.address, code))
