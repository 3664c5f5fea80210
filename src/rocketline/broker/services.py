"""What works in the background of a broker, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from rocketline.broker.chores import Chores
from rocketline.broker.clients.client_calls import ClientCalls
from rocketline.broker.clients.consumers import ConsumerRegistry
from rocketline.broker.clients.expiry import ClientExpiry
from rocketline.broker.clients.locks import LockTable
from rocketline.broker.clients.notifications import Notifications
from rocketline.broker.clients.producers import ProducerRegistry
from rocketline.broker.clients.pushes import Pushes
from rocketline.broker.cluster.name_servers import NameServerLinks
from rocketline.broker.cluster.registration import RegistrationCommands
from rocketline.broker.cluster.routes import Routes
from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import LongWork
from rocketline.broker.metadata.saving import Saving
from rocketline.broker.pulls.filter_work import FilterWork
from rocketline.broker.pulls.long_poll import HeldPulls
from rocketline.broker.stats.slow_consumers import SlowConsumers
from rocketline.broker.storage import BrokerStorage
from rocketline.broker.storing.flusher import Flusher
from rocketline.broker.transactions.check_round import Copies, TransactionTools
from rocketline.broker.transactions.checks import TransactionChecks
from rocketline.broker.transactions.op_messages import OpMessages
from rocketline.broker.transactions.questions import Questions
from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.net.address import format_address
from rocketline.net.background import Background, Timer
from rocketline.net.settings_saves import SettingsSaves
from rocketline.net.tls import client_context
from rocketline.settings import Settings


class Services:
    """All of it. Entered before the first request is taken, left after the last one was answered."""

    def __init__(
        self, storage: BrokerStorage, settings: Settings[BrokerConfig], address: str, clock: Clock, log: Throttle
    ) -> None:
        config = settings.value
        self._storage, self._settings, self._clock, self._log = storage, settings, clock, log
        self.address = address
        """Where clients find this broker."""
        self.consumers, self.producers = ConsumerRegistry(), ProducerRegistry()
        self.locks = LockTable(clock)
        self.chores = Chores(asyncio.get_running_loop().call_soon)
        self.flusher = Flusher(storage.store, lambda: settings.value.store, clock)
        self.saving = Saving(log)
        self.settings_saves = SettingsSaves(settings, lambda: settings.value.broker_config_path)
        self.notifications = Notifications(self.consumers, settings, log)
        self.calls = ClientCalls(calls_max=config.network.async_in_flight_max, log=log)
        self.pushes = Pushes(clock, asyncio.get_running_loop().call_later)
        self.expiry = ClientExpiry(self.consumers, self.producers, self.notifications, settings, self.chores, log)
        self.filter_work = FilterWork(asyncio.get_running_loop().call_soon)
        self.held = HeldPulls(storage.store, clock, asyncio.get_running_loop().call_soon, self.filter_work)
        self.work = LongWork(asyncio.get_running_loop().call_later, log)
        call_later = asyncio.get_running_loop().call_later
        self.ops = OpMessages(storage.store, storage.stats, settings, clock, log, call_later)
        figures, topics, stats = storage.half_messages, storage.topics, storage.stats
        self.copies = Copies()
        tools = TransactionTools(storage.store, topics, self.ops, figures, stats, settings, clock, log, self.copies)
        questions = Questions(self.producers, config.broker_name, clock, log)
        self.checks = TransactionChecks(tools, storage.offsets, questions, self.flusher)
        ha_address = format_address(config.broker_ip2, config.store.ha_listen_port)
        self.name_servers = NameServerLinks(
            settings,
            RegistrationCommands(settings, storage.topics, address, ha_address, log),
            tls=client_context(config.tls) if config.tls.client_enable else None,
            clock=clock,
            log=log,
            on_order_topics=storage.topics.mark_ordered,
        )
        self.routes = Routes(self.name_servers.ask, clock=clock, log=log)

    async def __aenter__(self) -> Services:
        async with AsyncExitStack() as stack:
            saves = self.saving, self.settings_saves
            for service in (self.flusher, *saves, self.notifications, self.calls, self.name_servers, self.routes):
                await stack.enter_async_context(service)
            stack.callback(self.ops.close)
            stack.push_async_callback(self.flusher.drain)  # before that: commits wait for it that nobody is told of
            background = await stack.enter_async_context(Background())
            background.start(self._storage.schedule.run)
            background.start(self.checks.run)
            if self._storage.timers is not None:
                background.start(self._storage.timers.run)
            stack.callback(self.work.close)
            stack.callback(self.pushes.close)
            for timer in self._timers():
                stack.callback(timer.cancel)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    def permission_changed(self, done: Callable[[], None]) -> None:
        """`brokerPermission` is another one: name servers must learn of it, and `done` is called when they have."""
        self._storage.topics.touch()
        self.name_servers.register_all()
        self.name_servers.when_told(done)

    def _timers(self) -> list[Timer]:
        config, storage, save = self._settings.value, self._storage, self.saving.save
        half_s = config.transaction_metric_flush_interval / 1000
        return [
            Timer(action, first_s=first_s, period_s=period_s)
            for action, first_s, period_s in (
                (self.name_servers.register_all, 10.0, config.register_period_s),
                (self.name_servers.reload, 10.0, config.update_name_server_addr_period / 1000),
                (self.routes.refresh, 1.0, config.load_balance_poll_name_server_interval / 1000),
                (partial(save, "topics", storage.topics.table), 5.0, 5.0),
                (partial(save, "groups", storage.groups.table), 5.0, 5.0),
                (partial(save, "offsets", storage.offsets), 10.0, config.flush_consumer_offset_interval / 1000),
                (partial(save, "filters", storage.filters), 10.0, 10.0),
                (partial(save, "delays", storage.schedule), 10.0, config.store.flush_delay_offset_interval / 1000),
                (partial(save, "half messages", storage.half_messages), half_s, half_s),
                (self._save_timers, 1.0, config.store.timer_flush_interval_ms / 1000),
                (storage.stats.tick, 1.0, 1.0),
                (self.held.check, 1.0, 1.0),
                (self._scan_clients, 10.0, 10.0),
                (lambda: self.chores.begin(self.locks.scan()), 60.0, 60.0),
                (self.notifications.send_collected, 30.0, 15.0),
                (SlowConsumers(storage.stats, storage.groups, self._settings).bar, 180.0, 180.0),
                (self._log.flush_due, 1.0, 1.0),
            )
        ]

    def _save_timers(self) -> None:
        timers = self._storage.timers
        if timers is not None:
            timers.tick()
            if timers.is_unsaved:
                self.saving.save("timers", timers)

    def _scan_clients(self) -> None:
        self.expiry.scan(self._clock.monotonic())
