"""Clients of a broker as its tests need them: what they say of themselves, and connections without a socket."""

from __future__ import annotations

from collections.abc import Iterable

from rocketline.broker.clients.memberships import Client
from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.config import BrokerConfig, load_settings
from rocketline.clock import Clock
from rocketline.model.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rocketline.net.channel import Channel
from rocketline.settings import Flag, Settings
from rocketline.wire.bodies import encode
from rocketline.wire.codes import CURRENT_VERSION, RequestCode
from rocketline.wire.command import Command
from support.net.doubles import MemoryTransport, RecordingOwner, connected

CLUSTERING, BROADCASTING = MessageModel.CLUSTERING, MessageModel.BROADCASTING
PULL, PUSH = ConsumeType.CONSUME_ACTIVELY, ConsumeType.CONSUME_PASSIVELY


def broker_settings(**settings: str) -> Settings[BrokerConfig]:
    """`settings` are Apache's keys."""
    return load_settings(environ={}, flags=[Flag("test", key, value) for key, value in settings.items()])


def channel(clock: Clock) -> tuple[Channel, MemoryTransport]:
    """An open connection, and what it writes to."""
    return connected(RecordingOwner(clock))


def client_on(channel: Channel, clock: Clock, client_id: str = "c", *, version: int = CURRENT_VERSION) -> Client:
    """A client that was heard of just now."""
    return Client(channel, client_id, "JAVA", version, clock.monotonic(), clock.wall_ms())


def consumer(
    group: str,
    *topics: str | SubscriptionData,
    model: MessageModel = CLUSTERING,
    consume_type: ConsumeType = PUSH,
) -> ConsumerData:
    subscriptions = [SubscriptionData(topic) if isinstance(topic, str) else topic for topic in topics]
    return ConsumerData(group, consume_type, model, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, subscriptions)


def heartbeat(
    client_id: str,
    *consumers: ConsumerData,
    producers: Iterable[str] = (),
    fingerprint: int = 0,
    without_sub: bool = False,
    version: int = CURRENT_VERSION,
) -> Command:
    """HEART_BEAT of a client in Java."""
    data = HeartbeatData(client_id, [ProducerData(p) for p in producers], list(consumers), fingerprint, without_sub)
    return Command(RequestCode.HEART_BEAT, body=encode(data), language="JAVA", version=version)


def producers_by_group(registry: ProducerRegistry) -> dict[str, list[Client]]:
    """The members of every producer group."""
    return {group: registry.members(group) for group in registry.groups()}
