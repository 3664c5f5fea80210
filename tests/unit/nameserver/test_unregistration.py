"""Brokers that wait to be forgotten."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketline.logs import Throttle
from rocketline.model.route import QueueData
from rocketline.nameserver.registration import BrokerRegistration, MinBrokerIdChange, Unregistration
from rocketline.nameserver.route_table import RouteTable
from rocketline.nameserver.unregistration import Unregistrations
from rocketline.testing.fake_clock import FakeClock


class Loop:
    """Keeps what is to be called soon until told to."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.due.append(call)

    def turn(self) -> None:
        due, self.due = self.due, []
        for call in due:
            call()


def gone(broker_id: int) -> Unregistration:
    return Unregistration("C", "B", f"address-{broker_id}")


@pytest.fixture
def table() -> RouteTable:
    table = RouteTable()
    for broker_id in range(3):
        broker = BrokerRegistration(
            cluster="C",
            broker_name="B",
            broker_id=broker_id,
            address=gone(broker_id).address,
            enable_acting_master=True,
        )
        table.register(broker, "connection", 0)
    return table


def make(table: RouteTable, loop: Loop, changes: list[MinBrokerIdChange], capacity: int = 10) -> Unregistrations:
    return Unregistrations(
        table, capacity, call_soon=loop.call_soon, on_change=changes.append, log=Throttle(FakeClock())
    )


def test_all_that_wait_go_in_one_pass_at_the_next_turn(table: RouteTable) -> None:
    loop, changes = Loop(), list[MinBrokerIdChange]()
    unregistrations = make(table, loop, changes)
    assert unregistrations.submit(gone(0))
    assert unregistrations.submit(gone(1))
    assert len(loop.due) == 1
    assert len(table.member_addresses("B")) == 3
    loop.turn()
    assert table.member_addresses("B") == {2: "address-2"}
    assert [change.min_broker_id for change in changes] == [2], "one notice for the outcome, none in between"


def test_next_one_after_a_pass_asks_for_another_turn(table: RouteTable) -> None:
    loop = Loop()
    unregistrations = make(table, loop, [])
    for broker_id in range(2):
        unregistrations.submit(gone(broker_id))
        loop.turn()
    assert table.member_addresses("B") == {2: "address-2"}
    assert loop.due == []


def test_peers_are_refused_at_the_bound_but_what_waits_may_be_asked_again(table: RouteTable) -> None:
    loop = Loop()
    unregistrations = make(table, loop, [], capacity=1)
    assert [unregistrations.submit(gone(i)) for i in (0, 0, 1)] == [True, True, False]
    loop.turn()
    assert unregistrations.submit(gone(1))


def test_what_we_found_out_ourselves_is_never_refused(table: RouteTable) -> None:
    loop = Loop()
    unregistrations = make(table, loop, [], capacity=1)
    unregistrations.add([gone(0), gone(1), gone(2)])
    loop.turn()
    assert table.brokers() == {}


def test_nothing_to_add_asks_for_no_turn(table: RouteTable) -> None:
    loop = Loop()
    make(table, loop, []).add([])
    assert loop.due == []


def test_apply_before_the_turn_leaves_nothing_for_it(table: RouteTable) -> None:
    loop = Loop()
    unregistrations = make(table, loop, [])
    unregistrations.submit(gone(0))
    unregistrations.apply()
    version = table.version
    loop.turn()
    assert table.version == version


def test_what_left_is_taken_out_some_in_each_turn() -> None:
    table, loop = RouteTable(), Loop()
    offers = {f"T{number}": QueueData("B", 1, 1, 6) for number in range(2000)}
    table.register(BrokerRegistration(cluster="C", broker_name="B", broker_id=0, address="a", offers=offers), "x", 0)
    unregistrations = make(table, loop, [])
    unregistrations.submit(Unregistration("C", "B", "a"))
    loop.turn()
    assert (table.brokers(), table.topics()) == ({}, [])
    turns = 0
    while loop.due:
        before = table.topic_count
        assert len(loop.due) == 1
        loop.turn()
        assert before - table.topic_count <= 500
        turns += 1
    assert (table.topic_count, turns) == (0, 4)
