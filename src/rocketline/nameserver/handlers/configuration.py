"""UPDATE_NAMESRV_CONFIG (318) and GET_NAMESRV_CONFIG (319): the server's settings while it runs."""

from __future__ import annotations

from rocketline.logs import Throttle
from rocketline.nameserver.config import NameServerConfig
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.net.saves import Saves, read_update
from rocketline.settings import Settings, format_properties
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response


class ConfigurationHandlers:
    """Settings by Apache's keys, as property text."""

    def __init__(self, settings: Settings[NameServerConfig], saves: Saves, log: Throttle) -> None:
        self._settings, self._saves, self._log = settings, saves, log

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update,
            RequestCode.GET_NAMESRV_CONFIG: self._get,
        }

    def _update(self, channel: Channel, request: Command) -> Outcome:
        """All of it or, if a key is protected or the text broken, nothing. What cannot be saved still counts now."""
        protected = self._settings.value.black_list
        pairs = read_update(request, self._saves, protected, too_long=ResponseCode.SYSTEM_ERROR)
        if isinstance(pairs, Command):
            return pairs
        if not request.body:
            return response(ResponseCode.SUCCESS)
        update = self._settings.update(pairs)
        changed = ", ".join((*update.live, *update.after_restart)) or "nothing"
        self._log.info("settings updated", changed, ignored=len(update.ignored), by=channel.peer)
        self._saves.save(lambda problem: channel.reply(request, self._saved(problem)))
        return LATER

    def _saved(self, problem: OSError | None) -> Command:
        if problem is None:
            return response(ResponseCode.SUCCESS)
        path = self._settings.value.config_store_path
        return response(ResponseCode.SYSTEM_ERROR, f"changed until the next start only: {path}: {problem.strerror}")

    def _get(self, channel: Channel, request: Command) -> Command:
        return response(ResponseCode.SUCCESS, body=format_properties(self._settings.properties()).encode())
