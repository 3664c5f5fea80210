"""What a lite pull consumer keeps of each queue, and what it hands on."""

from __future__ import annotations

import threading

import pytest

from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.client.consumer.pulls import PullResult, PullStatus
from rocketline.client.lite_pull.assigned_queues import (
    FLOW_CONTROL_S,
    PAUSED_S,
    AssignedQueue,
    AssignedQueues,
    CacheLimits,
)
from rocketline.errors import ClientError
from rocketline.model.queue import MessageQueue
from support.clients.consuming import offsets_of, received

A, B, C = (MessageQueue("T", "broker-a", number) for number in range(3))


def assigned(queues: AssignedQueues, *wanted: MessageQueue) -> list[AssignedQueue]:
    queues.assign({queue: queues.caches().get(queue) or ProcessQueue(0.0) for queue in wanted})
    return [queues.find(queue) for queue in wanted]


def put(queues: AssignedQueues, one: AssignedQueue, *offsets: int, end: int | None = None, seeks: int = 0) -> None:
    messages = received(offsets, queue=one.queue)
    next_offset = end if end is not None else offsets[-1] + 1
    status = PullStatus.FOUND if offsets else PullStatus.NO_MATCHED_MESSAGE
    queues.put(one, seeks, PullResult(status, next_offset, 0, next_offset, messages))


def taken(queues: AssignedQueues) -> list[int]:
    batch = queues.take(1.0)
    return [] if batch is None else offsets_of(batch.messages)


def one_by_one(queues: AssignedQueues, count: int) -> list[int]:
    messages = [queues.take_one(1.0)[0] for _ in range(count)]
    return [message.queue_offset for message in messages if message is not None]


def test_batches_are_handed_on_as_they_were_pulled() -> None:
    """C205: all of one queue, in order."""
    queues = AssignedQueues()
    a, b = assigned(queues, A, B)
    put(queues, a, 0, 1)
    put(queues, b, 7)
    put(queues, a, 2)
    assert [taken(queues) for _ in range(4)] == [[0, 1], [7], [2], []]
    assert queues.positions() == {A: 3, B: 8}
    assert queues.positions([B, C]) == {B: 8}


def test_position_of_what_waits_is_not_passed() -> None:
    queues = AssignedQueues()
    (a,) = assigned(queues, A)
    put(queues, a, 5, 6)
    assert queues.positions() == {}
    put(queues, a, 9)
    taken(queues)
    assert queues.positions() == {A: 9}


def test_messages_taken_one_by_one_move_the_position_one_by_one() -> None:
    queues = AssignedQueues()
    (a,) = assigned(queues, A)
    put(queues, a, 0, 1, 2)
    assert one_by_one(queues, 2) == [0, 1]
    assert queues.positions() == {A: 2}
    assert taken(queues) == [2]
    assert queues.positions() == {A: 3}
    assert one_by_one(queues, 1) == []


def test_batch_is_told_with_its_first_message_only() -> None:
    queues = AssignedQueues()
    (a,) = assigned(queues, A)
    put(queues, a, 0, 1)
    (_, first), (_, second) = queues.take_one(1.0), queues.take_one(1.0)
    assert first is not None
    assert offsets_of(first.messages) == [0, 1]
    assert second is None


def test_pull_without_wanted_messages_moves_an_idle_queue_on() -> None:
    queues = AssignedQueues()
    (a,) = assigned(queues, A)
    put(queues, a, end=50)
    assert (a.pull_offset, queues.positions()) == (50, {A: 50})
    put(queues, a, 50)
    put(queues, a, end=70)
    assert (a.pull_offset, queues.positions()) == (70, {A: 50})


def test_offset_outside_of_the_queue_moves_the_pull_and_not_the_position() -> None:
    queues = AssignedQueues()
    (a,) = assigned(queues, A)
    queues.put(a, 0, PullResult(PullStatus.OFFSET_ILLEGAL, 30, 30, 90, []))
    assert (a.pull_offset, queues.positions()) == (30, {})


def test_seek_forgets_what_was_pulled_and_what_is_on_its_way() -> None:
    """C208."""
    queues = AssignedQueues()
    a, b = assigned(queues, A, B)
    put(queues, a, 0, 1, 2)
    put(queues, b, 9)
    assert one_by_one(queues, 1) == [0]
    put(queues, a, 3)
    assert queues.seek(A, 5) is a
    assert (a.pull_offset, a.cache.message_count, queues.positions()) == (5, 0, {A: 5})
    put(queues, a, 4)
    assert [taken(queues), taken(queues)] == [[9], []]
    put(queues, a, 5, seeks=1)
    assert taken(queues) == [5]


def test_seek_of_a_queue_that_is_not_assigned_raises() -> None:
    with pytest.raises(ClientError, match="not assigned"):
        AssignedQueues().seek(A, 5)


def test_new_assignment_keeps_what_stays_and_forgets_the_rest() -> None:
    queues = AssignedQueues()
    a, b = assigned(queues, A, B)
    put(queues, a, 0)
    put(queues, b, 0)
    changes = queues.assign({B: b.cache, C: ProcessQueue(0.0)})
    assert [one.queue for one in changes.removed] == [A]
    assert [one.queue for one in changes.added] == [C]
    assert a.cache.is_dropped
    assert queues.queues() == {B, C}
    put(queues, a, 1)
    assert [taken(queues), taken(queues)] == [[0], []]
    assert queues.positions() == {B: 1}


def test_queue_with_another_cache_begins_anew() -> None:
    queues = AssignedQueues()
    (a,) = assigned(queues, A)
    put(queues, a, 0)
    changes = queues.assign({A: ProcessQueue(0.0)})
    assert (len(changes.added), len(changes.removed)) == (1, 1)
    assert queues.find(A).pull_offset == -1
    assert taken(queues) == []


def test_paused_queue_is_not_pulled_and_still_handed_on() -> None:
    """C210."""
    queues = AssignedQueues()
    a, b = assigned(queues, A, B)
    put(queues, a, 0)
    queues.set_paused([A, C], True)
    assert (queues.pause_s(a), queues.pause_s(b)) == (PAUSED_S, 0.0)
    assert taken(queues) == [0]
    queues.set_paused([A], False)
    assert queues.pause_s(a) == 0.0


def test_full_queue_waits_until_it_is_drained() -> None:
    queues = AssignedQueues(CacheLimits(queue_count=2))
    a, b = assigned(queues, A, B)
    put(queues, a, 0, 1)
    assert queues.pause_s(a) == 0.0
    put(queues, a, 2)
    assert (queues.pause_s(a), queues.pause_s(b)) == (FLOW_CONTROL_S, 0.0)
    taken(queues)
    assert queues.pause_s(a) == 0.0


def test_all_queues_wait_when_too_many_messages_wait_together() -> None:
    """C214."""
    queues = AssignedQueues(CacheLimits(all_count=3))
    a, b, c = assigned(queues, A, B, C)
    put(queues, a, 0, 1)
    put(queues, b, 0, 1)
    assert [queues.pause_s(one) for one in (a, b, c)] == [FLOW_CONTROL_S] * 3
    taken(queues)
    assert [queues.pause_s(one) for one in (a, b, c)] == [0.0] * 3
    put(queues, a, 2, 3)
    queues.assign({})
    assert queues.pause_s(c) == 0.0


def test_queue_whose_offsets_lie_too_far_apart_waits() -> None:
    queues = AssignedQueues(CacheLimits(queue_span=10))
    (a,) = assigned(queues, A)
    put(queues, a, 0, 11)
    assert queues.pause_s(a) == FLOW_CONTROL_S


def test_arrivals_are_told_and_wake_who_waits() -> None:
    told: list[str] = []
    queues = AssignedQueues(on_arrival=lambda: told.append("arrived"))
    (a,) = assigned(queues, A)
    found: list[bool] = []
    waiting = threading.Thread(target=lambda: found.append(queues.wait(30.0)))
    waiting.start()
    put(queues, a, 0)
    waiting.join()
    assert (found, told) == ([True], ["arrived"])


def test_waiting_ends_in_time_and_with_the_consumer() -> None:
    queues = AssignedQueues()
    assert not queues.wait(0.0)
    queues.close()
    assert queues.wait(30.0)
    assert queues.queues() == set()


def test_one_thread_may_pull_while_another_takes() -> None:
    """Both look at the ends of the cache, which drops what is gone there."""
    queues = AssignedQueues(CacheLimits(queue_count=50))
    (a,) = assigned(queues, A)
    count = 5_000
    taken_offsets: list[int] = []

    def pull() -> None:
        offset = 0
        while offset < count:
            if not queues.pause_s(a):
                put(queues, a, *range(offset, offset + 10))
                offset += 10

    pulling = threading.Thread(target=pull)
    pulling.start()
    while len(taken_offsets) < count:
        if queues.wait(10.0):
            taken_offsets += taken(queues)
            assert queues.look(lambda caches: caches[A].span) <= 70
    pulling.join()
    assert taken_offsets == list(range(count))
