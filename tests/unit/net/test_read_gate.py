"""The gate's states: every way from each, and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketline.net.read_gate import GateState, ReadGate


def gate_in(state: GateState, *, is_full: bool = False) -> ReadGate:
    gate = ReadGate(2)
    if state is GateState.HOLDING:
        gate.hold()
    elif state is GateState.YIELDED:
        assert gate.end_turn()
    elif state is GateState.CLOSED:
        gate.close()
    gate.unanswered = 2 if is_full else 1
    assert gate.state is state
    return gate


OPEN, HOLDING, YIELDED, CLOSED = GateState
WAYS: dict[tuple[str, GateState], GateState] = {
    ("hold", OPEN): HOLDING,
    ("end_turn", OPEN): YIELDED,
    ("let_in", HOLDING): YIELDED,
    ("begin_turn", YIELDED): OPEN,
    ("close", OPEN): CLOSED,
    ("close", HOLDING): CLOSED,
    ("close", YIELDED): CLOSED,
}


@pytest.mark.parametrize("state", GateState)
@pytest.mark.parametrize("event", ["hold", "end_turn", "let_in", "begin_turn", "close"])
def test_each_event_leads_where_the_table_says(event: str, state: GateState) -> None:
    gate = gate_in(state)
    happens: Callable[[], bool | None] = getattr(gate, event)
    is_taken = happens()
    assert gate.state is WAYS.get((event, state), state)
    assert is_taken in (None, (event, state) in WAYS)
    assert (gate.is_open, gate.is_closed) == (gate.state is OPEN, gate.state is CLOSED)


def test_held_request_is_let_in_once_there_is_room() -> None:
    gate = gate_in(HOLDING, is_full=True)
    gate.is_write_paused = True
    assert not gate.let_in()
    gate.unanswered -= 1
    assert not gate.let_in()
    gate.is_write_paused = False
    assert gate.let_in()


def test_turn_that_begins_does_not_ask_for_room() -> None:
    """Behind the head of the line may be answers to our own requests: the first request is held again."""
    gate = gate_in(YIELDED, is_full=True)
    assert gate.begin_turn()
