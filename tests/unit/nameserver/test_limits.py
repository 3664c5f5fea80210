from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rocketline.model.queue import QUEUES_MAX
from rocketline.model.route import QueueData, TopicQueueMappingInfo
from rocketline.model.topic_config import DataVersion
from rocketline.nameserver import limits
from rocketline.nameserver.registration import BrokerRegistration
from rocketline.nameserver.route_table import RouteTable


def broker(name: str = "B", topics: int = 0, **fields: Any) -> BrokerRegistration:
    offers = {f"T{number}": QueueData(name, 1, 1, 6) for number in range(topics)}
    given: dict[str, Any] = {"cluster": "C", "broker_id": 0, "address": f"{name}:1", **fields}
    return BrokerRegistration(broker_name=name, offers=offers, **given)


@pytest.mark.parametrize("queues", [-1, QUEUES_MAX + 1, 2**31 - 1])
def test_topic_with_impossible_numbers_of_queues_is_doubted(queues: int) -> None:
    for offer in (QueueData("B", queues, 1, 6), QueueData("B", 1, queues, 6)):
        assert str(queues) in limits.doubt("T", offer)


def test_what_clusters_have_is_taken_in() -> None:
    assert limits.doubt("T" * 127, QueueData("B", QUEUES_MAX, 0, 6)) == ""
    assert limits.problem(RouteTable(), broker(topics=limits.TOLD_MAX), "x") == ""


def test_long_names_are_refused() -> None:
    assert "300 characters" in limits.doubt("T" * 300, QueueData("B", 1, 1, 6))
    for name in ("cluster", "address", "zone_name", "ha_address"):
        fields: dict[str, Any] = {name: "x" * 300}
        assert "255" in limits.problem(RouteTable(), broker(**fields), "x")


def test_each_bound_has_its_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BROKERS_MAX", "ADDRESSES_MAX", "LIVE_MAX", "CONNECTION_LIVE_MAX"):
        monkeypatch.setattr(limits, name, 2)
    table = RouteTable()
    for number, name in enumerate(("A", "A", "B")):
        known = broker(name, broker_id=number, address=f"{name}:{number}")
        if limits.problem(table, known, number) == "":
            table.register(known, number, 0)
    assert "2 brokers are registered" in limits.problem(table, broker("B"), "x")
    monkeypatch.setattr(limits, "LIVE_MAX", 9)
    assert "has 2 addresses" in limits.problem(table, broker("A", broker_id=7, address="A:7"), "x")
    table.register(broker("B"), "x", 0)
    assert "2 broker names" in limits.problem(table, broker("C"), "x")
    monkeypatch.setattr(limits, "BROKERS_MAX", 9)
    table.register(broker("C"), "x", 0)
    assert "over this connection" in limits.problem(table, broker("D"), "x")
    assert limits.problem(table, broker("C"), "x") == "", "one that is known comes again"


def test_topics_of_one_broker_and_of_all_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS_MAX", 10)
    monkeypatch.setattr(limits, "OFFERS_MAX", 15)
    table = RouteTable()
    assert "more than 10 topics" in limits.problem(table, broker("A", 11), "x")
    table.register(broker("A", 10), "x", 0)
    assert limits.problem(table, broker("A", 10), "x") == ""
    assert "all brokers together" in limits.problem(table, broker("B", 6), "x")
    assert "more than 10 topics" in limits.topics_problem(table, "A", ("another",)), "one by one is no way round"


def test_mappings_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAPPED_MAX", 10)
    table = RouteTable()
    for number in range(4):
        mapping = TopicQueueMappingInfo(f"S{number}", "B", 4, curr_id_map={0: 0, 1: 1})
        known = broker(mappings={mapping.topic: mapping}, data_version=DataVersion(number))
        assert bool(limits.problem(table, known, "x")) == (number == 3)
        table.register(known, "x", 0)


def test_full_table_takes_in_what_is_known_already(monkeypatch: pytest.MonkeyPatch) -> None:
    table = RouteTable()
    table.register(broker("A", 10), "x", 0)
    monkeypatch.setattr(limits, "OFFERS_MAX", 9)
    monkeypatch.setattr(limits, "TOPICS_MAX", 9)
    assert limits.problem(table, broker("A", 10), "x") == ""
    assert limits.problem(table, broker("A", 5), "x") == ""
    assert "topics" in limits.problem(table, broker("A", 11), "x")


def test_known_mappings_count_once_and_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAPPED_MAX", 4)
    table = RouteTable()
    mapping = TopicQueueMappingInfo("S", "B", 4, curr_id_map={0: 0, 1: 1})
    known = broker(mappings={"S": mapping})
    for _ in range(2):
        assert limits.problem(table, known, "x") == ""
        table.register(known, "x", 0)
    other = broker("O", mappings={"S": TopicQueueMappingInfo("S", "O", 4, curr_id_map={0: 0, 1: 1})})
    assert "mappings" in limits.problem(table, other, "y")
    table.unregister(table.live.registered_over("x"))
    assert limits.problem(table, other, "y") == ""


def test_topics_that_were_deleted_and_are_kept_with_registrations_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OFFERS_MAX", 15)
    table = RouteTable()
    table.register(broker("A", 10), "x", 0)
    for topic in table.topics():
        table.delete_topic(topic)
    assert "last registrations" in limits.problem(table, broker("B", 10), "x")
    assert limits.problem(table, broker("A", 10), "x") == ""


def test_filter_servers_have_a_bound() -> None:
    many = [f"f{number}" for number in range(limits.FILTER_SERVERS_MAX + 1)]
    assert "17 filter servers" in limits.problem(RouteTable(), broker(filter_servers=many), "x")
    assert "255" in limits.problem(RouteTable(), broker(filter_servers=["f" * 256]), "x")
    assert limits.problem(RouteTable(), broker(filter_servers=many[1:]), "x") == ""


def test_mappings_that_cannot_be_are_doubted() -> None:
    good = TopicQueueMappingInfo("S", "B", 4, curr_id_map={0: 0})
    assert limits.mapping_doubt("B", "S", good) == ""
    assert "not of 'O'" in limits.mapping_doubt("O", "S", good)
    for name in ("topic", "scope"):
        fields: dict[str, Any] = {name: "x" * 256}
        assert "255" in limits.mapping_doubt("B", "S", replace(good, **fields))
    assert "255" in limits.mapping_doubt("B", "x" * 256, good)
    for queues in (-1, 65_537):
        assert str(queues) in limits.mapping_doubt("B", "S", replace(good, total_queues=queues))
        assert str(queues) in limits.mapping_doubt("B", "S", replace(good, curr_id_map={queues: 0}))
