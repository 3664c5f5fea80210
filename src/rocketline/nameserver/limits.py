"""How much the name server takes in: anybody who reaches it may register, and what he brings is kept while he stays."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rocketline.model.queue import QUEUES_MAX
from rocketline.model.route import QueueData, TopicQueueMappingInfo
from rocketline.nameserver.liveness import kept
from rocketline.nameserver.registration import BrokerRegistration
from rocketline.nameserver.route_table import RouteTable
from rocketline.wire.bodies.believed_routes import ADDRESSES_MAX, BROKERS_MAX, ROUTE_QUEUES_MAX

TOLD_MAX: Final = 65_536
"""Topics of one registration; our brokers tell those that have more in parts."""
TOPICS_MAX: Final = 262_144
"""Topics of one broker name."""
OFFERS_MAX: Final = 500_000
"""Topics of all broker names together, each counted as often as it is offered; one takes some 600 bytes."""
LIVE_MAX: Final = 4096
"""Brokers, masters and slaves; they have at most `BROKERS_MAX` names, as many as clients believe a route to have."""
CONNECTION_LIVE_MAX: Final = 256
"""Brokers that register over one connection, as those of a broker container do."""
MAPPED_MAX: Final = 1_000_000
"""Queues of static topics in all mappings."""
FILTER_SERVERS_MAX: Final = 16
"""Of one broker: they are told with every route of its topics. Brokers since 5.0 have none."""
NAME_CHARACTERS_MAX: Final = 255
"""Of a topic, a broker, a cluster, a zone or an address. Apache's brokers take topics of up to 127."""


SHORT_BYTES: Final = 8 * 1024
"""A body that is read in a few milliseconds, whatever is in it."""


def doubt(topic: str, offer: QueueData) -> str:
    """Why a topic is not taken in, "" if it is."""
    if len(topic) > NAME_CHARACTERS_MAX:
        return f"topic {topic[:40]!r}… has a name of {len(topic)} characters, and {NAME_CHARACTERS_MAX} are possible"
    for queues in (offer.read_queue_nums, offer.write_queue_nums):
        if not 0 <= queues <= QUEUES_MAX:
            return f"topic {topic!r} cannot have {queues} queues: 0 to {QUEUES_MAX} are possible"
    return ""


def mapping_doubt(
    broker_name: str, topic: str, mapping: TopicQueueMappingInfo, others: Collection[TopicQueueMappingInfo] = ()
) -> str:
    """Why a mapping of a static topic is not taken in, "" if it is. A broker tells its own, and no other's; with those
    that others told of the topic it must fit into a route, all of which is written in one go."""
    if mapping.bname != broker_name:
        return f"mapping of topic {topic[:40]!r} is one of broker {mapping.bname[:40]!r}, not of {broker_name!r}"
    if max(len(topic), len(mapping.topic), len(mapping.scope)) > NAME_CHARACTERS_MAX:
        return f"mapping of topic {topic[:40]!r}…: names have at most {NAME_CHARACTERS_MAX} characters"
    wrong = next((n for n in (mapping.total_queues, *mapping.curr_id_map) if not 0 <= n <= ROUTE_QUEUES_MAX), None)
    if wrong is not None:
        return f"mapping of topic {topic!r} cannot have {wrong} queues: 0 to {ROUTE_QUEUES_MAX} are possible"
    if (queues := sum(len(one.curr_id_map) for one in (mapping, *others))) > ROUTE_QUEUES_MAX:
        return f"topic {topic!r} would have {queues} queues in its mappings: at most {ROUTE_QUEUES_MAX} are possible"
    return ""


def problem(table: RouteTable, broker: BrokerRegistration, connection: object) -> str:
    """Why a broker is not taken in, "" if it is."""
    texts = (broker.cluster, broker.broker_name, broker.address, broker.ha_address, broker.zone_name or "")
    if max(map(len, texts)) > NAME_CHARACTERS_MAX:
        return f"names and addresses have at most {NAME_CHARACTERS_MAX} characters"
    filter_servers = broker.filter_servers or ()
    if len(filter_servers) > FILTER_SERVERS_MAX:
        return f"{len(filter_servers)} filter servers: a broker has at most {FILTER_SERVERS_MAX}"
    if any(len(address) > NAME_CHARACTERS_MAX for address in filter_servers):
        return f"addresses of filter servers have at most {NAME_CHARACTERS_MAX} characters"
    return place_problem(table, broker, connection) or kept_problem(table, broker)


def place_problem(table: RouteTable, broker: BrokerRegistration, connection: object) -> str:
    """Why there is no place for one more broker; "" if there is, or it is known."""
    members = table.member_addresses(broker.broker_name)
    if not members and table.broker_name_count >= BROKERS_MAX:
        return f"{BROKERS_MAX} broker names are registered already"
    if broker.broker_id not in members and len(members) >= ADDRESSES_MAX:
        return f"broker {broker.broker_name} has {ADDRESSES_MAX} addresses already"
    live = table.live
    if live.get((broker.cluster, broker.address)) is None:
        if len(live) >= LIVE_MAX:
            return f"{LIVE_MAX} brokers are registered already"
        if len(live.registered_over(connection)) >= CONNECTION_LIVE_MAX:
            return f"{CONNECTION_LIVE_MAX} brokers have registered over this connection already"
    return ""


def kept_problem(table: RouteTable, broker: BrokerRegistration) -> str:
    """Why there is no room for its topics, "" if there is."""
    more = table.count_more_mapped(broker.mappings) if broker.mappings else 0
    if more > 0 and table.mapped + more > MAPPED_MAX:
        return f"all static topics together would have more than {MAPPED_MAX} queues in their mappings"
    live = table.live.get((broker.cluster, broker.address))
    more = kept(broker) - (kept(live.registration) if live else 0)
    if more > 0 and table.live.kept + more > OFFERS_MAX and table.is_publisher(broker):
        return f"the last registrations of all brokers together would have more than {OFFERS_MAX} topics"
    return topics_problem(table, broker.broker_name, broker.offers)


def topics_problem(table: RouteTable, broker_name: str, topics: Collection[str]) -> str:
    """Why these topics cannot be added to those of a broker name, "" if they can."""
    new = table.count_new(broker_name, topics)
    if not new:
        return ""
    if table.offer_count(broker_name) + new > TOPICS_MAX:
        return f"broker {broker_name} would have more than {TOPICS_MAX} topics"
    if table.offer_total + new > OFFERS_MAX:
        return f"all brokers together would have more than {OFFERS_MAX} topics"
    return ""
