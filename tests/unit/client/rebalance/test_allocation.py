from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.client.rebalance.allocation import (
    AllocationStrategy,
    Averagely,
    AveragelyByCircle,
    Configured,
    ConsistentHash,
    MachineRooms,
    NearestMachineRoom,
    in_java_order,
    queues_in_java_order,
)
from rocketline.model.queue import MessageQueue
from support.clients import allocations

DATA = Path(__file__).parents[3] / "data" / "allocations-5.5.0.jsonl"
THREE = ["c1", "c2", "c3"]


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("T", broker, number) for number in range(count)]


def shares(strategy: AllocationStrategy, count: int, clients: list[str]) -> list[list[int]]:
    return [[queue.queue_id for queue in strategy.allocate("g", one, queues(count), clients)] for one in clients]


def test_eight_queues_for_three_members_are_three_three_and_two_neighbours() -> None:
    """C132."""
    assert shares(Averagely(), 8, THREE) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_two_queues_for_five_members_go_to_the_first_two() -> None:
    """C133."""
    assert shares(Averagely(), 2, ["a", "b", "c", "d", "e"]) == [[0], [1], [], [], []]


def test_by_circle_the_first_of_three_members_gets_every_third_queue() -> None:
    """C134."""
    assert shares(AveragelyByCircle(), 8, THREE) == [[0, 3, 6], [1, 4, 7], [2, 5]]


def recorded() -> Iterator[Any]:
    for number, line in enumerate(DATA.read_text("utf-8").splitlines()):
        case = json.loads(line)
        yield pytest.param(case, id=f"{number}-{case['strategy']}")


@pytest.mark.parametrize("case", list(recorded()))
def test_every_strategy_shares_out_as_the_java_client_does(case: dict[str, Any]) -> None:
    """C135, and the same for the other strategies: members in Java and members of ours must agree."""
    found = allocations.allocate(case["strategy"], case["client"], case["clients"], case["queues"])
    assert found == case["allocated"]


def nearest_room() -> NearestMachineRoom:
    return NearestMachineRoom(
        Averagely(), lambda queue: allocations.room_of_name(queue.broker_name), allocations.room_of_name
    )


def test_room_without_members_has_its_queues_shared_by_all() -> None:
    """C136."""
    both = [*queues(2, "east@b"), *queues(2, "west@b")]
    strategy = nearest_room()
    with_west = ["east@c1", "west@c2"]
    assert list(strategy.allocate("g", "east@c1", both, with_west)) == queues(2, "east@b")
    assert list(strategy.allocate("g", "west@c2", both, with_west)) == queues(2, "west@b")
    without_west = ["east@c1", "east@c3"]
    assert list(strategy.allocate("g", "east@c1", both, without_west)) == [both[0], both[2]]
    assert list(strategy.allocate("g", "east@c3", both, without_west)) == [both[1], both[3]]


def test_member_without_a_room_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="nowhere is in no machine room"):
        nearest_room().allocate("g", "east@c", queues(1, "east@b"), ["east@c", "nowhere"])


def test_configured_queues_are_given_whoever_else_there_is() -> None:
    assert Configured(queues(2)).allocate("g", "", [], []) == queues(2)


@pytest.mark.parametrize("strategy", allocations.STRATEGIES, ids=lambda strategy: strategy.name)
def test_stranger_gets_nothing_and_missing_facts_are_refused(strategy: AllocationStrategy) -> None:
    assert list(strategy.allocate("g", "stranger", queues(4), THREE)) == []
    for client, given_queues, clients in [("", queues(1), THREE), ("c1", [], THREE), ("c1", queues(1), [])]:
        with pytest.raises(ValueError, match="to share queues out by"):
            strategy.allocate("g", client, given_queues, clients)


def test_names_are_those_that_java_uses() -> None:
    names = [strategy.name for strategy in (*allocations.STRATEGIES, Configured([]))]
    assert names == [
        "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY-AVG", "CONFIG",
    ]  # fmt: skip


def test_machine_rooms_ignore_brokers_with_other_names() -> None:
    named = [MessageQueue("T", name, 0) for name in ("r1@b", "r2@b", "r1", "r1@b@c", "r1@b@", "@b")]
    assert [queue.broker_name for queue in MachineRooms({"r1"}).allocate("g", "c", named, ["c"])] == ["r1@b", "r1@b@"]


def test_consistent_hash_without_places_gives_nobody_anything() -> None:
    assert list(ConsistentHash(virtual_nodes=0).allocate("g", "c1", queues(4), THREE)) == []
    with pytest.raises(ValueError, match="virtual_nodes is -1"):
        ConsistentHash(virtual_nodes=-1)


def test_consistent_hash_takes_another_function() -> None:
    strategy = ConsistentHash(virtual_nodes=1, hash_of=len)
    assert list(strategy.allocate("g", "longer", queues(2), ["c", "longer"])) == [], "keys wrap round to the shortest"
    assert list(strategy.allocate("g", "c", queues(2), ["c", "longer"])) == queues(2)


def test_order_is_that_of_utf16_units() -> None:
    """Java puts an emoji, which is two surrogates, before U+FF5E; by code points it is the other way round."""
    assert in_java_order(["\uff5e", "\U0001f600", "a"]) == ["a", "\U0001f600", "\uff5e"]
    by_broker = [MessageQueue("T", "\uff5e", 0), MessageQueue("T", "\U0001f600", 3), MessageQueue("A", "z", 1)]
    assert queues_in_java_order(by_broker) == [by_broker[2], by_broker[1], by_broker[0]]


@given(st.integers(1, 40), st.sets(st.text("abcxyz@#", min_size=1), min_size=1, max_size=9))
@pytest.mark.parametrize("strategy", [Averagely(), AveragelyByCircle(), ConsistentHash()], ids=lambda one: one.name)
def test_every_queue_goes_to_exactly_one_member(strategy: AllocationStrategy, count: int, members: set[str]) -> None:
    clients = in_java_order(members)
    given_out = [queue for client in clients for queue in strategy.allocate("g", client, queues(count), clients)]
    assert sorted(given_out) == queues(count)
