"""What works in the background of a broker, and when."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from rocketline.broker.chores import Chores
from rocketline.broker.client_calls import ClientCalls
from rocketline.broker.config import BrokerConfig
from rocketline.broker.consumers import ConsumerRegistry
from rocketline.broker.flush import Flusher
from rocketline.broker.housekeeping import Housekeeping
from rocketline.broker.kept import Kept
from rocketline.broker.locks import QueueLocks
from rocketline.broker.long_poll import HeldPulls
from rocketline.broker.long_work import LongWork
from rocketline.broker.name_servers import NameServers
from rocketline.broker.notifications import Notifications
from rocketline.broker.producers import ProducerRegistry
from rocketline.broker.registration import Registration
from rocketline.broker.routes import Routes
from rocketline.broker.saving import Saving
from rocketline.broker.slow_consumers import SlowConsumers
from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.net.address import format_address
from rocketline.net.background import Background
from rocketline.net.timer import Timer
from rocketline.net.tls import client_context
from rocketline.settings import Settings


class Services:
    """All of it. Entered before the first request is taken, left after the last one was answered."""

    def __init__(self, kept: Kept, settings: Settings[BrokerConfig], address: str, clock: Clock, log: Throttle) -> None:
        config = settings.value
        self._kept, self._settings, self._clock, self._log = kept, settings, clock, log
        self.address = address
        """Where clients find this broker."""
        self.consumers, self.producers = ConsumerRegistry(), ProducerRegistry()
        self.locks = QueueLocks(clock)
        self.chores = Chores(asyncio.get_running_loop().call_soon)
        self.flusher = Flusher(kept.store, lambda: settings.value.store, clock)
        self.saving = Saving(log)
        self.notifications = Notifications(self.consumers, settings, log)
        self.calls = ClientCalls(calls_max=config.network.async_in_flight_max, log=log)
        self.housekeeping = Housekeeping(self.consumers, self.producers, self.notifications, settings, self.chores, log)
        self.held = HeldPulls(kept.store, clock, asyncio.get_running_loop().call_soon)
        kept.store.on_arrival = self.held.on_arrival
        self.work = LongWork(asyncio.get_running_loop().call_later, log)
        ha_address = format_address(config.broker_ip2, config.store.ha_listen_port)
        self.name_servers = NameServers(
            settings,
            Registration(settings, kept.topics, address, ha_address, log),
            tls=client_context(config.tls) if config.tls.client_enable else None,
            clock=clock,
            log=log,
            on_order_topics=kept.topics.mark_ordered,
        )
        kept.topics.on_change = self.name_servers.register_topics
        kept.stats.call_soon = asyncio.get_running_loop().call_soon
        self.routes = Routes(self.name_servers.ask, clock=clock, log=log)

    async def __aenter__(self) -> Services:
        async with AsyncExitStack() as stack:
            for service in (self.flusher, self.saving, self.notifications, self.calls, self.name_servers, self.routes):
                await stack.enter_async_context(service)
            background = await stack.enter_async_context(Background())
            background.start(self._kept.schedule.run)
            stack.callback(self.work.close)
            for timer in self._timers():
                stack.callback(timer.cancel)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    def permission_changed(self) -> None:
        """`brokerPermission` is another one: name servers must learn of it."""
        self._kept.topics.touch()
        self.name_servers.register_all()

    def _timers(self) -> list[Timer]:
        config, kept, save = self._settings.value, self._kept, self.saving.save
        return [
            Timer(action, first_s=first_s, period_s=period_s)
            for action, first_s, period_s in (
                (self.name_servers.register_all, 10.0, config.register_period_s),
                (self.name_servers.reload, 10.0, config.update_name_server_addr_period / 1000),
                (self.routes.refresh, 1.0, config.load_balance_poll_name_server_interval / 1000),
                (partial(save, "topics", kept.topics.table), 5.0, 5.0),
                (partial(save, "groups", kept.groups.table), 5.0, 5.0),
                (partial(save, "offsets", kept.offsets), 10.0, config.flush_consumer_offset_interval / 1000),
                (partial(save, "delays", kept.schedule), 10.0, config.store.flush_delay_offset_interval / 1000),
                (kept.stats.tick, 1.0, 1.0),
                (self.held.check, 1.0, 1.0),
                (self._scan_clients, 10.0, 10.0),
                (lambda: self.chores.begin(self.locks.scan()), 60.0, 60.0),
                (self.notifications.send_collected, 30.0, 15.0),
                (SlowConsumers(kept.stats, kept.groups, self._settings).bar, 180.0, 180.0),
                (self._log.flush_due, 1.0, 1.0),
            )
        ]

    def _scan_clients(self) -> None:
        self.housekeeping.scan(self._clock.monotonic())
