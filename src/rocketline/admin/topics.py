"""Topics: which there are, where they lie, what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from rocketline.admin import order_configuration
from rocketline.admin.calls import Calls
from rocketline.admin.views import BrokerAddress, Outcome, QueueStatus, TopicStatus
from rocketline.client.runtime.routes import publish_info, queues_to_read, static_endpoints
from rocketline.client.validation import check_topic
from rocketline.errors import BrokerNotFoundError, ClientError, InvalidNameError, RocketlineError, TopicNotFoundError
from rocketline.model.names import AUTO_CREATE_TOPIC, is_system_topic
from rocketline.model.queue import MessageQueue
from rocketline.model.route import PERM_READ, PERM_WRITE, TopicRouteData
from rocketline.model.topic_config import TopicConfig
from rocketline.wire.bodies import decode_answer
from rocketline.wire.bodies.lists import GroupList, TopicList
from rocketline.wire.bodies.stats import TopicStatsTable
from rocketline.wire.codes import RequestCode
from rocketline.wire.headers import (
    CreateTopicRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicConfigRequestHeader,
    GetTopicsByClusterRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)

READ_AND_WRITE: Final = PERM_READ | PERM_WRITE
_TOLD_POLL_S: Final = 0.02
_TRIES: Final = 5
"""To create a topic on one broker. Java: MQAdminImpl.createTopic."""


class Topics:
    """`admin.topics`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def names(self, *, cluster: str | None = None) -> list[str]:
        """All topics by name, or those of a cluster; retry, dead-letter and system topics are among them."""
        calls = self._calls
        if cluster is None:
            answer = await calls.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        else:
            header = GetTopicsByClusterRequestHeader(cluster=cluster)
            answer = await calls.ask_name_server(RequestCode.GET_TOPICS_BY_CLUSTER, header)
        return sorted(decode_answer(TopicList, answer.body).topic_list)

    async def create(
        self,
        topic: str,
        *,
        queue_count: int = 8,
        read_queue_count: int | None = None,
        permission: int = READ_AND_WRITE,
        is_ordered: bool = False,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Outcome:
        """Make a topic, or change it, on every master of a cluster, on one broker, or everywhere.

        `queue_count` is for writing, and for reading too unless that has its own. An attribute's name begins with +
        to set it and with - to remove it. Each broker is asked up to five times. Raises only if none could, and
        `InvalidNameError` for a name that no broker takes. When this returns, clients find the topic, unless it took
        the brokers longer than a request may take to tell the name server.
        """
        config = TopicConfig(
            topic,
            read_queue_nums=queue_count if read_queue_count is None else read_queue_count,
            write_queue_nums=queue_count,
            perm=permission,
            order=is_ordered,
            attributes=dict(attributes or {}),
        )
        return await self.put(config, cluster=cluster, broker=broker)

    async def put(self, config: TopicConfig, *, cluster: str | None = None, broker: str | None = None) -> Outcome:
        """Make or change a topic as `create` does, from a whole configuration."""
        check_topic(config.topic_name)
        if is_system_topic(config.topic_name):
            raise InvalidNameError("topic", config.topic_name, "the name belongs to RocketMQ itself: choose another")
        brokers = await self._calls.brokers(cluster=cluster, broker=broker)
        outcome = await self._calls.change(brokers, lambda target: self._put(target, config))
        if config.order:
            await order_configuration.extend(
                self._calls, config.topic_name, {done.name: config.write_queue_nums for done in outcome.done}
            )
        await self._wait_until_told(config.topic_name, {done.name for done in outcome.done})
        return outcome

    async def _wait_until_told(self, topic: str, brokers: set[str]) -> None:
        """Brokers answer first, and register what they made a moment later."""
        runtime = self._calls.runtime
        deadline_s = runtime.clock.monotonic() + self._calls.timeout_s
        while runtime.clock.monotonic() < deadline_s:
            with suppress(TopicNotFoundError):
                route = await self._calls.route(topic)
                if brokers <= {data.broker_name for data in route.queue_datas}:
                    return
            await runtime.sleep(_TOLD_POLL_S)

    async def _put(self, broker: BrokerAddress, config: TopicConfig) -> None:
        header = CreateTopicRequestHeader(
            topic=config.topic_name,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=format_attributes(config.attributes) if config.attributes else None,
        )
        for attempt in range(1, _TRIES + 1):
            try:
                await self._calls.ask(broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            except RocketlineError:
                if attempt == _TRIES:
                    raise
            else:
                return

    async def set_permission(
        self, topic: str, permission: int, *, cluster: str | None = None, broker: str | None = None
    ) -> Outcome:
        """Change who may use a topic: 4 to read, 2 to write, 6 both. The rest of it stays as it is on each broker."""
        chosen = await self._calls.brokers(cluster=cluster, broker=broker)
        holders = sorted(set(await self._calls.holders(topic)) & set(chosen))
        if not holders:
            raise BrokerNotFoundError(broker or f"any of cluster {cluster}", f"topic {topic} is not there")

        async def change(target: BrokerAddress) -> None:
            config = await self._config(target, topic)
            await self._put(target, TopicConfig(
                topic,
                config.read_queue_nums,
                config.write_queue_nums,
                permission,
                config.topic_filter_type,
                config.topic_sys_flag,
                config.order,
            ))  # fmt: skip

        return await self._calls.change(holders, change)

    async def delete(self, topic: str, *, cluster: str | None = None) -> Outcome:
        """Delete a topic and its messages on every master of a cluster, or everywhere, and in all name servers."""
        calls = self._calls
        brokers = await calls.brokers(cluster=cluster)
        header = DeleteTopicRequestHeader(topic=topic)
        outcome = await calls.change(
            brokers, lambda target: calls.ask(target.address, RequestCode.DELETE_TOPIC_IN_BROKER, header)
        )
        gone = DeleteTopicFromNamesrvRequestHeader(topic=topic, cluster_name=cluster)
        await calls.tell_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, gone)
        await order_configuration.remove(calls, topic, {done.name for done in outcome.done})
        return outcome

    async def config(self, topic: str) -> dict[BrokerAddress, TopicConfig]:
        """A topic as each of its brokers has it. Raises `TopicNotFoundError`."""
        holders = await self._calls.holders(topic)
        return await self._calls.each(holders, lambda target: self._config(target, topic))

    async def _config(self, broker: BrokerAddress, topic: str) -> TopicConfig:
        header = GetTopicConfigRequestHeader(topic=topic)
        answer = await self._calls.ask(broker.address, RequestCode.GET_TOPIC_CONFIG, header)
        return decode_answer(TopicConfig, answer.body)

    async def route(self, topic: str) -> TopicRouteData:
        """The brokers of a topic and their queues, as clients are told. Raises `TopicNotFoundError`."""
        return await self._calls.route(topic)

    async def writable_queues(self, topic: str) -> list[MessageQueue]:
        """What producers send to. Raises `ClientError` if there are none. Java: fetchPublishMessageQueues."""
        return await self._queues(topic, is_to_write=True)

    async def readable_queues(self, topic: str) -> list[MessageQueue]:
        """What consumers read. Raises `ClientError` if there are none. Java: fetchSubscribeMessageQueues."""
        return await self._queues(topic, is_to_write=False)

    async def _queues(self, topic: str, *, is_to_write: bool) -> list[MessageQueue]:
        route = await self._calls.route(topic)
        endpoints = static_endpoints(topic, route.topic_queue_mapping_by_broker or {})
        queues = (
            publish_info(topic, route, endpoints).queues if is_to_write else queues_to_read(topic, route, endpoints)
        )
        if not queues:
            raise ClientError(
                f"topic {topic!r} has no queue to {'write to' if is_to_write else 'read'}: look at its permission"
            )
        return sorted(queues)

    async def status(self, topic: str) -> TopicStatus:
        """What each queue holds. Raises `TopicNotFoundError`. Java: examineTopicStats."""
        header = GetTopicStatsInfoRequestHeader(topic=topic)
        answers = await self._calls.each(
            await self._calls.holders(topic),
            lambda target: self._calls.ask(target.address, RequestCode.GET_TOPIC_STATS_INFO, header),
        )
        tables = [decode_answer(TopicStatsTable, answer.body) for answer in answers.values()]
        queues = [
            QueueStatus(queue, held.min_offset, held.max_offset, held.last_update_timestamp or None)
            for table in tables
            for queue, held in table.offset_table.items()
        ]
        queues.sort(key=lambda status: status.queue)
        return TopicStatus(topic, tuple(queues), sum((table.topic_put_tps for table in tables), 0.0))

    async def groups(self, topic: str) -> list[str]:
        """The groups that subscribe to a topic or have offsets in it. Java: queryTopicConsumeByWho."""
        header = QueryTopicConsumeByWhoRequestHeader(topic=topic)
        answers = await self._calls.each(
            await self._calls.holders(topic),
            lambda target: self._calls.ask(target.address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header),
        )
        return sorted(
            {group for answer in answers.values() for group in decode_answer(GroupList, answer.body).group_list}
        )


def format_attributes(attributes: Mapping[str, str]) -> str:
    """As a broker reads them; a name without a sign is one to set.

    >>> format_attributes({"message.type": "FIFO", "-cleanup.policy": ""})
    '+message.type=FIFO,-cleanup.policy'
    """
    signed = {name if name[:1] in ("+", "-") else f"+{name}": value for name, value in attributes.items()}
    return ",".join(name if name.startswith("-") else f"{name}={value}" for name, value in signed.items())
