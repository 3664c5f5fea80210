"""UPDATE_BROKER_CONFIG (25) and GET_BROKER_CONFIG (26): the broker's settings while it runs.

Differs: what would stop the next start, or concerns security, role, replication, kind of store, ports or paths, is
refused (16) with the reason; Apache's broker answers success, keeps it for the next start, and does nothing or worse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.config.fixed import refusals
from rocketline.clock import Clock
from rocketline.logs import Throttle
from rocketline.model.topic_config import DataVersion
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.later_answer import LaterAnswer
from rocketline.net.saves import Saves, read_update
from rocketline.settings import Settings, format_properties
from rocketline.wire import headers
from rocketline.wire.bodies import encode
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_NAMED_MAX: Final = 10
"""Keys of one kind that a line of the log names."""


class ConfigurationHandlers:
    """Settings by Apache's keys, as property text. `on_permission` is told when `brokerPermission` was updated, and
    calls back when name servers know it: as from Apache's broker, the answer comes then."""

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        saves: Saves,
        clock: Clock,
        on_permission: Callable[[Callable[[], None]], None],
        log: Throttle,
    ) -> None:
        self._settings, self._saves, self._clock, self._log = settings, saves, clock, log
        self._on_permission = on_permission
        self._changed_ms = clock.wall_ms()

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_BROKER_CONFIG: self._update,
            RequestCode.GET_BROKER_CONFIG: self._get,
        }

    def _update(self, channel: Channel, request: Command) -> Outcome:
        """All of it or, if a key is protected or the text broken, nothing. What cannot be saved still counts now."""
        protected = self._settings.value.black_list
        pairs = read_update(request, self._saves, protected, too_long=ResponseCode.INVALID_PARAMETER)
        if isinstance(pairs, Command):
            return pairs
        if refused := refusals(self._settings, pairs):
            return response(ResponseCode.NO_PERMISSION, f"not to be changed by an update: {'; '.join(refused)}")
        if not request.body:
            return response(ResponseCode.SUCCESS)
        update = self._settings.update(pairs)
        self._changed_ms = self._clock.wall_ms()
        told = f"now {_listed(update.live)}, after a restart {_listed(update.after_restart)}"
        self._log.info("settings updated", f"{told}, never {_listed(update.ignored)}", by=channel.peer)
        later = LaterAnswer(channel, request)

        def saved(problem: OSError | None) -> None:
            answer = self._answer(problem)
            if "brokerPermission" in update.live:
                self._on_permission(lambda: later.give(answer))
            else:
                later.give(answer)

        self._saves.save(saved)
        return later.outcome()

    def _answer(self, problem: OSError | None) -> Command:
        if problem is None:
            return response(ResponseCode.SUCCESS)
        where = f"{problem.filename or self._settings.value.broker_config_path}: {problem.strerror}"
        remark = f"changed until the next start only, as it cannot be saved: {where}"
        return response(ResponseCode.SYSTEM_ERROR, remark)

    def _get(self, channel: Channel, request: Command) -> Command:
        version = encode(DataVersion(counter=self._settings.version, timestamp=self._changed_ms))
        header = headers.GetBrokerConfigResponseHeader(version=version.decode())
        text = format_properties(self._settings.properties())
        return response(ResponseCode.SUCCESS, ext=headers.encode(header), body=text.encode())


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys[:_NAMED_MAX]) or "none"
