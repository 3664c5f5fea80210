"""The consumer groups that are online: their members, and what they subscribe to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from rocketline.broker.clients.memberships import Client, Memberships
from rocketline.broker.filters import wanted_by
from rocketline.errors import RemoteProtocolError
from rocketline.model.heartbeat import ConsumerData
from rocketline.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rocketline.net.channel import Channel

BYTES_MAX: Final = 256 * 1024 * 1024
"""Subscriptions of all groups together: a quarter of a million of the usual ones."""
BYTES_OF_ONE_MAX: Final = 32 * 1024 * 1024
"""Subscriptions of which the newest heartbeat came by one connection."""
_SUBSCRIPTION_BYTES: Final = 1024
_TAG_BYTES: Final = 320
"""Its text, its hash, and both again in what pulls are compared with."""


def _cost(subscription: SubscriptionData) -> int:
    """About what it takes in memory."""
    cost = _SUBSCRIPTION_BYTES + len(subscription.topic + subscription.sub_string + subscription.expression_type)
    if subscription.tags_set or subscription.code_set:
        tags, codes = subscription.tags_set, subscription.code_set
        cost += sum(map(len, tags)) + _TAG_BYTES * max(len(tags), len(codes))
    return cost


def _nothing(group: str) -> None:
    return


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
    """What the newest heartbeat has as a digest of its contents (version 2); 0 for one of version 1."""

    costs: dict[str, int] = field(default_factory=dict)
    """What each of them takes, in bytes."""
    bytes: int = 0
    """What counts for all of them, and for the connection that said them last."""
    payer: Channel | None = None

    _wanted: dict[str, tuple[SubscriptionData, frozenset[int] | None]] = field(default_factory=dict)

    def wanted(self, subscription: SubscriptionData) -> frozenset[int] | None:
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

    def subscribe(self, wanted: Collection[SubscriptionData], costs: Iterable[int]) -> bool:
        """Replace the subscriptions, each of which costs so much. True if the topics are others than before.

        An expression counts if its version is greater than that of the one before; it changes no topics.
        """
        known, is_changed = self.subscriptions, False
        topics = {subscription.topic for subscription in wanted}
        for subscription, cost in zip(wanted, costs, strict=True):
            before = known.get(subscription.topic)
            if before is None:
                is_changed = True
            elif subscription.sub_version <= before.sub_version:
                continue
            known[subscription.topic], self.costs[subscription.topic] = subscription, cost
        for topic in known.keys() - topics:
            del known[topic], self.costs[topic]
            self._wanted.pop(topic, None)
            is_changed = True
        return is_changed


class ConsumerRegistry:
    """All consumer groups that are online. Java: ConsumerManager.

    Differs: what a pull says of a group that sends no heartbeats is not kept (Java: consumerCompensationTable); only
    QUERY_SUBSCRIPTION_BY_CONSUMER and statistics would show it.
    """

    def __init__(self) -> None:
        self._members = Memberships()
        self._groups: dict[str, ConsumerGroupInfo] = {}
        self._bytes_of: Counter[Channel] = Counter()
        self.bytes = 0
        """What the subscriptions of all groups take."""
        self.on_empty: Callable[[str], object] = _nothing
        """Told of a group whose last member has gone."""

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

    def is_member(self, group: str, channel: Channel) -> bool:
        return channel in self._members.of(group)

    def groups_of(self, channel: Channel) -> int:
        """How many groups a connection is in."""
        return self._members.groups_of(channel)

    def groups_subscribed_to(self, topic: str) -> list[str]:
        return [group for group, info in self._groups.items() if topic in info.subscriptions]

    def register(self, data: ConsumerData, client: Client, *, fingerprint: int = 0, without_sub: bool = False) -> bool:
        """Take in what a heartbeat says of one group; `without_sub` leaves the subscriptions as they are.

        True if the group has changed so that its members must share out the queues anew: there is a connection that it
        did not have, or other topics. Raises `RemoteProtocolError` if the subscriptions would take too much memory.
        """
        costs = [] if without_sub else [_cost(subscription) for subscription in data.subscription_data_set]
        self._check_room(data.group_name, sum(costs), client.channel)
        is_new = self._members.put(data.group_name, client)
        info = self._groups.get(data.group_name)
        if info is None:
            info = ConsumerGroupInfo(data.group_name, self._members.of(data.group_name))
            self._groups[data.group_name] = info
        info.consume_type, info.message_model = data.consume_type, data.message_model
        info.consume_from_where, info.fingerprint = data.consume_from_where, fingerprint
        if without_sub:
            return is_new
        has_other_topics = info.subscribe(data.subscription_data_set, costs)
        self._charge(info, client.channel, sum(info.costs.values()))
        return is_new or has_other_topics

    def _check_room(self, group: str, cost: int, channel: Channel) -> None:
        """A group that takes no more than before is always let in."""
        info = self._groups.get(group)
        known = 0 if info is None else info.bytes
        if cost <= known:
            return
        of_one = self._bytes_of[channel] + cost - (known if info is not None and info.payer is channel else 0)
        if of_one > BYTES_OF_ONE_MAX or self.bytes + cost - known > BYTES_MAX:
            taken = f"all take {self.bytes} bytes already, those of this connection {self._bytes_of[channel]}"
            raise RemoteProtocolError(f"subscriptions of group {group} with {cost} bytes: {taken}")

    def unregister(self, group: str, channel: Channel) -> None:
        """Let a client go from one group."""
        self._members.remove(group, channel)
        self._left(group, channel)

    def on_closed(self, channel: Channel) -> Iterator[str]:
        """Let a client go whose connection is gone: see `Memberships.remove_everywhere`."""
        for group in self._members.remove_everywhere(channel):
            self._left(group, channel)
            yield group

    def expire(self, silent_since_s: float) -> Iterator[tuple[str, Client] | None]:
        """See `Memberships.expire`."""
        for expired in self._members.expire(silent_since_s):
            if expired is not None:
                group, client = expired
                self._left(group, client.channel)
            yield expired

    def _left(self, group: str, channel: Channel) -> None:
        """An empty group is forgotten. What others have of the one who left is theirs from now on."""
        info = self._groups.get(group)
        if info is None:
            return
        if not info.clients:
            self._charge(info, None, 0)
            del self._groups[group]
            self.on_empty(group)
        elif info.payer is channel:
            self._charge(info, next(iter(info.clients)), info.bytes)

    def _charge(self, info: ConsumerGroupInfo, payer: Channel | None, cost: int) -> None:
        """The group's subscriptions take so much from now on, which counts for that connection."""
        if info.payer is not None:
            self._bytes_of[info.payer] -= info.bytes
            if not self._bytes_of[info.payer]:
                del self._bytes_of[info.payer]
        self.bytes += cost - info.bytes
        info.payer, info.bytes = payer, cost
        if payer is not None:
            self._bytes_of[payer] += cost
