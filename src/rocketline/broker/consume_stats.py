"""How much each queue holds and how far consumers are, worked out when somebody asks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from itertools import chain
from typing import Final

from rocketline.broker.consumers import ConsumerRegistry
from rocketline.broker.groups import GroupTable
from rocketline.broker.long_work import Steps, each_with_pause
from rocketline.broker.offsets import ConsumerOffsets
from rocketline.broker.stats import BrokerStats
from rocketline.broker.topics import TopicTable
from rocketline.errors import RemoteProtocolError
from rocketline.model.queue import MessageQueue
from rocketline.model.topic_config import TopicConfig
from rocketline.store.message_store import MessageStore
from rocketline.wire.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueueTimeSpan,
    TopicOffset,
    TopicStatsTable,
)

_QUEUES_MAX: Final = 100_000
"""In one answer: what a frame carries."""


class ConsumeProgress:
    """Looks at topics, offsets and store together; `broker_name` is what queues are named by.

    What goes through all queues of a topic is done in steps, between which much may change: each figure is true of
    the moment when it was looked at.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        consumers: ConsumerRegistry,
        store: MessageStore,
        stats: BrokerStats,
        broker_name: str,
    ) -> None:
        self._topics, self._groups, self._offsets, self._consumers = topics, groups, offsets, consumers
        self._store, self._stats, self._broker_name = store, stats, broker_name

    def of_topic(self, config: TopicConfig) -> Steps[TopicStatsTable]:
        """What each queue of a topic holds."""
        topic, queues = config.topic_name, max(config.read_queue_nums, config.write_queue_nums)
        table: dict[MessageQueue, TopicOffset] = {}
        for queue_id, is_step in each_with_pause(range(queues)):
            table[self._queue(topic, queue_id)] = self._held(topic, queue_id)
            if is_step:
                yield
        return TopicStatsTable(table, self._stats.put_tps(topic))

    def of_group(self, group: str, topics: Iterable[str]) -> Steps[ConsumeStats]:
        """Where a group is in the readable queues of these topics; topics that do not exist are left out."""
        known = [config for topic in dict.fromkeys(topics) if (config := self._topics.get(topic)) is not None]
        _check_queues(sum(config.read_queue_nums for config in known))
        table: dict[MessageQueue, OffsetWrapper] = {}
        rate = 0.0
        for config in known:
            part = yield from self._of_group(group, config.topic_name, config.read_queue_nums)
            table |= part.offset_table
            rate += part.consume_tps
        return ConsumeStats(table, rate)

    def of_all_groups(self, *, order_only: bool, address: str) -> Steps[ConsumeStatsList]:
        """Where every group is in the writable queues of its topics, or of its ordered topics only."""
        consumed: dict[str, list[TopicConfig]] = {}
        for group, is_step in each_with_pause(list(self._groups.all())):
            topics = map(self._topics.get, self.consumed_topics(group))
            consumed[group] = [topic for topic in topics if topic is not None and (topic.order or not order_only)]
            if is_step:
                yield
        _check_queues(sum(config.write_queue_nums for config in chain.from_iterable(consumed.values())))
        by_group: dict[str, list[ConsumeStats]] = {}
        diff = inflight_diff = 0
        for (group, configs), is_step in each_with_pause(consumed.items()):
            by_group[group] = []
            for config in configs:
                stats = yield from self._of_group(group, config.topic_name, config.write_queue_nums)
                by_group[group].append(stats)
                diff += sum(at.broker_offset - at.consumer_offset for at in stats.offset_table.values())
                inflight_diff += sum(at.pull_offset - at.consumer_offset for at in stats.offset_table.values())
            if is_step:
                yield
        return ConsumeStatsList(
            [{group: stats} for group, stats in by_group.items()],
            address,
            total_diff=diff,
            total_inflight_diff=inflight_diff,
        )

    def consumed_topics(self, group: str) -> list[str]:
        """The topics that a group has offsets of; if it is online, those of them that it subscribes to."""
        return self.subscribed(group, self._offsets.topics_of(group))

    def subscribed(self, group: str, topics: Iterable[str]) -> list[str]:
        """Those of the topics that a group which is online subscribes to; all, if it is not online."""
        info = self._consumers.info(group)
        return [topic for topic in topics if info is None or not info.subscriptions or topic in info.subscriptions]

    def time_spans(self, group: str, config: TopicConfig, now_ms: int) -> Steps[list[QueueTimeSpan]]:
        """From when each writable queue's messages are, and from when the one is that a group has consumed last."""
        spans = []
        for queue_id, is_step in each_with_pause(range(config.write_queue_nums)):
            spans.append(self._time_span(group, config.topic_name, queue_id, now_ms))
            if is_step:
                yield
        return spans

    def _time_span(self, group: str, topic: str, queue_id: int, now_ms: int) -> QueueTimeSpan:
        store = self._store
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        offset = self._offsets.query(group, topic, queue_id)
        first_ms = store.earliest_store_ms(topic, queue_id)
        last_ms = store.store_ms_at(topic, queue_id, high - 1)
        consumed_ms = store.store_ms_at(topic, queue_id, offset - 1) if offset > 0 else first_ms
        # Java takes -1 for the time of the message that a new group waits for, and tells a delay of half a century.
        next_ms = store.store_ms_at(topic, queue_id, max(offset, low)) if max(offset, low) < high else now_ms
        return QueueTimeSpan(
            message_queue=self._queue(topic, queue_id),
            min_time_stamp=first_ms,
            max_time_stamp=last_ms,
            consume_time_stamp=consumed_ms,
            delay_time=now_ms - next_ms,
            min_time_stamp_str=_local_time(first_ms),
            max_time_stamp_str=_local_time(last_ms),
            consume_time_stamp_str=_local_time(consumed_ms),
        )

    def _of_group(self, group: str, topic: str, queues: int) -> Steps[ConsumeStats]:
        table: dict[MessageQueue, OffsetWrapper] = {}
        for queue_id, is_step in each_with_pause(range(queues)):
            table[self._queue(topic, queue_id)] = self._reached(group, topic, queue_id)
            if is_step:
                yield
        return ConsumeStats(table, self._stats.get_tps(group, topic))

    def _held(self, topic: str, queue_id: int) -> TopicOffset:
        low, high = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        last_ms = self._store.store_ms_at(topic, queue_id, high - 1) if high > 0 else 0
        return TopicOffset(low, high, last_ms)

    def _reached(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        consumed = max(0, self._offsets.query(group, topic, queue_id))
        last_ms = self._store.store_ms_at(topic, queue_id, consumed - 1) if consumed > 0 else 0
        return OffsetWrapper(
            broker_offset=self._store.max_offset(topic, queue_id),
            consumer_offset=consumed,
            pull_offset=max(consumed, self._offsets.pull_offset(group, topic, queue_id)),
            last_timestamp=max(0, last_ms),
        )

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._broker_name, queue_id)


def _check_queues(count: int) -> None:
    if count > _QUEUES_MAX:
        raise RemoteProtocolError(
            f"{count} queues are more than one answer tells of, {_QUEUES_MAX}: ask for fewer topics"
        )


def _local_time(time_ms: int) -> str:
    """As Apache writes it, in the broker's time zone. Java: UtilAll.timeMillisToHumanString2."""
    seconds, millis = divmod(time_ms, 1000)
    return f"{dt.datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d#%H:%M:%S}:{millis:03d}"
