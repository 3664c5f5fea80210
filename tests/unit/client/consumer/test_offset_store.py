from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from rocketline.client.consumer.offset_store import (
    BrokerOffsets,
    KeeperInThread,
    OffsetStore,
    ReadFrom,
    keeper_on_loop,
)
from rocketline.errors import BrokerNotFoundError, ResponseError
from rocketline.model.queue import MessageQueue
from rocketline.wire.command import Command, response
from rocketline.wire.headers import (
    Header,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from support.clients.runtime_double import ADDRESS, RuntimeDouble, a_route, queues

ONE, TWO, THREE = queues(3)


class KeeperDouble:
    def __init__(self, kept: Mapping[MessageQueue, int] | None = None) -> None:
        self.storage = dict(kept or {})
        self.saves: list[dict[MessageQueue, int]] = []
        self.problem: Exception | None = None

    async def load(self) -> Mapping[MessageQueue, int]:
        return self.storage

    async def fetch(self, queue: MessageQueue) -> int | None:
        if self.problem:
            raise self.problem
        return self.storage.get(queue)

    async def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        if self.problem:
            raise self.problem
        self.saves.append(dict(offsets))


def test_offsets_grow_only_where_that_is_asked_for() -> None:
    store = OffsetStore(KeeperDouble())
    store.update(ONE, 10, increase_only=True)
    store.update(ONE, 5, increase_only=True)
    assert store.cached(ONE) == 10
    store.update(ONE, 5, increase_only=False)
    assert store.cached(ONE) == 5
    assert store.cached(TWO) == -1


def test_frozen_offset_stays_until_the_queue_is_removed() -> None:
    store = OffsetStore(KeeperDouble())
    store.update(ONE, 10, increase_only=True)
    store.freeze(ONE, 3)
    store.update(ONE, 20, increase_only=True)
    store.update(ONE, 20, increase_only=False)
    assert store.cached(ONE) == 3
    store.remove(ONE)
    store.update(ONE, 20, increase_only=True)
    assert store.cached(ONE) == 20


async def test_reading_looks_where_it_is_told_to() -> None:
    store = OffsetStore(KeeperDouble({ONE: 100}))
    assert await store.read(ONE, ReadFrom.MEMORY) == -1
    store.update(ONE, 5, increase_only=False)
    assert await store.read(ONE) == 5
    assert await store.read(ONE, ReadFrom.STORE) == 100
    assert store.cached(ONE) == 100, "what was fetched is in memory now"
    assert await store.read(TWO) == -1


async def test_keeper_that_fails_is_heard_when_reading_and_logged_when_saving(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keeper = KeeperDouble()
    store = OffsetStore(keeper)
    store.update(ONE, 5, increase_only=False)
    keeper.problem = RuntimeError("disk on fire")
    with pytest.raises(RuntimeError, match="on fire"):
        await store.read(ONE, ReadFrom.STORE)
    with caplog.at_level(logging.WARNING):
        await store.persist(ONE)
        await store.persist_all([ONE])
    assert len(caplog.messages) == 2
    assert all(text.startswith("offsets not saved, next attempt follows ") for text in caplog.messages)


async def test_all_owned_offsets_are_saved_changed_or_not_and_others_forgotten() -> None:
    keeper = KeeperDouble()
    store = OffsetStore(keeper)
    for queue, offset in ((ONE, 1), (TWO, 2), (THREE, 3)):
        store.update(queue, offset, increase_only=False)
    await store.persist_all([ONE, TWO])
    await store.persist_all([ONE, TWO])
    assert keeper.saves == [{ONE: 1, TWO: 2}] * 2
    assert store.offsets() == {ONE: 1, TWO: 2}


async def test_without_owned_queues_nothing_is_saved_or_forgotten() -> None:
    keeper = KeeperDouble({ONE: 7})
    store = OffsetStore(keeper)
    await store.load()
    await store.persist_all([])
    assert keeper.saves == []
    assert store.offsets("T") == {ONE: 7}
    assert store.offsets("other") == {}


async def test_one_queue_is_saved_alone_and_only_if_it_has_an_offset() -> None:
    keeper = KeeperDouble()
    store = OffsetStore(keeper)
    store.update(ONE, 1, increase_only=False)
    await store.persist(ONE)
    await store.persist(TWO)
    assert keeper.saves == [{ONE: 1}]


async def test_blocking_keeper_is_called_in_a_thread() -> None:
    class Blocking:
        def __init__(self) -> None:
            self.threads = [threading.current_thread()]
            self.saved: dict[MessageQueue, int] = {}

        def load(self) -> Mapping[MessageQueue, int]:
            self.threads.append(threading.current_thread())
            return {ONE: 4}

        def fetch(self, queue: MessageQueue) -> int | None:
            self.threads.append(threading.current_thread())
            return 9

        def save(self, offsets: Mapping[MessageQueue, int]) -> None:
            self.threads.append(threading.current_thread())
            self.saved.update(offsets)

    blocking = Blocking()
    keeper = keeper_on_loop(blocking)
    assert isinstance(keeper, KeeperInThread)
    store = OffsetStore(keeper)
    await store.load()
    assert await store.read(TWO) == 9
    await store.persist_all([ONE, TWO])
    assert blocking.saved == {ONE: 4, TWO: 9}
    own, *called = blocking.threads
    assert own not in called
    assert len(called) == 3
    awaited = KeeperDouble()
    assert keeper_on_loop(awaited) is awaited


def a_double() -> RuntimeDouble:
    double = RuntimeDouble()
    double.routes.apply("T", a_route(3))
    return double


async def test_broker_tells_an_offset_or_that_there_is_none() -> None:
    double = a_double()
    double.answer(QueryConsumerOffsetRequestHeader, QueryConsumerOffsetResponseHeader(offset=42))
    offsets = BrokerOffsets(double.runtime, "g")
    assert await offsets.load() == {}
    assert await offsets.fetch(TWO) == 42
    (asked,) = double.requests(QueryConsumerOffsetRequestHeader)
    assert (asked.consumer_group, asked.topic, asked.queue_id, asked.target_broker) == ("g", "T", 1, "b")
    double.answer(QueryConsumerOffsetRequestHeader, code=22)
    assert await offsets.fetch(TWO) is None
    double.answer(QueryConsumerOffsetRequestHeader, code=1)
    with pytest.raises(ResponseError):
        await offsets.fetch(TWO)


async def test_offsets_are_sent_to_the_broker_one_by_one() -> None:
    double = a_double()
    await BrokerOffsets(double.runtime, "g").save({ONE: 10, TWO: 20})
    sent = double.requests(UpdateConsumerOffsetRequestHeader)
    assert [(one.consumer_group, one.queue_id, one.commit_offset) for one in sent] == [("g", 0, 10), ("g", 1, 20)]
    assert double.route_updates == []


async def test_offset_that_must_arrive_is_answered_for() -> None:
    double = a_double()
    double.answer(UpdateConsumerOffsetRequestHeader, code=26)
    with pytest.raises(ResponseError, match="code 26"):
        await BrokerOffsets(double.runtime, "g").save_one(ONE, 5, is_oneway=False)


@dataclass
class SlowBroker(RuntimeDouble):
    """Answers in the next turn of the loop."""

    steps: list[str] = field(default_factory=list)

    async def ask_ok(
        self, address: str, header: Header, body: bytes = b"", *, timeout_s: float, vip: bool = False
    ) -> Command:
        assert isinstance(header, UpdateConsumerOffsetRequestHeader)
        self.steps.append(f"{header.topic}{header.queue_id} asked")
        await asyncio.sleep(0)
        self.steps.append(f"{header.topic}{header.queue_id} answered")
        return response(0)


async def test_last_offsets_are_answered_for_and_the_first_of_a_topic_before_the_others() -> None:
    """Apache's broker loses one of two that come first and side by side."""
    broker = SlowBroker()
    broker.routes.apply("T", a_route(3))
    broker.routes.apply("U", a_route(1))
    (other,) = queues(1, topic="U")
    await BrokerOffsets(broker.runtime, "g").save_last({ONE: 10, TWO: 20, other: 5})
    assert sorted(broker.steps[:2]) == ["T0 asked", "U0 asked"]
    assert sorted(broker.steps[2:4]) == ["T0 answered", "U0 answered"]
    assert broker.steps[4:] == ["T1 asked", "T1 answered"]


async def test_slave_keeps_offsets_while_the_master_is_away_but_is_asked_only_after_a_look_for_the_master() -> None:
    double = RuntimeDouble()
    double.routes.apply("T", a_route(1, {"b": {1: "127.0.0.1:20921"}}))
    double.answer(QueryConsumerOffsetRequestHeader, QueryConsumerOffsetResponseHeader(offset=1))
    offsets = BrokerOffsets(double.runtime, "g")
    await offsets.save({ONE: 10})
    assert (double.asked[-1][0], double.route_updates) == ("127.0.0.1:20921", [])
    await offsets.fetch(ONE)
    assert (double.asked[-1][0], double.route_updates) == ("127.0.0.1:20921", ["T"])
    double.known_routes["T"] = a_route(1, {"b": {0: ADDRESS, 1: "127.0.0.1:20921"}})
    await offsets.fetch(ONE)
    assert double.asked[-1][0] == ADDRESS


async def test_broker_that_is_gone_is_logged_and_costs_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    double = a_double()
    gone = MessageQueue("T", "gone", 0)
    offsets = BrokerOffsets(double.runtime, "g")
    with caplog.at_level(logging.WARNING):
        await offsets.save({gone: 1, ONE: 10})
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("offset not saved: ")
    assert [one.commit_offset for one in double.requests(UpdateConsumerOffsetRequestHeader)] == [10]
    with pytest.raises(BrokerNotFoundError, match="'gone'"):
        await offsets.fetch(gone)
