"""How much each queue holds and how far consumers are, worked out when somebody asks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.long_work import QUEUES_A_STEP, Steps, each_with_pause
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.stats.counters import BrokerStats
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
_NAMES_A_STEP: Final = 1_000
"""Names of topics and groups that are looked up in one step."""


class _Pace:
    """Says when a step ends, over everything that is looked at: the topics may have a queue each, and be thousands."""

    def __init__(self, pause_after: int) -> None:
        self._pause_after, self._count = pause_after, 0

    def is_step(self) -> bool:
        """One more was looked at; whether a step ends with it."""
        self._count += 1
        return self._count % self._pause_after == 0


@dataclass(frozen=True, slots=True)
class _Lag:
    """Messages that are not consumed yet, and those of them that were pulled."""

    messages: int = 0
    in_flight: int = 0

    def __add__(self, other: _Lag) -> _Lag:
        return _Lag(self.messages + other.messages, self.in_flight + other.in_flight)


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
        known: dict[str, TopicConfig] = {}
        queues = 0
        for topic, is_step in each_with_pause(topics, _NAMES_A_STEP):
            if topic not in known and (config := self._topics.get(topic)) is not None:
                known[topic] = config
                queues = _checked(queues + config.read_queue_nums)
            if is_step:
                yield
        table: dict[MessageQueue, OffsetWrapper] = {}
        rate, pace = 0.0, _Pace(QUEUES_A_STEP)
        for config in known.values():
            yield from self._look(group, config.topic_name, config.read_queue_nums, table, pace)
            rate += self._stats.get_tps(group, config.topic_name)
        return ConsumeStats(table, rate)

    def of_all_groups(self, *, order_only: bool, address: str) -> Steps[ConsumeStatsList]:
        """Where every group is in the writable queues of its topics, or of its ordered topics only."""
        consumed = yield from self._consumed_by_all(order_only=order_only)
        listed: list[dict[str, list[ConsumeStats]]] = []
        lag, pace = _Lag(), _Pace(QUEUES_A_STEP)
        for group, configs in consumed.items():
            of_topics: list[ConsumeStats] = []
            for config in configs:
                table: dict[MessageQueue, OffsetWrapper] = {}
                lag += yield from self._look(group, config.topic_name, config.write_queue_nums, table, pace)
                of_topics.append(ConsumeStats(table, self._stats.get_tps(group, config.topic_name)))
            listed.append({group: of_topics})
            if pace.is_step():
                yield
        return ConsumeStatsList(listed, address, total_diff=lag.messages, total_inflight_diff=lag.in_flight)

    def _consumed_by_all(self, *, order_only: bool) -> Steps[dict[str, list[TopicConfig]]]:
        consumed: dict[str, list[TopicConfig]] = {}
        queues, pace = 0, _Pace(_NAMES_A_STEP)
        for group in list(self._groups.all()):
            configs = consumed[group] = []
            for topic in self.consumed_topics(group):
                config = self._topics.get(topic)
                if config is not None and (config.order or not order_only):
                    configs.append(config)
                    queues = _checked(queues + config.write_queue_nums)
                if pace.is_step():
                    yield
            if pace.is_step():
                yield
        return consumed

    def consumed_topics(self, group: str) -> Iterator[str]:
        """The topics that a group has offsets of; if it is online, those of them that it subscribes to."""
        return self.subscribed(group, self._offsets.topics_of(group))

    def subscribed(self, group: str, topics: Iterable[str]) -> Iterator[str]:
        """Which of the topics a group that is online subscribes to; all, if it is not online."""
        info = self._consumers.info(group)
        return (topic for topic in topics if info is None or not info.subscriptions or topic in info.subscriptions)

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

    def _look(
        self, group: str, topic: str, queues: int, table: dict[MessageQueue, OffsetWrapper], pace: _Pace
    ) -> Steps[_Lag]:
        """Puts into the table where the group is in each of the queues; returns how far it is behind in all of them."""
        messages = in_flight = 0
        for queue_id in range(queues):
            at = table[self._queue(topic, queue_id)] = self._reached(group, topic, queue_id)
            messages += at.broker_offset - at.consumer_offset
            in_flight += at.pull_offset - at.consumer_offset
            if pace.is_step():
                yield
        if pace.is_step():  # a topic without queues costs something, too
            yield
        return _Lag(messages, in_flight)

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


def _checked(queues: int) -> int:
    if queues > _QUEUES_MAX:
        raise RemoteProtocolError(
            f"{queues} queues are more than one answer tells of, {_QUEUES_MAX}: ask for fewer topics"
        )
    return queues


def _local_time(time_ms: int) -> str:
    """As Apache writes it, in the broker's time zone. Java: UtilAll.timeMillisToHumanString2."""
    seconds, millis = divmod(time_ms, 1000)
    return f"{dt.datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d#%H:%M:%S}:{millis:03d}"
