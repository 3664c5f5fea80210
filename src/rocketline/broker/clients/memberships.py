"""Which client is in which group, over which connection, and when it was last heard of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rocketline.net.channel import Channel
from rocketline.wire.bodies.connections import ClientConnection

NAME_MAX: Final = 255
"""Characters of a client's id or a group's name; all clients keep to that."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client as its last heartbeat describes it. Java: ClientChannelInfo."""

    channel: Channel
    client_id: str
    language: str | None
    version: int
    heard_s: float
    """When that heartbeat came, on the monotonic clock; it decides who is silent for too long."""
    heard_ms: int
    """The same by the calendar, for people."""

    @property
    def connection(self) -> ClientConnection:
        """What an administrator is shown of it."""
        return ClientConnection(self.client_id, self.channel.peer, self.language, self.version)


class Memberships:
    """The members of every group; a client is one connection. A group exists while it has a member."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Channel, Client]] = {}
        self._groups_of: dict[Channel, set[str]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def of(self, group: str) -> Mapping[Channel, Client]:
        """The members as they are from now on; empty, and staying so, for a group that does not exist."""
        return self._groups.get(group, {})

    def groups_of(self, channel: Channel) -> int:
        """How many groups a connection is in."""
        return len(self._groups_of.get(channel, ()))

    def put(self, group: str, client: Client) -> bool:
        """Take a client in, or what is newer of one that was in. True if its connection is new to the group."""
        members = self._groups.setdefault(group, {})
        is_new = client.channel not in members
        members[client.channel] = client
        if is_new:
            self._groups_of.setdefault(client.channel, set()).add(group)
        return is_new

    def remove(self, group: str, channel: Channel) -> None:
        """Let go of a member; of somebody who is none, nothing."""
        members = self._groups.get(group)
        if members is None or channel not in members:
            return
        del members[channel]
        if not members:
            del self._groups[group]
        groups = self._groups_of[channel]
        groups.discard(group)
        if not groups:
            del self._groups_of[channel]

    def remove_everywhere(self, channel: Channel) -> Iterator[str]:
        """Let go of a connection, in one group after the other; which these are. Whoever asks may take rests."""
        for group in sorted(self._groups_of.get(channel, ())):
            self.remove(group, channel)
            yield group

    def expire(self, silent_since_s: float) -> Iterator[tuple[str, Client] | None]:
        """Let go of each member whose last heartbeat came before that. These, each with its group, and None for every
        other one that was looked at: whoever asks may take rests."""
        for group in list(self._groups):
            for channel in list(self.of(group)):
                client = self.of(group).get(channel)
                if client is not None and client.heard_s < silent_since_s:
                    self.remove(group, channel)
                    yield group, client
                else:
                    yield None
