"""Producer groups."""

from __future__ import annotations

from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.testing.fake_clock import FakeClock
from support.brokers.connections import channel, client_on, producers_by_group


async def test_producers_come_and_go(clock: FakeClock) -> None:
    registry, (a, _), (b, _) = ProducerRegistry(), channel(clock), channel(clock)
    first, second = client_on(a, clock, "a"), client_on(b, clock, "b")
    for group in ("p", "q"):
        registry.register(group, first)
    registry.register("q", second)
    assert producers_by_group(registry) == {"p": [first], "q": [first, second]}
    registry.unregister("p", a)
    assert registry.clients("p") == {}
    assert list(registry.on_closed(a)) == ["q"]
    assert registry.clients("q") == {b: second}


async def test_only_silent_producers_expire(clock: FakeClock) -> None:
    registry, (a, _), (b, _) = ProducerRegistry(), channel(clock), channel(clock)
    quiet = client_on(a, clock)
    registry.register("p", quiet)
    clock.advance(1)
    loud = client_on(b, clock)
    registry.register("p", loud)
    assert list(registry.expire(clock.monotonic())) == [("p", quiet), None]
    assert producers_by_group(registry) == {"p": [loud]}
