"""Work on many topics is done in steps, and no step has more than its share: counted, not timed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.model.route import QueueData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.nameserver.registration import BrokerRegistration
from rocketline.nameserver.route_table import RouteTable
from rocketline.wire.bodies import RegisterBrokerBody, encode_register_body, read_register_body
from rocketline.wire.bodies.topics import TopicConfigTable
from support.long_steps import counted, outcome

MANY = 20_000


@pytest.fixture(scope="module")
def table() -> RouteTable:
    offers = {f"T{number}": QueueData("B", 1, 1, 6) for number in range(MANY)}
    table = RouteTable()
    table.register(BrokerRegistration(cluster="C", broker_name="B", broker_id=0, address="a", offers=offers), "x", 0)
    return table


@pytest.mark.parametrize("compressed", [False, True])
def test_registration_is_read_in_steps(compressed: bool) -> None:
    topics = {f"T{number}": TopicConfig(f"T{number}", 1, 1) for number in range(5000)}
    body = RegisterBrokerBody(TopicConfigTable(DataVersion(1), topic_config_table=topics))
    data = encode_register_body(body, compressed=compressed)
    read, pauses = counted(read_register_body(data, compressed=compressed, version=513))
    assert read == body
    assert pauses + 1 >= len(topics) / 64
    with pytest.raises(RemoteProtocolError, match="4999 are read"):
        counted(read_register_body(data, compressed=compressed, version=513, topics_max=4999))


def test_permissions_are_changed_in_steps(table: RouteTable) -> None:
    for work in (table.wipe_write_perm("B"), table.add_write_perm("B")):
        count, pauses = counted(work)
        assert (count, pauses + 1 >= MANY / 500) == (MANY, True)


def test_topics_are_chosen_in_steps(table: RouteTable) -> None:
    for work in (table.topics_of_cluster("C"), table.topics_with_sys_flag(present=0)):
        chosen, pauses = counted(work)
        assert (len(chosen), pauses + 1 >= MANY / 4000) == (MANY, True)


def test_list_is_made_when_its_turn_has_come(table: RouteTable) -> None:
    """What only waits takes no memory: the first step makes nothing."""
    for steps in (table.listed(), table.topics_of_cluster("C")):
        next(steps)
        table.register_topic("late", [QueueData("B", 1, 1, 6)])
        assert "late" in outcome(steps)
        table.delete_topic("late")


def test_who_leaves_costs_what_he_had(table: RouteTable) -> None:
    """A small broker that comes and goes beside a large one looks at none of the other's topics."""
    small = BrokerRegistration(
        cluster="C",
        broker_name="S",
        broker_id=0,
        address="s",
        offers={"T1": QueueData("S", 1, 1, 6), "U": QueueData("S", 1, 1, 6)},
    )
    looked_at: list[str] = []

    class Watched(dict[str, dict[str, QueueData]]):
        def __getitem__(self, topic: str) -> dict[str, QueueData]:
            looked_at.append(topic)
            return super().__getitem__(topic)

        def get(self, topic: str, default: Any = None) -> Any:
            looked_at.append(topic)
            return super().get(topic, default)

        def __iter__(self) -> Iterator[str]:
            for topic in super().__iter__():
                looked_at.append(topic)
                yield topic

    table._topics = Watched(table._topics)
    table.register(small, "y", 0)
    assert (table.offer_count("S"), table.offer_count("B"), table.offer_total) == (2, MANY, MANY + 2)
    looked_at.clear()
    table.unregister(table.live.registered_over("y"))
    assert (table.offer_count("S"), table.offer_total) == (0, MANY)
    while table.sweep():
        pass
    assert set(looked_at) == {"T1", "U"}
    assert table.route("U") is None


def test_registration_is_taken_in_by_steps_and_ends_when_the_broker_leaves() -> None:
    offers = {f"T{number}": QueueData("B", 1, 1, 6) for number in range(5000)}
    broker = BrokerRegistration(cluster="C", broker_name="B", broker_id=0, address="a", offers=offers)
    table = RouteTable()
    _, pauses = counted(table.registering(broker, "x", 0))
    assert (table.offer_total, pauses + 1 >= 5000 / 500) == (5000, True)
    table = RouteTable()
    work = table.registering(broker, "x", 0)
    next(work)
    assert 0 < table.offer_total < 5000
    table.unregister(table.live.registered_over("x"))
    counted(work)
    assert (table.offer_total, table.topics(), table.brokers(), table.clusters()) == (0, [], {}, {})


def read_in_steps(data: bytes, *, compressed: bool) -> int:
    return counted(read_register_body(data, compressed=compressed, version=513))[1] + 1


@pytest.mark.parametrize("compressed", [False, True])
def test_step_of_long_topics_ends_sooner(compressed: bool) -> None:
    attributes = {f"a{number}": "x" * 50 for number in range(50)}
    topics = {f"T{number}": TopicConfig(f"T{number}", 1, 1, attributes=attributes) for number in range(64)}
    body = RegisterBrokerBody(TopicConfigTable(DataVersion(1), topic_config_table=topics))
    characters = len(encode_register_body(body, compressed=False))
    steps = read_in_steps(encode_register_body(body, compressed=compressed), compressed=compressed)
    assert steps >= characters / 16_384


def test_compressed_part_that_would_take_long_is_refused() -> None:
    """A few hundred bytes that repeat stand for very many."""
    topics = {"T": TopicConfig("T", 1, 1, attributes={"a": "x" * 5000})}
    data = encode_register_body(
        RegisterBrokerBody(TopicConfigTable(DataVersion(1), topic_config_table=topics)), compressed=True
    )
    assert len(data) < 1000
    with pytest.raises(RemoteProtocolError, match="at most 4096 are read"):
        read_in_steps(data, compressed=True)
    body = RegisterBrokerBody(filter_server_list=["f" * 100] * 1000)
    with pytest.raises(RemoteProtocolError, match="at most 65536 are read"):
        read_in_steps(encode_register_body(body, compressed=True), compressed=True)
