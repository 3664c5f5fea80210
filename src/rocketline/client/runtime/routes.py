"""Where topics are: routes as name servers tell them, and what is derived from them. Pure: no socket, no clock.

Every value in these tables is replaced as a whole and never edited, so other threads may read them without a lock.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rocketline.errors import RemoteProtocolError, RouteRefusedError
from rocketline.model.queue import MessageQueue
from rocketline.model.route import MASTER_ID, PERM_READ, PERM_WRITE, BrokerData, TopicQueueMappingInfo, TopicRouteData
from rocketline.wire.bodies.believed_routes import ROUTE_QUEUES_MAX

STATIC_BROKER_PREFIX: Final = "__syslo__"
"""The queues of a static topic name this and their scope in place of a broker."""
NO_BROKER: Final = "__syslo__none__"
"""The place of a logical queue that no broker has."""


@dataclass(frozen=True, slots=True)
class PublishInfo:
    """The queues that a topic's messages can be sent to. Java: TopicPublishInfo."""

    queues: tuple[MessageQueue, ...] = ()
    is_order_topic: bool = False
    """An order configuration fixes the number of queues: brokers that are down keep their places."""
    has_route: bool = False
    """A name server knows the topic, even if there is no queue to write to. Java: haveTopicRouterInfo."""


class ClientRoutes:
    """The tables of one runtime: routes, brokers' addresses and releases, publish and subscribe infos, static topics.

    >>> from rocketline.model.route import QueueData
    >>> table = ClientRoutes()
    >>> brokers = [BrokerData("c", "b", {0: "127.0.0.1:10911"})]
    >>> table.apply("T", TopicRouteData([QueueData("b", 2, 1, 6)], brokers))
    True
    >>> table.publish_info("T").queues
    (MessageQueue(topic='T', broker_name='b', queue_id=0),)
    >>> len(table.queues_to_read("T")), table.master("b")
    (2, '127.0.0.1:10911')
    """

    def __init__(self) -> None:
        self._routes: dict[str, TopicRouteData] = {}
        self._brokers: dict[str, Mapping[int, str]] = {}
        self._versions: dict[str, int] = {}
        self._publish: dict[str, PublishInfo] = {}
        self._subscribe: dict[str, tuple[MessageQueue, ...]] = {}
        self._endpoints: dict[str, Mapping[MessageQueue, str]] = {}

    # --- what name servers and brokers told

    def apply(self, topic: str, route: TopicRouteData) -> bool:
        """Take a route in. False if it says the same as before, in whatever order. Raises `RemoteProtocolError`
        or `RouteRefusedError`."""
        route = _sorted(route)
        if self._routes.get(topic) == route:
            return False
        endpoints = static_endpoints(topic, route.topic_queue_mapping_by_broker or {})
        publish, subscribe = publish_info(topic, route, endpoints), queues_to_read(topic, route, endpoints)
        for broker in route.broker_datas:
            self._brokers[broker.broker_name] = dict(broker.broker_addrs)
        if endpoints:
            self._endpoints[topic] = endpoints
        self._publish[topic], self._subscribe[topic] = publish, subscribe
        self._routes[topic] = route
        return True

    def learn_version(self, address: str, version: int) -> None:
        """Which release the broker there runs, as its answer to a heartbeat says."""
        self._versions[address] = version

    def clean_offline(self) -> set[str]:
        """Forget the addresses that no route names any more, and return them. Java: cleanOfflineBroker."""
        live = {address for route in self._routes.values() for address in _addresses(route.broker_datas)}
        gone: set[str] = set()
        for name, addresses in list(self._brokers.items()):
            kept = {broker_id: address for broker_id, address in addresses.items() if address in live}
            if kept != addresses:
                gone.update(set(addresses.values()) - live)
                if kept:
                    self._brokers[name] = kept
                else:
                    del self._brokers[name]
        for address in gone:
            self._versions.pop(address, None)
        return gone

    # --- what the clients ask

    def route(self, topic: str) -> TopicRouteData | None:
        return self._routes.get(topic)

    def publish_info(self, topic: str) -> PublishInfo | None:
        return self._publish.get(topic)

    def queues_to_read(self, topic: str) -> tuple[MessageQueue, ...]:
        """Empty if no route is known, or nothing of it may be read; `route` tells the two apart."""
        return self._subscribe.get(topic, ())

    def broker_of(self, queue: MessageQueue) -> str:
        """The name of the broker that has the queue, also if it is one of a static topic."""
        endpoints = self._endpoints.get(queue.topic)
        return queue.broker_name if endpoints is None else endpoints.get(queue, queue.broker_name)

    def brokers(self) -> Mapping[str, Mapping[int, str]]:
        """Broker name → id → address. Java: brokerAddrTable."""
        return dict(self._brokers)

    def is_known(self, address: str) -> bool:
        return any(address in addresses.values() for addresses in list(self._brokers.values()))

    def broker_version(self, address: str) -> int:
        """The release of the broker there; 0 if it has not been heard of yet."""
        return self._versions.get(address, 0)

    def master(self, broker_name: str) -> str | None:
        """Where to send to, lock, and keep offsets. Java: findBrokerAddressInPublish."""
        return self._brokers.get(broker_name, {}).get(MASTER_ID)

    def address_for_pull(self, broker_name: str, broker_id: int, *, only_this: bool = False) -> tuple[str, bool] | None:
        """Where to pull from, and whether that is a slave: the one asked for, its next neighbour, or any unless
        `only_this`. Java: findBrokerAddressInSubscribe."""
        addresses = self._brokers.get(broker_name, {})
        found = broker_id
        if broker_id != MASTER_ID and broker_id not in addresses:
            found = broker_id + 1
        if found not in addresses and not only_this:
            found = next(iter(addresses), found)
        return (addresses[found], found != MASTER_ID) if found in addresses else None

    def any_address(self, topic: str) -> str | None:
        """Some broker of the topic, its master if there is one. Java: findBrokerAddrByTopic."""
        route = self._routes.get(topic)
        brokers = [broker for broker in route.broker_datas if broker.broker_addrs] if route else []
        if not brokers:
            return None
        addresses = random.choice(brokers).broker_addrs  # noqa: S311
        return addresses.get(MASTER_ID) or random.choice(list(addresses.values()))  # noqa: S311


def limit_queues(route: TopicRouteData, queues_max: int) -> TopicRouteData:
    """The route of a topic that a broker will make by the pattern of `route`, with at most so many queues each."""
    limited = [
        replace(data, read_queue_nums=count, write_queue_nums=count)
        for data in route.queue_datas
        for count in [min(queues_max, data.read_queue_nums)]
    ]
    return replace(route, queue_datas=limited)


def publish_info(topic: str, route: TopicRouteData, endpoints: Mapping[MessageQueue, str]) -> PublishInfo:
    """The queues to write to: those of the order configuration, of the static mapping, or of brokers with a master that
    may be written to, in this precedence. Java: topicRouteData2TopicPublishInfo."""
    if route.order_topic_conf:
        return PublishInfo(tuple(_ordered_queues(topic, route.order_topic_conf)), is_order_topic=True, has_route=True)
    if route.order_topic_conf is None and endpoints:
        return PublishInfo(tuple(sorted(endpoints, key=lambda queue: queue.queue_id)), has_route=True)
    with_master = {broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
    queues = [
        MessageQueue(topic, data.broker_name, number)
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
        if data.perm & PERM_WRITE and data.broker_name in with_master
        for number in range(data.write_queue_nums)
    ]
    return PublishInfo(tuple(queues), has_route=True)


def queues_to_read(
    topic: str, route: TopicRouteData, endpoints: Mapping[MessageQueue, str]
) -> tuple[MessageQueue, ...]:
    """The queues to read from: a slave is enough. Java: topicRouteData2TopicSubscribeInfo."""
    if endpoints:
        return tuple(sorted(endpoints))
    return tuple(
        MessageQueue(topic, data.broker_name, number)
        for data in route.queue_datas
        if data.perm & PERM_READ
        for number in range(data.read_queue_nums)
    )


def static_endpoints(topic: str, mappings: Mapping[str, TopicQueueMappingInfo]) -> dict[MessageQueue, str]:
    """Which broker has each logical queue of a static topic: of those that claim it the newest, or `NO_BROKER`.

    Java: topicRouteData2EndpointsForStaticTopic.
    """
    endpoints: dict[MessageQueue, str] = {}
    totals: dict[str, int] = {}
    for name, mapping in sorted(mappings.items(), key=lambda entry: entry[1].epoch):
        scope = _logical_broker(mapping.scope)
        totals[scope] = max(totals.get(scope, 0), mapping.total_queues)
        endpoints |= {MessageQueue(topic, scope, number): name for number in mapping.curr_id_map}
    for scope, total in totals.items():
        for number in range(total):
            endpoints.setdefault(MessageQueue(topic, scope, number), NO_BROKER)
    return endpoints


def _logical_broker(scope: str) -> str:
    """What the queues of a scope name in place of a broker. Java: TopicQueueMappingUtils.getMockBrokerName.

    >>> _logical_broker("__global__"), _logical_broker("mine")
    ('__syslo__global__', '__syslo__mine')
    """
    return STATIC_BROKER_PREFIX + ("global__" if scope == "__global__" else scope)


def _ordered_queues(topic: str, conf: str) -> list[MessageQueue]:
    """`broker:count;broker:count`, in this order."""
    queues: list[MessageQueue] = []
    for entry in conf.split(";"):
        name, _, count = entry.partition(":")
        if not (count.isascii() and count.isdigit()):
            raise RemoteProtocolError(f"topic {topic!r} has the order configuration {conf!r}, not broker:count;…")
        if len(count) > 9 or len(queues) + int(count) > ROUTE_QUEUES_MAX:
            raise RouteRefusedError(
                topic, f"its order configuration gives broker {name!r} {count[:20]} queues, too many to be believed"
            )
        queues += [MessageQueue(topic, name, number) for number in range(int(count))]
    return queues


def _sorted(route: TopicRouteData) -> TopicRouteData:
    return replace(
        route,
        queue_datas=sorted(route.queue_datas, key=lambda data: data.broker_name),
        broker_datas=sorted(route.broker_datas, key=lambda broker: broker.broker_name),
    )


def _addresses(brokers: Sequence[BrokerData]) -> Iterable[str]:
    return (address for broker in brokers for address in broker.broker_addrs.values())
