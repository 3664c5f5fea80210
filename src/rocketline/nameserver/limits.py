"""How much the name server takes in: anybody who reaches it may register, and what he brings is kept while he stays."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rocketline.model.queue import QUEUES_MAX
from rocketline.model.route import QueueData
from rocketline.nameserver.registration import Registration
from rocketline.nameserver.route_table import RouteTable, mapped
from rocketline.wire.bodies.believed_routes import ADDRESSES_MAX, BROKERS_MAX

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
"""Queues of static topics in all mappings, which stay when their brokers leave."""
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


def problem(table: RouteTable, broker: Registration, connection: object) -> str:
    """Why a broker is not taken in, "" if it is."""
    texts = (broker.cluster, broker.broker_name, broker.address, broker.ha_address, broker.zone_name or "")
    if max(map(len, texts)) > NAME_CHARACTERS_MAX:
        return f"names and addresses have at most {NAME_CHARACTERS_MAX} characters"
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
    if broker.mappings and table.mapped + sum(map(mapped, broker.mappings.values())) > MAPPED_MAX:
        return f"all static topics together would have more than {MAPPED_MAX} queues in their mappings"
    return topics_problem(table, broker.broker_name, broker.offers)


def topics_problem(table: RouteTable, broker_name: str, topics: Collection[str]) -> str:
    """Why these topics cannot be added to those of a broker name, "" if they can."""
    new = table.count_new(broker_name, topics)
    if table.offer_count(broker_name) + new > TOPICS_MAX:
        return f"broker {broker_name} would have more than {TOPICS_MAX} topics"
    if table.offer_total + new > OFFERS_MAX:
        return f"all brokers together would have more than {OFFERS_MAX} topics"
    return ""
