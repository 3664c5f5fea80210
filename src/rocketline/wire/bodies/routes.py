"""Routes, and the tables of clusters and brokers behind them."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.route import BrokerData, BrokerMemberGroup, TopicRouteData
from rocketline.record import record
from rocketline.wire.bodies.codec import encode, encode_strict


@record
class ClusterInfo:
    """All brokers by name, and their names by cluster. Always in the dialect. Java: ClusterInfo."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


@record
class BrokerMemberGroupBody:
    """Who shares a broker name; nobody if it is unknown. Java: GetBrokerMemberGroupResponseBody."""

    broker_member_group: BrokerMemberGroup | None = None


def encode_route(route: TopicRouteData, *, strict: bool) -> bytes:
    """The answer to GET_ROUTEINFO_BY_TOPIC. Without `strict`, broker ids are bare keys as older clients know them."""
    return encode_strict(route) if strict else encode(route)
