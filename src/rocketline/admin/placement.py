"""Which brokers a question or a change is for. Pure."""

from __future__ import annotations

from rocketline.admin.views import BrokerAddress, Cluster
from rocketline.errors import BrokerNotFoundError
from rocketline.model.route import TopicRouteData
from rocketline.wire.bodies.routes import ClusterInfo


def clusters(info: ClusterInfo) -> list[Cluster]:
    """All clusters by name."""
    return [
        Cluster(
            cluster,
            tuple(
                BrokerAddress(cluster, name, broker_id, address)
                for name in sorted(names)
                if (data := info.broker_addr_table.get(name)) is not None
                for broker_id, address in sorted(data.broker_addrs.items())
            ),
        )
        for cluster, names in sorted(info.cluster_addr_table.items())
    ]


def choose(
    info: ClusterInfo, *, cluster: str | None = None, broker: str | None = None, with_slaves: bool = False
) -> list[BrokerAddress]:
    """The brokers of a cluster, or those that a name or an address stands for, or all. Raises `BrokerNotFoundError`.

    An address means that one broker, master or not.
    """
    known = [each for group in clusters(info) for each in group.brokers]
    if broker is not None and (at := [each for each in known if each.address == broker]):
        return at
    chosen = [
        each
        for each in known
        if (with_slaves or each.is_master)
        and (cluster is None or each.cluster == cluster)
        and (broker is None or each.name == broker)
    ]
    if not chosen:
        raise BrokerNotFoundError(_wanted(cluster, broker), _there_is(info, known))
    return chosen


def holders(route: TopicRouteData, *, with_slaves: bool = False) -> list[BrokerAddress]:
    """The brokers that hold a topic, by name."""
    return sorted(
        BrokerAddress(data.cluster, data.broker_name, broker_id, address)
        for data in route.broker_datas
        for broker_id, address in data.broker_addrs.items()
        if with_slaves or broker_id == 0
    )


def _wanted(cluster: str | None, broker: str | None) -> str:
    return broker if broker is not None else f"any of cluster {cluster}" if cluster is not None else "any"


def _there_is(info: ClusterInfo, known: list[BrokerAddress]) -> str:
    if not known:
        return "no broker is registered with the name server"
    names = ", ".join(sorted({each.name for each in known}))
    return f"clusters {', '.join(sorted(info.cluster_addr_table))} have the brokers {names}"
