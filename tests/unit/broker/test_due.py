"""Things that are due at a moment."""

from __future__ import annotations

from rocketline.broker.due import Due


def test_things_come_when_they_are_due_and_once() -> None:
    due: Due[str] = Due()
    for tick, thing in ((5, "later"), (3, "soon"), (3, "too")):
        due.add(tick, thing)
    assert (due.has_any(2), due.next(2)) == (False, None)
    assert {due.next(4), due.next(4)} == {"soon", "too"}
    assert due.next(4) is None
    assert (due.has_any(5), due.next(5), due.next(5)) == (True, "later", None)


def test_what_is_settled_before_does_not_come() -> None:
    due: Due[str] = Due()
    due.add(3, "settled")
    due.add(4, "stays")
    due.discard(3, "settled")
    due.discard(9, "never there")
    assert (due.has_any(3), due.next(9), due.next(9)) == (False, "stays", None)


def test_those_that_come_and_go_leave_nothing() -> None:
    due: Due[int] = Due()
    due.add(10**9, -1)
    for tick in range(10_000):
        due.add(10**6 + tick, tick)
        due.discard(10**6 + tick, tick)
    assert (len(due._at), len(due._ticks) < 100) == (1, True)
    assert due.next(10**9) == -1
