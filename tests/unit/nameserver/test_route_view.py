"""Routes as they are shown: acting masters and zones."""

from __future__ import annotations

from rocketline.model.route import BrokerData, QueueData, TopicRouteData
from rocketline.nameserver.route_view import in_zone, with_acting_masters


def route(*brokers: BrokerData, perm: int = 4, filters: dict[str, list[str]] | None = None) -> TopicRouteData:
    return TopicRouteData([QueueData(b.broker_name, 4, 4, perm) for b in brokers], list(brokers), filters or {})


ACTING = BrokerData("C", "B", {2: "s2", 1: "s1"}, enable_acting_master=True)


def test_smallest_slave_shows_as_master_if_the_topic_is_read_only() -> None:
    shown = with_acting_masters("T", route(ACTING))
    assert shown.broker_datas[0].broker_addrs == {0: "s1", 2: "s2"}
    assert ACTING.broker_addrs == {2: "s2", 1: "s1"}, "the table's own value must not change"


def test_slave_stays_a_slave_if_the_topic_is_writable() -> None:
    assert with_acting_masters("T", route(ACTING, perm=6)) == route(ACTING, perm=6)


def test_slave_stays_a_slave_if_acting_is_off_or_a_master_is_there_or_nobody_is() -> None:
    off = BrokerData("C", "off", {1: "s1"})
    whole = BrokerData("C", "whole", {0: "m", 1: "s"}, enable_acting_master=True)
    empty = BrokerData("C", "empty", {}, enable_acting_master=True)
    given = route(off, whole, empty)
    assert with_acting_masters("T", given) == given
    shown = with_acting_masters("T", route(off, whole, empty, ACTING))
    assert shown.broker_datas[:3] == [off, whole, empty]
    assert 0 in shown.broker_datas[3].broker_addrs


def test_topic_that_synchronises_members_shows_them_as_they_are() -> None:
    assert with_acting_masters("rmq_sys_SYNC_BROKER_MEMBER_B", route(ACTING)) == route(ACTING)


def test_zone_hides_brokers_of_other_zones_with_queues_and_filter_servers() -> None:
    near = BrokerData("C", "near", {0: "a"}, zone_name="Zone1")
    far = BrokerData("C", "far", {0: "b", 1: "c"}, zone_name="zone2")
    nowhere = BrokerData("C", "nowhere", {0: "d"})
    masterless = BrokerData("C", "masterless", {1: "e"}, zone_name="zone2")
    filters = {address: [f"f-{address}"] for address in "abcde"}
    shown = in_zone(route(near, far, nowhere, masterless, filters=filters), "zONE1")
    assert shown == route(near, masterless, filters={"a": ["f-a"], "e": ["f-e"]})


def test_zone_of_nobody_hides_everything() -> None:
    assert in_zone(route(BrokerData("C", "B", {0: "a"}, zone_name="z")), "other") == TopicRouteData()
