from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from rocketline.client.consumer.offset_store import BrokerOffsets, OffsetStore
from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.client.consumer.subscriptions import Subscriptions
from rocketline.client.rebalance.allocation import AllocationStrategy, Averagely
from rocketline.client.rebalance.rebalancer import Rebalancer, queue_threshold, queues_to_drop
from rocketline.errors import ConnectError, RequestTimeoutError
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel
from rocketline.wire import bodies
from rocketline.wire.bodies.lists import ConsumerList
from rocketline.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketline.wire.command import Command, response
from rocketline.wire.headers import (
    GetConsumerListByGroupRequestHeader,
    LockBatchMqRequestHeader,
    UnlockBatchMqRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from support.clients.runtime_double import ADDRESS, RuntimeDouble, a_route, queues

FOUR = queues(4)


@dataclass(slots=True)
class Stub:
    queue_offset: int
    body_bytes: int = 1


class Consumer:
    """A consumer of group g that only notes what a rebalance does to it. The other member, if any, is called `you`."""

    def __init__(
        self,
        *,
        model: MessageModel = MessageModel.CLUSTERING,
        strategy: AllocationStrategy | None = None,
        is_orderly: bool = False,
        is_push: bool = True,
    ) -> None:
        self.double = RuntimeDouble()
        self.double.routes.apply("T", a_route(4))
        self.subscriptions = Subscriptions(self.double.clock)
        self.subscriptions.put("T")
        self.offsets = OffsetStore(BrokerOffsets(self.double.runtime, "g"))
        self.starts: dict[MessageQueue, int | Exception] = {}
        self.pulling: dict[MessageQueue, int] = {}
        self.changes: list[tuple[str, int, list[MessageQueue]]] = []
        self.refused: set[MessageQueue] = set()
        self.problem: Exception | None = None
        self.members("me")
        self.double.answers[LockBatchMqRequestHeader] = self._lock
        self.rebalancer = Rebalancer(
            self.double.runtime,
            "g",
            self,
            message_model=model,
            strategy=strategy or Averagely(),
            subscriptions=self.subscriptions,
            offsets=self.offsets,
            start=self.start,
            is_orderly=is_orderly,
            is_push=is_push,
        )

    def members(self, *ids: str) -> None:
        self.double.answer(GetConsumerListByGroupRequestHeader, body=ConsumerList(list(ids)))

    def _lock(self, request: Command) -> Command:
        wanted = bodies.decode(LockBatchRequestBody, request.body).mq_set
        granted = LockBatchResponseBody([queue for queue in wanted if queue not in self.refused])
        return response(0, body=bodies.encode(granted))

    async def start(self, queue: MessageQueue) -> int:
        start = self.starts.get(queue, 100)
        if isinstance(start, Exception):
            raise start
        return start

    def begin_pulling(self, queue: MessageQueue, process_queue: ProcessQueue[Any], offset: int) -> None:
        self.pulling[queue] = offset

    async def queues_changed(
        self, topic: str, queues: Collection[MessageQueue], assigned: Collection[MessageQueue]
    ) -> None:
        self.changes.append((topic, len(queues), sorted(assigned)))
        if self.problem:
            raise self.problem

    @property
    def owned(self) -> list[MessageQueue]:
        return sorted(queue for queue, one in self.rebalancer.queues.items() if not one.is_dropped)

    @property
    def saved(self) -> list[tuple[int, int]]:
        return [(one.queue_id, one.commit_offset) for one in self.double.requests(UpdateConsumerOffsetRequestHeader)]

    @property
    def unlocked(self) -> list[MessageQueue]:
        return [
            queue
            for command in self.double.commands(UnlockBatchMqRequestHeader)
            for queue in bodies.decode(LockBatchRequestBody, command.body).mq_set
        ]


async def test_queues_are_shared_with_the_other_members() -> None:
    consumer = Consumer()
    consumer.members("me", "you")
    assert await consumer.rebalancer.run()
    assert consumer.owned == FOUR[:2]
    assert consumer.changes == [("T", 4, FOUR[:2])]


async def test_first_pull_comes_half_a_second_after_a_queue_was_added() -> None:
    """C145."""
    consumer = Consumer()
    consumer.starts[FOUR[1]] = 7
    await consumer.rebalancer.run()
    consumer.double.advance(0.4)
    assert consumer.pulling == {}
    consumer.double.advance(0.1)
    assert consumer.pulling == {FOUR[0]: 100, FOUR[1]: 7, FOUR[2]: 100, FOUR[3]: 100}


async def test_queue_that_is_lost_before_its_first_pull_is_not_pulled() -> None:
    consumer = Consumer()
    await consumer.rebalancer.run()
    consumer.members("also me", "me")
    await consumer.rebalancer.run()
    consumer.double.advance(0.5)
    assert sorted(consumer.pulling) == consumer.owned == FOUR[2:]


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_broker_that_is_dead_costs_some_questions_and_a_line(
    caplog: pytest.LogCaptureFixture, is_orderly: bool
) -> None:
    """And not as many of each as it has queues; those of others are taken all the same."""
    consumer, asked = Consumer(is_orderly=is_orderly), 0

    def lock(request: Command) -> Command:
        if "dead" in request.body.decode():
            refuse()
        return consumer._lock(request)

    def refuse() -> None:
        nonlocal asked
        asked += 1
        raise ConnectError("dead:1", "nobody is there")

    async def start(queue: MessageQueue) -> int:
        if queue.broker_name == "dead":
            refuse()
        return 7

    consumer.double.answers[LockBatchMqRequestHeader] = lock
    consumer.rebalancer._start = start
    consumer.double.routes.apply("T", a_route(500, {"b": {0: ADDRESS}, "dead": {0: "dead:1"}}))
    with caplog.at_level(logging.WARNING):
        assert not await consumer.rebalancer.run()
    assert {queue.broker_name for queue in consumer.owned} == {"b"}
    assert len(consumer.owned) == 500
    assert asked <= 64
    assert len([each for each in caplog.records if each.name.startswith("rocketline")]) == 1


async def test_stranger_to_its_own_group_drops_all_queues() -> None:
    """C140."""
    consumer = Consumer()
    await consumer.rebalancer.run()
    consumer.members("you")
    assert await consumer.rebalancer.run()
    assert consumer.owned == []


async def test_queues_are_kept_while_nobody_can_name_the_members() -> None:
    """C141."""
    consumer = Consumer()
    await consumer.rebalancer.run()
    consumer.double.answer(GetConsumerListByGroupRequestHeader, code=1)
    assert await consumer.rebalancer.run(), "nothing to hurry for"
    assert consumer.owned == FOUR


async def test_queue_that_was_not_pulled_for_two_minutes_is_taken_anew() -> None:
    """C142."""
    consumer = Consumer()
    await consumer.rebalancer.run()
    before = dict(consumer.rebalancer.queues)
    consumer.double.advance(120.5)
    consumer.rebalancer.queues[FOUR[0]].last_pull_s = consumer.double.clock.monotonic()
    assert await consumer.rebalancer.run()
    after = consumer.rebalancer.queues
    assert [after[queue] is before[queue] for queue in FOUR] == [True, False, False, False]
    assert all(before[queue].is_dropped for queue in FOUR[1:])


async def test_lite_pull_consumer_may_leave_queues_unpulled() -> None:
    consumer = Consumer(is_push=False)
    await consumer.rebalancer.run()
    before = dict(consumer.rebalancer.queues)
    consumer.double.advance(500)
    await consumer.rebalancer.run()
    assert consumer.rebalancer.queues == before


async def test_queue_that_could_not_be_added_asks_for_another_round() -> None:
    """C143, C152."""
    consumer = Consumer()
    consumer.starts[FOUR[2]] = RequestTimeoutError("127.0.0.1:20911", "no answer")
    assert not await consumer.rebalancer.run()
    consumer.double.advance(0.5)
    assert sorted(consumer.pulling) == [FOUR[0], FOUR[1], FOUR[3]]
    consumer.starts[FOUR[2]] = 55
    assert await consumer.rebalancer.run()
    consumer.double.advance(0.5)
    assert consumer.pulling[FOUR[2]] == 55


async def test_keeper_of_the_application_may_raise_anything() -> None:
    consumer = Consumer()
    consumer.starts[FOUR[2]] = KeyError("no such table")
    assert not await consumer.rebalancer.run()
    assert consumer.owned == [FOUR[0], FOUR[1], FOUR[3]]


async def test_offset_of_a_queue_is_saved_before_it_is_given_away() -> None:
    """C144."""
    consumer = Consumer()
    await consumer.rebalancer.run()
    consumer.offsets.update(FOUR[3], 777, increase_only=False)
    consumer.members("me", "you")
    await consumer.rebalancer.run()
    assert consumer.saved == [(3, 777)]
    assert consumer.offsets.cached(FOUR[3]) == -1


async def test_new_queue_forgets_what_was_known_of_it() -> None:
    consumer = Consumer()
    consumer.offsets.update(FOUR[0], 5, increase_only=False)
    await consumer.rebalancer.run()
    assert consumer.offsets.cached(FOUR[0]) == -1


async def test_change_raises_the_version_and_tells_brokers_before_the_application() -> None:
    """C146."""
    consumer = Consumer()
    before = consumer.subscriptions["T"].sub_version
    await consumer.rebalancer.run()
    first = consumer.subscriptions["T"].sub_version
    assert first > before
    assert (consumer.double.heartbeats, len(consumer.changes)) == (1, 1)
    await consumer.rebalancer.run()
    assert consumer.subscriptions["T"].sub_version == first, "nothing changed"
    assert (consumer.double.heartbeats, len(consumer.changes)) == (1, 1)


async def test_lite_pull_consumer_tells_brokers_nothing() -> None:
    consumer = Consumer(is_push=False)
    before = consumer.subscriptions["T"]
    await consumer.rebalancer.run()
    assert consumer.subscriptions["T"] == before
    assert (consumer.double.heartbeats, len(consumer.changes)) == (0, 1)


async def test_listener_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    consumer = Consumer()
    consumer.problem = ZeroDivisionError("oops")
    with caplog.at_level(logging.ERROR):
        assert await consumer.rebalancer.run()
    assert "queue listener failed" in caplog.text


def test_threshold_of_a_topic_is_shared_by_the_queues() -> None:
    """C147."""
    assert queue_threshold(1000, 1000, 10) == 100
    assert queue_threshold(1000, 3, 10) == 1
    assert queue_threshold(1000, -1, 10) == 1000
    assert queue_threshold(1000, 50, 0) == 1000, "no queue yet"


async def test_queues_of_a_topic_that_is_not_wanted_any_more_are_dropped_and_saved() -> None:
    """C148."""
    consumer = Consumer()
    await consumer.rebalancer.run()
    consumer.offsets.update(FOUR[0], 9, increase_only=False)
    consumer.subscriptions.remove("T")
    assert await consumer.rebalancer.run()
    assert consumer.rebalancer.queues == {}
    assert consumer.saved == [(0, 9)]


async def test_topic_without_a_route_is_left_alone_without_a_heartbeat_each_time() -> None:
    consumer = Consumer()
    consumer.subscriptions.put("unknown")
    assert await consumer.rebalancer.run()
    assert await consumer.rebalancer.run()
    assert consumer.double.heartbeats == 1, "the one for T"


async def test_strategy_that_fails_costs_its_own_round_only() -> None:
    class Faulty(Averagely):
        def allocate(
            self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
        ) -> Sequence[MessageQueue]:
            if queues[0].topic != "T":
                raise ZeroDivisionError("no")
            return Averagely().allocate(group, client_id, queues, client_ids)

    consumer = Consumer(strategy=Faulty())
    consumer.double.routes.apply("%RETRY%g", a_route(1))
    consumer.subscriptions.put("%RETRY%g")
    assert await consumer.rebalancer.run(), "failures of a retry topic are no reason to hurry"
    assert consumer.owned == FOUR
    consumer.double.routes.apply("U", a_route(1))
    consumer.subscriptions.put("U")
    assert not await consumer.rebalancer.run()


async def test_broadcasting_takes_all_queues_and_asks_nobody() -> None:
    """C192."""
    consumer = Consumer(model=MessageModel.BROADCASTING, is_orderly=True)
    assert await consumer.rebalancer.run()
    assert consumer.owned == FOUR
    assert consumer.double.asked == []


async def test_orderly_queue_is_locked_before_anything_else_and_again_soon_if_that_is_refused() -> None:
    """C181."""
    consumer = Consumer(is_orderly=True)
    consumer.refused = {FOUR[1]}
    assert not await consumer.rebalancer.run()
    assert consumer.owned == [FOUR[0], FOUR[2], FOUR[3]]
    assert all(consumer.rebalancer.queues[queue].is_locked for queue in consumer.owned)
    consumer.double.advance(0.5)
    assert consumer.double.wakes == 1
    assert FOUR[1] not in consumer.pulling
    consumer.refused = set()
    assert await consumer.rebalancer.run()
    assert consumer.owned == FOUR


async def test_lock_of_a_queue_whose_start_is_not_known_is_let_go() -> None:
    consumer = Consumer(is_orderly=True)
    consumer.starts[FOUR[0]] = RequestTimeoutError("127.0.0.1:20911", "no answer")
    await consumer.rebalancer.run()
    assert consumer.unlocked == [FOUR[0]]


async def test_orderly_queue_is_not_unlocked_while_its_callback_runs() -> None:
    """C190."""
    consumer = Consumer(is_orderly=True)
    await consumer.rebalancer.run()
    lost = consumer.rebalancer.queues[FOUR[3]]
    lost.idle.clear()
    consumer.offsets.update(FOUR[3], 8, increase_only=False)
    consumer.members("me", "you")
    assert not await consumer.rebalancer.run(), "it should be tried again soon"
    assert consumer.unlocked == [FOUR[2]]
    assert (lost.is_dropped, lost.unlock_attempts) == (True, 1)
    assert consumer.saved == [(3, 8)], "what is done already must not wait"
    lost.idle.set()
    assert await consumer.rebalancer.run()
    assert consumer.unlocked == [FOUR[2], FOUR[3]]
    assert FOUR[3] not in consumer.rebalancer.queues


async def test_orderly_queue_is_given_away_after_20_s_without_a_renewed_lock() -> None:
    """C190."""
    consumer = Consumer(is_orderly=True)
    await consumer.rebalancer.run()
    for queue in FOUR:
        consumer.rebalancer.queues[queue].idle.clear()
    consumer.members("you")
    assert not await consumer.rebalancer.run()
    assert consumer.unlocked == []
    consumer.double.advance(20)
    assert await consumer.rebalancer.run()
    assert consumer.unlocked == FOUR


async def test_queue_that_comes_back_before_its_callback_ended_is_taken_anew_after_it() -> None:
    """Else it would stay dropped, with nobody reading it, until its pulls count as expired."""
    consumer = Consumer(is_orderly=True)
    await consumer.rebalancer.run()
    old = consumer.rebalancer.queues[FOUR[3]]
    old.idle.clear()
    consumer.members("me", "you")
    await consumer.rebalancer.run()
    consumer.members("me")
    assert not await consumer.rebalancer.run()
    old.idle.set()
    assert await consumer.rebalancer.run()
    assert consumer.owned == FOUR
    assert consumer.rebalancer.queues[FOUR[3]] is not old


async def test_offset_outside_of_its_queue_is_saved_and_the_queue_begins_anew() -> None:
    """C156."""
    consumer = Consumer()
    await consumer.rebalancer.run()
    consumer.offsets.update(FOUR[0], 10, increase_only=False)
    await consumer.rebalancer.restart_at(FOUR[0], 500)
    assert consumer.saved == [(0, 500)]
    assert FOUR[0] not in consumer.rebalancer.queues
    assert consumer.double.wakes == 1
    await consumer.rebalancer.restart_at(FOUR[0], 600)
    assert consumer.saved == [(0, 500)], "it is not ours any more"


async def test_two_rounds_never_run_at_once() -> None:
    consumer = Consumer()
    assert all(await asyncio.gather(consumer.rebalancer.run(), consumer.rebalancer.run()))
    assert consumer.changes == [("T", 4, FOUR)], "the second found everything done"


async def test_closed_consumer_takes_no_more_queues() -> None:
    consumer = Consumer()
    await consumer.rebalancer.run()
    mine = list(consumer.rebalancer.queues.values())
    await consumer.rebalancer.stop()
    assert await consumer.rebalancer.run()
    assert consumer.owned == FOUR, "offsets and locks are still to be let go"
    consumer.rebalancer.close()
    assert await consumer.rebalancer.run()
    assert consumer.owned == []
    assert all(one.is_dropped for one in mine)
    consumer.double.advance(1)
    assert consumer.pulling == {}


def test_queues_of_other_topics_are_not_dropped() -> None:
    owned: dict[MessageQueue, ProcessQueue[Stub]] = {
        queue: ProcessQueue(0.0) for queue in (*FOUR[:2], MessageQueue("U", "b", 0))
    }
    assert queues_to_drop(owned, "T", FOUR[:1], now_s=0.0, expires_pulls=True) == [FOUR[1]]
