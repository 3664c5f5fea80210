"""The consumer groups that are online: their members, and what they subscribe to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rocketline.broker.filters import Wanted, wanted_by
from rocketline.broker.members import Client, Members
from rocketline.model.heartbeat import ConsumerData
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rocketline.net.channel import Channel


@dataclass(slots=True)
class ConsumerGroupInfo:
    """A group with at least one member. How it consumes is what the latest heartbeat of any member says.

    So is what it subscribes to: members that subscribe to different topics overwrite each other's, as in Apache's
    broker. Java: ConsumerGroupInfo.
    """

    group_name: str
    clients: Mapping[Channel, Client]
    """The members, each by its connection."""
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    """By topic."""
    fingerprint: int = 0
    """Of the latest heartbeat; zero if that was of version 1."""

    _wanted: dict[str, tuple[SubscriptionData, Wanted]] = field(default_factory=dict)

    def wanted(self, subscription: SubscriptionData) -> Wanted:
        """The tags of one of the subscriptions, the same object for all pulls: there may be thousands of tags."""
        kept = self._wanted.get(subscription.topic)
        if kept is None or kept[0] is not subscription:
            kept = self._wanted[subscription.topic] = subscription, wanted_by(subscription)
        return kept[1]

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model is MessageModel.BROADCASTING

    @property
    def client_ids(self) -> list[str]:
        """One for each connection."""
        return [client.client_id for client in self.clients.values()]

    def subscribe(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Replace the subscriptions. True if the topics are others than before.

        An expression counts if its version is greater than that of the one before; it changes no topics.
        """
        known, topics, is_changed = self.subscriptions, set(), False
        for subscription in wanted:
            topics.add(subscription.topic)
            before = known.get(subscription.topic)
            if before is None:
                is_changed = True
            elif subscription.sub_version <= before.sub_version:
                continue
            known[subscription.topic] = subscription
        for topic in known.keys() - topics:
            del known[topic]
            self._wanted.pop(topic, None)
            is_changed = True
        return is_changed


class ConsumerRegistry:
    """All consumer groups that are online. Java: ConsumerManager.

    Differs: what a pull says of a group that sends no heartbeats is not kept (Java: consumerCompensationTable); only
    QUERY_SUBSCRIPTION_BY_CONSUMER and statistics would show it.
    """

    def __init__(self) -> None:
        self._members = Members()
        self._groups: dict[str, ConsumerGroupInfo] = {}

    def info(self, group: str) -> ConsumerGroupInfo | None:
        return self._groups.get(group)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        info = self._groups.get(group)
        return None if info is None else info.subscriptions.get(topic)

    def client_ids(self, group: str) -> list[str]:
        """The ids of the members, in no order that means anything; empty if the group is not online."""
        info = self._groups.get(group)
        return [] if info is None else info.client_ids

    def client(self, group: str, client_id: str | None) -> Client | None:
        """The member of this id; of several, any."""
        members = self._members.of(group).values()
        return next((client for client in members if client.client_id == client_id), None)

    def groups_subscribed_to(self, topic: str) -> list[str]:
        return [group for group, info in self._groups.items() if topic in info.subscriptions]

    def register(self, data: ConsumerData, client: Client, *, fingerprint: int = 0, without_sub: bool = False) -> bool:
        """Take in what a heartbeat says of one group; `without_sub` leaves the subscriptions as they are.

        True if the group has changed so that its members must share out the queues anew: there is a connection that it
        did not have, or other topics.
        """
        is_new = self._members.put(data.group_name, client)
        info = self._groups.get(data.group_name)
        if info is None:
            info = ConsumerGroupInfo(data.group_name, self._members.of(data.group_name))
            self._groups[data.group_name] = info
        info.consume_type, info.message_model = data.consume_type, data.message_model
        info.consume_from_where, info.fingerprint = data.consume_from_where, fingerprint
        has_other_topics = not without_sub and info.subscribe(data.subscription_data_set)
        return is_new or has_other_topics

    def unregister(self, group: str, channel: Channel) -> None:
        """Let a client go from one group."""
        self._members.remove(group, channel)
        self._forget_if_empty(group)

    def on_closed(self, channel: Channel) -> list[str]:
        """Let a client go whose connection is gone. Returns the groups that it was in."""
        groups = self._members.remove_everywhere(channel)
        for group in groups:
            self._forget_if_empty(group)
        return groups

    def expire(self, silent_since_s: float) -> list[tuple[str, Client]]:
        """Let go of each member of which nothing was heard since then. Returns them, each with its group."""
        expired = self._members.silent_since(silent_since_s)
        for group, client in expired:
            self.unregister(group, client.channel)
        return expired

    def _forget_if_empty(self, group: str) -> None:
        if not self._members.of(group):
            self._groups.pop(group, None)
