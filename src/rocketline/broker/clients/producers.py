"""The producer groups that are online."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocketline.broker.clients.memberships import Client, Memberships
from rocketline.net.channel import Channel


class ProducerRegistry:
    """All producer groups that are online. Java: ProducerManager."""

    def __init__(self) -> None:
        self._members = Memberships()
        self._by_id: dict[str, dict[Channel, Client]] = {}
        """Each client's connections, the newest last: one that comes back is found before the old one is missed."""
        self._id_of: dict[Channel, str] = {}

    def clients(self, group: str) -> Mapping[Channel, Client]:
        """The members, each by its connection; empty if the group is not online."""
        return self._members.of(group)

    def groups(self) -> list[str]:
        """The groups that have a member online."""
        return list(self._members)

    def members(self, group: str) -> list[Client]:
        """The members that are online now."""
        return list(self._members.of(group).values())

    def groups_of(self, channel: Channel) -> int:
        """How many groups a connection is in."""
        return self._members.groups_of(channel)

    def client(self, client_id: str) -> Client | None:
        """The client of that id on its newest connection; None if it is not online. Java: findChannel."""
        for channel, client in reversed(self._by_id.get(client_id, {}).items()):
            if not channel.is_closed:
                return client
        return None

    def register(self, group: str, client: Client) -> None:
        self._members.put(group, client)
        channel = client.channel
        if self._id_of.get(channel, client.client_id) != client.client_id:
            self._forget_id(channel)
        self._id_of[channel] = client.client_id
        self._by_id.setdefault(client.client_id, {})[channel] = client

    def unregister(self, group: str, channel: Channel) -> None:
        self._members.remove(group, channel)
        self._forget_if_gone(channel)

    def on_closed(self, channel: Channel) -> Iterator[str]:
        """See `Memberships.remove_everywhere`."""
        self._forget_id(channel)
        return self._members.remove_everywhere(channel)

    def expire(self, silent_since_s: float) -> Iterator[tuple[str, Client] | None]:
        """See `Memberships.expire`."""
        for expired in self._members.expire(silent_since_s):
            if expired is not None:
                self._forget_if_gone(expired[1].channel)
            yield expired

    def _forget_if_gone(self, channel: Channel) -> None:
        if not self._members.groups_of(channel):
            self._forget_id(channel)

    def _forget_id(self, channel: Channel) -> None:
        client_id = self._id_of.pop(channel, None)
        if client_id is not None:
            connections = self._by_id[client_id]
            del connections[channel]
            if not connections:
                del self._by_id[client_id]
