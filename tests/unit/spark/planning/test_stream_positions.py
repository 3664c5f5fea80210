"""How a stream moves on, against a cluster that is a few lists."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from rocketline.errors import BrokerNotFoundError, ConfigError, RocketlineError, TopicNotFoundError
from rocketline.model.queue import MessageQueue
from rocketline.spark.cluster.view import Look, QueueExtent
from rocketline.spark.options.source_and_sink import source_options
from rocketline.spark.planning.data_loss import DataLossError
from rocketline.spark.planning.offsets import initial_offset, ranges_between
from rocketline.spark.planning.stream_positions import StreamPositions
from rocketline.testing.fake_clock import FakeClock

Q0, Q1, Q2 = (MessageQueue("orders", "broker-a", index) for index in range(3))


@dataclass
class Queue:
    """Store times of its messages; the first `low` are gone."""

    times: list[int] = field(default_factory=list)
    low: int = 0


@dataclass
class ListedCluster:
    """A `ClusterView` of lists."""

    queues: dict[MessageQueue, Queue]
    group: dict[MessageQueue, int] = field(default_factory=dict)
    looks: int = 0
    time_ms: int = 1000
    checked: list[MessageQueue] = field(default_factory=list)
    is_down: bool = False

    def send(self, queue: MessageQueue, count: int = 1) -> None:
        for _ in range(count):
            self.time_ms += 10
            self.queues.setdefault(queue, Queue()).times.append(self.time_ms)

    def look(self, known: Collection[MessageQueue] = ()) -> Look:
        self.looks += 1
        if not self.queues and not known:
            raise TopicNotFoundError("orders")
        bounds = {queue: QueueExtent(held.low, len(held.times)) for queue, held in self.queues.items()}
        return Look(bounds, frozenset(set(known) - self.queues.keys()))

    def offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return {
            queue: next((at for at, stored in enumerate(self.queues[queue].times) if stored >= time_ms),
                        len(self.queues[queue].times))
            for queue, time_ms in times_ms.items()
        }  # fmt: skip

    def committed(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        return {queue: self.group.get(queue) for queue in queues}

    def store_times(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return {
            queue: self.queues[queue].times[offset]
            for queue, offset in offsets.items()
            if self.queues[queue].low <= offset < len(self.queues[queue].times)
        }

    def check_reading(self, bounds: Mapping[MessageQueue, QueueExtent]) -> None:
        self.checked += sorted(bounds)

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        if self.is_down:
            raise RocketlineError("away")
        self.group |= offsets


@dataclass
class Stream:
    """A query: where it is, and what its micro-batches read."""

    cluster: ListedCluster
    options: dict[str, str]
    clock: FakeClock
    at: dict[str, Any] = field(default_factory=initial_offset)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        given = {"nameServer": "a:1", "subscribe": "orders", "minOffsetPollIntervalMs": "0", **self.options}
        self.positions = StreamPositions(source_options(given, is_stream=True), self.cluster, clock=self.clock)

    def batch(self, limit: int | None = None, *, waits: bool = False) -> list[tuple[int, int, int]] | None:
        """Queue, start and end of what the next micro-batch reads; None if there is none."""
        end = self.positions.latest(self.at, limit, waits=waits)
        if end is self.at:
            return None
        end = json.loads(json.dumps(end))
        ranges = ranges_between(self.at, end)
        self.at = end
        return [(each.queue_id, each.start, each.end) for each in ranges]


@pytest.fixture
def cluster() -> ListedCluster:
    return ListedCluster({Q0: Queue(), Q1: Queue()})


def stream(cluster: ListedCluster, **options: str) -> Stream:
    return Stream(cluster, options, FakeClock())


# --- where it begins


def test_latest_begins_at_the_end_and_reads_what_comes_then(cluster: ListedCluster) -> None:
    cluster.send(Q0, 5)
    query = stream(cluster)
    assert query.batch() == []
    cluster.send(Q0, 2)
    assert query.batch() == [(0, 5, 7)]


def test_what_comes_between_the_first_micro_batch_and_a_restart_is_read(cluster: ListedCluster) -> None:
    query = stream(cluster)
    assert query.batch() == []
    cluster.send(Q1, 3)
    query.restart()
    assert query.batch() == [(1, 0, 3)]


def test_the_first_micro_batch_does_not_change_when_it_is_run_again(cluster: ListedCluster) -> None:
    cluster.send(Q0, 5)
    end = stream(cluster, startingOffsets="earliest").positions.latest(initial_offset(), None, waits=False)
    cluster.send(Q0, 5)
    assert [(each.start, each.end) for each in ranges_between(initial_offset(), end)] == [(0, 5)]


def test_earliest_begins_at_what_is_still_there(cluster: ListedCluster) -> None:
    cluster.queues[Q0] = Queue([1, 2, 3], low=1)
    assert stream(cluster, startingOffsets="earliest").batch() == [(0, 1, 3)]


def test_group_begins_where_the_group_is_and_at_the_earliest_elsewhere(cluster: ListedCluster) -> None:
    cluster.send(Q0, 5)
    cluster.send(Q1, 5)
    cluster.group[Q0] = 3
    assert stream(cluster, startingOffsets="group", consumerGroup="g").batch() == [(0, 3, 5), (1, 0, 5)]


def test_group_that_has_read_nothing_is_pointed_out(cluster: ListedCluster, caplog: pytest.LogCaptureFixture) -> None:
    """Its name may be mistyped."""
    cluster.send(Q0, 5)
    stream(cluster, startingOffsets="group", consumerGroup="gruop").batch()
    assert "consumerGroup has read none of these queues" in caplog.text


def test_offsets_begin_where_they_say(cluster: ListedCluster) -> None:
    cluster.send(Q0, 5)
    cluster.send(Q1, 5)
    offsets = '{"orders": {"broker-a": {"0": 4, "1": -1}}}'
    assert stream(cluster, startingOffsets=offsets).batch() == [(0, 4, 5)]


@pytest.mark.parametrize(
    ("offsets", "problem"),
    [
        (
            '{"orders": {"broker-a": {"0": 4}}}',
            "startingOffsets: queue 1 of topic 'orders' on broker 'broker-a' is missing",
        ),
        (
            '{"orders": {"broker-a": {"0": 4, "1": 0, "9": 0}}}',
            "startingOffsets: there is no queue 9 of topic 'orders'",
        ),
    ],
)
def test_offsets_must_name_each_queue_and_no_other(cluster: ListedCluster, offsets: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        stream(cluster, startingOffsets=offsets).batch()


def test_a_time_begins_at_the_first_message_that_is_not_older(cluster: ListedCluster) -> None:
    cluster.send(Q0, 5)
    cluster.send(Q1, 5)
    times = '{"orders": {"broker-a": {"0": 1020, "1": 1091}}}'
    assert stream(cluster, startingOffsetsByTimestamp=times).batch() == [(0, 1, 5), (1, 4, 5)]
    assert stream(cluster, startingTimestamp="1025").batch() == [(0, 2, 5), (1, 0, 5)]


def test_a_time_that_no_message_has_is_an_error_or_the_end(cluster: ListedCluster) -> None:
    cluster.send(Q0, 5)
    with pytest.raises(ConfigError, match=r"startingTimestamp=1050: queue 1 .* has no message that new"):
        stream(cluster, startingTimestamp="1050").batch()
    lenient = stream(cluster, startingTimestamp="1050", startingOffsetsByTimestampStrategy="latest")
    assert lenient.batch() == [(0, 4, 5)]


def test_offsets_that_are_not_there_are_lost_messages(cluster: ListedCluster) -> None:
    cluster.queues[Q0] = Queue([1, 2, 3, 4], low=2)
    offsets = '{"orders": {"broker-a": {"0": 1, "1": 0}}}'
    with pytest.raises(DataLossError, match="offsets from 1 were to be read, 2 to 4 are there"):
        stream(cluster, startingOffsets=offsets).batch()
    query = stream(cluster, startingOffsets=offsets, failOnDataLoss="false")
    assert query.batch() == [(0, 2, 4)]
    assert query.at["wanted"] == {"orders": {"broker-a": {"0": 1}}}, "what was to be read is written down"
    cluster.send(Q0)
    assert query.batch() == [(0, 4, 5)]
    assert "wanted" not in query.at


def test_what_a_group_was_to_read_next_and_has_expired_is_lost(cluster: ListedCluster) -> None:
    cluster.queues[Q0] = Queue([1, 2, 3, 4], low=3)
    cluster.group[Q0] = 1
    query = stream(cluster, startingOffsets="group", consumerGroup="g", failOnDataLoss="false")
    assert query.batch() == [(0, 3, 4)]
    assert query.at["wanted"] == {"orders": {"broker-a": {"0": 1}}}


# --- how it goes on


def test_without_new_messages_there_is_no_micro_batch(cluster: ListedCluster) -> None:
    query = stream(cluster)
    query.batch()
    assert query.batch() is None


def test_a_queue_that_came_later_is_read_from_its_beginning(cluster: ListedCluster) -> None:
    query = stream(cluster)
    query.batch()
    cluster.send(Q2, 3)
    assert query.batch() == [(2, 0, 3)]
    assert query.at["base"] == {"orders": {"broker-a": {"2": 0}}}


def test_a_queue_that_came_later_and_has_lost_its_beginning_is_a_loss(cluster: ListedCluster) -> None:
    query = stream(cluster)
    query.batch()
    cluster.queues[Q2] = Queue([1, 2, 3], low=2)
    with pytest.raises(DataLossError, match=r"queue 2 .* offsets from 0 were to be read, 2 to 3 are there"):
        query.batch()
    query.options["failOnDataLoss"] = "false"
    query.restart()
    assert query.batch() == [(2, 2, 3)]
    assert query.at["wanted"] == {"orders": {"broker-a": {"2": 0}}}


@pytest.mark.parametrize(
    ("options", "later"),
    [
        ({"subscribe": "orders,others"}, MessageQueue("others", "broker-a", 0)),
        ({"subscribe": "", "subscribePattern": "o.*"}, MessageQueue("others", "broker-a", 0)),
        ({"subscribe": "", "assign": '{"orders": {"broker-a": [0, 1, 2]}}'}, Q2),
    ],
)
def test_what_may_be_read_only_now_begins_with_what_is_still_there(
    cluster: ListedCluster, options: dict[str, str], later: MessageQueue
) -> None:
    query = stream(cluster)
    query.batch()
    query.options = options
    query.restart()
    cluster.queues[later] = Queue([1, 2, 3], low=2)
    assert query.batch() == [(later.queue_id, 2, 3)]
    assert "wanted" not in query.at


def test_a_topic_that_came_after_the_start_is_read_from_its_beginning() -> None:
    cluster = ListedCluster({})
    query = stream(cluster, subscribePattern="orders", subscribe="")
    cluster.look = lambda known=(): Look({})  # type: ignore[method-assign]  # no topic matches yet
    assert query.batch() == []
    del cluster.look
    cluster.send(Q0, 2)
    assert query.batch() == [(0, 0, 2)]


def test_brokers_are_not_asked_more_often_than_allowed(cluster: ListedCluster) -> None:
    query = stream(cluster, minOffsetPollIntervalMs="200")
    query.batch()
    for _ in range(90):
        query.batch()
    assert cluster.looks == 1
    query.clock.advance(0.2)
    query.batch()
    assert cluster.looks == 2


def test_reading_is_tried_once_for_each_queue(cluster: ListedCluster) -> None:
    query = stream(cluster)
    query.batch()
    cluster.send(Q2)
    query.batch()
    query.batch()
    assert cluster.checked == [Q0, Q1, Q2]


def test_the_heads_are_where_queues_end(cluster: ListedCluster) -> None:
    query = stream(cluster)
    assert query.positions.heads() is None
    cluster.send(Q0, 2)
    query.batch()
    assert query.positions.heads() == {"version": 1, "queues": {"orders": {"broker-a": {"0": 2, "1": 0}}}}


# --- limits


def test_a_limit_is_shared_by_backlog(cluster: ListedCluster) -> None:
    cluster.send(Q0, 30)
    cluster.send(Q1, 10)
    query = stream(cluster, startingOffsets="earliest")
    assert query.batch(20) == [(0, 0, 15), (1, 0, 5)]
    assert query.batch(20) == [(0, 15, 30), (1, 5, 10)]
    assert query.batch(20) is None


def test_little_is_waited_for_but_not_longer_than_the_delay(cluster: ListedCluster) -> None:
    query = stream(cluster, minOffsetsPerTrigger="10", maxTriggerDelay="60s")
    assert query.batch(waits=True) == []
    cluster.send(Q0, 9)
    assert query.batch(waits=True) is None
    query.clock.advance(60)
    assert query.batch(waits=True) == [(0, 0, 9)]
    cluster.send(Q0, 10)
    assert query.batch(waits=True) == [(0, 9, 19)]


def test_whoever_wants_all_that_is_there_does_not_wait(cluster: ListedCluster) -> None:
    query = stream(cluster, minOffsetsPerTrigger="10")
    query.batch()
    cluster.send(Q0, 1)
    assert query.batch(waits=False) == [(0, 0, 1)]


def test_available_now_ends_where_queues_ended_at_its_start(cluster: ListedCluster) -> None:
    cluster.send(Q0, 5)
    query = stream(cluster, startingOffsets="earliest", minOffsetsPerTrigger="10")
    query.positions.freeze()
    cluster.send(Q0, 5)
    assert query.batch(3, waits=True) == [(0, 0, 3)]
    cluster.send(Q2, 5)
    assert query.batch(3, waits=True) == [(0, 3, 5)]
    assert query.batch(3, waits=True) is None
    query.restart()
    assert query.batch() == [(0, 5, 10), (2, 0, 5)]


@pytest.mark.parametrize("problem", [ConfigError(["assign: there is no queue 0"]), BrokerNotFoundError("broker-a")])
def test_available_now_passes_over_a_queue_that_is_gone_as_any_other_run_does(
    cluster: ListedCluster, problem: RocketlineError
) -> None:
    query = stream(cluster, failOnDataLoss="false")
    query.batch()
    cluster.queues.pop(Q0)
    look = cluster.look

    def look_at_assigned(known: Collection[MessageQueue] = ()) -> Look:
        if Q0 not in known:
            raise problem
        return look(known)

    cluster.look = look_at_assigned  # type: ignore[method-assign]
    cluster.send(Q1, 2)
    query.positions.freeze()
    assert query.batch() == [(1, 0, 2)]
    cluster.send(Q1, 2)
    assert query.batch() is None


# --- what is lost


def test_messages_that_expired_are_lost(cluster: ListedCluster) -> None:
    query = stream(cluster)
    query.batch()
    cluster.send(Q0, 9)
    cluster.queues[Q0].low = 4
    with pytest.raises(DataLossError, match="offsets from 0 were to be read, 4 to 9 are there: the first of them were"):
        query.batch()
    query.options["failOnDataLoss"] = "false"
    query.restart()
    assert query.batch() == [(0, 4, 9)]
    assert query.batch() is None


def test_a_queue_that_is_gone_is_lost_and_kept_in_mind(cluster: ListedCluster) -> None:
    query = stream(cluster)
    cluster.send(Q0, 9)
    query.batch()
    gone = cluster.queues.pop(Q0)
    with pytest.raises(DataLossError, match="nothing is there: the queue is gone"):
        query.batch()
    query.options["failOnDataLoss"] = "false"
    query.restart()
    assert query.batch() is None
    cluster.queues[Q0] = gone
    cluster.send(Q0, 1)
    assert query.batch() == [(0, 9, 10)]


def test_a_topic_made_anew_that_is_shorter_is_noticed_and_read_from_its_beginning(cluster: ListedCluster) -> None:
    query = stream(cluster, startingOffsets="earliest")
    cluster.send(Q0, 9)
    query.batch()
    cluster.queues[Q0] = Queue()
    cluster.send(Q0, 2)
    with pytest.raises(DataLossError, match="offsets from 9 were to be read, 0 to 2 are there: the queue ends before"):
        query.batch()
    query.options["failOnDataLoss"] = "false"
    query.restart()
    assert query.batch() == [(0, 0, 2)]


def test_a_topic_made_anew_that_is_longer_is_noticed_and_read_from_its_beginning(cluster: ListedCluster) -> None:
    query = stream(cluster, startingOffsets="earliest")
    cluster.send(Q0, 9)
    query.batch()
    cluster.queues[Q0] = Queue()
    cluster.send(Q0, 12)
    with pytest.raises(DataLossError, match="the topic was deleted and created again"):
        query.batch()
    query.options["failOnDataLoss"] = "false"
    query.restart()
    assert query.batch() == [(0, 0, 12)]


def test_after_a_broker_lost_its_last_messages_only_new_ones_are_read(cluster: ListedCluster) -> None:
    query = stream(cluster, startingOffsets="earliest", failOnDataLoss="false")
    cluster.send(Q0, 9)
    query.batch()
    del cluster.queues[Q0].times[6:]
    assert query.batch() == []
    cluster.send(Q0, 2)
    assert query.batch() == [(0, 6, 8)]
    del cluster.queues[Q0].times[7:]
    cluster.send(Q0, 5)
    assert query.batch() == [(0, 7, 12)]


def test_times_are_kept_for_queues_that_did_not_move(cluster: ListedCluster) -> None:
    query = stream(cluster, startingOffsets="earliest")
    cluster.send(Q0, 3)
    cluster.send(Q1, 1)
    query.batch()
    assert query.at["times"] == {"orders": {"broker-a": {"0": 1030, "1": 1040}}}
    cluster.send(Q1, 1)
    query.batch()
    assert query.at["times"] == {"orders": {"broker-a": {"0": 1030, "1": 1050}}}


def test_a_topic_that_is_read_no_more_is_no_loss(cluster: ListedCluster) -> None:
    query = stream(cluster)
    query.batch()
    cluster.look = lambda known=(): Look({Q1: QueueExtent(0, 0)})  # type: ignore[method-assign]  # unsubscribed: not missed
    assert query.batch() is None


# --- telling brokers


def test_offsets_are_committed_as_far_as_they_changed(cluster: ListedCluster) -> None:
    query = stream(cluster, commitOffsetsToBroker="true", consumerGroup="g")
    cluster.send(Q0, 2)
    query.batch()
    query.positions.commit(query.at)
    assert cluster.group == {Q0: 2, Q1: 0}


def test_offsets_of_queues_that_are_gone_or_read_no_more_are_not_committed(cluster: ListedCluster) -> None:
    query = stream(cluster, commitOffsetsToBroker="true", consumerGroup="g", failOnDataLoss="false")
    query.batch()
    query.restart()
    cluster.group = {Q0: 7}  # by somebody else, who reads it now
    cluster.queues.pop(Q0)
    cluster.send(Q1, 2)
    query.batch()
    query.positions.commit(query.at)
    assert cluster.group == {Q0: 7, Q1: 2}


def test_offsets_that_cannot_be_committed_end_no_query(cluster: ListedCluster) -> None:
    query = stream(cluster, commitOffsetsToBroker="true", consumerGroup="g")
    query.batch()
    cluster.is_down = True
    query.positions.commit(query.at)
    query.positions.commit({"version": 7})
    cluster.is_down = False
    query.positions.commit(query.at)
    assert cluster.group == {Q0: 0, Q1: 0}
