"""Clients that go without a word: their connection ends, or nothing is heard of them any more."""

from __future__ import annotations

from collections.abc import Iterator

from rocketline.broker.chores import Chores
from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.clients.memberships import Client
from rocketline.broker.clients.notifications import Notifications
from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import Steps, each_with_pause
from rocketline.logs import Throttle
from rocketline.net.channel import Channel
from rocketline.settings import Settings

PRODUCER_EXPIRED_S = 120.0
"""How long nothing may be heard of a producer; for consumers it is a setting, `channelExpiredTimeout`."""
_GROUPS_A_STEP = 500
_MEMBERS_A_STEP = 1_000


class ClientExpiry:
    """Keeps the registries true. Java: ClientHousekeepingService.

    Differs: `enableFastChannelEventProcess` has no effect. A closed connection costs what its own groups cost, without
    the side effect that the switch has in Java (that broadcasting groups are notified too).
    """

    def __init__(
        self,
        consumers: ConsumerRegistry,
        producers: ProducerRegistry,
        notifications: Notifications,
        settings: Settings[BrokerConfig],
        chores: Chores,
        log: Throttle,
    ) -> None:
        self._consumers, self._producers, self._notifications = consumers, producers, notifications
        self._settings, self._chores, self._log = settings, chores, log
        self._is_scanning = False

    def connection_closed(self, channel: Channel) -> None:
        """Let the client go and tell the others, even those of a group that wants no notices of new members."""
        self._chores.begin(self._let_go(channel))

    def _let_go(self, channel: Channel) -> Steps[None]:
        for _, is_step in each_with_pause(self._producers.on_closed(channel), _GROUPS_A_STEP):
            if is_step:
                yield
        for group, is_step in each_with_pause(self._consumers.on_closed(channel), _GROUPS_A_STEP):
            self._notifications.members_changed(group)
            if is_step:
                yield

    def scan(self, now_s: float) -> None:
        """Let go of clients that were silent for too long, and close their connections. Called every 10 s.

        As with Apache's broker nobody is told: who shares the group finds out when it next looks for itself.
        """
        if not self._is_scanning:
            self._is_scanning = True
            self._chores.begin(self._scanned(now_s))

    def _scanned(self, now_s: float) -> Steps[None]:
        expired_s = self._settings.value.channel_expired_timeout / 1000
        try:
            yield from self._expired("producer expired", self._producers.expire(now_s - PRODUCER_EXPIRED_S))
            yield from self._expired("consumer expired", self._consumers.expire(now_s - expired_s))
        finally:
            self._is_scanning = False

    def _expired(self, cause: str, members: Iterator[tuple[str, Client] | None]) -> Steps[None]:
        for expired, is_step in each_with_pause(members, _MEMBERS_A_STEP):
            if expired is not None:
                self._close(cause, *expired)
            if is_step:
                yield

    def _close(self, cause: str, group: str, client: Client) -> None:
        self._log.warning(cause, f"{client.client_id} in group {group} sends no heartbeats", peer=client.channel.peer)
        client.channel.close()
