"""Which brokers are meant by a name, an address, a cluster or nothing."""

from __future__ import annotations

import pytest

from rocketline.admin.placement import choose, clusters, holders
from rocketline.errors import BrokerNotFoundError
from rocketline.model.route import BrokerData, QueueData, TopicRouteData
from rocketline.wire.bodies.routes import ClusterInfo

INFO = ClusterInfo(
    {
        "b": BrokerData("east", "b", {0: "h:2"}),
        "a": BrokerData("east", "a", {1: "h:11", 0: "h:1"}),
        "w": BrokerData("west", "w", {0: "h:3"}),
        "orphan": BrokerData("west", "orphan", {1: "h:44"}),
    },
    {"west": ["w", "orphan", "unknown"], "east": ["b", "a"]},
)


def test_clusters_list_their_brokers_by_name_masters_first() -> None:
    assert [(each.name, [broker.address for broker in each.brokers]) for each in clusters(INFO)] == [
        ("east", ["h:1", "h:11", "h:2"]),
        ("west", ["h:44", "h:3"]),
    ]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["h:1", "h:2", "h:3"]),
        ({"cluster": "east"}, ["h:1", "h:2"]),
        ({"broker": "a"}, ["h:1"]),
        ({"broker": "h:11"}, ["h:11"]),
        ({"broker": "a", "with_slaves": True}, ["h:1", "h:11"]),
        ({"cluster": "west", "with_slaves": True}, ["h:44", "h:3"]),
    ],
)
def test_brokers_are_masters_unless_an_address_or_slaves_are_wanted(wanted: dict[str, str], found: list[str]) -> None:
    assert [broker.address for broker in choose(INFO, **wanted)] == found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("info", "wanted", "problem"),
    [
        (INFO, {"broker": "z"}, "'z' has no address: clusters east, west have the brokers a, b, orphan, w"),
        (INFO, {"cluster": "north"}, "'any of cluster north'"),
        (INFO, {"cluster": "west", "broker": "a"}, "'a'"),
        (INFO, {"broker": "orphan"}, "'orphan'"),
        (ClusterInfo(), {}, "no broker is registered with the name server"),
    ],
)
def test_nobody_found_says_who_is_there(info: ClusterInfo, wanted: dict[str, str], problem: str) -> None:
    with pytest.raises(BrokerNotFoundError, match=problem):
        choose(info, **wanted)  # type: ignore[arg-type]


def test_holders_of_a_topic_are_the_masters_of_its_route() -> None:
    route = TopicRouteData([QueueData("a", 1, 1, 6)], [INFO.broker_addr_table["b"], INFO.broker_addr_table["a"]])
    assert [broker.address for broker in holders(route)] == ["h:1", "h:2"]
    assert [broker.address for broker in holders(route, with_slaves=True)] == ["h:1", "h:11", "h:2"]
