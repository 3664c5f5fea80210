"""What a broker counts, for administrators to ask: per topic, queue, group and for the whole. Java: BrokerStatsManager.

A statistic is a name and a key: `TOPIC_PUT_NUMS` has one counter per topic, `GROUP_GET_NUMS` one per `topic@group`.
As in Java nobody counts COMMERCIAL_*, accounts, GROUP_GET_FROM_DISK_* and BROKER_GET_FROM_DISK_*: Apache has names for
them, and hooks for others to count them. Differs: nothing is logged every minute, hour and day.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, TypeVar

from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import Steps, each_with_pause
from rocketline.broker.metadata.system_topics import system_topics
from rocketline.broker.stats.throughput import DayTotals, PutTimes, Throughput
from rocketline.clock import Clock
from rocketline.model.counters import MINUTE, SPANS, Counter, SampleSpan, sample
from rocketline.model.names import SCHEDULE_TOPIC, is_system_topic
from rocketline.net.server import ChannelEvent
from rocketline.settings import Settings
from rocketline.wire.bodies.stats import BrokerStatsData, BrokerStatsItem

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
TOPIC_PUT_LATENCY: Final = "TOPIC_PUT_LATENCY"
QUEUE_PUT_NUMS: Final = "QUEUE_PUT_NUMS"
QUEUE_PUT_SIZE: Final = "QUEUE_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
GROUP_GET_LATENCY: Final = "GROUP_GET_LATENCY"
QUEUE_GET_NUMS: Final = "QUEUE_GET_NUMS"
QUEUE_GET_SIZE: Final = "QUEUE_GET_SIZE"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"
BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC: Final = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC: Final = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"
SNDBCK_PUT_NUMS: Final = "SNDBCK_PUT_NUMS"
DLQ_PUT_NUMS: Final = "DLQ_PUT_NUMS"
SNDBCK2DLQ_TIMES: Final = "SNDBCK2DLQ_TIMES"
CONSUMER_REGISTER_TIME: Final = "CONSUMER_REGISTER_TIME"
PRODUCER_REGISTER_TIME: Final = "PRODUCER_REGISTER_TIME"
CHANNEL_ACTIVITY: Final = "CHANNEL_ACTIVITY"

_TOPIC_PART = {
    TOPIC_PUT_NUMS: 0, TOPIC_PUT_SIZE: 0, TOPIC_PUT_LATENCY: -1, QUEUE_PUT_NUMS: 0, QUEUE_PUT_SIZE: 0,
    GROUP_GET_NUMS: 0, GROUP_GET_SIZE: 0, GROUP_GET_LATENCY: -2, QUEUE_GET_NUMS: 0, QUEUE_GET_SIZE: 0,
    SNDBCK_PUT_NUMS: 0, SNDBCK2DLQ_TIMES: 1,
}  # fmt: skip
"""Which part of a key, between its `@`s, is the topic."""
_GROUP_PART = {
    GROUP_GET_NUMS: -1, GROUP_GET_SIZE: -1, GROUP_GET_LATENCY: -1, QUEUE_GET_NUMS: -1, QUEUE_GET_SIZE: -1,
    SNDBCK_PUT_NUMS: -1, SNDBCK2DLQ_TIMES: 2,
}  # fmt: skip
"""The same for the group."""
_OF_BROKER = frozenset({
    BROKER_PUT_NUMS, BROKER_GET_NUMS, BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC, BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC,
    CONSUMER_REGISTER_TIME, PRODUCER_REGISTER_TIME, CHANNEL_ACTIVITY,
})  # fmt: skip
"""These have a key or four, however many topics and groups there are, and some are asked for since the start."""
QUEUES_MAX = 100_000
"""Queues that are put into, and that groups read, whose figures are kept: 160 MB, 1.6 KB each. What is put into others,
or read by others, counts for the whole broker only."""
COUNTERS_MAX = 4 * QUEUES_MAX
"""In all; those that count no queue among them."""
SAMPLED_A_TURN = 2_000
"""Counters: a millisecond."""
_IDLE_SCAN_S = 600
_IDLE_MIN_LOWEST, _IDLE_MIN_INSTEAD = 10, 30
"""In minutes: a counter that is scanned every ten must have been idle for longer, or for the second number."""

_COUNTERS_A_STEP = 2_000
_Key = TypeVar("_Key", bound=tuple[Any, ...])
_Kept = TypeVar("_Kept")


class _Tally:
    """What messages of one queue came to since the last `add_up`, when they were stored or when one group read them.

    One is raised for every batch of messages; the counters, which are many more, follow once somebody looks at them.
    """

    __slots__ = ("_brokers", "_latency", "_nums", "_sizes", "messages", "requests", "size", "took_ms")

    def __init__(self, nums: list[Counter], sizes: list[Counter], latency: Counter, brokers: list[Counter]) -> None:
        self._nums, self._sizes, self._latency, self._brokers = nums, sizes, latency, brokers
        self.messages = self.size = self.requests = 0
        self.took_ms = 0.0

    def raises(self, counters: set[Counter]) -> bool:
        """Whether it raises one of these."""
        return not counters.isdisjoint((*self._nums, *self._sizes, self._latency))

    def add_up(self) -> None:
        for counter in self._nums:
            counter.value += self.messages
            counter.times += self.requests
        for counter in self._sizes:
            counter.value += self.size
            counter.times += self.requests
        whole_ms = int(self.took_ms)
        self._latency.value += whole_ms
        self._latency.times += self.requests
        for counter in self._brokers:  # whose times stay zero, as in Java: the whole broker has no averages
            counter.value += self.messages
        self.messages = self.size = self.requests = 0
        self.took_ms -= whole_ms  # most reads take less than one, but many of them do not


class _GetTally(_Tally):
    """And where the group was when it last read."""

    __slots__ = ("fall_bytes", "next_offset", "read_s")

    def __init__(self, nums: list[Counter], sizes: list[Counter], latency: Counter, brokers: list[Counter]) -> None:
        super().__init__(nums, sizes, latency, brokers)
        self.fall_bytes, self.next_offset, self.read_s = 0, -1, 0.0


class LastRead(NamedTuple):
    """Where a group was in one queue when it last read."""

    fall_bytes: int
    """How much of the log lay after the last message that it looked at, whether it wanted it or not."""
    next_offset: int
    """The offset after that message; -1 if the group has asked for one since that was not there yet."""
    read_s: float
    """When that was, by the monotonic clock."""


class BrokerStats:
    """All counters. `put` and `get` are called for every batch of messages and do as little as they can."""

    def __init__(self, settings: Settings[BrokerConfig], clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._cluster = settings.value.broker_cluster_name
        self._is_detailed = settings.value.enable_detail_stat
        self._counters: defaultdict[str, dict[str, Counter]] = defaultdict(dict)
        self._system_topics = {topic.topic_name for topic in system_topics(settings.value)}
        self._puts: dict[tuple[str, int], _Tally] = {}
        self._gets: dict[tuple[str, str, int], _GetTally] = {}
        self._pending_puts: list[_Tally] = []
        self._pending_gets: list[_GetTally] = []
        self._throughput = Throughput()
        self._others: dict[tuple[str, str], _GetTally] = {}
        """The tallies of all queues beyond the bound, by the totals of the broker that they count to."""
        self._due: deque[tuple[Iterator[Counter], SampleSpan, int]] = deque()
        """What is left to be sampled, for which span and time."""
        self.call_soon: Callable[[Callable[[], None]], object] = lambda action: action()
        """Has an action done in a later turn of the loop; without a loop, at once."""
        self._seconds = 0
        self.put_times = PutTimes()
        self.put_days, self.get_days = DayTotals(), DayTotals()

    def add(self, stat: str, key: str, value: int, times: int = 1) -> None:
        """Raise one counter, which exists from now on."""
        counter = self._counter(stat, key)
        counter.value += value
        counter.times += times

    def put(self, topic: str, queue_id: int, messages: int, size: int, *, requests: int = 1, took_ms: int = 0) -> None:
        """So many messages, of `size` bytes in the log, were stored in a queue for so many requests.

        `took_ms` is the time that each of these requests took.
        """
        tally = self._puts.get((topic, queue_id)) or self._puts_of(topic, queue_id)
        if not tally.requests:
            self._pending_puts.append(tally)
        tally.messages += messages
        tally.size += size
        tally.requests += requests
        tally.took_ms += took_ms * requests
        self.put_times.add(took_ms, requests)

    def put_failed(self) -> None:
        """The store did not take a message."""
        self._throughput.put_failures += 1

    def get(
        self,
        group: str,
        topic: str,
        queue_id: int,
        messages: int,
        size: int,
        *,
        took_ms: float = 0.0,
        fall_bytes: int = 0,
        next_offset: int = -1,
        read_s: float = 0.0,
    ) -> None:
        """A group read so many messages; for the rest see `LastRead`."""
        tally = self._gets.get((group, topic, queue_id)) or self._gets_of(group, topic, queue_id)
        if not tally.requests:
            self._pending_gets.append(tally)
        tally.messages += messages
        tally.size += size
        tally.requests += 1
        tally.took_ms += took_ms
        tally.fall_bytes, tally.next_offset, tally.read_s = fall_bytes, next_offset, read_s
        if took_ms > self._throughput.get_ms_max:
            self._throughput.get_ms_max = took_ms

    def get_missed(self) -> None:
        """A group asked for messages and there were none."""
        self._throughput.missed += 1

    def passed(self, group: str, topic: str, queue_id: int, fall_bytes: int, next_offset: int, read_s: float) -> None:
        """A group read on over messages that it does not want: see `LastRead`."""
        tally = self._gets.get((group, topic, queue_id)) or self._gets_of(group, topic, queue_id)
        tally.fall_bytes, tally.next_offset, tally.read_s = fall_bytes, next_offset, read_s

    def caught_up(self, group: str, topic: str, queue_id: int) -> None:
        """A group asked for the message that comes next in a queue."""
        tally = self._gets.get((group, topic, queue_id))
        if tally is not None:
            tally.fall_bytes, tally.next_offset = 0, -1

    def registered(self, stat: str, begin_s: float) -> None:
        """A client was registered, which began at that time: CONSUMER_REGISTER_TIME or PRODUCER_REGISTER_TIME."""
        self.add(stat, self._cluster, int((self._clock.monotonic() - begin_s) * 1000))

    def channel_event(self, event: ChannelEvent) -> None:
        """Something happened to a connection."""
        self.add(CHANNEL_ACTIVITY, event.value, 1)

    # --- asking

    @property
    def throughput(self) -> Throughput:
        self._add_up()
        return self._throughput

    @property
    def fall_bytes(self) -> dict[tuple[str, str, int], int]:
        """By group, topic and queue: how much of the log lay after what was last read. Java: GROUP_GET_FALL_SIZE."""
        return {key: tally.fall_bytes for key, tally in self._gets.items()}

    def last_read(self, group: str, topic: str, queue_id: int) -> LastRead | None:
        """Where a group was; None if no pull of it found anything in that queue yet."""
        tally = self._gets.get((group, topic, queue_id))
        if tally is None or not tally.read_s:  # delayed messages are read without a pull
            return None
        return LastRead(tally.fall_bytes, tally.next_offset, tally.read_s)

    def data(self, stat: str, key: str) -> BrokerStatsData | None:
        """What a counter tells of the last minute, hour and day; None if it was never raised."""
        self._add_up()
        counter = self._counters[stat].get(key) if stat in self._counters else None
        return None if counter is None else BrokerStatsData(*(BrokerStatsItem(*counter.over(span)) for span in SPANS))

    def put_tps(self, topic: str) -> float:
        """Messages per second stored in a topic, over the last minute. Java: tpsTopicPutNums."""
        return self._tps(TOPIC_PUT_NUMS, topic)

    def get_tps(self, group: str, topic: str) -> float:
        """Messages per second that a group read from a topic, over the last minute. Java: tpsGroupGetNums."""
        return self._tps(GROUP_GET_NUMS, f"{topic}@{group}")

    @property
    def put_total(self) -> int:
        """Messages stored since the start, but for those in system topics."""
        return self._total(BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC)

    @property
    def get_total(self) -> int:
        """Messages read since the start, but for those of system topics."""
        return self._total(BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC)

    # --- keeping

    def tick(self) -> None:
        """Take the samples that are due, some a turn of the loop. To be called every second."""
        self._seconds += 1
        is_at_it = bool(self._due)
        now_ms = int(self._clock.monotonic() * 1000)
        self.throughput.sample(now_ms)
        for span in SPANS:
            if self._seconds % span.every_s == 0:
                counters = list(itertools.chain.from_iterable(map(dict.values, self._counters.values())))
                self._due.append((iter(counters), span, now_ms))
        if self._due and not is_at_it:
            self._sample_some()
        if self._seconds % 60 == 0:
            self.put_times.turn()
        if self._seconds % _IDLE_SCAN_S == 0:
            self._forget_idle(now_ms)
        self.put_days.turn(self._clock.wall_ms(), self.put_total)
        self.get_days.turn(self._clock.wall_ms(), self.get_total)

    def _sample_some(self) -> None:
        left = SAMPLED_A_TURN
        while self._due and left:
            counters, span, now_ms = self._due[0]
            some = list(itertools.islice(counters, left))
            sample(some, span, now_ms)
            if len(some) < left:
                self._due.popleft()
            left -= len(some)
        if self._due:
            self.call_soon(self._sample_some)

    def forget_topics(self, topics: AbstractSet[str]) -> Steps[None]:
        """Drop the counters of topics that were deleted. Java: onTopicDeleted."""
        if self._settings.value.auto_delete_unused_stats:
            yield from self._forget(_TOPIC_PART, topics)
            yield from _drop(self._puts, 0, topics)
            yield from _drop(self._gets, 1, topics)

    def forget_groups(self, groups: AbstractSet[str]) -> Steps[None]:
        """Drop the counters of groups that were deleted. Java: onGroupDeleted."""
        if self._settings.value.auto_delete_unused_stats:
            yield from self._forget(_GROUP_PART, groups)
            yield from _drop(self._gets, 0, groups)

    def _forget(self, part_by_stat: dict[str, int], names: AbstractSet[str]) -> Steps[None]:
        """Tallies go after them: the next put or get then makes a new one, with counters that somebody sees."""
        for stat, part in part_by_stat.items():
            counters = self._counters[stat]
            for key, is_step in each_with_pause(list(counters), _COUNTERS_A_STEP):
                if key.split("@")[part] in names:
                    counters.pop(key, None)
                if is_step:
                    yield

    def _forget_idle(self, now_ms: int) -> None:
        idle_min = self._settings.value.max_stats_idle_time_in_minutes
        if idle_min < 0:
            return
        moment_ms = now_ms - (idle_min if idle_min > _IDLE_MIN_LOWEST else _IDLE_MIN_INSTEAD) * 60_000
        gone: set[Counter] = set()
        for stat in self._counters.keys() - _OF_BROKER:
            counters = self._counters[stat]
            for key in [key for key, counter in counters.items() if counter.is_idle_since(moment_ms)]:
                gone.add(counters.pop(key))
        # The next put or get of such a queue makes a new tally, and with it counters that somebody sees.
        self._puts = {key: tally for key, tally in self._puts.items() if not tally.raises(gone)}
        self._gets = {key: tally for key, tally in self._gets.items() if not tally.raises(gone)}

    def _add_up(self) -> None:
        """Bring what tallies hold into counters and totals."""
        totals = self._throughput
        for tally in self._pending_puts:
            totals.put_messages += tally.messages
            totals.put_bytes += tally.size
            tally.add_up()
        for tally in self._pending_gets:
            totals.found += tally.requests
            totals.transferred += tally.messages
            tally.add_up()
        self._pending_puts.clear()
        self._pending_gets.clear()

    def _total(self, stat: str) -> int:
        self._add_up()
        return self._counter(stat, self._cluster).value

    def _tps(self, stat: str, key: str) -> float:
        counter = self._counters[stat].get(key)
        return counter.over(MINUTE).tps if counter else 0.0

    def _counter(self, stat: str, key: str) -> Counter:
        counters = self._counters[stat]
        counter = counters.get(key)
        if counter is None:
            counter = Counter()
            if stat in _OF_BROKER or sum(map(len, self._counters.values())) < COUNTERS_MAX:
                counters[key] = counter
        return counter

    @property
    def _is_full(self) -> bool:
        return len(self._puts) + len(self._gets) >= QUEUES_MAX

    def _of_others(self, topic: str, all_topics: str, without_system: str) -> _GetTally:
        """The tally of queues that have none of their own: it counts for the whole broker only."""
        brokers = self._of_broker(topic, all_topics, without_system)
        key = all_topics, without_system if len(brokers) > 1 else ""
        tally = self._others.get(key)
        if tally is None:
            tally = self._others[key] = _GetTally([], [], Counter(), brokers)
        return tally

    def _puts_of(self, topic: str, queue_id: int) -> _Tally:
        if self._is_full:
            return self._of_others(topic, BROKER_PUT_NUMS, BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC)
        nums, sizes = [self._counter(TOPIC_PUT_NUMS, topic)], [self._counter(TOPIC_PUT_SIZE, topic)]
        if topic == SCHEDULE_TOPIC:  # a queue is a delay level there; Java counts no other topic's queues
            nums.append(self._counter(QUEUE_PUT_NUMS, f"{topic}@{queue_id}"))
            sizes.append(self._counter(QUEUE_PUT_SIZE, f"{topic}@{queue_id}"))
        latency = self._counter(TOPIC_PUT_LATENCY, f"{queue_id}@{topic}")
        brokers = self._of_broker(topic, BROKER_PUT_NUMS, BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC)
        tally = self._puts[topic, queue_id] = _Tally(nums, sizes, latency, brokers)
        return tally

    def _gets_of(self, group: str, topic: str, queue_id: int) -> _GetTally:
        if self._is_full:
            return self._of_others(topic, BROKER_GET_NUMS, BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC)
        of_group = f"{topic}@{group}"
        nums, sizes = [self._counter(GROUP_GET_NUMS, of_group)], [self._counter(GROUP_GET_SIZE, of_group)]
        if topic == SCHEDULE_TOPIC:
            nums.append(self._counter(QUEUE_GET_NUMS, f"{topic}@{queue_id}@{group}"))
            sizes.append(self._counter(QUEUE_GET_SIZE, f"{topic}@{queue_id}@{group}"))
        latency = self._counter(GROUP_GET_LATENCY, f"{queue_id}@{of_group}" if self._is_detailed else of_group)
        brokers = self._of_broker(topic, BROKER_GET_NUMS, BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC)
        tally = self._gets[group, topic, queue_id] = _GetTally(nums, sizes, latency, brokers)
        return tally

    def _of_broker(self, topic: str, all_topics: str, without_system: str) -> list[Counter]:
        counters = [self._counter(all_topics, self._cluster)]
        if topic not in self._system_topics and not is_system_topic(topic):
            counters.append(self._counter(without_system, self._cluster))
        return counters


def _drop(tallies: dict[_Key, _Kept], part: int, names: AbstractSet[str]) -> Steps[None]:
    """Drop those whose key names one of these there."""
    for key, is_step in each_with_pause(list(tallies), _COUNTERS_A_STEP):
        if key[part] in names:
            tallies.pop(key, None)
        if is_step:
            yield
