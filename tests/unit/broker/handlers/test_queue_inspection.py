from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketline.broker.handlers.queue_inspection import QueueInspectionHandlers
from rocketline.model.java_hash import tags_code
from rocketline.store.memory_filesystem import MemoryFileSystem
from rocketline.store.queues.consume_queue import ConsumeQueue
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies import decode
from rocketline.wire.bodies.offsets import ConsumeQueueDump
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import channel
from support.brokers.tables import Tables, tables
from support.long_steps import AtOnce, one_step


@pytest.fixture
def kept() -> Iterator[Tables]:
    """Five messages in the first queue of T."""
    with tables(FakeClock()) as made:
        for tag in "ABCDE":
            made.append(TAGS=tag)
        yield made


def ask(kept: Tables, **ext: object) -> Command:
    handlers = QueueInspectionHandlers(kept.store, kept.consumers, kept.filters, one_step(kept.clock)).by_code()
    handler = handlers[RequestCode.QUERY_CONSUME_QUEUE]
    request = Command(RequestCode.QUERY_CONSUME_QUEUE, {key: str(value) for key, value in ext.items()})
    answer = handler(channel(kept.clock)[0], request)
    assert isinstance(answer, Command)
    return answer


def dump(kept: Tables, **ext: object) -> ConsumeQueueDump:
    answer = ask(kept, topic="T", queueId=0, **ext)
    assert answer.code == 0, answer.remark
    return decode(ConsumeQueueDump, answer.body)


def test_entries_are_told_from_the_index_on(kept: Tables) -> None:
    found = dump(kept, index=1, count=2)
    assert [entry.tags_code for entry in found.queue_data] == [tags_code("B"), tags_code("C")]
    for entry in found.queue_data:
        record = kept.store.record_at(entry.physic_offset)
        assert record is not None
        assert len(record) == entry.physic_size
    assert (found.min_queue_index, found.max_queue_index) == (0, 5)
    assert (found.subscription_data, found.filter_data) == (None, None)


@pytest.mark.parametrize(("count", "told"), [(100, 3), (2**31 - 1, 3), (1, 1), (0, 0), (-1, 0)])
def test_count_may_be_any_number(kept: Tables, count: int, told: int) -> None:
    assert len(dump(kept, index=2, count=count).queue_data) == told


def test_thousands_of_entries_are_looked_at_some_at_a_time() -> None:
    """Those of an earlier life are compared with the log."""
    files = MemoryFileSystem(FakeClock(), capacity=2**30)
    with tables(FakeClock(), files) as made:
        for _ in range(2000):
            made.append()
    with tables(FakeClock(), files) as kept:
        compared: list[int] = []
        check_units = kept.store.queues.looks.doctor.check_units
        queue = kept.store.queue("T", 0)
        assert isinstance(queue, ConsumeQueue)

        def check(queue: ConsumeQueue, offset: int, units: bytes) -> bytes:
            compared.append(len(units) // 20)
            return check_units(queue, offset, units)

        queue.check_with(check)
        work = AtOnce(kept.clock)
        handlers = QueueInspectionHandlers(kept.store, kept.consumers, kept.filters, work).by_code()
        ext = {"topic": "T", "queueId": "0", "index": "0", "count": "1800"}
        answer = handlers[RequestCode.QUERY_CONSUME_QUEUE](
            channel(kept.clock)[0], Command(RequestCode.QUERY_CONSUME_QUEUE, ext)
        )
        assert isinstance(answer, Command)
        found = decode(ConsumeQueueDump, answer.body).queue_data
        assert (max(compared), work.pauses >= 3) == (500, True)
        assert [entry.physic_offset for entry in found] == [unit[0] for unit in kept.store.units("T", 0, 0, 1800)]


@pytest.mark.parametrize("index", [-1, 5, 2**40])
def test_index_outside_of_the_queue_is_a_success_without_a_body(kept: Tables, index: int) -> None:
    """So it is at Apache 5.5.0, though mqadmin cannot cope with it."""
    answer = ask(kept, topic="T", queueId=0, index=index, count=1)
    assert (answer.code, answer.remark, answer.body) == (0, f"Index {index} of 0@T is not exist!", b"")


@pytest.mark.parametrize(("topic", "queue_id"), [("T", 9), ("nowhere", 0), ("T", -1)])
def test_unknown_queue_is_an_error(kept: Tables, topic: str, queue_id: int) -> None:
    answer = ask(kept, topic=topic, queueId=queue_id, index=0, count=1)
    assert (answer.code, answer.remark) == (1, f"{queue_id}@{topic} is not exist!")


def test_subscription_of_a_group_that_is_online_is_told(kept: Tables) -> None:
    kept.subscribe(channel(kept.clock)[0], "G", "T")
    found = dump(kept, index=0, count=1, consumerGroup="G")
    assert found.subscription_data is not None
    assert (found.subscription_data.topic, found.filter_data) == ("T", "null")


def test_group_that_is_not_online_is_named(kept: Tables) -> None:
    found = dump(kept, index=0, count=1, consumerGroup="G")
    assert (found.subscription_data, found.filter_data) == (None, "G@T is not online!")
