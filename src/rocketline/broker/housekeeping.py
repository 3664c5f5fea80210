"""Clients that go without a word: their connection ends, or nothing is heard of them any more."""

from __future__ import annotations

from rocketline.broker.config import BrokerConfig
from rocketline.broker.consumers import ConsumerRegistry
from rocketline.broker.members import Client
from rocketline.broker.notifications import Notifications
from rocketline.broker.producers import ProducerRegistry
from rocketline.logs import Throttle
from rocketline.net.channel import Channel
from rocketline.settings import Settings

PRODUCER_EXPIRED_S = 120.0
"""How long nothing may be heard of a producer; for consumers it is a setting, `channelExpiredTimeout`."""


class Housekeeping:
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
        log: Throttle,
    ) -> None:
        self._consumers, self._producers, self._notifications = consumers, producers, notifications
        self._settings, self._log = settings, log

    def connection_closed(self, channel: Channel) -> None:
        """Let the client go and tell the others, even those of a group that wants no notices of new members."""
        self._producers.on_closed(channel)
        for group in self._consumers.on_closed(channel):
            self._notifications.members_changed(group)

    def scan(self, now_s: float) -> None:
        """Let go of clients that were silent for too long, and close their connections. Called every 10 s.

        As with Apache's broker nobody is told: who shares the group finds out when it next looks for itself.
        """
        expired_s = self._settings.value.channel_expired_timeout / 1000
        for group, client in self._producers.expire(now_s - PRODUCER_EXPIRED_S):
            self._close("producer expired", group, client)
        for group, client in self._consumers.expire(now_s - expired_s):
            self._close("consumer expired", group, client)

    def _close(self, cause: str, group: str, client: Client) -> None:
        self._log.warning(cause, f"{client.client_id} in group {group} sends no heartbeats", peer=client.channel.peer)
        client.channel.close()
