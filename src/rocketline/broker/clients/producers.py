"""The producer groups that are online."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocketline.broker.clients.memberships import Client, Memberships
from rocketline.net.channel import Channel


class ProducerRegistry:
    """All producer groups that are online. Java: ProducerManager."""

    def __init__(self) -> None:
        self._members = Memberships()

    def clients(self, group: str) -> Mapping[Channel, Client]:
        """The members, each by its connection; empty if the group is not online."""
        return self._members.of(group)

    def groups(self) -> list[str]:
        """Those that are online."""
        return list(self._members)

    def members(self, group: str) -> list[Client]:
        """Those of now."""
        return list(self._members.of(group).values())

    def groups_of(self, channel: Channel) -> int:
        """How many groups a connection is in."""
        return self._members.groups_of(channel)

    def register(self, group: str, client: Client) -> None:
        self._members.put(group, client)

    def unregister(self, group: str, channel: Channel) -> None:
        self._members.remove(group, channel)

    def on_closed(self, channel: Channel) -> Iterator[str]:
        """See `Memberships.remove_everywhere`."""
        return self._members.remove_everywhere(channel)

    def expire(self, silent_since_s: float) -> Iterator[tuple[str, Client] | None]:
        """See `Memberships.expire`."""
        return self._members.expire(silent_since_s)
