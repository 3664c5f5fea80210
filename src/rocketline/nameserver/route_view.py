"""How a route looks to the one who asks: with a slave in its lost master's place, or through the eyes of a zone."""

from __future__ import annotations

from dataclasses import replace

from rocketline.model.route import MASTER_ID, PERM_WRITE, BrokerData, TopicRouteData

SYNC_MEMBERS_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics by which brokers find their real peers. Java: TopicValidator.SYNC_BROKER_MEMBER_GROUP_PREFIX."""


def with_acting_masters(topic: str, route: TopicRouteData) -> TopicRouteData:
    """Show the smallest slave as id 0 wherever an acting-master broker without master forbids writing to the topic."""
    if topic.startswith(SYNC_MEMBERS_PREFIX) or not any(_is_masterless(data) for data in route.broker_datas):
        return route
    read_only = {offer.broker_name for offer in route.queue_datas if not offer.perm & PERM_WRITE}
    return replace(
        route,
        broker_datas=[
            _with_acting_master(data)
            if data.broker_name in read_only and data.enable_acting_master and _is_masterless(data)
            else data
            for data in route.broker_datas
        ],
    )


def _is_masterless(data: BrokerData) -> bool:
    return bool(data.broker_addrs) and MASTER_ID not in data.broker_addrs


def _with_acting_master(data: BrokerData) -> BrokerData:
    smallest = min(data.broker_addrs)
    return replace(data, broker_addrs={(MASTER_ID if i == smallest else i): a for i, a in data.broker_addrs.items()})


def in_zone(route: TopicRouteData, zone_name: str) -> TopicRouteData:
    """Leave out the brokers of other zones and all that is theirs; one without master is shown to every zone.

    Java: ZoneRouteRPCHook.
    """

    def is_visible(data: BrokerData) -> bool:
        return MASTER_ID not in data.broker_addrs or (data.zone_name or "").lower() == zone_name.lower()

    hidden = [data for data in route.broker_datas if not is_visible(data)]
    hidden_names = {data.broker_name for data in hidden}
    hidden_addresses = {address for data in hidden for address in data.broker_addrs.values()}
    filters = route.filter_server_table.items()
    return replace(
        route,
        broker_datas=[data for data in route.broker_datas if data.broker_name not in hidden_names],
        queue_datas=[offer for offer in route.queue_datas if offer.broker_name not in hidden_names],
        filter_server_table={address: servers for address, servers in filters if address not in hidden_addresses},
    )
