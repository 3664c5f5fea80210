"""The producer groups that are online."""

from __future__ import annotations

from collections.abc import Mapping

from rocketline.broker.members import Client, Members
from rocketline.net.channel import Channel


class ProducerRegistry:
    """All producer groups that are online. Java: ProducerManager."""

    def __init__(self) -> None:
        self._members = Members()

    def clients(self, group: str) -> Mapping[Channel, Client]:
        """The members, each by its connection; empty if the group is not online."""
        return self._members.of(group)

    def all(self) -> dict[str, list[Client]]:
        """The members of every group."""
        return {group: list(self._members.of(group).values()) for group in self._members}

    def register(self, group: str, client: Client) -> None:
        self._members.put(group, client)

    def unregister(self, group: str, channel: Channel) -> None:
        self._members.remove(group, channel)

    def on_closed(self, channel: Channel) -> None:
        self._members.remove_everywhere(channel)

    def expire(self, silent_since_s: float) -> list[tuple[str, Client]]:
        """Let go of each member of which nothing was heard since then. Returns them, each with its group."""
        expired = self._members.silent_since(silent_since_s)
        for group, client in expired:
            self._members.remove(group, client.channel)
        return expired
