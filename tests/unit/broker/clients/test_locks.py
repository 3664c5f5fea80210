"""Locks of queues: who gets one, for how long, and who can give it back."""

from __future__ import annotations

import pytest

from rocketline.broker.clients.locks import LOCK_LIFE_S, LockTable
from rocketline.model.queue import MessageQueue
from rocketline.testing.fake_clock import FakeClock
from support.long_steps import counted, outcome

HERE, THERE = "one connection", "another"


def queues(*ids: int) -> list[MessageQueue]:
    return [MessageQueue("T", "B", queue_id) for queue_id in ids]


@pytest.fixture
def locks(clock: FakeClock) -> LockTable:
    return LockTable(clock)


def test_second_client_gets_only_what_the_first_does_not_hold(locks: LockTable) -> None:
    """S178."""
    assert locks.lock(HERE, "g", "X", queues(0, 1, 2, 3)) == queues(0, 1, 2, 3)
    assert locks.lock(HERE, "g", "Y", queues(2, 3, 4, 5)) == queues(4, 5)


def test_lock_that_is_not_renewed_for_a_minute_can_be_taken_over(locks: LockTable, clock: FakeClock) -> None:
    """S179."""
    locks.lock(HERE, "g", "X", queues(0))
    clock.advance(LOCK_LIFE_S)
    assert locks.lock(HERE, "g", "Y", queues(0)) == []
    clock.advance(0.001)
    assert not locks.holds_any("g")
    assert locks.lock(HERE, "g", "Y", queues(0)) == queues(0)
    assert locks.lock(HERE, "g", "X", queues(0)) == []


def test_renewal_prolongs_the_life_of_a_lock(locks: LockTable, clock: FakeClock) -> None:
    locks.lock(HERE, "g", "X", queues(0))
    for _ in range(4):
        clock.advance(LOCK_LIFE_S / 2)
        assert locks.lock(HERE, "g", "X", queues(0)) == queues(0)
    assert locks.lock(HERE, "g", "Y", queues(0)) == []


def test_only_the_holder_can_unlock(locks: LockTable) -> None:
    """S180, 181"""
    locks.lock(HERE, "g", "X", queues(0, 1))
    locks.unlock("g", "Y", queues(0, 1))
    assert locks.lock(HERE, "g", "Y", queues(0)) == []
    locks.unlock("g", "X", queues(0))
    assert locks.lock(HERE, "g", "Y", queues(0, 1)) == queues(0)


def test_groups_do_not_see_each_others_locks(locks: LockTable) -> None:
    locks.lock(HERE, "g", "X", queues(0))
    assert locks.lock(HERE, "other", "Y", queues(0)) == queues(0)
    locks.unlock("other", "Y", queues(0))
    assert locks.holds_any("g")
    assert not locks.holds_any("other")


def test_queue_named_twice_is_locked_once(locks: LockTable) -> None:
    assert locks.lock(HERE, "g", "X", queues(0, 0)) == queues(0)


def test_unlock_of_what_nobody_locked_does_nothing(locks: LockTable) -> None:
    locks.unlock("g", "X", queues(0))
    assert locks.lock(HERE, "g", "Y", queues(0)) == queues(0)


def test_scan_forgets_what_has_expired_and_nothing_else(locks: LockTable, clock: FakeClock) -> None:
    locks.lock(HERE, "gone", "X", queues(0))
    clock.advance(LOCK_LIFE_S)
    locks.lock(HERE, "here", "X", queues(0))
    clock.advance(1)
    outcome(locks.scan())
    assert (locks.holds_any("gone"), locks.holds_any("here")) == (False, True)
    assert locks.lock(HERE, "here", "Y", queues(0)) == []


def test_number_of_locks_is_bounded_and_those_that_are_held_can_be_renewed(
    locks: LockTable, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketline.broker.clients.locks.LOCKS_MAX", 3)
    assert locks.lock(HERE, "g", "X", queues(0, 1)) == queues(0, 1)
    assert locks.lock(HERE, "made-up", "X", queues(0, 1)) == queues(0)
    assert locks.lock(HERE, "g", "X", queues(0, 1, 2)) == queues(0, 1)
    assert locks.lock(HERE, "other", "X", queues(0)) == []
    locks.unlock("g", "X", queues(1))
    assert locks.lock(HERE, "other", "X", queues(0)) == queues(0)
    clock.advance(LOCK_LIFE_S + 1)
    outcome(locks.scan())
    assert locks.lock(HERE, "g", "X", queues(0, 1, 2)) == queues(0, 1, 2)


def test_name_that_no_queue_can_have_is_not_locked(locks: LockTable) -> None:
    assert locks.lock(HERE, "g", "X", [MessageQueue("T" * 10_000, "B", 0), *queues(0)]) == queues(0)


def test_one_connection_gets_a_share_and_renews_it_whoever_came_since(
    locks: LockTable, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketline.broker.clients.locks.LOCKS_OF_ONE_MAX", 2)
    assert locks.lock(HERE, "g", "X", queues(0, 1, 2)) == queues(0, 1)
    assert locks.lock(THERE, "g", "Y", queues(2)) == queues(2)
    assert locks.lock(HERE, "g", "X", queues(0, 1)) == queues(0, 1)
    assert locks.lock(THERE, "g", "X", queues(0)) == queues(0), "its client connected anew"
    assert locks.lock(HERE, "g", "X", queues(3)) == queues(3)
    assert locks.lock(THERE, "g", "Y", queues(4)) == []
    clock.advance(LOCK_LIFE_S + 1)
    outcome(locks.scan())
    assert locks.lock(THERE, "g", "Y", queues(4, 5, 6)) == queues(4, 5)


def test_thousands_are_scanned_in_steps_and_those_renewed_meanwhile_stay(locks: LockTable, clock: FakeClock) -> None:
    locks.lock(HERE, "g", "X", queues(*range(5_000)))
    clock.advance(LOCK_LIFE_S + 1)
    steps = locks.scan()
    next(steps)
    locks.lock(HERE, "g", "X", queues(4_999))
    _, pauses = counted(steps)
    assert pauses == 1
    assert locks.lock(THERE, "g", "Y", queues(4_998, 4_999)) == queues(4_998)
