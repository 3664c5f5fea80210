"""Who is in which group."""

from __future__ import annotations

from rocketline.broker.clients.memberships import Memberships
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.connections import ClientConnection
from support.brokers.connections import channel, client_on


async def test_connection_is_new_to_a_group_once(clock: FakeClock) -> None:
    members, (a, _) = Memberships(), channel(clock)
    assert [members.put("g", client_on(a, clock)) for _ in range(2)] == [True, False]
    assert members.put("h", client_on(a, clock))


async def test_later_heartbeat_of_a_connection_replaces_its_client(clock: FakeClock) -> None:
    members, (a, _) = Memberships(), channel(clock)
    members.put("g", client_on(a, clock, "old"))
    newer = client_on(a, clock, "new")
    members.put("g", newer)
    assert list(members.of("g").values()) == [newer]


async def test_group_ends_with_its_last_member(clock: FakeClock) -> None:
    members, (a, _), (b, _) = Memberships(), channel(clock), channel(clock)
    members.put("g", client_on(a, clock))
    members.put("g", client_on(b, clock))
    members.remove("g", a)
    assert list(members) == ["g"]
    members.remove("g", b)
    assert list(members) == []
    assert members.of("g") == {}


async def test_removing_a_stranger_changes_nothing(clock: FakeClock) -> None:
    members, (a, _), (b, _) = Memberships(), channel(clock), channel(clock)
    members.put("g", client_on(a, clock))
    members.remove("g", b)
    members.remove("no such group", b)
    assert list(members.remove_everywhere(b)) == []
    assert list(members.of("g")) == [a]


async def test_lost_connection_leaves_all_its_groups_and_no_other(clock: FakeClock) -> None:
    members, (a, _), (b, _) = Memberships(), channel(clock), channel(clock)
    for group in ("g", "h"):
        members.put(group, client_on(a, clock))
    members.put("h", client_on(b, clock))
    members.put("i", client_on(b, clock))
    assert list(members.remove_everywhere(a)) == ["g", "h"]
    assert {group: list(members.of(group)) for group in members} == {"h": [b], "i": [b]}
    assert list(members.remove_everywhere(a)) == []


async def test_only_who_was_not_heard_since_is_silent(clock: FakeClock) -> None:
    members, (a, _), (b, _) = Memberships(), channel(clock), channel(clock)
    quiet = client_on(a, clock)
    members.put("g", quiet)
    since_s = clock.monotonic()
    assert list(members.expire(since_s)) == [None]
    clock.advance(1)
    members.put("g", client_on(b, clock))
    assert list(members.expire(clock.monotonic())) == [("g", quiet), None]
    assert list(members.of("g")) == [b]


async def test_client_shows_its_address_language_and_version(clock: FakeClock) -> None:
    a, _ = channel(clock)
    assert client_on(a, clock, "c1", version=401).connection == ClientConnection("c1", "127.0.0.1:50000", "JAVA", 401)
