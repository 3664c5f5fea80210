"""UPDATE_NAMESRV_CONFIG (318) and GET_NAMESRV_CONFIG (319): the server's settings while it runs."""

from __future__ import annotations

from rocketline.logs import Throttle
from rocketline.nameserver.config import NameServerConfig
from rocketline.net.channel import Channel
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings, format_properties, parse_properties
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response


class ConfigurationHandlers:
    """Settings by Apache's keys, as property text."""

    def __init__(self, settings: Settings[NameServerConfig], log: Throttle) -> None:
        self._settings, self._log = settings, log

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update,
            RequestCode.GET_NAMESRV_CONFIG: self._get,
        }

    def _update(self, channel: Channel, request: Command) -> Command:
        """All of it or, if a key is protected or the text broken, nothing. What cannot be saved still counts now."""
        pairs = {pair.key: pair.value for pair in parse_properties(request.body)}
        config = self._settings.value
        if protected := sorted(config.black_list & pairs.keys()):
            return response(ResponseCode.NO_PERMISSION, f"not to be changed by an update: {', '.join(protected)}")
        if not request.body:
            return response(ResponseCode.SUCCESS)
        update = self._settings.update(pairs)
        changed = ", ".join((*update.live, *update.after_restart)) or "nothing"
        self._log.info("settings updated", changed, ignored=len(update.ignored), by=channel.peer)
        try:
            self._settings.save(config.config_store_path)
        except OSError as error:
            problem = f"changed until the next start only: {config.config_store_path}: {error.strerror}"
            return response(ResponseCode.SYSTEM_ERROR, problem)
        return response(ResponseCode.SUCCESS)

    def _get(self, channel: Channel, request: Command) -> Command:
        return response(ResponseCode.SUCCESS, body=format_properties(self._settings.properties()).encode())
