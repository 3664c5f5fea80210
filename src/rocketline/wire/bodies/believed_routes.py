"""How much of a route is believed: anybody who reaches a name server can register a broker there, and say anything.

A count in a few bytes may stand for two thousand million queues, which a client would go through one by one. So what
one broker says beyond the bounds is left out, and told, and the others serve on; a route that is beyond them as a whole
is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from rocketline.errors import RouteRefusedError
from rocketline.logs import Log
from rocketline.model.queue import QUEUES_MAX
from rocketline.model.route import BrokerData, QueueData, TopicQueueMappingInfo, TopicRouteData
from rocketline.wire.bodies.codec import decode

ROUTE_BYTES_MAX: Final = 2 * 1024 * 1024
BROKERS_MAX: Final = 1024
"""Broker names in one route."""
ADDRESSES_MAX: Final = 64
"""Nodes of one broker name: its master and its slaves."""
ROUTE_QUEUES_MAX: Final = 65_536
"""Queues of one topic on all its brokers. The brokers with the most go first."""
_TOLERATED_MAX: Final = 64 * 1024
"""Name servers write standard JSON to whoever asks for it, and nearly that to others."""
_LINES_MAX: Final = 3
"""In the log, of one route."""

_log = Log(__name__)


class BelievedRoute(NamedTuple):
    """A route within the bounds."""

    route: TopicRouteData
    doubts: tuple[str, ...] = ()
    """What was left out."""


def decode_route(topic: str, data: bytes) -> TopicRouteData:
    """What is believed of a name server's answer; what is not goes to the log.

    Raises `RemoteProtocolError` or `RouteRefusedError`.
    """
    if len(data) > ROUTE_BYTES_MAX:
        raise RouteRefusedError(topic, f"it takes {len(data)} bytes, and {ROUTE_BYTES_MAX} are read")
    route, doubts = believed(topic, decode(TopicRouteData, data, tolerated_max=_TOLERATED_MAX))
    for doubt in doubts[:_LINES_MAX]:
        _log.warning("a part of a route is not believed", topic=topic, problem=doubt, of=len(doubts))
    return route


def believed(topic: str, route: TopicRouteData) -> BelievedRoute:
    """What is within the bounds. Raises `RouteRefusedError` if there are too many brokers, or if nothing is left."""
    named = max(len(route.queue_datas), len(route.broker_datas), len(route.topic_queue_mapping_by_broker or ()))
    if named > BROKERS_MAX:
        raise RouteRefusedError(topic, f"it names {named} brokers, and {BROKERS_MAX} are believed")
    static = _static_queues(route)
    if static > ROUTE_QUEUES_MAX:
        raise RouteRefusedError(topic, f"it has {static} static queues, and {ROUTE_QUEUES_MAX} are believed")
    doubts = tuple(_doubts(route))
    if not doubts and _queues(route) <= ROUTE_QUEUES_MAX:
        return BelievedRoute(route)
    offers, more = _within(list(_by_broker(route.queue_datas).values()))
    mappings = route.topic_queue_mapping_by_broker
    limited = replace(
        route,
        queue_datas=offers,
        broker_datas=[
            data for data in _by_broker(route.broker_datas).values() if len(data.broker_addrs) <= ADDRESSES_MAX
        ],
        topic_queue_mapping_by_broker=mappings and {name: one for name, one in mappings.items() if not _doubt(one)},
    )
    doubts += more
    if not limited.queue_datas or not limited.broker_datas:
        raise RouteRefusedError(topic, "; ".join(doubts[:3]))
    return BelievedRoute(limited, doubts)


def _doubts(route: TopicRouteData) -> Iterator[str]:
    names: set[str] = set()
    for offer in route.queue_datas:
        if offer.broker_name in names:
            yield f"broker {offer.broker_name!r} is named twice"
        elif problem := _doubt(offer):
            yield problem
        names.add(offer.broker_name)
    names.clear()
    for data in route.broker_datas:
        if data.broker_name in names:
            yield f"the addresses of broker {data.broker_name!r} are told twice"
        elif len(data.broker_addrs) > ADDRESSES_MAX:
            count = len(data.broker_addrs)
            yield f"broker {data.broker_name!r} has {count} addresses, and {ADDRESSES_MAX} are believed"
        names.add(data.broker_name)
    yield from filter(None, map(_doubt, (route.topic_queue_mapping_by_broker or {}).values()))


def _doubt(said: QueueData | TopicQueueMappingInfo) -> str:
    """What cannot be true of one broker's queues."""
    counts: tuple[int, ...]
    if isinstance(said, QueueData):
        name, most, counts = said.broker_name, QUEUES_MAX, (said.read_queue_nums, said.write_queue_nums)
    else:
        name, most, counts = said.bname, ROUTE_QUEUES_MAX, (said.total_queues, *said.curr_id_map)
    wrong = next((count for count in counts if not 0 <= count <= most), None)
    return "" if wrong is None else f"broker {name!r} says {wrong} queues, and 0 to {most} are believed"


_Said = TypeVar("_Said", QueueData, BrokerData)


def _by_broker(said: list[_Said]) -> dict[str, _Said]:
    """The first of each broker."""
    first: dict[str, _Said] = {}
    for one in said:
        first.setdefault(one.broker_name, one)
    return first


def _within(offers: list[QueueData]) -> tuple[list[QueueData], tuple[str, ...]]:
    """The entries that are believed, as many of them as the topic may have queues; and what to say of the rest."""
    kept: list[QueueData] = []
    doubts: list[str] = []
    left = ROUTE_QUEUES_MAX
    for offer in sorted((offer for offer in offers if not _doubt(offer)), key=_size):
        left -= _size(offer)
        if left >= 0:
            kept.append(offer)
        else:
            doubts.append(
                f"broker {offer.broker_name!r} says {_size(offer)} queues, and {ROUTE_QUEUES_MAX} on all brokers "
                "together are believed"
            )
    return kept, tuple(doubts)


def _size(offer: QueueData) -> int:
    return max(offer.read_queue_nums, offer.write_queue_nums)


def _queues(route: TopicRouteData) -> int:
    return sum(map(_size, route.queue_datas))


def _static_queues(route: TopicRouteData) -> int:
    """Each scope counts its own; of those who tell how many it has, the one with the most is right."""
    totals: dict[str, int] = {}
    for one in (route.topic_queue_mapping_by_broker or {}).values():
        if not _doubt(one):
            totals[one.scope] = max(totals.get(one.scope, 0), one.total_queues)
    return sum(totals.values())
