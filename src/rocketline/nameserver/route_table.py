"""The name server's memory: which brokers live, where they are, and which topics they offer. Java: RouteInfoManager.

Pure: no sockets, no clock, no tasks. Time comes in as milliseconds of any clock that never goes back, a connection is
any hashable object, and methods return what is to be done next (whom to tell, what to close). Nothing is persisted.

What holds between any two calls:

- One address has at most one id under a broker name (I1); id 0 is the master (I2).
- No topic is kept without queues (I3).
- A broker name leaves all tables in the step in which its last address unregisters, and its cluster with it if that is
  now empty (I4). What it offered and mapped is out of sight from then on, and taken out by `sweep`, some at a time.
- An address has one broker name in a cluster: who registers under another leaves the first (I7).
- Two clusters that use the same broker name share one entry, which names the first of them (I5). Another cluster has
  the name for as long as one of its brokers does.
- A registration that is refused changes nothing (I6).
- The values in the tables are replaced, never edited, so an answer may hold them without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import replace

from rocketline.model.route import (
    MASTER_ID,
    PERM_READ,
    PERM_WRITE,
    BrokerData,
    QueueData,
    TopicQueueMappingInfo,
    TopicRouteData,
)
from rocketline.nameserver.leftovers import Leftovers
from rocketline.nameserver.liveness import BrokerKey, LiveBrokers
from rocketline.nameserver.registration import BrokerRegistration, MinBrokerIdChange, Registered, Unregistration

_STEP = 500
"""Topics that are changed in one go."""


class RouteTable:
    """The six tables, always consistent between two calls."""

    def __init__(self) -> None:
        self.version = 0
        """Changes whenever the answer to a query about routes, topics, brokers or clusters may have changed."""
        self.live = LiveBrokers()
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._offered: dict[str, dict[str, None]] = {}
        """The topics that each broker name offers: who leaves costs what he had, not what all have."""
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, set[str]] = {}
        self._filter_servers: dict[BrokerKey, list[str]] = {}
        self._mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self._mapped: dict[str, dict[str, None]] = {}
        """The static topics of each broker name."""
        self._mapped_sizes: dict[str, int] = {}
        self.mapped = 0
        """How many queues the mappings of static topics name."""
        self._gone, self._unmapped, self._closed = Leftovers(), Leftovers(), Leftovers()
        """Of names that left, offers and mappings that nobody sees any more; and offers whose right to be written to
        went with their master."""
        self.offer_total = 0
        """How many topics all broker names offer together."""

    # --- registration

    def register(
        self, broker: BrokerRegistration, connection: object, now_ms: int, *, is_dropping_absent_topics: bool = False
    ) -> Registered | None:
        """`registering` in one go."""
        steps = self.registering(broker, connection, now_ms, is_dropping_absent_topics=is_dropping_absent_topics)
        try:
            while True:
                next(steps)
        except StopIteration as end:
            registered: Registered | None = end.value
            return registered

    def registering(
        self, broker: BrokerRegistration, connection: object, now_ms: int, *, is_dropping_absent_topics: bool = False
    ) -> Generator[None, None, Registered | None]:
        """Take in a broker, or take note that it lives. None if it must register in full first.

        `is_dropping_absent_topics` removes the topics that this broker name had and the registration lacks. From the
        first step on the broker counts as live; its topics become known step by step. Should it leave in between, or
        register anew, the rest is left out.
        """
        known = self._brokers.get(broker.broker_name)
        # A smaller id counts against what was there before the same address gives up another id.
        is_new_min = broker.broker_id < min(known.broker_addrs if known else (), default=0)
        data = _with_address_free(broker, known)
        key = broker.cluster, broker.address
        if self._is_outdated(broker, data):
            self._forget_displaced(key)
            return Registered()
        is_first = broker.broker_id not in data.broker_addrs
        if is_first and broker.is_increment:  # it would publish a broker with most topics missing
            return None
        left = self._leave_former_name(broker)
        self._enter_cluster(broker)
        data = self._put_broker(replace(data, broker_addrs={**data.broker_addrs, broker.broker_id: broker.address}))
        last = self.live.get(key)
        is_changed = is_first or last is None or last.registration.data_version != broker.data_version
        is_changed |= last is not None and not last.is_whole
        is_publisher = _is_publisher(broker, data)
        live = self.live.put(broker, connection, now_ms, has_topics=is_publisher)
        self._put_filter_servers(key, broker.filter_servers)
        if is_publisher:
            live.is_whole = False
            live.is_whole = yield from self._publish(broker, data, is_changed, is_dropping_absent_topics)
        change = _min_change(data, None, broker.ha_address) if is_new_min else None
        return Registered(*self._live_master(broker, data), change, left)

    def is_publisher(self, broker: BrokerRegistration) -> bool:
        """Whether its topics count: it is the master, or the slave that may stand in for it."""
        data = _with_address_free(broker, self._brokers.get(broker.broker_name))
        return _is_publisher(broker, data)

    def _forget_displaced(self, key: BrokerKey) -> None:
        """An address that was sent home is live no more, unless it has a place besides the one that it wanted."""
        live, address = self.live.get(key), key[1]
        if live is None:
            return
        name = live.registration.broker_name
        if address not in self.member_addresses(name).values():
            self.forget(Unregistration(key[0], name, address))

    def _leave_former_name(self, broker: BrokerRegistration) -> tuple[MinBrokerIdChange, ...]:
        """Or the former name would stay: only one can go with the connection, or when its time is up."""
        live = self.live.get((broker.cluster, broker.address))
        if live is None or live.registration.broker_name == broker.broker_name:
            return ()
        return tuple(self.unregister([Unregistration(broker.cluster, live.registration.broker_name, broker.address)]))

    def _enter_cluster(self, broker: BrokerRegistration) -> None:
        names = self._clusters.setdefault(broker.cluster, set())
        if broker.broker_name not in names:
            names.add(broker.broker_name)
            self.version += 1

    def _is_outdated(self, broker: BrokerRegistration, data: BrokerData) -> bool:
        """Whether a live broker holds the same id from another address, with a greater state version."""
        holder = data.broker_addrs.get(broker.broker_id, broker.address)
        live = self.live.get((broker.cluster, holder)) if holder != broker.address else None
        return live is not None and live.registration.data_version.state_version > broker.data_version.state_version

    def _publish(
        self, broker: BrokerRegistration, data: BrokerData, is_changed: bool, is_dropping: bool
    ) -> Generator[None, None, bool]:
        """Take over topics and mappings, in steps; False if the broker left in between, or registered anew."""
        for number, _ in enumerate(self._taking_over(broker, data, is_changed, is_dropping), 1):
            if number % _STEP == 0:
                yield
                live = self.live.get((broker.cluster, broker.address))
                if live is None or live.registration is not broker:
                    return False
        return True

    def _taking_over(
        self, broker: BrokerRegistration, data: BrokerData, is_changed: bool, is_dropping: bool
    ) -> Generator[None, None, None]:
        """One after the other."""
        for topic, mapping in broker.mappings.items() if is_changed else ():
            self._put_mapping(topic, mapping)
            yield
        name, is_acting = broker.broker_name, broker.broker_id != MASTER_ID and data.enable_acting_master
        for topic in self._topics_of(name) if is_dropping and not broker.mappings else ():
            if topic not in broker.offers and self._is_offered(name, topic):
                self._drop_queues(topic, (name,))
            yield
        for topic, offer in broker.offers.items():
            if is_changed or not self._is_offered(name, topic):
                self._put_queues(topic, _read_only(offer) if is_acting else offer)
            yield

    def _put_broker(self, data: BrokerData) -> BrokerData:
        if self._brokers.get(data.broker_name) != data:
            self._brokers[data.broker_name] = data
            self.version += 1
        return data

    def _put_queues(self, topic: str, offer: QueueData) -> None:
        offers, name = self._topics.setdefault(topic, {}), offer.broker_name
        known = None if self._gone.done(name, topic) else offers.get(name)
        if self._closed.done(name, topic) or known != offer:
            offers[name] = offer
            self.version += 1
            if known is None:
                self._offered.setdefault(name, {})[topic] = None
                self.offer_total += 1

    def _drop_queues(self, topic: str, broker_names: Iterable[str]) -> None:
        for name in broker_names:
            if self._is_offered(name, topic):
                self.version += 1
                self.offer_total -= 1
                del self._offered[name][topic]
                if not self._offered[name]:
                    del self._offered[name]
            self._closed.done(name, topic)
            self._gone.done(name, topic)
            self._take_out(name, topic)

    def _take_out(self, name: str, topic: str) -> None:
        offers = self._topics[topic]
        offers.pop(name, None)
        if not offers:
            del self._topics[topic]

    def _is_offered(self, name: str, topic: str) -> bool:
        return topic in self._offered.get(name, ())

    def _put_mapping(self, topic: str, mapping: TopicQueueMappingInfo) -> None:
        by_broker, name = self._mappings.get(topic, {}), mapping.bname
        known = None if self._unmapped.done(name, topic) else by_broker.get(name)
        if known != mapping:
            # Answers hold the inner mapping itself, so it is replaced.
            self._mappings[topic] = {**by_broker, name: mapping}
            more = mapped(mapping) - (mapped(known) if known else 0)
            self._mapped.setdefault(name, {})[topic] = None
            self._mapped_sizes[name] = self._mapped_sizes.get(name, 0) + more
            self.mapped += more
            self.version += 1

    def _take_mapping_out(self, name: str, topic: str) -> None:
        by_broker = {other: mapping for other, mapping in self._mappings[topic].items() if other != name}
        if by_broker:
            self._mappings[topic] = by_broker
        else:
            del self._mappings[topic]

    def _put_filter_servers(self, key: BrokerKey, addresses: Sequence[str] | None) -> None:
        if addresses is None or list(addresses) == self._filter_servers.get(key, []):
            return
        self._filter_servers.pop(key, None)
        if addresses:
            self._filter_servers[key] = list(addresses)
        self.version += 1

    def _live_master(self, broker: BrokerRegistration, data: BrokerData) -> tuple[str | None, str | None]:
        """Address and HA address of the master, told to a slave if that master lives."""
        address = data.broker_addrs.get(MASTER_ID) if broker.broker_id != MASTER_ID else None
        live = self.live.get((broker.cluster, address)) if address is not None else None
        return (address, live.registration.ha_address) if live else (None, None)

    # --- unregistration

    def unregister(self, batch: Iterable[Unregistration]) -> list[MinBrokerIdChange]:
        """Forget these addresses in one step. Their topics are out of sight with them; `sweep` takes them out."""
        removed: set[str] = set()
        reduced: set[str] = set()
        offline: dict[str, str] = {}
        for gone in batch:
            self._forget_live(gone)
            data = self._brokers.get(gone.broker_name)
            if data is None:
                continue
            left = {i: a for i, a in data.broker_addrs.items() if a != gone.address}
            if not left:
                self._remove_broker_name(gone.broker_name)
                removed.add(gone.broker_name)
                continue
            self._put_broker(replace(data, broker_addrs=left))
            self._leave_cluster(gone.cluster, gone.broker_name)
            reduced.add(gone.broker_name)
            if min(data.broker_addrs) not in left:
                offline[gone.broker_name] = gone.address
        for name in reduced - removed:
            if self._is_masterless(name):  # nobody can write to an acting master
                self._closed.add(name, dict(self._offered.get(name, ())))
                self.version += 1
        left_brokers = [(self._brokers.get(name), address) for name, address in offline.items()]
        return [
            _min_change(data, address, None) for data, address in left_brokers if data and data.enable_acting_master
        ]

    def forget(self, gone: Unregistration) -> None:
        """Forget that this address lives. Enough for one whose place another address has taken."""
        self._forget_live(gone)
        self._leave_cluster(gone.cluster, gone.broker_name)

    def _forget_live(self, gone: Unregistration) -> None:
        """Unless it lives under another name, which would stay without it."""
        key = gone.cluster, gone.address
        live = self.live.get(key)
        if live is not None and live.registration.broker_name == gone.broker_name:
            self.live.forget(key)
            self._put_filter_servers(key, ())

    def _leave_cluster(self, cluster: str, name: str) -> None:
        """The name leaves a cluster with its last broker there; but for the one that it is told with."""
        data = self._brokers.get(name)
        if data is None or data.cluster == cluster or name not in self._clusters.get(cluster, ()):
            return
        lives = [self.live.get((cluster, address)) for address in data.broker_addrs.values()]
        if not any(live is not None and live.registration.broker_name == name for live in lives):
            self._drop_from_cluster(cluster, name)
            self.version += 1

    def _drop_from_cluster(self, cluster: str, name: str) -> None:
        self._clusters[cluster].discard(name)
        if not self._clusters[cluster]:
            del self._clusters[cluster]

    def _remove_broker_name(self, name: str) -> None:
        del self._brokers[name]
        for cluster in [c for c, names in self._clusters.items() if name in names]:
            self._drop_from_cluster(cluster, name)
        offered = self._offered.pop(name, {})
        self.offer_total -= len(offered)
        self.mapped -= self._mapped_sizes.pop(name, 0)
        self._closed.forget(name)
        self._gone.add(name, offered)
        self._unmapped.add(name, self._mapped.pop(name, {}))
        self.version += 1

    def sweep(self) -> bool:
        """Take some out of what left, and write down some of what cannot be written to any more: what is seen does not
        change by it. Whether more is left."""
        for name, topic in self._gone.take(_STEP):
            self._take_out(name, topic)
        for name, topic in self._unmapped.take(_STEP):
            self._take_mapping_out(name, topic)
        for name, topic in self._closed.take(_STEP):
            self._topics[topic][name] = _read_only(self._topics[topic][name])
        return self.has_leftovers

    @property
    def has_leftovers(self) -> bool:
        """Whether `sweep` has something to do."""
        return bool(self._gone or self._unmapped or self._closed)

    def _is_masterless(self, name: str) -> bool:
        data = self._brokers[name]
        return data.enable_acting_master and MASTER_ID not in data.broker_addrs

    # --- topics and permissions

    def register_topic(self, topic: str, offers: Sequence[QueueData]) -> None:
        """Add queues of a topic. At the first unknown broker it stops; a new topic then stays unknown altogether."""
        known = [offer.broker_name in self._brokers for offer in offers]
        valid = offers[: known.index(False)] if False in known else offers
        if self._offers_of(topic) or len(valid) == len(offers):
            for offer in valid:
                self._put_queues(topic, offer)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, or only what the brokers of one cluster offer of it."""
        offers = self._topics.get(topic)
        if offers is not None:
            names = offers.keys() if cluster is None else offers.keys() & self._clusters.get(cluster, set())
            self._drop_queues(topic, list(names))

    def wipe_write_perm(self, broker_name: str) -> Generator[None, None, int]:
        """Forbid writing to all topics of a broker, until it registers a changed version; how many there are.

        In steps, as brokers may have very many; so is all else that returns a generator.
        """
        return self._put_perms(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> Generator[None, None, int]:
        """Allow reading and writing, and nothing else, for all topics of a broker; how many there are."""
        return self._put_perms(broker_name, lambda perm: PERM_READ | PERM_WRITE)

    def _put_perms(self, broker_name: str, change: Callable[[int], int]) -> Generator[None, None, int]:
        count = 0
        for topic in self._topics_of(broker_name):
            offer = self._offers_of(topic).get(broker_name)
            if offer is not None:  # it may have gone since the last step
                self._put_perm(topic, broker_name, change(offer.perm))
                count += 1
                if count % _STEP == 0:
                    yield
        return count

    def _topics_of(self, broker_name: str) -> list[str]:
        return list(self._offered.get(broker_name, ()))

    def _put_perm(self, topic: str, broker_name: str, perm: int) -> None:
        self._put_queues(topic, replace(self._topics[topic][broker_name], perm=perm))

    # --- queries

    def route(self, topic: str) -> TopicRouteData | None:
        """Everything about one topic, None if it is unknown or none of its brokers is known."""
        offers = self._offers_of(topic)
        brokers = [self._brokers[name] for name in offers if name in self._brokers]
        if not brokers:
            return None
        filters = self._filters_of(brokers) if self._filter_servers else {}
        return TopicRouteData(list(offers.values()), brokers, filters, None, self._mappings_of(topic))

    def _offers_of(self, topic: str) -> Mapping[str, QueueData]:
        """By broker name, as they are seen."""
        offers = self._topics.get(topic, {})
        if not (self._gone or self._closed):
            return offers
        return {
            name: _read_only(offer) if self._closed.has(name, topic) else offer
            for name, offer in offers.items()
            if not self._gone.has(name, topic)
        }

    def _mappings_of(self, topic: str) -> dict[str, TopicQueueMappingInfo] | None:
        mappings = self._mappings.get(topic)
        if mappings is None or not self._unmapped:
            return mappings
        return {name: one for name, one in mappings.items() if not self._unmapped.has(name, topic)} or None

    def _filters_of(self, brokers: Sequence[BrokerData]) -> dict[str, list[str]]:
        keys = [(data.cluster, address) for data in brokers for address in data.broker_addrs.values()]
        return {key[1]: self._filter_servers[key] for key in keys if key in self._filter_servers}

    def member_addresses(self, broker_name: str) -> dict[int, str]:
        """The addresses that share a broker name, by id; none if the name is unknown."""
        data = self._brokers.get(broker_name)
        return data.broker_addrs if data else {}

    def brokers(self) -> dict[str, BrokerData]:
        return dict(self._brokers)

    def clusters(self) -> dict[str, list[str]]:
        """The broker names of each cluster, sorted."""
        return {cluster: sorted(names) for cluster, names in self._clusters.items()}

    def topics(self) -> list[str]:
        return [topic for topic in self._topics if self._offers_of(topic)] if self._gone else list(self._topics)

    @property
    def topic_count(self) -> int:
        """How many there are, some of them perhaps gone already: what it costs to look at all."""
        return len(self._topics)

    def listed(self) -> Generator[None, None, list[str]]:
        """`topics` in steps."""
        return self._select(lambda offers: True)

    def topics_of_cluster(self, cluster: str) -> Generator[None, None, list[str]]:
        """The topics that any broker of the cluster offers; none if the cluster is unknown."""
        names = frozenset(self._clusters.get(cluster, ()))
        return self._select(lambda offers: not names.isdisjoint(offers))

    def _select(self, is_wanted: Callable[[Mapping[str, QueueData]], bool]) -> Generator[None, None, list[str]]:
        if self.topic_count > 8 * _STEP:
            yield  # nothing is made for those who only wait
        chosen = []
        for number, topic in enumerate(list(self._topics), 1):
            offers = self._offers_of(topic)
            if offers and is_wanted(offers):
                chosen.append(topic)
            if number % (8 * _STEP) == 0:
                yield
        return chosen

    def offer_count(self, broker_name: str) -> int:
        """How many topics a broker name offers."""
        return len(self._offered.get(broker_name, ()))

    def count_new(self, broker_name: str, topics: Collection[str]) -> int:
        """How many of these topics a broker name does not offer yet."""
        return len(topics) - len(self._offered.get(broker_name, {}).keys() & topics)

    @property
    def broker_name_count(self) -> int:
        return len(self._brokers)

    def topics_with_sys_flag(self, *, present: int, absent: int = 0) -> Generator[None, None, list[str]]:
        """The topics whose first offer has all bits of `present` and none of `absent` in its system flag."""
        bits = present | absent
        return self._select(lambda offers: next(iter(offers.values())).topic_sys_flag & bits == present)

    def count_more_mapped(self, mappings: Mapping[str, TopicQueueMappingInfo]) -> int:
        """How much more the mappings would cost, with these in place of what is known of them."""
        known = (self._mapping_of(topic, mapping.bname) for topic, mapping in mappings.items())
        return sum(map(mapped, mappings.values())) - sum(mapped(one) for one in known if one is not None)

    def mappings_besides(self, topic: str, name: str) -> list[TopicQueueMappingInfo]:
        """What other broker names have told of the queues of a static topic."""
        return [mapping for other, mapping in (self._mappings_of(topic) or {}).items() if other != name]

    def _mapping_of(self, topic: str, name: str) -> TopicQueueMappingInfo | None:
        return None if self._unmapped.has(name, topic) else self._mappings.get(topic, {}).get(name)


def mapped(mapping: TopicQueueMappingInfo) -> int:
    """What a mapping costs."""
    return 1 + len(mapping.curr_id_map)


def _read_only(offer: QueueData) -> QueueData:
    return replace(offer, perm=offer.perm & ~PERM_WRITE)


def _is_publisher(broker: BrokerRegistration, data: BrokerData) -> bool:
    """The master, or the slave that may stand in for it, as far as `data` knows the others."""
    is_smallest = all(broker.broker_id <= other for other in data.broker_addrs)
    return broker.broker_id == MASTER_ID or (broker.enable_acting_master is not None and is_smallest)


def _with_address_free(broker: BrokerRegistration, known: BrokerData | None) -> BrokerData:
    """The broker name as it is when this one comes: its address is free from any other id it had."""
    cluster, addrs = (known.cluster, known.broker_addrs) if known else (broker.cluster, {})
    addrs = {i: a for i, a in addrs.items() if a != broker.address or i == broker.broker_id}
    return BrokerData(cluster, broker.broker_name, addrs, bool(broker.enable_acting_master), broker.zone_name)


def _min_change(data: BrokerData, offline_address: str | None, ha_address: str | None) -> MinBrokerIdChange:
    """Who left is told to all that remain, who came to all but the newcomer; a broker on its own is always told."""
    smallest = min(data.broker_addrs)
    is_told_to_all = offline_address is not None or len(data.broker_addrs) == 1
    recipients = tuple(a for i, a in data.broker_addrs.items() if is_told_to_all or i != smallest)
    return MinBrokerIdChange(smallest, data.broker_addrs[smallest], offline_address, ha_address, recipients)
