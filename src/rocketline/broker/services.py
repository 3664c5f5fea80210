"""What works in the background of a broker, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

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
from rocketline.broker.pop.long_poll import HeldBytes, HeldPops
from rocketline.broker.pop.merge import MergeBuffer
from rocketline.broker.pop.order_infos import OPENED_MAX
from rocketline.broker.pop.positions import PopPositions
from rocketline.broker.pop.revive import ReviveTools
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.broker.pop.service import PopRevival
from rocketline.broker.pulls.filter_work import FilterWork
from rocketline.broker.pulls.long_poll import HeldPulls
from rocketline.broker.stats.slow_consumers import SlowConsumers
from rocketline.broker.storage import BrokerStorage
from rocketline.broker.storing.flusher import Flushed, Flusher
from rocketline.broker.transactions.check_round import Copies, TransactionTools
from rocketline.broker.transactions.checks import TransactionChecks
from rocketline.broker.transactions.op_messages import OpMessages
from rocketline.broker.transactions.questions import Questions
from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.net.address import format_address
from rocketline.net.background import Background, Timer
from rocketline.net.saves import Saves
from rocketline.net.tls import client_context
from rocketline.settings import Settings
from rocketline.store.store_hooks import Arrivals

_POPS_S: Final = 0.05
"""How often pops are looked for that have waited long enough."""


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
        self.settings_saves = Saves(lambda: settings.saving(settings.value.broker_config_path))
        self.mode_saves = Saves(storage.request_modes.begin_save)
        self.notifications = Notifications(self.consumers, settings, log)
        self.calls = ClientCalls(calls_max=config.network.async_in_flight_max, log=log)
        self.pushes = Pushes(clock, asyncio.get_running_loop().call_later)
        self.expiry = ClientExpiry(self.consumers, self.producers, self.notifications, settings, self.chores, log)
        self.filter_work = FilterWork(asyncio.get_running_loop().call_soon)
        self.held = HeldPulls(storage.store, clock, asyncio.get_running_loop().call_soon, self.filter_work)
        self.work = LongWork(asyncio.get_running_loop().call_later, log)
        call_later = asyncio.get_running_loop().call_later
        self.ops = OpMessages(storage.store, storage.stats, settings, clock, log, call_later)
        figures, topics, stats = storage.transaction_figures, storage.topics, storage.stats
        self.copies = Copies()
        tools = TransactionTools(storage.store, topics, self.ops, figures, stats, settings, clock, log, self.copies)
        questions = Questions(self.producers, config.broker_name, clock, log)
        self.checks = TransactionChecks(tools, storage.offsets, questions, self.flusher)
        self.positions = PopPositions(storage.offsets)
        self.revive_topic = ReviveTopic(storage.store, self.flusher, storage.timers, settings, self._begin_pops)
        call_soon = asyncio.get_running_loop().call_soon
        now_ms = storage.store.store_clock.now_ms
        self.merge = MergeBuffer(self.revive_topic, self.positions, settings, now_ms, log, self._begin_merge)
        held_bytes = HeldBytes()
        self.held_pops = HeldPops(settings, clock, call_soon, held_bytes)
        self.held_notifications = HeldPops(settings, clock, call_soon, held_bytes, is_last_first=True)
        self.revival = self._revival()
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

    def _revival(self) -> PopRevival | None:
        """None without timers: then nobody can pop, and what was popped before waits."""
        storage = self._storage
        if storage.timers is None:
            return None
        tools = ReviveTools(
            storage.store, storage.topics, storage.groups, self.revive_topic, storage.stats, self._settings, self._log
        )
        return PopRevival(tools, storage.offsets, storage.timers, self.flusher, self._clock)

    def commit_safe(self) -> None:
        """All of the log is on disk."""
        self.checks.commit_safe()
        if self.revival is not None:
            self.revival.commit_safe()

    def on_arrival(self, arrivals: Arrivals) -> None:
        """Messages can be read from now on: see `StoreHooks`."""
        self.held.on_arrival(arrivals)
        self.held_pops.on_arrival(arrivals)
        self.held_notifications.on_arrival(arrivals)
        if self.revival is not None:
            self.revival.on_arrival(arrivals)

    async def __aenter__(self) -> Services:
        async with AsyncExitStack() as stack:
            saves = self.saving, self.settings_saves, self.mode_saves
            for service in (self.flusher, *saves, self.notifications, self.calls, self.name_servers, self.routes):
                await stack.enter_async_context(service)
            stack.callback(self.ops.close)
            stack.push_async_callback(self.flusher.drain)  # before that: commits wait for it that nobody is told of
            stack.callback(self.merge.store_all)
            background = await stack.enter_async_context(Background())
            background.start(self._storage.schedule.run)
            background.start(self.checks.run)
            if self._storage.timers is not None:
                background.start(self._storage.timers.run)
            if self.revival is not None:
                background.start(self.revival.run)
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
                (self._save_offsets, 10.0, config.flush_consumer_offset_interval / 1000),
                (partial(save, "pops in order", storage.orders), 10.0, config.flush_consumer_offset_interval / 1000),
                (partial(save, "filters", storage.filters), 10.0, 10.0),
                (partial(save, "delays", storage.schedule), 10.0, config.store.flush_delay_offset_interval / 1000),
                (partial(save, "half messages", storage.transaction_figures), half_s, half_s),
                (self._save_timers, 1.0, config.store.timer_flush_interval_ms / 1000),
                (storage.stats.tick, 1.0, 1.0),
                (self.held.check, 1.0, 1.0),
                (self._check_pops, _POPS_S, _POPS_S),
                (self._sweep_pops, 1.0, 1.0),
                (self._scan_clients, 10.0, 10.0),
                (lambda: self.chores.begin(self.locks.scan()), 60.0, 60.0),
                (self.notifications.send_collected, 30.0, 15.0),
                (SlowConsumers(storage.stats, storage.groups, self._settings).bar, 180.0, 180.0),
                (self._log.flush_due, 1.0, 1.0),
            )
        ]

    def _check_pops(self) -> None:
        self._store_checkpoints()
        self._tell_opened()
        self.held_pops.check()
        self.held_notifications.check()

    def _store_checkpoints(self) -> None:
        if self.merge.store_due():
            asyncio.get_running_loop().call_soon(self._store_checkpoints)

    def _tell_opened(self) -> None:
        opened = self._storage.orders.opened()
        for topic, group, queue_id in opened:
            self.wake_pops(topic, group, queue_id)
        if len(opened) == OPENED_MAX:
            asyncio.get_running_loop().call_soon(self._tell_opened)

    def wake_pops(self, topic: str, group: str, queue_id: int) -> None:
        """There may be something for this group in this queue: who waits is to look."""
        self.held_pops.wake(topic, group, queue_id)
        self.held_notifications.wake(topic, group, queue_id)

    def _sweep_pops(self) -> None:
        self.held_pops.sweep()
        self.held_notifications.sweep()

    def _save_offsets(self) -> None:
        """After the checkpoints of what was popped: an offset that is ahead of them on disk, where a machine loses its
        power, would pass by messages that nobody got."""
        if self.revival is not None:
            self.revival.commit_safe()
        if self.revive_topic.take_unflushed() or self._storage.pops.is_far_behind:
            self.flusher.wait(self._storage.store.max_log_offset, self._save_flushed_offsets, messages=0)
            self.flusher.flush()
        else:
            self.saving.save("offsets", self._storage.offsets)

    def _save_flushed_offsets(self, flushed: Flushed) -> None:
        if flushed is Flushed.OK:
            self._save_offsets_now()
        else:  # the table stays behind until the checkpoints are on disk, be that never
            self.revive_topic.expect_flush()

    def _save_offsets_now(self) -> None:
        self._storage.pops.note()
        self.saving.save("offsets", self._storage.offsets)

    def _begin_pops(self) -> None:
        """Somebody pops, perhaps for the first time: what a crash would leave must tell of it from here on."""
        if not self._storage.pops.is_begun:
            self._save_offsets_now()

    def _begin_merge(self) -> None:
        """Checkpoints are kept in memory: what is in the log after a crash may have gaps."""
        self._storage.pops.note_merged(is_merged=True)
        self._save_offsets_now()

    def _save_timers(self) -> None:
        timers = self._storage.timers
        if timers is not None:
            timers.tick()
            if timers.is_unsaved:
                self.saving.save("timers", timers)

    def _scan_clients(self) -> None:
        self.expiry.scan(self._clock.monotonic())
