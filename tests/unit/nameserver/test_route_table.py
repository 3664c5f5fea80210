"""The tables on their own: every step of a registration, of leaving, of changing permissions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rocketline.model.route import BrokerData, QueueData, TopicQueueMappingInfo, TopicRouteData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.nameserver.registration import BrokerRegistration, MinBrokerIdChange, Registered, Unregistration, offer
from rocketline.nameserver.route_table import RouteTable
from support.long_steps import outcome

MASTER, SLAVE, OTHER = "127.0.0.1:10911", "127.0.0.1:10921", "127.0.0.1:10931"
CONNECTION = "connection"


def topics(*names: str, **fields: Any) -> dict[str, TopicConfig]:
    return {name: TopicConfig(name, **{"read_queue_nums": 4, "write_queue_nums": 4, **fields}) for name in names}


def broker(broker_id: int = 0, address: str = MASTER, **fields: Any) -> BrokerRegistration:
    given: dict[str, Any] = {"cluster": "C", "broker_name": "B", "ha_address": f"ha-{address}", **fields}
    offered = given.pop("topics", {}).values()
    given["offers"] = {topic.topic_name: offer(given["broker_name"], topic) for topic in offered}
    given["is_increment"] = len(given["offers"]) == 1
    return BrokerRegistration(broker_id=broker_id, address=address, **given)


def version(counter: int = 1, state_version: int = 0) -> DataVersion:
    return DataVersion(counter, state_version, 1_700_000_000_000)


def table_of(*brokers: BrokerRegistration) -> RouteTable:
    """A table in which each broker registered over a connection that is named like its address."""
    table = RouteTable()
    for one in brokers:
        assert table.register(one, one.address, 0) is not None
    return table


def route_of(table: RouteTable, topic: str) -> TopicRouteData:
    route = table.route(topic)
    assert route is not None
    return route


def perm_of(table: RouteTable, topic: str, broker_name: str = "B") -> int:
    return next(q.perm for q in route_of(table, topic).queue_datas if q.broker_name == broker_name)


class TestRegistration:
    def test_master_with_topics_is_answered_with_nothing_and_shows_in_the_route(self) -> None:
        table = RouteTable()
        assert table.register(broker(topics=topics("T1", "T2")), CONNECTION, 0) == Registered()
        assert route_of(table, "T1") == TopicRouteData([QueueData("B", 4, 4, 6)], [BrokerData("C", "B", {0: MASTER})])
        assert table.clusters() == {"C": ["B"]}

    def test_slave_of_a_live_master_learns_its_addresses(self) -> None:
        table = table_of(broker())
        assert table.register(broker(1, SLAVE), CONNECTION, 0) == Registered(MASTER, f"ha-{MASTER}")

    def test_slave_of_a_master_in_another_cluster_learns_nothing(self) -> None:
        table = table_of(broker(cluster="other"))
        assert table.register(broker(1, SLAVE), CONNECTION, 0) == Registered()

    def test_topics_of_a_slave_beside_its_master_stay_unknown(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2")))
        table.register(broker(1, SLAVE, topics=topics("T1", "Mine"), enable_acting_master=True), CONNECTION, 0)
        assert table.route("Mine") is None

    def test_lone_slave_publishes_without_write_only_as_acting_master(self) -> None:
        for is_acting, perm in ((True, 4), (False, 6)):
            table = table_of(broker(1, SLAVE, topics=topics("T1", "T2"), enable_acting_master=is_acting))
            assert perm_of(table, "T1") == perm

    def test_lone_slave_that_knows_no_acting_master_publishes_nothing(self) -> None:
        assert table_of(broker(1, SLAVE, topics=topics("T1", "T2"))).topics() == []

    def test_second_slave_with_a_greater_id_publishes_nothing(self) -> None:
        table = table_of(broker(1, SLAVE, enable_acting_master=True))
        table.register(broker(2, OTHER, topics=topics("T1", "T2"), enable_acting_master=True), CONNECTION, 0)
        assert table.topics() == []

    def test_address_that_takes_another_id_gives_up_the_first(self) -> None:
        table = table_of(broker(1, SLAVE), broker(0, SLAVE))
        assert table.member_addresses("B") == {0: SLAVE}

    def test_single_topic_of_an_unknown_id_is_refused_and_changes_nothing(self) -> None:
        table = RouteTable()
        assert table.register(broker(topics=topics("T")), CONNECTION, 0) is None
        assert table.route("T") is None
        assert (table.brokers(), table.clusters(), table.version) == ({}, {}, 0)
        assert table.live.get(("C", MASTER)) is None

    def test_single_topic_of_a_known_id_is_an_increment(self) -> None:
        table = table_of(broker(), broker(topics=topics("T"), data_version=version(2)))
        assert table.topics() == ["T"]

    def test_single_topic_under_a_new_id_is_refused_though_the_address_was_known(self) -> None:
        table = table_of(broker(1, SLAVE))
        assert table.register(broker(0, SLAVE, topics=topics("T")), CONNECTION, 0) is None
        assert table.member_addresses("B") == {1: SLAVE}

    def test_newcomer_with_smaller_state_version_is_sent_home_without_a_word(self) -> None:
        table = table_of(broker(data_version=version(state_version=2)))
        assert table.register(broker(0, OTHER, data_version=version(9, state_version=1)), CONNECTION, 0) == Registered()
        assert table.member_addresses("B") == {0: MASTER}
        assert table.live.get(("C", OTHER)) is None

    def test_newcomer_with_equal_or_greater_state_version_takes_the_id(self) -> None:
        for state_version in (2, 3):
            table = table_of(broker(data_version=version(state_version=2)))
            table.register(broker(0, OTHER, data_version=version(state_version=state_version)), CONNECTION, 0)
            assert table.member_addresses("B") == {0: OTHER}
            assert table.live.get(("C", MASTER)) is not None

    def test_same_data_version_keeps_queue_counts_and_a_new_one_changes_them(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2"), data_version=version(1)))
        wider = topics("T1", "T2", read_queue_nums=8)
        table.register(broker(topics=wider, data_version=version(1)), CONNECTION, 0)
        assert route_of(table, "T1").queue_datas[0].read_queue_nums == 4
        table.register(broker(topics=wider, data_version=version(2)), CONNECTION, 0)
        assert route_of(table, "T1").queue_datas[0].read_queue_nums == 8

    def test_same_data_version_still_brings_back_a_deleted_topic(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2")))
        table.delete_topic("T1")
        table.register(broker(topics=topics("T1", "T2")), CONNECTION, 0)
        assert perm_of(table, "T1") == 6

    def test_omitted_topic_stays_unless_absent_topics_are_dropped(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2", "T3")))
        fewer = broker(topics=topics("T1", "T2"), data_version=version(2))
        table.register(fewer, CONNECTION, 0)
        assert "T3" in table.topics()
        table.register(fewer, CONNECTION, 0, is_dropping_absent_topics=True)
        assert table.topics() == ["T1", "T2"]

    def test_dropping_absent_topics_spares_other_brokers_and_static_topics(self) -> None:
        table = table_of(
            broker(topics=topics("T1", "T2")), broker(0, OTHER, broker_name="O", topics=topics("T1", "T2"))
        )
        static = broker(topics={}, mappings={"S": TopicQueueMappingInfo("S", "B", 4)})
        table.register(static, CONNECTION, 0, is_dropping_absent_topics=True)
        assert len(route_of(table, "T1").queue_datas) == 2
        table.register(broker(topics={}), CONNECTION, 0, is_dropping_absent_topics=True)
        assert [q.broker_name for q in route_of(table, "T1").queue_datas] == ["O"]

    def test_mapping_of_a_static_topic_is_shown_and_replaced_only_with_a_new_version(self) -> None:
        def static(epoch: int, counter: int) -> BrokerRegistration:
            mapping = TopicQueueMappingInfo("T1", "B", 4, epoch)
            return broker(topics=topics("T1", "T2"), mappings={"T1": mapping}, data_version=version(counter))

        table = table_of(static(epoch=1, counter=1), static(epoch=2, counter=1))
        first = route_of(table, "T1").topic_queue_mapping_by_broker
        assert first == {"B": TopicQueueMappingInfo("T1", "B", 4, 1)}
        table.register(static(epoch=3, counter=2), CONNECTION, 0)
        assert route_of(table, "T1").topic_queue_mapping_by_broker == {"B": TopicQueueMappingInfo("T1", "B", 4, 3)}
        assert first == {"B": TopicQueueMappingInfo("T1", "B", 4, 1)}, "an answer given out must not change"
        assert route_of(table, "T2").topic_queue_mapping_by_broker is None

    def test_filter_servers_are_kept_by_none_replaced_by_some_and_removed_by_an_empty_list(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2"), filter_servers=["f1"]))
        for given, shown in ((None, ["f1"]), (["f2", "f3"], ["f2", "f3"]), ([], None)):
            table.register(broker(filter_servers=given), CONNECTION, 0)
            assert route_of(table, "T1").filter_server_table.get(MASTER) == shown

    def test_zone_and_acting_master_are_overwritten_by_every_registration(self) -> None:
        table = table_of(broker(zone_name="z", enable_acting_master=True), broker())
        assert table.brokers()["B"] == BrokerData("C", "B", {0: MASTER}, False, None)

    def test_broker_name_in_two_clusters_is_one_entry_of_the_first(self) -> None:
        """I5"""
        table = table_of(broker(topics=topics("T1", "T2")), broker(1, OTHER, cluster="D"))
        assert table.brokers()["B"] == BrokerData("C", "B", {0: MASTER, 1: OTHER})
        assert table.clusters() == {"C": ["B"], "D": ["B"]}


class TestNotices:
    def test_smaller_id_is_told_to_all_but_the_newcomer(self) -> None:
        table = table_of(broker(1, SLAVE), broker(2, OTHER))
        registered = table.register(broker(0, MASTER), CONNECTION, 0)
        assert registered is not None
        assert registered.change == MinBrokerIdChange(0, MASTER, None, f"ha-{MASTER}", (SLAVE, OTHER))

    def test_greater_or_first_id_is_told_to_nobody(self) -> None:
        table = RouteTable()
        for one in (broker(1, SLAVE), broker(2, OTHER)):
            registered = table.register(one, CONNECTION, 0)
            assert registered is not None
            assert registered.change is None

    def test_lone_slave_that_becomes_master_is_told_itself(self) -> None:
        registered = table_of(broker(1, SLAVE)).register(broker(0, SLAVE), CONNECTION, 0)
        assert registered is not None
        assert registered.change == MinBrokerIdChange(0, SLAVE, None, f"ha-{SLAVE}", (SLAVE,))

    def test_leaving_master_of_an_acting_group_is_told_to_all_that_remain(self) -> None:
        acting: dict[str, Any] = {"enable_acting_master": True}
        table = table_of(broker(**acting), broker(1, SLAVE, **acting), broker(2, OTHER, **acting))
        changes = table.unregister([Unregistration("C", "B", MASTER)])
        assert changes == [MinBrokerIdChange(1, SLAVE, MASTER, None, (SLAVE, OTHER))]

    def test_leaving_broker_is_told_to_nobody_if_greater_or_without_acting_master_or_unknown(self) -> None:
        acting: dict[str, Any] = {"enable_acting_master": True}
        table = table_of(broker(**acting), broker(1, SLAVE, **acting))
        assert table.unregister([Unregistration("C", "B", SLAVE), Unregistration("C", "B", "127.0.0.1:1")]) == []
        table = table_of(broker(), broker(1, SLAVE))
        assert table.unregister([Unregistration("C", "B", MASTER)]) == []

    def test_group_that_leaves_in_one_batch_is_told_to_nobody(self) -> None:
        acting: dict[str, Any] = {"enable_acting_master": True}
        table = table_of(broker(**acting), broker(1, SLAVE, **acting))
        assert table.unregister([Unregistration("C", "B", MASTER), Unregistration("C", "B", SLAVE)]) == []


class TestUnregistration:
    def test_last_address_takes_topics_broker_and_cluster_with_it(self) -> None:
        """I3, I4"""
        table = table_of(broker(topics=topics("T1", "T2"), filter_servers=["f"]))
        table.unregister([Unregistration("C", "B", MASTER)])
        assert (table.topics(), table.brokers(), table.clusters()) == ([], {}, {})
        assert table.live.expired(10**9) == []

    def test_topic_of_two_brokers_keeps_the_other_one(self) -> None:
        table = table_of(
            broker(topics=topics("T1", "T2")), broker(0, OTHER, broker_name="O", topics=topics("T1", "T2"))
        )
        table.unregister([Unregistration("C", "B", MASTER)])
        assert route_of(table, "T1") == TopicRouteData([QueueData("O", 4, 4, 6)], [BrokerData("C", "O", {0: OTHER})])

    def test_lost_master_clears_the_write_bit_only_with_acting_master(self) -> None:
        for is_acting, perm in ((True, 4), (False, 6)):
            acting: dict[str, Any] = {"enable_acting_master": is_acting, "topics": topics("T1", "T2")}
            table = table_of(broker(**acting), broker(1, SLAVE, **acting))
            table.unregister([Unregistration("C", "B", MASTER)])
            assert (perm_of(table, "T1"), table.member_addresses("B")) == (perm, {1: SLAVE})

    def test_lost_slave_leaves_the_permission_alone(self) -> None:
        acting: dict[str, Any] = {"enable_acting_master": True, "topics": topics("T1", "T2")}
        table = table_of(broker(**acting), broker(1, SLAVE, **acting))
        table.unregister([Unregistration("C", "B", SLAVE)])
        assert perm_of(table, "T1") == 6

    def test_unknown_broker_changes_nothing(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2")))
        before = table.version
        table.unregister([Unregistration("C", "unknown", MASTER + "1"), Unregistration("C", "B", "127.0.0.1:1")])
        assert table.version == before

    def test_shared_broker_name_leaves_both_clusters_with_its_last_address(self) -> None:
        """Apache leaves the name behind in the first cluster."""
        table = table_of(broker(), broker(1, OTHER, cluster="D"))
        table.unregister([Unregistration("C", "B", MASTER)])
        assert table.clusters() == {"C": ["B"], "D": ["B"]}
        table.unregister([Unregistration("D", "B", OTHER)])
        assert table.clusters() == {}


class TestPermissionsAndTopics:
    def test_wipe_clears_the_write_bit_of_every_topic_and_counts_them(self) -> None:
        table = table_of(broker(topics=topics("T1", perm=7) | topics("T2", perm=4)))
        assert outcome(table.wipe_write_perm("B")) == 2
        assert (perm_of(table, "T1"), perm_of(table, "T2")) == (5, 4)

    def test_add_sets_exactly_read_and_write(self) -> None:
        table = table_of(broker(topics=topics("T1", perm=7) | topics("T2", perm=4)))
        assert outcome(table.add_write_perm("B")) == 2
        assert (perm_of(table, "T1"), perm_of(table, "T2")) == (6, 6)

    def test_unknown_broker_has_no_topics_to_change(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2")))
        assert outcome(table.wipe_write_perm("unknown")) == outcome(table.add_write_perm("unknown")) == 0

    def test_wiped_permission_lasts_until_the_data_version_changes(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2")))
        outcome(table.wipe_write_perm("B"))
        table.register(broker(topics=topics("T1", "T2")), CONNECTION, 0)
        assert perm_of(table, "T1") == 4
        table.register(broker(topics=topics("T1", "T2"), data_version=version(2)), CONNECTION, 0)
        assert perm_of(table, "T1") == 6

    def test_delete_in_one_cluster_keeps_the_queues_of_another(self) -> None:
        there = broker(0, OTHER, cluster="D", broker_name="O", topics=topics("T1", "T2"))
        table = table_of(broker(topics=topics("T1", "T2")), there)
        table.delete_topic("T1", "C")
        assert [q.broker_name for q in route_of(table, "T1").queue_datas] == ["O"]
        table.delete_topic("T1", "unknown")
        assert table.route("T1") is not None
        table.delete_topic("T1", "D")
        assert table.topics() == ["T2"]

    def test_delete_without_cluster_drops_the_topic_and_an_unknown_one_is_no_error(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2")))
        for _ in range(2):
            table.delete_topic("T1")
            assert table.topics() == ["T2"]

    def test_registered_topic_needs_known_brokers(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2")))
        mine, unknown = QueueData("B", 8, 8, 6), QueueData("unknown", 8, 8, 6)
        table.register_topic("New", [mine, unknown])
        assert table.route("New") is None
        table.register_topic("New", [])
        assert table.route("New") is None
        table.register_topic("T1", [mine, unknown])
        assert route_of(table, "T1").queue_datas == [mine]
        table.register_topic("T1", [unknown, QueueData("B", 1, 1, 6)])
        assert route_of(table, "T1").queue_datas == [mine]
        table.register_topic("New", [mine])
        assert route_of(table, "New").queue_datas == [mine]


class TestQueries:
    def test_topic_whose_brokers_are_all_unknown_has_no_route(self) -> None:
        assert RouteTable().route("T") is None

    def test_topics_of_a_cluster_are_those_of_its_brokers(self) -> None:
        there = broker(0, OTHER, cluster="D", broker_name="O", topics=topics("T2", "T3"))
        table = table_of(broker(topics=topics("T1", "T2")), there)
        assert outcome(table.topics_of_cluster("C")) == ["T1", "T2"]
        assert outcome(table.topics_of_cluster("D")) == ["T2", "T3"]
        assert outcome(table.topics_of_cluster("unknown")) == []

    def test_topics_by_system_flag_look_at_the_bits_asked_for(self) -> None:
        flags = {f"T{flag}": TopicConfig(f"T{flag}", topic_sys_flag=flag) for flag in range(4)}
        table = table_of(broker(topics=flags))
        assert outcome(table.topics_with_sys_flag(present=1)) == ["T1", "T3"]
        assert outcome(table.topics_with_sys_flag(present=2)) == ["T2", "T3"]
        assert outcome(table.topics_with_sys_flag(present=2, absent=1)) == ["T2"]


class TestVersion:
    def test_registration_that_brings_nothing_new_keeps_the_version(self) -> None:
        full = broker(
            topics=topics("T1", "T2"),
            filter_servers=["f"],
            zone_name="z",
            mappings={"T1": TopicQueueMappingInfo("T1", "B", 4)},
        )
        table = table_of(full)
        before = table.version
        table.register(full, "another connection", 99)
        table.register(replace(full, data_version=version(7)), CONNECTION, 100)
        assert table.version == before

    def test_every_visible_change_changes_the_version(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2")))
        changes: list[Callable[[], object]] = [
            lambda: table.register(broker(1, SLAVE), CONNECTION, 0),
            lambda: table.register(broker(zone_name="z"), CONNECTION, 0),
            lambda: table.register(broker(enable_acting_master=True), CONNECTION, 0),
            lambda: table.register(broker(filter_servers=["f"]), CONNECTION, 0),
            lambda: table.register(broker(filter_servers=[]), CONNECTION, 0),
            lambda: table.register_topic("T3", [QueueData("B", 1, 1, 6)]),
            lambda: outcome(table.wipe_write_perm("B")),
            lambda: outcome(table.add_write_perm("B")),
            lambda: table.delete_topic("T1"),
            lambda: table.unregister([Unregistration("C", "B", SLAVE)]),
            lambda: table.unregister([Unregistration("C", "B", MASTER)]),
        ]
        for number, change in enumerate(changes):
            before = table.version
            change()
            assert table.version != before, f"change {number}"


class TestBoundsOfWhatStays:
    def test_address_that_takes_another_name_leaves_the_first(self) -> None:
        table = RouteTable()
        for number in range(100):
            table.register(broker(broker_name=f"B{number}", topics=topics("T1", "T2")), CONNECTION, 0)
        assert list(table.brokers()) == ["B99"]
        assert table.offer_total == 2
        table.unregister(table.live.registered_over(CONNECTION))
        assert (table.topics(), table.brokers(), table.clusters()) == ([], {}, {})

    def test_members_of_the_name_that_was_left_are_told(self) -> None:
        acting: dict[str, Any] = {"enable_acting_master": True}
        table = table_of(broker(**acting), broker(1, SLAVE, **acting))
        registered = table.register(broker(broker_name="O", **acting), CONNECTION, 0)
        assert registered is not None
        assert registered.left == (MinBrokerIdChange(1, SLAVE, MASTER, None, (SLAVE,)),)

    def test_address_that_was_sent_home_leaves_no_filter_servers(self) -> None:
        table = table_of(broker(0, OTHER, filter_servers=["f"]), broker(data_version=version(state_version=2)))
        table.register(broker(0, OTHER), CONNECTION, 0)
        assert table.live.get(("C", OTHER)) is None
        assert not table._filter_servers

    def test_address_that_was_sent_home_and_has_another_place_still_expires(self) -> None:
        table = table_of(broker(1, OTHER), broker(data_version=version(state_version=2)))
        table.register(broker(0, OTHER), CONNECTION, 0)
        assert table.member_addresses("B") == {1: OTHER, 0: MASTER}
        assert Unregistration("C", "B", OTHER) in [one.unregistration for one in table.live.expired(10**9)]

    def test_unregistration_under_a_wrong_name_leaves_no_address_that_never_expires(self) -> None:
        table = table_of(broker(), broker(0, OTHER, broker_name="O"))
        table.unregister([Unregistration("C", "O", MASTER)])
        assert len(table.live.expired(10**9)) == 2

    def test_cluster_goes_with_its_last_broker_of_a_shared_name(self) -> None:
        table = table_of(broker())
        for number in range(100):
            table.register(broker(1, SLAVE, cluster=f"c{number}"), CONNECTION, 0)
            table.unregister([Unregistration(f"c{number}", "B", SLAVE)])
        assert table.clusters() == {"C": ["B"]}

    def test_cluster_of_a_displaced_address_goes_when_that_is_forgotten(self) -> None:
        table = table_of(broker())
        for number in range(100):
            table.register(broker(1, f"{number}:1", cluster=f"c{number}"), CONNECTION, 0)
        for number in range(99):
            table.forget(Unregistration(f"c{number}", "B", f"{number}:1"))
        assert table.clusters() == {"C": ["B"], "c99": ["B"]}

    def test_mappings_go_with_their_broker(self) -> None:
        static = broker(
            topics=topics("T1", "T2"), mappings={"T1": TopicQueueMappingInfo("T1", "B", 4, curr_id_map={0: 0})}
        )
        table = table_of(static, broker(0, OTHER, broker_name="O", topics=topics("T1", "T2")))
        assert table.mapped == 2
        table.unregister([Unregistration("C", "B", MASTER)])
        assert (table.mapped, route_of(table, "T1").topic_queue_mapping_by_broker) == (0, None)
        table.register(static, CONNECTION, 0)
        assert (table.mapped, [*(route_of(table, "T1").topic_queue_mapping_by_broker or ())]) == (2, ["B"])
        while table.sweep():
            pass
        assert [*(route_of(table, "T1").topic_queue_mapping_by_broker or ())] == ["B"]

    def test_topics_of_a_slave_beside_its_master_are_not_kept(self) -> None:
        table = table_of(broker(topics=topics("T1", "T2")))
        table.register(broker(1, SLAVE, topics=topics("T1", "T2"), enable_acting_master=True), CONNECTION, 0)
        live = table.live.get(("C", SLAVE))
        assert live is not None
        assert (len(live.registration.offers), table.live.kept) == (0, 2)


class TestLeavingInSteps:
    MANY = 5000

    def large(self, **fields: Any) -> BrokerRegistration:
        return broker(topics=topics(*(f"T{number}" for number in range(self.MANY))), **fields)

    def test_leaving_costs_nothing_at_once_and_so_many_topics_a_step(self) -> None:
        table = table_of(self.large())
        table.unregister([Unregistration("C", "B", MASTER)])
        assert (table.topics(), table.route("T0"), table.offer_total) == ([], None, 0)
        assert table.topic_count == self.MANY, "nothing was taken out yet"
        steps = 1
        while table.sweep():
            steps += 1
            assert table.topic_count >= self.MANY - 500 * steps
        assert (table.topic_count, steps) == (0, self.MANY / 500)

    def test_sweeping_changes_no_answer(self) -> None:
        table = table_of(self.large(), broker(0, OTHER, broker_name="O", topics=topics("T1", "T2")))
        table.unregister([Unregistration("C", "B", MASTER)])
        before, shown = table.version, route_of(table, "T1")
        assert [offer.broker_name for offer in shown.queue_datas] == ["O"]
        while table.sweep():
            pass
        assert (table.version, route_of(table, "T1"), sorted(table.topics())) == (before, shown, ["T1", "T2"])

    def test_broker_that_comes_back_meanwhile_has_what_it_says_now(self) -> None:
        table = table_of(self.large())
        table.unregister([Unregistration("C", "B", MASTER)])
        table.sweep()
        table.register(broker(topics=topics("T0", "T1", read_queue_nums=8)), CONNECTION, 0)
        for _ in range(2):
            assert sorted(table.topics()) == ["T0", "T1"]
            assert route_of(table, "T0").queue_datas[0].read_queue_nums == 8
            assert table.route("T2") is None
            assert outcome(table.topics_of_cluster("C")) == outcome(table.listed())
            assert (table.offer_total, table.offer_count("B")) == (2, 2)
            while table.sweep():
                pass
        assert table.topic_count == 2

    def test_topic_of_none_but_leavers_is_new_to_whoever_registers_it(self) -> None:
        table = table_of(self.large(), broker(0, OTHER, broker_name="O", topics=topics("U", "V")))
        table.unregister([Unregistration("C", "B", MASTER)])
        mine, unknown = QueueData("O", 8, 8, 6), QueueData("unknown", 8, 8, 6)
        table.register_topic("T0", [mine, unknown])
        assert table.route("T0") is None
        table.delete_topic("T1")
        table.register_topic("T1", [mine])
        while table.sweep():
            pass
        assert route_of(table, "T1").queue_datas == [mine]

    def test_lost_master_s_topics_are_read_only_at_once_and_written_down_in_steps(self) -> None:
        table = table_of(self.large(enable_acting_master=True), broker(1, SLAVE, enable_acting_master=True))
        table.unregister([Unregistration("C", "B", MASTER)])
        assert {perm_of(table, f"T{number}") for number in range(self.MANY)} == {4}
        before = table.version
        table.sweep()
        assert outcome(table.add_write_perm("B")) == self.MANY
        assert {perm_of(table, f"T{number}") for number in range(self.MANY)} == {6}
        assert table.version > before
        while table.sweep():
            pass
        assert {perm_of(table, f"T{number}") for number in range(self.MANY)} == {6}

    def test_registration_that_was_cut_short_is_made_good_by_the_same_again(self) -> None:
        table = table_of(self.large())
        wider = topics(*(f"T{number}" for number in range(self.MANY)), read_queue_nums=8)
        cut = table.registering(broker(topics=wider, data_version=version(2)), CONNECTION, 0)
        next(cut)
        cut.close()
        table.register(broker(topics=wider, data_version=version(2)), CONNECTION, 0)
        shown = {route_of(table, f"T{number}").queue_datas[0].read_queue_nums for number in range(self.MANY)}
        assert shown == {8}
