"""Ranges of queues read from real brokers, as a task does: nothing lost, nothing twice, and what is missing is told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rocketline import Message, Producer
from rocketline.admin.sync import Admin
from rocketline.errors import (
    CallTimeoutError,
    ConnectError,
    NoPermissionError,
    RouteError,
    TopicNotFoundError,
    TransportError,
)
from rocketline.model.sys_flags import CompressionType
from rocketline.spark.options.client import ClientSettings
from rocketline.spark.options.source_and_sink import EARLIEST, Position, SourceOptions
from rocketline.spark.planning.data_loss import DataLossError
from rocketline.spark.planning.planner import QueueRange, QueueRanges
from rocketline.spark.pulling import broker_pulls
from rocketline.spark.pulling.executor_client import client_for, close_clients
from rocketline.spark.pulling.range_reader import read_ranges
from rocketline.spark.schema import COLUMNS
from rocketline.testing import Server
from rocketline.testing.pytest_plugin import RocketMQ
from rocketline.wire.codes import RequestCode, ResponseCode
from support.spark.records import rows_of

PULL = RequestCode.PULL_MESSAGE
APACHE_PULLS = {"maxTransferCountOnMessageInMemory": "32", "maxTransferBytesOnMessageInMemory": "262144"}


@pytest.fixture(autouse=True)
def _clients_closed() -> Iterator[None]:
    yield
    close_clients()


def options(address: str, **changes: Any) -> SourceOptions:
    client = changes.pop("client", {})
    settings = ClientSettings(name_servers=address, **client)
    return SourceOptions(client=settings, starting=Position(EARLIEST), **{"pull_timeout_s": 1.0, **changes})


def fill(address: str, topic: str, count: int, *, queue_id: int = 0, tags: str | None = None) -> None:
    """Messages 0, 1, … into one queue."""
    with Producer(address, group="shop") as producer:
        queue = next(one for one in producer.queues(topic) if one.queue_id == queue_id)
        for first in range(0, count, 100):
            producer.send(
                [Message(topic, b"%d" % number, tags=tags) for number in range(first, min(first + 100, count))],
                queue=queue,
            )


def part(
    topic: str, start: int, end: int, *, queue_id: int = 0, mark_ms: int | None = None, broker: str = "broker-a"
) -> QueueRange:
    return QueueRange(topic, broker, queue_id, start, end, mark_ms)


def read(how: SourceOptions, *ranges: QueueRange, columns: tuple[str, ...] = COLUMNS) -> list[dict[str, Any]]:
    return [row for batch in read_ranges(QueueRanges(ranges), how, columns) for row in rows_of(batch)]


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["queueOffset"] for row in rows]


# --- what is there


def test_a_range_is_read_from_its_start_to_before_its_end(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic()
    fill(rocketmq.address, topic, 500, tags="a")
    rows = read(options(rocketmq.address), part(topic, 100, 350))
    assert [(row["queueOffset"], row["body"]) for row in rows] == [(n, b"%d" % n) for n in range(100, 350)]
    assert {(row["topic"], row["brokerName"], row["queueId"], row["tags"]) for row in rows} == {
        (topic, "broker-a", 0, "a")
    }


def test_many_small_pulls_under_way_bring_every_message_once_and_in_order() -> None:
    with Server(settings=APACHE_PULLS) as server:
        server.create_topic("T", queues=2)
        fill(server.address, "T", 5000)
        fill(server.address, "T", 777, queue_id=1)
        how = options(server.address)
        rows = read(
            how,
            part("T", 0, 5000),
            part("T", 7, 777, queue_id=1),
            part("T", 10, 20),
            columns=("queueId", "queueOffset"),
        )
        assert [row["queueOffset"] for row in rows] == [*range(5000), *range(7, 777), *range(10, 20)]
        assert client_for(how.client).grains == {("broker-a", 1000): 32}


def test_ranges_of_several_brokers_and_topics_are_read_one_after_another() -> None:
    with Server(brokers=2) as server:
        ranges = []
        for topic in ("A", "B"):
            server.create_topic(topic, queues=1)
            with Producer(server.address, group="shop") as producer:
                for queue in producer.queues(topic):
                    producer.send([Message(topic, queue.broker_name.encode())] * 3, queue=queue)
                    ranges.append(part(topic, 0, 3, broker=queue.broker_name))
        rows = read(options(server.address), *ranges)
        assert len(rows) == 12
        assert {(row["topic"], row["brokerName"]) for row in rows if row["body"] == row["brokerName"].encode()} == {
            (topic, broker) for topic in ("A", "B") for broker in ("broker-a", "broker-b")
        }


def test_compressed_and_plain_messages_come_in_order(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    bodies = [b"x" * (10 if number % 3 else 5000) for number in range(60)]
    with Producer(rocketmq.address, group="shop", compression=CompressionType.ZSTD) as producer:
        for body in bodies:
            producer.send(Message(topic, body))
    assert [row["body"] for row in read(options(rocketmq.address), part(topic, 0, 60))] == bodies


def test_inner_batches_are_taken_apart_and_cut_at_the_ends_of_a_range() -> None:
    with Server() as server:
        server.create_topic("T", queues=1, attributes="+queue.type=BatchCQ")
        with Producer(server.address, group="shop") as producer:
            for first in range(0, 100, 10):
                producer.send([Message("T", b"%d" % number) for number in range(first, first + 10)])
        rows = read(options(server.address, pull_count_max=16), part("T", 5, 87))
        assert [row["body"] for row in rows] == [b"%d" % number for number in range(5, 87)]


def test_tags_are_filtered_by_the_broker_and_compared_exactly(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    with Producer(rocketmq.address, group="shop") as producer:
        for number in range(300):  # Aa and BB have the same hash
            producer.send(Message(topic, b"%d" % number, tags=("Aa", "BB", "other")[number % 3]))
    how = options(rocketmq.address, tags="BB || never", pull_count_max=7)
    assert offsets(read(how, part(topic, 10, 290))) == [number for number in range(10, 290) if number % 3 == 1]


def test_a_filter_that_nothing_passes_ends_at_the_end(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 3000, tags="a")
    assert read(options(rocketmq.address, tags="b"), part(topic, 0, 3000)) == []


def test_names_in_a_namespace_are_shown_without_it(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic("ns%topic", queues=1)
    fill(rocketmq.address, topic, 3)
    how = options(rocketmq.address, client={"namespace": "ns"})
    rows = read(how, part(topic.removeprefix("ns%"), 0, 3))
    assert [row["topic"] for row in rows] == [topic.removeprefix("ns%")] * 3


def test_one_connection_serves_one_task_after_another(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic()
    fill(rocketmq.address, topic, 10)
    how = options(rocketmq.address)
    assert len(read(how, part(topic, 0, 10))) == 10
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(5):
        assert len(read(how, part(topic, 0, 10))) == 10
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_reader_that_is_left_early_spoils_nothing_for_the_next(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic()
    fill(rocketmq.address, topic, 3000)
    how = options(rocketmq.address, pull_count_max=10)
    batches = read_ranges(QueueRanges((part(topic, 0, 3000),)), how, ("queueOffset",))
    assert next(batches).num_rows
    del batches
    assert offsets(read(how, part(topic, 0, 3000))) == list(range(3000))


# --- failures that pass


@pytest.mark.parametrize(
    "fail",
    [
        lambda faults: faults.drop_before(PULL, nth=5, times=2),
        lambda faults: faults.drop_after(PULL, nth=3),
        lambda faults: faults.ignore(PULL, nth=4),
        lambda faults: faults.refuse(PULL, ResponseCode.SYSTEM_BUSY, nth=2, times=4),
        lambda faults: faults.refuse(PULL, ResponseCode.GO_AWAY, nth=6),
    ],
    ids=["connection lost before", "connection lost after", "no answer", "busy", "go away"],
)
def test_after_a_failure_that_passes_every_message_is_there_once(
    rocketmq: RocketMQ, fail: Callable[[Any], object]
) -> None:
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 400)
    how = options(rocketmq.address, pull_count_max=20)
    assert len(read(how, part(topic, 0, 1))) == 1
    fail(rocketmq.faults)
    assert offsets(read(how, part(topic, 0, 400))) == list(range(400))


# --- failures that do not


def test_a_broker_that_never_answers_is_an_error_in_the_end(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 10)
    rocketmq.faults.ignore(PULL, times=1000)
    with pytest.raises(TransportError, match="no answer"):
        read(options(rocketmq.address, pull_timeout_s=0.05), part(topic, 0, 10))


def test_a_broker_that_is_always_busy_is_an_error_in_the_end(
    rocketmq: RocketMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_pulls, "_PATIENCE_PULLS", 1)  # so that each answer has a time that it surely keeps to
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 10)
    rocketmq.faults.refuse(PULL, ResponseCode.SYSTEM_BUSY, "too busy", times=1000)
    with pytest.raises(CallTimeoutError, match="too busy"):
        read(options(rocketmq.address, pull_timeout_s=0.5), part(topic, 0, 10))


def test_a_refusal_is_an_error_at_once(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 10)
    rocketmq.server.create_topic(topic, queues=1, perm=2)
    with pytest.raises((NoPermissionError, RouteError)):
        read(options(rocketmq.address, pull_timeout_s=0.05), part(topic, 0, 10))


def test_name_servers_that_nobody_reaches_are_an_error(rocketmq: RocketMQ) -> None:
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:20001"):
        read(options("127.0.0.1:20001", pull_timeout_s=0.01), part("T", 0, 10))


# --- what is missing


@contextmanager
def expired(topic: str) -> Iterator[Server]:
    """A server whose first messages are deleted."""
    settings = {"mappedFileSizeCommitLog": "65536", "flushDiskType": "SYNC_FLUSH"}  # only what is flushed is deleted
    with Server(settings=settings) as server:
        server.create_topic(topic, queues=1)
        fill(server.address, topic, 1000)
        server.advance(4 * 24 * 3600)
        yield server


def first_offset(server: Server, topic: str) -> int:
    with Admin(server.address) as admin:
        return min(bounds.min_offset for bounds in admin.topics.status(topic).queues)


def test_messages_that_were_deleted_are_an_error_that_names_all() -> None:
    with expired("T") as server:
        low = first_offset(server, "T")
        assert 0 < low < 1000
        with pytest.raises(DataLossError) as found:
            read(options(server.address), part("T", 5, 1000))
        assert (found.value.start, found.value.end, found.value.available) == (5, 1000, (low, 1000))
        assert "queue 0 of topic 'T' on broker 'broker-a'" in str(found.value)
        assert "failOnDataLoss=false" in str(found.value)


def test_or_a_warning_and_the_rest_is_read(caplog: pytest.LogCaptureFixture) -> None:
    with expired("T") as server:
        low = first_offset(server, "T")
        rows = read(options(server.address, fail_on_data_loss=False, pull_count_max=10), part("T", 5, 1000))
        assert offsets(rows) == list(range(low, 1000))
        lost = [record for record in caplog.records if "lost to this reader" in record.getMessage()]
        assert len(lost) == 1


def test_a_range_beyond_the_end_of_its_queue_is_a_loss_too(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 50)
    with pytest.raises(DataLossError, match="ends before"):
        read(options(rocketmq.address), part(topic, 10, 60))
    with pytest.raises(DataLossError, match="ends before"):
        read(options(rocketmq.address), part(topic, 100, 160))
    how = options(rocketmq.address, fail_on_data_loss=False)
    assert offsets(read(how, part(topic, 10, 60), part(topic, 100, 160), part(topic, 40, 50))) == [
        *range(10, 50),
        *range(40, 50),
    ]


def test_a_queue_that_is_gone_is_a_loss_too(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 50)
    with pytest.raises(DataLossError, match="queue is gone"):
        read(options(rocketmq.address), part(topic, 0, 10, queue_id=7))
    how = options(rocketmq.address, fail_on_data_loss=False)
    assert offsets(read(how, part(topic, 0, 10, queue_id=7), part(topic, 0, 10))) == list(range(10))


def test_a_topic_that_is_gone_is_a_loss_too(rocketmq: RocketMQ) -> None:
    with pytest.raises(DataLossError, match=r"topic 'never-made' .*: offsets 0 to 10 were to be read.* queue is gone"):
        read(options(rocketmq.address, pull_timeout_s=0.02), part("never-made", 0, 10))
    how = options(rocketmq.address, pull_timeout_s=0.02, fail_on_data_loss=False)
    assert read(how, part("never-made", 0, 10)) == []
    with pytest.raises(RouteError, match="never-made"):  # a broker that is down is not gone
        read(how, part("never-made", 0, 10, broker="broker-z"))


def test_a_topic_whose_broker_has_just_come_back_is_not_gone(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 10)
    fault = rocketmq.faults.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.TOPIC_NOT_EXIST)
    with pytest.raises(TopicNotFoundError):  # and Spark runs the task again
        read(options(rocketmq.address, pull_timeout_s=0.0), part(topic, 0, 10))  # without any patience
    assert fault.happened == 1
    assert offsets(read(options(rocketmq.address), part(topic, 0, 10))) == list(range(10))


# --- a topic made anew


def marks(address: str, topic: str, offset: int) -> int:
    """When the message at `offset` of the first queue was stored."""
    rows = read(options(address), part(topic, offset, offset + 1))
    time_ms: int = rows[0]["storeTimestamp"] // 1000
    return time_ms


def test_the_message_before_a_range_being_the_same_nothing_is_wrong(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 50, tags="a")
    mark_ms = marks(rocketmq.address, topic, 9)
    assert offsets(read(options(rocketmq.address), part(topic, 10, 50, mark_ms=mark_ms))) == list(range(10, 50))
    filtered = options(rocketmq.address, tags="a")
    assert offsets(read(filtered, part(topic, 10, 50, mark_ms=mark_ms))) == list(range(10, 50))
    nothing = options(rocketmq.address, tags="b")
    assert read(nothing, part(topic, 10, 50, mark_ms=mark_ms)) == []


def test_a_topic_that_was_made_anew_is_noticed_even_if_it_is_longer_by_now(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 50)
    mark_ms = marks(rocketmq.address, topic, 9)
    with Admin(rocketmq.address) as admin:
        admin.topics.delete(topic)
    rocketmq.advance(60)
    rocketmq.server.create_topic(topic, queues=1)
    fill(rocketmq.address, topic, 80, tags="a")
    for tags in ("*", "a", "b"):
        with pytest.raises(DataLossError, match="created again"):
            read(options(rocketmq.address, tags=tags), part(topic, 10, 50, mark_ms=mark_ms))
    going_on = options(rocketmq.address, fail_on_data_loss=False)
    assert offsets(read(going_on, part(topic, 10, 50, mark_ms=mark_ms))) == list(range(10, 50))


def test_a_busy_broker_does_not_pass_for_one_that_has_the_same_message(rocketmq: RocketMQ) -> None:
    topic = rocketmq.topic(queues=1)
    fill(rocketmq.address, topic, 50)
    rocketmq.faults.refuse(PULL, ResponseCode.SYSTEM_BUSY, times=2)
    with pytest.raises(DataLossError, match="created again"):
        read(options(rocketmq.address), part(topic, 10, 50, mark_ms=1))


def test_if_the_message_before_is_gone_nothing_is_compared() -> None:
    with expired("T") as server:
        low = first_offset(server, "T")
        rows = read(options(server.address), part("T", low, 1000, mark_ms=1))
        assert offsets(rows) == list(range(low, 1000))


def test_many_marks_are_looked_at(rocketmq: RocketMQ) -> None:
    topic, how = rocketmq.topic(queues=1), options(rocketmq.address)
    fill(rocketmq.address, topic, 200)
    times_ms = [row["storeTimestamp"] // 1000 for row in read(how, part(topic, 0, 200))]
    ranges = [part(topic, offset, offset + 1, mark_ms=times_ms[offset - 1]) for offset in range(1, 200)]
    assert offsets(read(how, *ranges)) == list(range(1, 200))
    ranges[150] = part(topic, 151, 152, mark_ms=times_ms[150] + 1)
    with pytest.raises(DataLossError, match="offsets 151 to 152"):
        read(how, *ranges)
