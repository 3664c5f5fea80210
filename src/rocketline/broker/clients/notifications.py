"""NOTIFY_CONSUMER_IDS_CHANGED (40): the members of a group are told that they must share out its queues anew."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.config import BrokerConfig
from rocketline.errors import ConnectionLostError, RocketlineError
from rocketline.logs import Throttle
from rocketline.net.background import Background
from rocketline.net.channel import Channel
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command

NOTICE_TIMEOUT_S = 3.0
"""A member that takes no byte for so long goes without; every 20 s each member looks for itself."""

_TOLD_PER_TURN: Final = 128
"""Members that one turn of the loop tells: a few milliseconds."""


class Notifications:
    """Tells members of changes, one-way and in the background. Use it as `async with`. Java: ConsumerIdsChangeListener.

    A connection that cannot take a notice now holds up nobody. It has one task, which waits for it, and at most one
    notice for each of its groups: what changes meanwhile is told by the notice that waits already.

    Changes of one turn of the loop are told together, to some members in each turn: two hundred who leave a group of
    thousands cause a few rounds of notices, not two hundred.

    If `realTimeNotifyConsumerChange` is off, changes are collected until `send_collected`.
    """

    def __init__(self, consumers: ConsumerRegistry, settings: Settings[BrokerConfig], log: Throttle) -> None:
        self._consumers, self._settings, self._log = consumers, settings, log
        self._collected: set[str] = set()
        self._changed: dict[str, None] = {}
        self._line: deque[tuple[str, Channel]] = deque()
        self._is_due = False
        self._due: dict[Channel, dict[str, None]] = {}
        self._sending = Background()

    async def __aenter__(self) -> Notifications:
        await self._sending.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Drop what is not sent yet."""
        await self._sending.__aexit__()

    def members_changed(self, group: str) -> None:
        """Tell every member, now or with the collected ones. The members of a broadcasting group share nothing."""
        config = self._settings.value
        info = self._consumers.info(group)
        if info is None or info.is_broadcasting or not config.notify_consumer_ids_changed_enable:
            return
        if config.real_time_notify_consumer_change:
            self._tell(group)
        else:
            self._collected.add(group)

    def send_collected(self) -> None:
        """Tell the members of the groups that changed since the last time. Called every 15 s."""
        groups, self._collected = self._collected, set()
        if self._settings.value.notify_consumer_ids_changed_enable:
            for group in groups:
                self._tell(group)

    def _tell(self, group: str) -> None:
        self._changed[group] = None
        self._go_on()

    def _go_on(self) -> None:
        if not self._is_due and (self._line or self._changed):
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._tell_some)

    def _tell_some(self) -> None:
        """Go on with the group whose turn it is. What changes in it meanwhile begins it anew, when it has its next."""
        self._is_due = False
        if not self._line and self._changed:
            group = next(iter(self._changed))
            del self._changed[group]
            info = self._consumers.info(group)
            self._line.extend((group, channel) for channel in (() if info is None else info.clients))
        for _ in range(min(len(self._line), _TOLD_PER_TURN)):
            self._tell_one(*self._line.popleft())
        self._go_on()

    def _tell_one(self, group: str, channel: Channel) -> None:
        if channel in self._due:
            self._due[channel][group] = None
        elif self._sending.start(self._send_due, channel):
            self._due[channel] = {group: None}

    async def _send_due(self, channel: Channel) -> None:
        groups = self._due[channel]
        try:
            while groups:
                group = next(iter(groups))
                await channel.send_oneway(_notice(group), NOTICE_TIMEOUT_S)
                # Not before: what changes while it waits is told by it.
                del groups[group]
        except ConnectionLostError:
            pass  # whoever is gone needs no notice
        except RocketlineError as error:
            self._log.warning("notice not delivered", str(error), groups=len(groups))
        finally:
            del self._due[channel]


def _notice(group: str) -> Command:
    header = headers.NotifyConsumerIdsChangedRequestHeader(consumer_group=group)
    return Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, headers.encode(header))
