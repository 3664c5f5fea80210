"""Which brokers live: when each was last heard of, over which connection, and what it said then."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rocketline.nameserver.registration import BrokerRegistration, Unregistration
from rocketline.record import record

HEARTBEAT_TIMEOUT_MS_DEFAULT = 120_000
"""How long a broker that names no timeout of its own may be silent."""

BrokerKey = tuple[str, str]
"""Cluster and address: what liveness is kept by."""


@dataclass(slots=True)
class LiveBroker:
    """The last registration of one address. Java: BrokerLiveInfo."""

    registration: BrokerRegistration
    connection: object
    last_update_ms: int
    heartbeat_timeout_ms: int
    has_topics: bool
    """Whether its topics are kept: those of a slave beside its master are of no use."""
    is_whole: bool = True
    """Its topics are all in the tables; a registration that was cut short left some as they were."""


@record
class ExpiredBroker:
    """A broker that was silent for too long: close its connection and unregister it."""

    connection: object
    unregistration: Unregistration


class LiveBrokers:
    """Live brokers by cluster and address, and by connection.

    One connection may carry the registrations of several brokers (a broker container does so); a broker belongs to the
    connection that it registered over last.
    """

    def __init__(self) -> None:
        self._live: dict[BrokerKey, LiveBroker] = {}
        self._keys_by_connection: dict[object, set[BrokerKey]] = {}
        self.kept = 0
        """How many topics and mappings the last registrations of all of them hold."""

    def __len__(self) -> int:
        return len(self._live)

    def get(self, key: BrokerKey) -> LiveBroker | None:
        return self._live.get(key)

    def put(
        self, broker: BrokerRegistration, connection: object, now_ms: int, *, has_topics: bool = True
    ) -> LiveBroker:
        """Without `has_topics`, all of it but its topics and mappings is kept."""
        key = broker.cluster, broker.address
        self.forget(key)
        broker = broker if has_topics else replace(broker, offers={}, mappings={})
        timeout_ms = broker.heartbeat_timeout_ms
        timeout_ms = HEARTBEAT_TIMEOUT_MS_DEFAULT if timeout_ms is None else timeout_ms
        live = self._live[key] = LiveBroker(broker, connection, now_ms, timeout_ms, has_topics)
        self.kept += kept(broker)
        self._keys_by_connection.setdefault(connection, set()).add(key)
        return live

    def touch(self, key: BrokerKey, now_ms: int) -> None:
        """A sign of life; one of a broker that is not registered means nothing."""
        live = self._live.get(key)
        if live is not None:
            live.last_update_ms = now_ms

    def forget(self, key: BrokerKey) -> None:
        live = self._live.pop(key, None)
        if live is None:
            return
        self.kept -= kept(live.registration)
        keys = self._keys_by_connection[live.connection]
        keys.discard(key)
        if not keys:
            del self._keys_by_connection[live.connection]

    def expired(self, now_ms: int) -> list[ExpiredBroker]:
        """The brokers that were silent for longer than their timeout."""
        return [
            ExpiredBroker(live.connection, _unregistration(key, live))
            for key, live in self._live.items()
            if live.last_update_ms + live.heartbeat_timeout_ms < now_ms
        ]

    def registered_over(self, connection: object) -> list[Unregistration]:
        """What is to be forgotten when `connection` closes: every broker whose last registration came over it."""
        keys = self._keys_by_connection.get(connection, ())
        return [_unregistration(key, self._live[key]) for key in sorted(keys)]


def kept(broker: BrokerRegistration) -> int:
    """What a registration costs that is kept."""
    return len(broker.offers) + len(broker.mappings)


def _unregistration(key: BrokerKey, live: LiveBroker) -> Unregistration:
    cluster, address = key
    return Unregistration(cluster, live.registration.broker_name, address)
