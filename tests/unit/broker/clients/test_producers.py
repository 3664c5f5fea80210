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


async def test_a_client_is_found_by_its_id_on_its_newest_connection(clock: FakeClock) -> None:
    """S207: replies go where its heartbeats come from."""
    registry, (a, _), (b, _) = ProducerRegistry(), channel(clock), channel(clock)
    old, new = client_on(a, clock, "me"), client_on(b, clock, "me")
    registry.register("p", old)
    registry.register("p", new)
    registry.register("p", old)  # a heartbeat of the old one does not make it new
    assert registry.client("me") is new
    registry.unregister("p", b)
    assert registry.client("me") is old
    assert list(registry.on_closed(a)) == ["p"]
    assert registry.client("me") is None


async def test_a_connection_has_one_id_at_a_time(clock: FakeClock) -> None:
    """A liar that calls itself something else with every heartbeat costs one entry."""
    registry, (a, _) = ProducerRegistry(), channel(clock)
    for number in range(1000):
        registry.register("p", client_on(a, clock, f"me-{number}"))
    assert registry.client("me-0") is None
    assert registry.client("me-999") is not None
    assert (len(registry._by_id), len(registry._id_of)) == (1, 1)
    clock.advance(1)
    assert list(registry.expire(clock.monotonic()))
    assert registry.client("me-999") is None
    assert not registry._by_id
