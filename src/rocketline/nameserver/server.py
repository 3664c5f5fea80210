"""The name server as a whole: tables, handlers, a listening socket, and the clockwork between them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from rocketline.clock import Clock, SystemClock
from rocketline.logs import Log, Throttle
from rocketline.nameserver import limits
from rocketline.nameserver.config import NameServerConfig
from rocketline.nameserver.handlers.brokers import BrokerHandlers
from rocketline.nameserver.handlers.configuration import ConfigurationHandlers
from rocketline.nameserver.handlers.kv import KvHandlers
from rocketline.nameserver.handlers.routes import RouteHandlers
from rocketline.nameserver.handlers.topics import TopicHandlers
from rocketline.nameserver.kv_config import KvConfig
from rocketline.nameserver.kv_saves import KvSaves
from rocketline.nameserver.notices import Notices
from rocketline.nameserver.registration import MinBrokerIdChange, Unregistration
from rocketline.nameserver.route_answers import RouteAnswers, RouteReplies
from rocketline.nameserver.route_table import RouteTable
from rocketline.nameserver.unregistration import Unregistrations
from rocketline.net.background import Timer
from rocketline.net.channel import Channel
from rocketline.net.dispatch import Dispatcher, Handler
from rocketline.net.long_work import LongWork, WaitingBounds
from rocketline.net.saves import Saves
from rocketline.net.server import Server
from rocketline.net.tls import client_context
from rocketline.settings import Settings
from rocketline.wire.codes import SerializeType

_log = Log(__name__)

_KV_LOG_FIRST_S, _KV_LOG_PERIOD_S = 60.0, 600.0
_LOG_FLUSH_S = 1.0
_WAITING = WaitingBounds(count_max=limits.LIVE_MAX, of_one_max=limits.CONNECTION_LIVE_MAX)
"""After a start all brokers register at once, and those of a container over one connection."""


class NameServer:
    """A name server from entering to leaving its `async with`. Java: NamesrvController.

    Raises `ConfigError` for a KV file that cannot be read and `ListenError` for a taken port, when entered.
    """

    def __init__(self, settings: Settings[NameServerConfig], *, clock: Clock | None = None) -> None:
        self._settings, self._clock = settings, clock or SystemClock()
        self._stack = AsyncExitStack()
        self._throttle = Throttle(self._clock, name=__name__)
        self.table = RouteTable()

    async def __aenter__(self) -> NameServer:
        config = self._settings.value
        self._kv = KvConfig.load(config.kv_config_path)
        async with AsyncExitStack() as stack:
            self._notices = await stack.enter_async_context(
                Notices(
                    unsent_max=config.network.oneway_in_flight_max,
                    tls=client_context(config.tls) if config.tls.client_enable else None,
                    clock=self._clock,
                    log=self._throttle,
                )
            )
            self._kv_saves = await stack.enter_async_context(KvSaves(self._kv))
            self._settings_saves = await stack.enter_async_context(
                Saves(lambda: self._settings.saving(self._settings.value.config_store_path))
            )
            self._server = await stack.enter_async_context(self._make_server())
            scan_s = config.scan_not_active_broker_interval_ms / 1000
            for timer in (
                Timer(self.scan, first_s=scan_s, period_s=scan_s),
                Timer(self._log_kv, first_s=_KV_LOG_FIRST_S, period_s=_KV_LOG_PERIOD_S),
                Timer(self._throttle.flush_due, first_s=_LOG_FLUSH_S, period_s=_LOG_FLUSH_S),
            ):
                stack.callback(timer.cancel)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    @property
    def address(self) -> str:
        """Where it listens, `host:port`."""
        return self._server.address

    @property
    def port(self) -> int:
        return self._server.port

    def _make_server(self) -> Server:
        config = self._settings.value
        self._unregistrations = Unregistrations(
            self.table,
            config.unregister_broker_queue_capacity,
            call_soon=asyncio.get_running_loop().call_soon,
            on_change=self._tell_change,
            log=self._throttle,
        )
        self._work = LongWork(asyncio.get_running_loop().call_later, self._throttle, _WAITING)
        answers = RouteAnswers(self.table, self._kv, self._settings)
        replies = RouteReplies(answers)
        writes_json = config.network.serialize_type is SerializeType.JSON
        return Server(
            config.network,
            config.tls,
            Dispatcher(self._handlers(answers, replies), self._throttle),
            log=self._throttle,
            hot_path=replies.answer if writes_json else None,
            on_close=self._connection_lost,
            clock=self._clock,
        )

    def _handlers(self, answers: RouteAnswers, replies: RouteReplies) -> dict[int, Handler]:
        settings, clock, table = self._settings, self._clock, self.table
        return {
            **RouteHandlers(answers, replies, settings, clock).by_code(),
            **BrokerHandlers(
                table, self._kv, settings, self._unregistrations, self._tell_change, clock, self._work, self._throttle
            ).by_code(),
            **TopicHandlers(table, settings, self._work).by_code(),
            **KvHandlers(self._kv, self._kv_saves, self._throttle).by_code(),
            **ConfigurationHandlers(settings, self._settings_saves, self._throttle).by_code(),
        }

    def scan(self) -> None:
        """Drop the brokers that were silent for too long, with their connections."""
        expired = self.table.live.expired(int(self._clock.monotonic() * 1000))
        self._drop([broker.unregistration for broker in expired])
        for broker in expired:
            self._throttle.warning("broker expired", broker.unregistration.broker_name)
            assert isinstance(broker.connection, Channel)
            broker.connection.close()

    def _connection_lost(self, channel: Channel) -> None:
        self._drop(self.table.live.registered_over(channel))

    def _drop(self, lost: list[Unregistration]) -> None:
        """Unregister brokers that went without a word. Whose place was taken leaves no gap in its broker name."""
        for broker in lost:
            if broker.address in self.table.member_addresses(broker.broker_name).values():
                self._unregistrations.add([broker])
            else:
                self.table.forget(broker)

    def _tell_change(self, change: MinBrokerIdChange) -> None:
        if self._settings.value.notify_min_broker_id_changed:
            self._notices.send(change)

    def _log_kv(self) -> None:
        for namespace, table in self._kv.namespaces.items():
            _log.info("kv configuration", namespace=namespace, table=table)
