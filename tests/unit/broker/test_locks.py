"""Locks of queues: who gets one, for how long, and who can give it back."""

from __future__ import annotations

import pytest

from rocketline.broker.locks import LOCK_LIFE_S, QueueLocks
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock


def queues(*ids: int) -> list[MessageQueue]:
    return [MessageQueue("T", "B", queue_id) for queue_id in ids]


@pytest.fixture
def locks(clock: FakeClock) -> QueueLocks:
    return QueueLocks(clock)


def test_second_client_gets_only_what_the_first_does_not_hold(locks: QueueLocks) -> None:
    """H.13 178"""
    assert locks.lock("g", "X", queues(0, 1, 2, 3)) == queues(0, 1, 2, 3)
    assert locks.lock("g", "Y", queues(2, 3, 4, 5)) == queues(4, 5)


def test_lock_that_is_not_renewed_for_a_minute_can_be_taken_over(locks: QueueLocks, clock: FakeClock) -> None:
    """H.13 179"""
    locks.lock("g", "X", queues(0))
    clock.advance(LOCK_LIFE_S)
    assert locks.lock("g", "Y", queues(0)) == []
    clock.advance(0.001)
    assert not locks.holds_any("g")
    assert locks.lock("g", "Y", queues(0)) == queues(0)
    assert locks.lock("g", "X", queues(0)) == []


def test_renewal_prolongs_the_life_of_a_lock(locks: QueueLocks, clock: FakeClock) -> None:
    locks.lock("g", "X", queues(0))
    for _ in range(4):
        clock.advance(LOCK_LIFE_S / 2)
        assert locks.lock("g", "X", queues(0)) == queues(0)
    assert locks.lock("g", "Y", queues(0)) == []


def test_only_the_holder_can_unlock(locks: QueueLocks) -> None:
    """H.13 180, 181"""
    locks.lock("g", "X", queues(0, 1))
    locks.unlock("g", "Y", queues(0, 1))
    assert locks.lock("g", "Y", queues(0)) == []
    locks.unlock("g", "X", queues(0))
    assert locks.lock("g", "Y", queues(0, 1)) == queues(0)


def test_groups_do_not_see_each_others_locks(locks: QueueLocks) -> None:
    locks.lock("g", "X", queues(0))
    assert locks.lock("other", "Y", queues(0)) == queues(0)
    locks.unlock("other", "Y", queues(0))
    assert locks.holds_any("g")
    assert not locks.holds_any("other")


def test_queue_named_twice_is_locked_once(locks: QueueLocks) -> None:
    assert locks.lock("g", "X", queues(0, 0)) == queues(0)


def test_unlock_of_what_nobody_locked_does_nothing(locks: QueueLocks) -> None:
    locks.unlock("g", "X", queues(0))
    assert locks.lock("g", "Y", queues(0)) == queues(0)


def test_scan_forgets_what_has_expired_and_nothing_else(locks: QueueLocks, clock: FakeClock) -> None:
    locks.lock("gone", "X", queues(0))
    clock.advance(LOCK_LIFE_S)
    locks.lock("here", "X", queues(0))
    clock.advance(1)
    locks.scan()
    assert (locks.holds_any("gone"), locks.holds_any("here")) == (False, True)
    assert locks.lock("here", "Y", queues(0)) == []


def test_number_of_locks_is_bounded_and_those_that_are_held_can_be_renewed(
    locks: QueueLocks, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketline.broker.locks.LOCKS_MAX", 3)
    assert locks.lock("g", "X", queues(0, 1)) == queues(0, 1)
    assert locks.lock("made-up", "X", queues(0, 1)) == queues(0)
    assert locks.lock("g", "X", queues(0, 1, 2)) == queues(0, 1)
    assert locks.lock("other", "X", queues(0)) == []
    locks.unlock("g", "X", queues(1))
    assert locks.lock("other", "X", queues(0)) == queues(0)
    clock.advance(LOCK_LIFE_S + 1)
    locks.scan()
    assert locks.lock("g", "X", queues(0, 1, 2)) == queues(0, 1, 2)


def test_name_that_no_queue_can_have_is_not_locked(locks: QueueLocks) -> None:
    assert locks.lock("g", "X", [MessageQueue("T" * 10_000, "B", 0), *queues(0)]) == queues(0)
