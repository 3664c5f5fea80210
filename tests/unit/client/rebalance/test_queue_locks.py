from __future__ import annotations

from typing import Any

from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.client.rebalance.queue_locks import QueueLocks
from rocketline.model.queue import MessageQueue
from rocketline.wire import bodies
from rocketline.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketline.wire.headers import LockBatchMqRequestHeader, UnlockBatchMqRequestHeader
from support.clients.runtime_double import ADDRESS, RuntimeDouble, a_route, queues

OTHER_ADDRESS = "127.0.0.1:20912"
ONE, TWO = queues(2)
FAR = MessageQueue("T", "b2", 0)


class Locks:
    """Locks of three queues on two brokers."""

    def __init__(self) -> None:
        self.double = RuntimeDouble()
        self.double.routes.apply("T", a_route(2, {"b": {0: ADDRESS}, "b2": {0: OTHER_ADDRESS}}))
        self.table: dict[MessageQueue, ProcessQueue[Any]] = {
            queue: ProcessQueue(self.double.clock.monotonic()) for queue in (ONE, TWO, FAR)
        }
        self.locks = QueueLocks(self.double.runtime, "g", self.table)

    def grant(self, *granted: MessageQueue) -> None:
        self.double.answer(LockBatchMqRequestHeader, body=LockBatchResponseBody(list(granted)))

    def asked(self, kind: type[LockBatchMqRequestHeader | UnlockBatchMqRequestHeader]) -> list[Any]:
        return [
            (address, bodies.decode(LockBatchRequestBody, command.body))
            for address, command in self.double.asked
            if command in self.double.commands(kind)
        ]

    @property
    def locked(self) -> list[MessageQueue]:
        return [queue for queue, process_queue in self.table.items() if process_queue.is_locked]


async def test_one_lock_is_asked_of_the_master_and_noted() -> None:
    """C181."""
    locks = Locks()
    locks.grant(ONE)
    locks.double.clock.advance(5)
    assert await locks.locks.lock(ONE)
    assert locks.asked(LockBatchMqRequestHeader) == [(ADDRESS, LockBatchRequestBody("g", "me", [ONE]))]
    assert locks.locked == [ONE]
    assert locks.table[ONE].last_lock_s == locks.double.clock.monotonic()


async def test_lock_that_is_refused_or_not_answered_is_not_ours() -> None:
    locks = Locks()
    locks.grant()
    assert not await locks.locks.lock(ONE)
    locks.double.answer(LockBatchMqRequestHeader, code=1)
    assert not await locks.locks.lock(ONE)
    assert not await locks.locks.lock(MessageQueue("T", "gone", 0))
    assert locks.locked == []


async def test_all_locks_are_renewed_with_one_request_to_each_broker() -> None:
    """C182."""
    locks = Locks()
    locks.grant(ONE, TWO, FAR)
    await locks.locks.lock_all()
    assert locks.asked(LockBatchMqRequestHeader) == [
        (ADDRESS, LockBatchRequestBody("g", "me", [ONE, TWO])),
        (OTHER_ADDRESS, LockBatchRequestBody("g", "me", [FAR])),
    ]
    assert locks.locked == [ONE, TWO, FAR]


async def test_queue_that_a_renewal_leaves_out_is_locked_no_more() -> None:
    """C183."""
    locks = Locks()
    locks.grant(ONE, TWO, FAR)
    await locks.locks.lock_all()
    locks.grant(ONE, FAR)
    await locks.locks.lock_all()
    assert locks.locked == [ONE, FAR]


async def test_broker_that_does_not_answer_changes_nothing() -> None:
    locks = Locks()
    locks.grant(ONE, TWO, FAR)
    await locks.locks.lock_all()
    locks.double.answer(LockBatchMqRequestHeader, code=1)
    await locks.locks.lock_all()
    assert locks.locked == [ONE, TWO, FAR], "they run out by themselves"


async def test_dropped_queues_are_not_renewed() -> None:
    locks = Locks()
    locks.table[TWO].is_dropped = True
    locks.grant(ONE, TWO, FAR)
    await locks.locks.lock_all()
    assert [body.mq_set for _, body in locks.asked(LockBatchMqRequestHeader)] == [[ONE], [FAR]]
    assert locks.locked == [ONE, FAR]


async def test_all_are_unlocked_and_waited_for_at_the_end() -> None:
    """C191."""
    locks = Locks()
    locks.grant(ONE, TWO, FAR)
    await locks.locks.lock_all()
    locks.double.answer(UnlockBatchMqRequestHeader)
    await locks.locks.unlock_all()
    assert [body.mq_set for _, body in locks.asked(UnlockBatchMqRequestHeader)] == [[ONE, TWO], [FAR]]
    assert locks.locked == []


async def test_failure_to_unlock_raises_nothing() -> None:
    locks = Locks()
    locks.double.answer(UnlockBatchMqRequestHeader, code=1)
    await locks.locks.unlock_all()
    await locks.locks.unlock(MessageQueue("T", "gone", 0))
    await locks.locks.unlock(ONE)
    assert len(locks.asked(UnlockBatchMqRequestHeader)) == 3
