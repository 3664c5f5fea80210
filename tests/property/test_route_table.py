"""Whatever brokers do, in whatever order: the invariants of the route table hold, and its version tells of changes."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketline.model.route import BrokerData, QueueData
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.nameserver.registration import BrokerRegistration, MinBrokerIdChange, Unregistration, offer
from rocketline.nameserver.route_table import RouteTable
from support.long_steps import outcome

CLUSTERS = st.sampled_from(["C", "D"])
NAMES = st.sampled_from(["A", "B"])
ADDRESSES = st.sampled_from(["a", "b", "c", "d"])
CONNECTIONS = st.sampled_from(["x", "y", "z"])
TOPICS = st.sampled_from(["T1", "T2", "T3"])
CONFIGS = st.builds(TopicConfig, TOPICS, st.integers(1, 2), st.integers(1, 2), st.integers(0, 7))


def registration(topics: list[TopicConfig], broker_name: str, **fields: Any) -> BrokerRegistration:
    offers = {topic.topic_name: offer(broker_name, topic) for topic in topics}
    return BrokerRegistration(broker_name=broker_name, offers=offers, is_increment=len(offers) == 1, **fields)


REGISTRATIONS = st.builds(
    registration,
    topics=st.lists(CONFIGS, max_size=3),
    cluster=CLUSTERS,
    broker_name=NAMES,
    broker_id=st.integers(0, 2),
    address=ADDRESSES,
    data_version=st.builds(DataVersion, st.integers(0, 1), st.integers(0, 1)),
    filter_servers=st.none() | st.lists(st.just("f"), max_size=1),
    heartbeat_timeout_ms=st.none() | st.integers(0, 50),
    enable_acting_master=st.none() | st.booleans(),
)


class Brokers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable()
        self.now_ms = 0
        self.seen = (self.table.version, self.answers())

    def answers(self) -> tuple[object, ...]:
        table = self.table
        return [table.route(topic) for topic in table.topics()], table.brokers(), table.clusters(), table.topics()

    @rule(broker=REGISTRATIONS, connection=CONNECTIONS, is_dropping=st.booleans())
    def register(self, broker: BrokerRegistration, connection: str, is_dropping: bool) -> None:
        before = self.table.version
        registered = self.table.register(broker, connection, self.now_ms, is_dropping_absent_topics=is_dropping)
        if registered is None:
            assert self.table.version == before, "I6"
            return
        before = self.table.version
        again = self.table.register(broker, connection, self.now_ms, is_dropping_absent_topics=is_dropping)
        assert again is not None
        assert self.table.version == before, "the same registration once more changed something"
        if registered.change is not None:
            self.check_change(registered.change, self.table.brokers()[broker.broker_name])

    @rule(batch=st.lists(st.builds(Unregistration, CLUSTERS, NAMES, ADDRESSES), max_size=3))
    def unregister(self, batch: list[Unregistration]) -> None:
        changes = self.table.unregister(batch)
        for gone in batch:
            assert gone.address not in self.table.member_addresses(gone.broker_name).values()
            live = self.table.live.get((gone.cluster, gone.address))
            assert live is None or live.registration.broker_name != gone.broker_name
        for change in changes:
            owners = [
                data
                for data in self.table.brokers().values()
                if change.min_broker_address in data.broker_addrs.values()
            ]
            assert change.offline_address is not None
            self.check_change(change, next(data for data in owners if min(data.broker_addrs) == change.min_broker_id))

    @rule(connection=CONNECTIONS)
    def lose(self, connection: str) -> None:
        self.table.unregister(self.table.live.registered_over(connection))
        assert self.table.live.registered_over(connection) == []

    @rule(passing_ms=st.integers(1, 60))
    def expire(self, passing_ms: int) -> None:
        self.now_ms += passing_ms
        self.table.unregister([expired.unregistration for expired in self.table.live.expired(self.now_ms)])
        assert self.table.live.expired(self.now_ms) == []

    @rule(topic=TOPICS, offers=st.lists(st.builds(QueueData, NAMES, st.just(1), st.just(1), st.just(6)), max_size=2))
    def register_topic(self, topic: str, offers: list[QueueData]) -> None:
        self.table.register_topic(topic, offers)

    @rule()
    def sweep(self) -> None:
        before = self.table.version, self.answers()
        self.table.sweep()
        assert (self.table.version, self.answers()) == before

    @rule(topic=TOPICS, cluster=st.none() | CLUSTERS)
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, cluster)

    @rule(name=NAMES, is_wiped=st.booleans())
    def change_perm(self, name: str, is_wiped: bool) -> None:
        changed = outcome(self.table.wipe_write_perm(name) if is_wiped else self.table.add_write_perm(name))
        routes = [self.table.route(topic) for topic in self.table.topics()]
        assert changed == len([1 for route in routes if route for q in route.queue_datas if q.broker_name == name])

    def check_change(self, change: MinBrokerIdChange, data: BrokerData) -> None:
        assert change.min_broker_id == min(data.broker_addrs)
        assert change.min_broker_address == data.broker_addrs[change.min_broker_id]
        assert set(change.recipients) <= set(data.broker_addrs.values())
        assert change.recipients

    @invariant()
    def version_tells_of_every_change(self) -> None:
        version, answers = self.seen
        self.seen = (self.table.version, self.answers())
        assert self.seen[1] == answers or self.seen[0] > version

    @invariant()
    def one_address_has_one_id_under_a_name(self) -> None:
        for data in self.table.brokers().values():
            assert len(set(data.broker_addrs.values())) == len(data.broker_addrs), "I1"

    @invariant()
    def every_topic_has_queues_of_known_brokers(self) -> None:
        brokers = self.table.brokers()
        for topic in self.table.topics():
            route = self.table.route(topic)
            assert route is not None, "I3, I4"
            assert {q.broker_name for q in route.queue_datas} == {data.broker_name for data in route.broker_datas}
            assert all(q.broker_name in brokers for q in route.queue_datas)

    @invariant()
    def clusters_and_brokers_name_each_other(self) -> None:
        clusters, brokers = self.table.clusters(), self.table.brokers()
        assert all(clusters.values()), "I4: an empty cluster is removed"
        assert {name for names in clusters.values() for name in names} == set(brokers)
        assert all(data.broker_name in clusters[data.cluster] for data in brokers.values()), "I5"

    @invariant()
    def every_broker_has_an_address(self) -> None:
        assert all(data.broker_addrs for data in self.table.brokers().values()), "I6"

    @invariant()
    def offers_are_counted(self) -> None:
        table = self.table
        routes = [route for topic in table.topics() if (route := table.route(topic)) is not None]
        assert table.offer_total == sum(len(route.queue_datas) for route in routes)
        assert table.offer_total == sum(map(table.offer_count, table.brokers()))


TestBrokers = Brokers.TestCase
TestBrokers.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
