"""The routing table: every family of requests, given what it works on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from rocketline.broker.config import BrokerConfig
from rocketline.broker.handlers.assignment import AssignmentHandlers
from rocketline.broker.handlers.cleaning import CleaningHandlers
from rocketline.broker.handlers.client_calls import ClientCallHandlers
from rocketline.broker.handlers.configuration import ConfigurationHandlers
from rocketline.broker.handlers.connections import ConnectionHandlers
from rocketline.broker.handlers.consume_stats import ConsumeStatsHandlers
from rocketline.broker.handlers.groups import GroupHandlers
from rocketline.broker.handlers.heartbeats import HeartbeatHandlers
from rocketline.broker.handlers.locks import LockHandlers
from rocketline.broker.handlers.offsets import OffsetHandlers
from rocketline.broker.handlers.query import QueryHandlers
from rocketline.broker.handlers.queue_bounds import QueueBoundHandlers
from rocketline.broker.handlers.queue_inspection import QueueInspectionHandlers
from rocketline.broker.handlers.resets import ResetHandlers
from rocketline.broker.handlers.stats import StatsHandlers
from rocketline.broker.handlers.subscriptions import SubscriptionHandlers
from rocketline.broker.handlers.topics import TopicHandlers
from rocketline.broker.hot_path import BrokerHotPath
from rocketline.broker.pop.acks import AckHandlers
from rocketline.broker.pop.checks import PopChecks
from rocketline.broker.pop.handler import PopHandlers
from rocketline.broker.pop.hot.acks import AckPath
from rocketline.broker.pop.hot.batch_acks import BatchAckPath
from rocketline.broker.pop.hot.pops import PopPath
from rocketline.broker.pop.notifications import NotificationHandlers
from rocketline.broker.pop.orderly_acks import OrderlyAcks
from rocketline.broker.pop.reading import PopReading
from rocketline.broker.pulls.checks import PullChecks
from rocketline.broker.pulls.handler import PullHandlers
from rocketline.broker.pulls.hot_path import PullPath
from rocketline.broker.pulls.reading import PullReading
from rocketline.broker.retries.delay_handler import ScheduleHandlers
from rocketline.broker.retries.handler import SendBackHandlers
from rocketline.broker.sends.checks import SendChecks
from rocketline.broker.sends.handler import SendHandlers
from rocketline.broker.sends.hot_path import SendPath
from rocketline.broker.sends.replies import ReplyHandlers
from rocketline.broker.services import Services
from rocketline.broker.stats.consume_progress import ConsumeProgress
from rocketline.broker.stats.consumer_lag import ConsumerLag
from rocketline.broker.stats.runtime_info import RuntimeInfo, TimerFigures, WaitingRequests
from rocketline.broker.storage import BrokerStorage
from rocketline.broker.storing.admission import Admission
from rocketline.broker.storing.put import MessagePut
from rocketline.broker.timers.handler import TimerHandlers
from rocketline.broker.timers.recall import RecallHandlers
from rocketline.broker.transactions.handler import TransactionHandlers
from rocketline.clock import Clock
from rocketline.hot import HotPath
from rocketline.hot.pure.ack_request import ACK_START
from rocketline.hot.pure.batch_ack_request import BATCH_ACK_START
from rocketline.hot.pure.pop_request import POP_START
from rocketline.logs import Throttle
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings
from rocketline.store.filesystem import FileSystem
from rocketline.wire.codes import SerializeType


class Family(Protocol):
    """Handlers that belong together."""

    def by_code(self) -> dict[int, Handler]: ...


class RequestRouting:
    """Handlers by code: `pulls` for the main port alone, `others` for both."""

    def __init__(
        self,
        storage: BrokerStorage,
        services: Services,
        settings: Settings[BrokerConfig],
        files: FileSystem,
        clock: Clock,
        log: Throttle,
    ) -> None:
        self._storage, self._services, self._settings = storage, services, settings
        self._files, self._clock, self._log = files, clock, log
        self._put = MessagePut(storage.store, services.flusher, settings, storage.timers)
        self._checks = PullChecks(storage.topics, storage.groups, services.consumers, storage.filters, settings)
        self._reading = PullReading(
            storage.store, storage.offsets, storage.stats, services.filter_work, settings, clock
        )
        self._admission = Admission(storage.store, lambda: services.flusher.waiting, settings, clock)
        self._sends = SendPath(
            storage.store,
            services.flusher,
            storage.topics,
            storage.stats,
            self._admission,
            settings,
            clock,
            asyncio.get_running_loop().call_soon,
        )
        self._pop_checks = PopChecks(storage.topics, storage.groups, settings)
        self._ack_handlers = self._acks()
        self.pulls = self._admission.guarded(_by_code([self._pulls(), *self._pops()]))
        others = services.work.guarded(_by_code([*self._for_clients(), *self._for_administrators()]))
        self.others = self._admission.guarded(others | _by_code(self._for_producers()))

    def settle(self) -> None:
        """Write and answer the sends of this turn of the loop."""
        self._sends.settle()

    def hot_path(self, *, with_pulls: bool) -> HotPath | None:
        """What answers plain sends and pulls before they are even decoded; None if answers are not to be JSON."""
        storage, settings = self._storage, self._settings
        if settings.value.network.serialize_type is not SerializeType.JSON:
            return None
        if not with_pulls:
            return self._sends
        pulls = PullPath(
            self._checks, self._reading, storage.topics, storage.groups, self._services.consumers, settings
        )
        acks = AckPath(
            self._pop_checks,
            storage.store,
            self._services.revive_topic,
            self._services.merge,
            storage.topics,
            self._admission,
            settings,
        )
        pops = PopPath(
            self._pop_handlers,
            self._pop_reading,
            storage.topics,
            storage.groups,
            self._admission,
            settings,
            storage.store.store_clock.now_ms,
        )
        revive = self._services.revive_topic
        batch_acks = BatchAckPath(self._ack_handlers, storage.store, revive, self._admission)
        in_pops: dict[bytes, HotPath] = {POP_START: pops, ACK_START: acks, BATCH_ACK_START: batch_acks}
        return BrokerHotPath(self._sends, pulls, in_pops, self._admission)

    def _pulls(self) -> Family:
        services = self._services
        return PullHandlers(
            self._checks,
            self._reading,
            services.held,
            self._settings,
            self._clock,
            self._log,
            services.work,
            self._storage.filters.expressions,
        )

    def _acks(self) -> AckHandlers:
        storage, services, settings = self._storage, self._services, self._settings
        return AckHandlers(
            self._pop_checks,
            storage.store,
            services.revive_topic,
            services.merge,
            OrderlyAcks(storage.orders, storage.offsets, storage.store.store_clock.now_ms, services.wake_pops),
            settings,
            services.work,
        )

    def _pops(self) -> list[Family]:
        storage, services, settings = self._storage, self._services, self._settings
        expressions, store = storage.filters.expressions, storage.store
        self._pop_reading = PopReading(
            store,
            storage.topics,
            storage.offsets,
            services.positions,
            storage.orders,
            services.merge,
            services.revive_topic,
            storage.stats,
            services.filter_work,
            settings,
            self._clock,
        )
        self._pop_handlers = PopHandlers(
            self._pop_checks,
            self._pop_reading,
            services.positions,
            services.revive_topic,
            services.held_pops,
            expressions,
            settings,
            store.store_clock,
            services.chores,
            services.work,
            self._log,
        )
        return [
            self._pop_handlers,
            NotificationHandlers(
                self._pop_checks,
                store,
                storage.topics,
                services.positions,
                storage.orders,
                services.held_pops,
                services.held_notifications,
                expressions,
                settings,
                services.chores,
                services.work,
                self._log,
            ),
        ]

    def _for_producers(self) -> list[Family]:
        storage, settings, put = self._storage, self._settings, self._put
        topics, groups, stats, store = storage.topics, storage.groups, storage.stats, storage.store
        services, clock, figures = self._services, self._clock, storage.transaction_figures
        return [
            SendHandlers(
                put,
                topics,
                groups,
                services.locks,
                stats,
                settings,
                store.store_host,
                clock,
                services.work,
                on_half=lambda topic: figures.add(topic, 1),
            ),
            SendBackHandlers(store, put, topics, groups, stats, settings),
            TransactionHandlers(store, put, services.ops, services.copies, figures, stats, settings, clock, self._log),
            ReplyHandlers(
                self._services.producers,
                self._services.pushes,
                SendChecks(topics, settings, self._clock),
                put,
                stats,
                settings,
                store.store_host,
                self._clock,
                self._log,
            ),
            RecallHandlers(put, topics, stats, settings, store.store_clock.now_ms),
        ]

    def _for_clients(self) -> list[Family]:
        storage, services, settings = self._storage, self._services, self._settings
        topics, groups, consumers = storage.topics, storage.groups, services.consumers
        return [
            HeartbeatHandlers(
                consumers,
                services.producers,
                services.notifications,
                topics,
                groups,
                storage.filters,
                storage.stats,
                settings,
                self._clock,
                services.work,
                self._log,
            ),
            ConnectionHandlers(consumers, services.producers, services.work),
            OffsetHandlers(storage.offsets, topics, groups, consumers, storage.store, services.work),
            QueueBoundHandlers(storage.store),
            LockHandlers(services.locks, services.work),
            self._ack_handlers,
            AssignmentHandlers(
                consumers,
                topics,
                groups,
                storage.request_modes,
                services.mode_saves,
                services.routes.find,
                settings,
                services.work,
            ),
            QueryHandlers(storage.store, settings, services.work),
        ]

    def _for_administrators(self) -> list[Family]:
        storage, services, settings, clock = self._storage, self._services, self._settings, self._clock
        topics, groups, offsets, store, stats = (
            storage.topics,
            storage.groups,
            storage.offsets,
            storage.store,
            storage.stats,
        )
        consumers, calls, work, address = services.consumers, services.calls, services.work, services.address
        progress = ConsumeProgress(topics, groups, offsets, consumers, store, stats, settings.value.broker_name)
        runtime = RuntimeInfo(
            settings,
            stats,
            store,
            self._files,
            clock,
            delays=storage.schedule.progress,
            sends=self._waiting_sends,
            timers=storage.timers.figures if storage.timers is not None else TimerFigures,
        )
        return [
            TopicHandlers(topics, offsets, store, stats, settings, work, self._log, services.name_servers.when_told),
            GroupHandlers(groups, offsets, stats, settings, work, self._log),
            ResetHandlers(offsets, topics, groups, consumers, calls, store, settings, work, self._log),
            ClientCallHandlers(calls, consumers, topics, groups, store, settings),
            SubscriptionHandlers(consumers, offsets, address, work),
            ScheduleHandlers(storage.schedule),
            TimerHandlers(storage.timers, work),
            StatsHandlers(stats, ConsumerLag(stats, store, clock), topics, progress, runtime, work),
            ConsumeStatsHandlers(progress, topics, work, clock, address),
            QueueInspectionHandlers(store, consumers, storage.filters, work),
            CleaningHandlers(store, topics, stats, work, self._log),
            ConfigurationHandlers(settings, services.settings_saves, clock, services.permission_changed, self._log),
        ]

    def _waiting_sends(self) -> WaitingRequests:
        return WaitingRequests(self._services.flusher.waiting)


def _by_code(families: Iterable[Family]) -> dict[int, Handler]:
    return {code: handler for family in families for code, handler in family.by_code().items()}
