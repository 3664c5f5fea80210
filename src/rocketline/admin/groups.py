"""Consumer groups: which there are, who consumes in them, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from rocketline.admin.calls import Calls, settled
from rocketline.admin.topics import Topics
from rocketline.admin.views import BrokerAddress, GroupLag, Outcome, QueueLag
from rocketline.client.validation import check_group
from rocketline.errors import RocketlineError
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.names import dlq_topic, retry_topic
from rocketline.model.queue import MessageQueue
from rocketline.wire import headers
from rocketline.wire.bodies import decode_answer, encode
from rocketline.wire.bodies.groups import GroupForbidden, SubscriptionGroupTable
from rocketline.wire.bodies.lists import TopicList
from rocketline.wire.bodies.stats import ConsumeStats, ConsumeStatsList, ConsumeTimeSpans
from rocketline.wire.codes import RequestCode
from rocketline.wire.headers import (
    DeleteSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupResponseHeader,
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)

_PAGE: Final = 2000
"""Groups asked for at once. Java: maxPageSizeInGetMetadata."""
_RESTARTS_MAX: Final = 3
_GROUPS_MAX: Final = 200_000
"""More of one broker are not looked at: one that lies about their number would fill the memory."""


class Groups:
    """`admin.groups`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    # --- what they are

    async def names(self, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """All groups by name; those of RocketMQ itself are among them."""
        tables = await self._calls.each(await self._calls.brokers(cluster=cluster, broker=broker), self._configs)
        return sorted({group for table in tables.values() for group in table})

    async def config(self, group: str) -> dict[BrokerAddress, SubscriptionGroupConfig]:
        """A group as each broker has it; none does if there is no such group.

        Brokers are asked for all groups, as the question for one would make a group that is not there.
        """
        tables = await self._calls.each(await self._calls.brokers(), self._configs)
        return {broker: table[group] for broker, table in tables.items() if group in table}

    async def _configs(self, broker: BrokerAddress) -> dict[str, SubscriptionGroupConfig]:
        """All pages of a broker's table, from the beginning again when it changes meanwhile, three times at most.

        Then the whole table is asked for at once, as older clients do, and what comes is taken as it is. A broker that
        goes on without anything new, or beyond all bounds, is not asked any further.
        """
        found: dict[str, SubscriptionGroupConfig] = {}
        version, restarts = None, 0
        while restarts <= _RESTARTS_MAX:
            page, total = await self._page(
                broker,
                GetAllSubscriptionGroupRequestHeader(
                    group_seq=len(found),
                    data_version=encode(version).decode() if version else None,
                    max_group_num=_PAGE,
                ),
            )
            if version is not None and page.data_version != version:
                restarts += 1
                found.clear()
            version, known = page.data_version, len(found)
            found |= page.subscription_group_table
            if total is None or len(found) >= min(total, _GROUPS_MAX) or len(found) == known:
                return found
        page, _ = await self._page(broker, GetAllSubscriptionGroupRequestHeader())
        return page.subscription_group_table

    async def _page(
        self, broker: BrokerAddress, asked: GetAllSubscriptionGroupRequestHeader
    ) -> tuple[SubscriptionGroupTable, int | None]:
        """A part of the table, and how many groups there are in all, if the broker tells."""
        answer = await self._calls.ask(broker.address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, asked)
        total = headers.decode(GetAllSubscriptionGroupResponseHeader, answer.ext).total_group_num
        return decode_answer(SubscriptionGroupTable, answer.body), total

    async def create(
        self,
        group: str,
        *,
        retry_max: int = 16,
        retry_queue_count: int = 1,
        is_enabled: bool = True,
        may_broadcast: bool = True,
        is_orderly: bool = False,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Outcome:
        """Make a group, or change it, on every master of a cluster, on one broker, or everywhere.

        A message that failed `retry_max` times more than once goes to the dead letters. Raises only if no broker could,
        and `InvalidNameError` for a name that no broker takes.
        """
        config = SubscriptionGroupConfig(
            group,
            consume_enable=is_enabled,
            consume_broadcast_enable=may_broadcast,
            consume_message_orderly=is_orderly,
            retry_queue_nums=retry_queue_count,
            retry_max_times=retry_max,
        )
        return await self.put(config, cluster=cluster, broker=broker)

    async def put(
        self, config: SubscriptionGroupConfig, *, cluster: str | None = None, broker: str | None = None
    ) -> Outcome:
        """Make or change a group as `create` does, from a whole configuration."""
        check_group(config.group_name)
        code, body = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, encode(config)
        brokers = await self._calls.brokers(cluster=cluster, broker=broker)
        return await self._calls.change(brokers, lambda target: self._calls.ask(target.address, code, body=body))

    async def delete(
        self, group: str, *, with_offsets: bool = False, cluster: str | None = None, broker: str | None = None
    ) -> Outcome:
        """Delete a group; unless on one broker only, its retry and dead-letter topics too."""
        header = DeleteSubscriptionGroupRequestHeader(group_name=group, clean_offset=with_offsets)
        code = RequestCode.DELETE_SUBSCRIPTIONGROUP
        brokers = await self._calls.brokers(cluster=cluster, broker=broker)
        outcome = await self._calls.change(brokers, lambda target: self._calls.ask(target.address, code, header))
        if broker is None:
            topics = Topics(self._calls)
            for topic in (retry_topic(group), dlq_topic(group)):
                await topics.delete(topic, cluster=cluster)
        return outcome

    async def set_readable(self, group: str, topic: str, is_readable: bool) -> dict[BrokerAddress, bool]:
        """Let a group read a topic, or forbid it; what each broker says then. Java: updateAndGetGroupReadForbidden."""
        header = UpdateGroupForbiddenRequestHeader(group=group, topic=topic, readable=is_readable)
        answers = await self._calls.each(
            await self._calls.holders(topic),
            lambda target: self._calls.ask(target.address, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header),
        )
        return {broker: bool(decode_answer(GroupForbidden, answer.body).readable) for broker, answer in answers.items()}

    async def topics(self, group: str) -> list[str]:
        """The topics that a group has offsets in. Java: queryTopicsByConsumer."""
        header = QueryTopicsByConsumerRequestHeader(group=group)
        answers = await self._calls.each(
            await self._calls.brokers(),
            lambda target: self._calls.ask(target.address, RequestCode.QUERY_TOPICS_BY_CONSUMER, header),
        )
        return sorted(
            {topic for answer in answers.values() for topic in decode_answer(TopicList, answer.body).topic_list}
        )

    # --- how far they are

    async def lag(self, group: str, *, topic: str | None = None, cluster: str | None = None) -> GroupLag:
        """How far a group is, in all its topics or in one, in messages and in time. Java: examineConsumeStats."""
        brokers = await (
            self._calls.brokers(cluster=cluster) if topic is None else self._calls.holders(topic, cluster=cluster)
        )
        header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        answers = await self._calls.each(
            brokers, lambda target: self._calls.ask(target.address, RequestCode.GET_CONSUME_STATS, header)
        )
        stats = {broker: decode_answer(ConsumeStats, answer.body) for broker, answer in answers.items()}
        lag = lag_view(group, stats.values())
        delays = await self._delays(group, stats)
        return replace(lag, queues=tuple(replace(each, delay_s=delays.get(each.queue)) for each in lag.queues))

    async def _delays(self, group: str, stats: Mapping[BrokerAddress, ConsumeStats]) -> dict[MessageQueue, float]:
        """How long the next message of each queue has waited, as far as brokers tell."""
        asked = [
            (broker, topic)
            for broker, each in stats.items()
            for topic in sorted({queue.topic for queue in each.offset_table})
        ]
        answers = await settled(
            self._calls.ask(
                broker.address,
                RequestCode.QUERY_CONSUME_TIME_SPAN,
                QueryConsumeTimeSpanRequestHeader(topic=topic, group=group),
            )
            for broker, topic in asked
        )
        spans = [
            span
            for answer in answers
            if not isinstance(answer, RocketlineError)
            for span in decode_answer(ConsumeTimeSpans, answer.body).consume_time_span_set
        ]
        return {span.message_queue: span.delay_time / 1000 for span in spans if span.message_queue is not None}

    async def lags(self, *, cluster: str | None = None, broker: str | None = None) -> list[GroupLag]:
        """How far all groups are, in messages. Java: fetchConsumeStatsInBroker."""
        header = GetConsumeStatsInBrokerHeader(is_order=False)
        answers = await self._calls.each(
            await self._calls.brokers(cluster=cluster, broker=broker),
            lambda target: self._calls.ask(target.address, RequestCode.GET_BROKER_CONSUME_STATS, header),
        )
        by_group: dict[str, list[ConsumeStats]] = {}
        for answer in answers.values():
            for table in decode_answer(ConsumeStatsList, answer.body).consume_stats_list:
                for group, stats in table.items():
                    by_group.setdefault(group, []).extend(stats)
        return [lag_view(group, by_group[group]) for group in sorted(by_group)]


def lag_view(group: str, parts: Iterable[ConsumeStats]) -> GroupLag:
    """What several brokers tell of a group, in the order of its queues."""
    kept = list(parts)
    queues = [
        QueueLag(queue, at.broker_offset, at.consumer_offset, at.pull_offset, at.last_timestamp or None)
        for stats in kept
        for queue, at in stats.offset_table.items()
    ]
    queues.sort(key=lambda lag: lag.queue)
    return GroupLag(group, tuple(queues), sum((stats.consume_tps for stats in kept), 0.0))
