"""A broker whose topic T is popped, time turned by hand, and what comes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rocketline.broker.server import Broker
from rocketline.clock import Clock
from rocketline.model.names import revive_topic
from rocketline.store.filesystem import FileSystem
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.command import Command
from support.brokers.messages import create_topic, send
from support.brokers.pops import pop
from support.brokers.running import BrokerPeer, broker
from support.clients.members import until

REVIVE = revive_topic("DefaultCluster")
OFFSETS = Path("/store/config/consumerOffset.json")


@asynccontextmanager
async def scene(
    *, clock: Clock | None = None, files: FileSystem | None = None, queues: int = 1, **settings: str
) -> AsyncIterator[tuple[Broker, BrokerPeer]]:
    """The topic T. A look at what is to come again every few milliseconds, for who turns the clock by hand."""
    given = {"brokerName": "broker-a", "reviveInterval": "5", "popFromRetryProbability": "0", **settings}
    async with broker(clock=clock, files=files, **given) as running, BrokerPeer(running.address) as peer:
        await create_topic(peer, "T", queues=queues)
        yield running, peer


async def send_many(peer: BrokerPeer, count: int, *, queue_id: int = 0, **properties: str) -> list[bytes]:
    sent = [b"%d" % number for number in range(count)]
    for body in sent:
        await send(peer, body, queue_id=queue_id, **properties)
    return sent


async def again(peer: BrokerPeer, clock: FakeClock, *, after_s: float, invisible_ms: int = 60_000) -> Command:
    """What can be popped when so much time has gone by, and all is done that is to be done then."""
    clock.advance(after_s)
    return await peer.request(pop(20_000, invisible_ms=invisible_ms), 20)


async def nothing_comes(peer: BrokerPeer, running: Broker, clock: FakeClock, *, within_s: float) -> None:
    """All that was noted is worked off, and no message was left."""
    clock.advance(within_s)
    revival = running.services.revival
    assert revival is not None
    timers = running.storage.timers
    assert timers is not None
    await until(lambda: timers.delivered_ms >= clock.wall_ms() - 1000)
    await until(lambda: not any(len(queue) or queue.behind for queue in revival.queues))
    assert (await peer.request(pop(), 5)).code == 210
