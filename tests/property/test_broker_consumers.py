"""The consumer registry against a plain list of who said what last."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.net.channel import Channel
from rocketline.testing.fake_clock import FakeClock
from support.brokers.connections import client_on, consumer
from support.net.doubles import RecordingOwner

CONNECTIONS, GROUPS, TOPICS = st.integers(0, 3), st.sampled_from("gh"), st.sets(st.sampled_from("TUV"))


class Registry(RuleBasedStateMachine):
    """Clients join, repeat themselves, leave, vanish and fall silent, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.registry = FakeClock(), ConsumerRegistry()
        owner = RecordingOwner(self.clock)
        self.channels = [Channel(owner) for _ in range(4)]
        self.heard_s: dict[tuple[str, Channel], float] = {}
        self.topics: dict[str, set[str]] = {}

    @rule(connection=CONNECTIONS, group=GROUPS, topics=TOPICS, is_full=st.booleans())
    def heartbeat(self, connection: int, group: str, topics: set[str], is_full: bool) -> None:
        channel = self.channels[connection]
        before = self.topics.get(group, set())
        wanted = topics if is_full else before
        is_changed = (group, channel) not in self.heard_s or wanted != before
        client = client_on(channel, self.clock, str(connection))
        data = consumer(group, *(topics if is_full else ()))
        assert self.registry.register(data, client, without_sub=not is_full) == is_changed
        self.heard_s[group, channel] = self.clock.monotonic()
        self.topics[group] = set(wanted)

    @rule(connection=CONNECTIONS, group=GROUPS)
    def unregister(self, connection: int, group: str) -> None:
        self.registry.unregister(group, self.channels[connection])
        self._gone({(group, self.channels[connection])})

    @rule(connection=CONNECTIONS)
    def close(self, connection: int) -> None:
        channel = self.channels[connection]
        groups = sorted(group for group, member in self.heard_s if member is channel)
        assert list(self.registry.on_closed(channel)) == groups
        self._gone({(group, channel) for group in groups})

    @rule(seconds=st.integers(1, 5))
    def expire(self, seconds: int) -> None:
        self.clock.advance(seconds)
        since_s = self.clock.monotonic() - 4
        silent = {member for member, heard_s in self.heard_s.items() if heard_s < since_s}
        expired = [found for found in self.registry.expire(since_s) if found is not None]
        assert {(group, client.channel) for group, client in expired} == silent
        self._gone(silent)

    def _gone(self, members: set[tuple[str, Channel]]) -> None:
        self.heard_s = {member: heard_s for member, heard_s in self.heard_s.items() if member not in members}
        online = {group for group, _ in self.heard_s}
        self.topics = {group: topics for group, topics in self.topics.items() if group in online}

    @invariant()
    def shows_what_the_clients_said(self) -> None:
        for group in "gh":
            info = self.registry.info(group)
            members = {channel for name, channel in self.heard_s if name == group}
            assert (set(info.clients) if info else set()) == members
            assert (info is not None) == bool(members)
            assert (set(info.subscriptions) if info else set()) == self.topics.get(group, set())
        for topic in "TUV":
            online = {group for group, topics in self.topics.items() if topic in topics}
            assert set(self.registry.groups_subscribed_to(topic)) == online


Registry.TestCase.settings = settings(stateful_step_count=30)
test_registry_is_what_the_clients_said = Registry.TestCase
