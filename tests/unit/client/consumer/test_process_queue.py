from __future__ import annotations

from dataclasses import dataclass

from rocketline.client.consumer.process_queue import ProcessQueue
from rocketline.wire.bodies.running import ProcessQueueInfo

NOW_S = 1000.0


@dataclass(slots=True)
class Stub:
    queue_offset: int
    body_bytes: int = 10


def stubs(*offsets: int) -> list[Stub]:
    return [Stub(offset) for offset in offsets]


def filled(*offsets: int) -> ProcessQueue[Stub]:
    queue: ProcessQueue[Stub] = ProcessQueue(NOW_S)
    queue.put(stubs(*offsets))
    return queue


def offsets_of(messages: list[Stub]) -> list[int]:
    return [message.queue_offset for message in messages]


def test_offset_to_commit_never_passes_an_unfinished_message() -> None:
    """C165: 10, 11 and 12 end in the order 12, 11, 10."""
    queue = filled(10, 11, 12)
    assert [queue.remove(stubs(offset), NOW_S) for offset in (12, 11, 10)] == [10, 10, 13]


def test_offset_after_gaps_is_the_next_message_that_is_there() -> None:
    queue = filled(10, 15, 30)
    assert queue.remove(stubs(10), NOW_S) == 15
    assert queue.remove(stubs(15), NOW_S) == 30
    assert queue.remove(stubs(30), NOW_S) == 31


def test_removing_from_an_empty_queue_says_nothing_of_offsets() -> None:
    queue = filled()
    assert queue.remove(stubs(5), NOW_S + 2) == -1
    assert queue.last_consume_s == NOW_S + 2


def test_message_that_is_removed_twice_counts_once() -> None:
    queue = filled(1, 2, 3)
    queue.remove(stubs(1), NOW_S)
    assert queue.remove(stubs(1), NOW_S) == 2
    assert (queue.message_count, queue.body_bytes) == (2, 20)


def test_message_that_is_put_twice_counts_once() -> None:
    queue = filled(1, 2)
    queue.put([Stub(2, 99), Stub(3, 5)])
    assert (queue.message_count, queue.body_bytes, queue.span) == (3, 25, 2)


def test_messages_out_of_order_are_put_in_order() -> None:
    queue = filled(5, 3, 4)
    queue.put(stubs(1))
    assert offsets_of(queue.take(9, NOW_S)) == [1, 3, 4, 5]


def test_offset_that_was_removed_may_come_again() -> None:
    queue = filled(1, 2, 3)
    queue.remove(stubs(2), NOW_S)
    queue.put(stubs(2))
    assert queue.message_count == 3
    assert queue.remove(stubs(1), NOW_S) == 2


def test_empty_queue_has_no_size_whatever_was_counted() -> None:
    queue = filled(1)
    queue.remove([Stub(1, 3)], NOW_S)
    assert (queue.message_count, queue.body_bytes) == (0, 0)


def test_span_reaches_from_the_first_to_the_last_that_waits() -> None:
    queue = filled(10, 20, 30)
    assert queue.span == 20
    queue.remove(stubs(30), NOW_S)
    assert queue.span == 10
    queue.remove(stubs(10, 20), NOW_S)
    assert queue.span == 0


def test_only_the_first_put_starts_an_orderly_consumer() -> None:
    queue: ProcessQueue[Stub] = ProcessQueue(NOW_S)
    assert not queue.put([])
    assert queue.put(stubs(1))
    assert not queue.put(stubs(2))
    queue.take(5, NOW_S)
    assert not queue.put(stubs(3)), "it still works"
    queue.take(5, NOW_S)
    assert queue.take(5, NOW_S) == [], "nothing left: it has ended"
    assert queue.put(stubs(4))


def test_taken_messages_count_until_they_are_committed() -> None:
    queue = filled(1, 2, 3)
    assert offsets_of(queue.take(2, NOW_S)) == [1, 2]
    assert (queue.message_count, queue.span, queue.has_waiting) == (3, 0, True)
    assert queue.commit() == 3
    assert (queue.message_count, queue.body_bytes) == (1, 10)
    assert queue.commit() == -1


def test_rollback_brings_all_taken_messages_back_in_order() -> None:
    queue = filled(1, 2, 3)
    queue.take(1, NOW_S)
    queue.take(1, NOW_S)
    queue.rollback()
    assert offsets_of(queue.take(9, NOW_S)) == [1, 2, 3]
    assert queue.message_count == 3


def test_messages_to_consume_again_come_before_later_ones() -> None:
    queue = filled(1, 2, 3)
    first = queue.take(1, NOW_S)
    second = queue.take(1, NOW_S)
    queue.consume_again(second)
    assert offsets_of(queue.take(1, NOW_S)) == [2]
    queue.consume_again(first)
    assert offsets_of(queue.take(9, NOW_S)) == [1, 3]
    assert queue.commit() == 4


def test_backlog_is_what_the_broker_has_beyond_the_last_message() -> None:
    queue: ProcessQueue[Stub] = ProcessQueue(NOW_S)
    queue.put(stubs(1, 2), max_offset=100)
    assert queue.backlog_count == 98
    queue.put(stubs(3), max_offset=3)
    assert queue.backlog_count == 98, "a broker that knows less than it delivers is not believed"


def test_clear_forgets_messages_and_keeps_the_rest() -> None:
    queue = filled(1, 2, 3)
    queue.take(1, NOW_S)
    queue.is_locked = True
    queue.clear()
    assert (queue.message_count, queue.body_bytes, queue.span, queue.first) == (0, 0, 0, None)
    assert queue.is_locked
    assert queue.commit() == -1


def test_queue_knows_which_messages_wait() -> None:
    queue = filled(1, 2)
    one, two = stubs(1, 2)
    assert queue.first == one
    queue.take(1, NOW_S)
    assert one not in queue
    assert two in queue
    assert filled(), "an empty queue is no false value: it is there"


def test_lock_is_trusted_for_thirty_seconds_and_a_pull_missed_after_two_minutes() -> None:
    queue = filled()
    assert not queue.is_lock_valid(NOW_S), "not locked"
    queue.is_locked = True
    assert queue.is_lock_valid(NOW_S + 30)
    assert not queue.is_lock_valid(NOW_S + 30.1)
    assert not queue.is_pull_expired(NOW_S + 120)
    assert queue.is_pull_expired(NOW_S + 120.1)


def test_info_tells_times_as_the_wall_clock_has_them() -> None:
    queue = filled(5, 6, 9)
    queue.take(1, NOW_S + 1)
    queue.is_locked = queue.is_dropped = True
    queue.unlock_attempts = 2
    assert queue.info(5, now_s=NOW_S + 10, now_ms=1_700_000_010_000) == ProcessQueueInfo(
        commit_offset=5,
        cached_msg_min_offset=6,
        cached_msg_max_offset=9,
        cached_msg_count=2,
        transaction_msg_min_offset=5,
        transaction_msg_max_offset=5,
        transaction_msg_count=1,
        locked=True,
        try_unlock_times=2,
        last_lock_timestamp=1_700_000_000_000,
        dropped=True,
        last_pull_timestamp=1_700_000_000_000,
        last_consume_timestamp=1_700_000_001_000,
    )
