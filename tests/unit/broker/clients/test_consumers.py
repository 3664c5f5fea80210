"""Consumer groups: what a heartbeat changes, and when the members must share out the queues anew."""

from __future__ import annotations

import pytest

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.errors import RemoteProtocolError
from rocketline.model.subscription import SubscriptionData
from rocketline.testing.fake_clock import FakeClock
from support.brokers.connections import BROADCASTING, PULL, channel, client_on, consumer


@pytest.fixture
def registry() -> ConsumerRegistry:
    return ConsumerRegistry()


async def test_new_connection_changes_the_group_and_a_repeated_heartbeat_does_not(
    registry: ConsumerRegistry, clock: FakeClock
) -> None:
    """S78, S79."""
    (a, _), (b, _) = channel(clock), channel(clock)
    assert registry.register(consumer("g", "T"), client_on(a, clock, "a"))
    assert registry.register(consumer("g", "T"), client_on(b, clock, "b"))
    assert not registry.register(consumer("g", "T"), client_on(a, clock, "a"))
    assert registry.client_ids("g") == ["a", "b"]


async def test_other_client_id_on_the_same_connection_replaces_the_first_without_a_change(
    registry: ConsumerRegistry, clock: FakeClock
) -> None:
    a, _ = channel(clock)
    registry.register(consumer("g", "T"), client_on(a, clock, "first"))
    assert not registry.register(consumer("g", "T"), client_on(a, clock, "second"))
    assert registry.client_ids("g") == ["second"]


@pytest.mark.parametrize("topics", [["T", "U"], ["U"], []], ids=["added", "exchanged", "dropped"])
async def test_other_topics_change_the_group(registry: ConsumerRegistry, clock: FakeClock, topics: list[str]) -> None:
    """S80."""
    a, _ = channel(clock)
    registry.register(consumer("g", "T"), client_on(a, clock))
    assert registry.register(consumer("g", *topics), client_on(a, clock))
    info = registry.info("g")
    assert info is not None
    assert list(info.subscriptions) == topics


@pytest.mark.parametrize(("version", "expression"), [(8, "B"), (7, "A"), (6, "A")], ids=["newer", "same", "older"])
async def test_expression_counts_if_its_version_is_newer_and_never_changes_the_group(
    registry: ConsumerRegistry, clock: FakeClock, version: int, expression: str
) -> None:
    """S80."""
    a, _ = channel(clock)
    registry.register(consumer("g", SubscriptionData("T", "A", sub_version=7)), client_on(a, clock))
    changed = registry.register(consumer("g", SubscriptionData("T", "B", sub_version=version)), client_on(a, clock))
    subscription = registry.subscription("g", "T")
    assert subscription is not None
    assert (changed, subscription.sub_string) == (False, expression)


async def test_members_with_different_topics_overwrite_each_other(registry: ConsumerRegistry, clock: FakeClock) -> None:
    """S90."""
    (a, _), (b, _) = channel(clock), channel(clock)
    for _ in range(2):
        assert registry.register(consumer("g", "T"), client_on(a, clock))
        assert (registry.subscription("g", "T"), registry.subscription("g", "U")) == (SubscriptionData("T"), None)
        assert registry.register(consumer("g", "U"), client_on(b, clock))
        assert (registry.subscription("g", "T"), registry.subscription("g", "U")) == (None, SubscriptionData("U"))


async def test_heartbeat_without_subscriptions_leaves_them(registry: ConsumerRegistry, clock: FakeClock) -> None:
    a, _ = channel(clock)
    registry.register(consumer("g", "T"), client_on(a, clock), fingerprint=5)
    assert not registry.register(consumer("g"), client_on(a, clock), fingerprint=6, without_sub=True)
    info = registry.info("g")
    assert info is not None
    assert (list(info.subscriptions), info.fingerprint) == (["T"], 6)


async def test_latest_heartbeat_says_how_the_group_consumes(registry: ConsumerRegistry, clock: FakeClock) -> None:
    a, _ = channel(clock)
    registry.register(consumer("g", "T"), client_on(a, clock))
    registry.register(consumer("g", "T", model=BROADCASTING, consume_type=PULL), client_on(a, clock))
    info = registry.info("g")
    assert info is not None
    assert (info.is_broadcasting, info.consume_type) == (True, PULL)


async def test_group_and_its_subscriptions_are_forgotten_with_the_last_member(
    registry: ConsumerRegistry, clock: FakeClock
) -> None:
    (a, _), (b, _) = channel(clock), channel(clock)
    registry.register(consumer("g", "T"), client_on(a, clock, "a"))
    registry.register(consumer("g", "T"), client_on(b, clock, "b"))
    registry.unregister("g", a)
    assert registry.client_ids("g") == ["b"]
    assert registry.groups_subscribed_to("T") == ["g"]
    assert list(registry.on_closed(b)) == ["g"]
    assert (registry.info("g"), registry.client_ids("g"), registry.groups_subscribed_to("T")) == (None, [], [])


async def test_group_that_comes_back_begins_anew(registry: ConsumerRegistry, clock: FakeClock) -> None:
    (a, _), (b, _) = channel(clock), channel(clock)
    registry.register(consumer("g", "T"), client_on(a, clock, "a"))
    assert list(registry.on_closed(a)) == ["g"]
    registry.register(consumer("g", "U"), client_on(b, clock, "b"))
    info = registry.info("g")
    assert info is not None
    assert (info.client_ids, list(info.subscriptions)) == (["b"], ["U"])


async def test_client_is_found_by_its_group_and_id(registry: ConsumerRegistry, clock: FakeClock) -> None:
    (a, _), (b, _) = channel(clock), channel(clock)
    registry.register(consumer("g", "T"), client_on(a, clock, "a"))
    registry.register(consumer("g", "T"), client_on(b, clock, "b"))
    assert registry.client("g", "b") == client_on(b, clock, "b")
    assert registry.client("g", "c") is None
    assert registry.client("h", "b") is None
    assert registry.client("g", None) is None


async def test_member_expires_in_the_group_that_it_is_silent_in(registry: ConsumerRegistry, clock: FakeClock) -> None:
    a, _ = channel(clock)
    quiet = client_on(a, clock)
    registry.register(consumer("g", "T"), quiet)
    clock.advance(60)
    registry.register(consumer("h", "T"), client_on(a, clock))
    assert list(registry.expire(clock.monotonic())) == [("g", quiet), None]
    assert (registry.info("g"), registry.client_ids("h")) == (None, ["c"])


def tagged(topic: str, tags: int, version: int = 0) -> SubscriptionData:
    return SubscriptionData(topic, "x", [f"t{number}" for number in range(tags)], list(range(tags)), version)


async def test_memory_of_subscriptions_is_bounded_for_all_and_for_one_connection(
    registry: ConsumerRegistry, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketline.broker.clients.consumers.BYTES_MAX", 1_500_000)
    monkeypatch.setattr("rocketline.broker.clients.consumers.BYTES_OF_ONE_MAX", 1_000_000)
    (a, _), (b, _) = channel(clock), channel(clock)
    of_a, of_b = client_on(a, clock, "a"), client_on(b, clock, "b")
    registry.register(consumer("g", tagged("T", 2_500)), of_a)
    assert 800_000 < registry.bytes < 1_000_000
    with pytest.raises(RemoteProtocolError, match=r"subscriptions of group h with \d+ bytes: all take \d+"):
        registry.register(consumer("h", tagged("T", 2_500)), of_a)
    assert registry.info("h") is None
    with pytest.raises(RemoteProtocolError, match="subscriptions of group h"):
        registry.register(consumer("h", tagged("T", 2_500)), of_b)
    registry.register(consumer("h", tagged("T", 1_500)), of_b)
    registry.register(consumer("g", tagged("T", 2_500, 1)), of_b)  # no more than there was
    registry.register(consumer("g", tagged("T", 1_000, 2)), of_a)
    registry.unregister("g", a)
    assert registry._bytes_of.keys() == {b}, "who stays has them"
    assert registry._bytes_of[b] == registry.bytes
    list(registry.on_closed(b))
    assert (registry.bytes, registry._bytes_of, registry.info("g")) == (0, {}, None)
