"""GET_ROUTEINFO_BY_TOPIC (105): nearly all that a name server is asked."""

from __future__ import annotations

from rocketline.clock import Clock
from rocketline.nameserver.config import NameServerConfig
from rocketline.nameserver.route_answers import RouteAnswers, RouteReplies
from rocketline.nameserver.route_view import in_zone
from rocketline.net.channel import Channel
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings
from rocketline.wire import headers
from rocketline.wire.bodies import encode_route
from rocketline.wire.codes import V4_9_4, RequestCode, ResponseCode
from rocketline.wire.command import Command, response


class RouteHandlers:
    """Tells routes, once the server is old enough to know them if so configured."""

    def __init__(
        self, answers: RouteAnswers, replies: RouteReplies, settings: Settings[NameServerConfig], clock: Clock
    ) -> None:
        self._answers, self._replies, self._settings, self._clock = answers, replies, settings, clock
        self._started_s = clock.monotonic()

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.GET_ROUTEINFO_BY_TOPIC: self._get_route}

    def _get_route(self, channel: Channel, request: Command) -> Command:
        asked = headers.decode(headers.GetRouteInfoRequestHeader, request.ext)
        if self._is_waiting_for_brokers():
            return response(ResponseCode.SYSTEM_ERROR, "this name server started a moment ago: ask again later")
        body = self._body(asked, request.version)
        if body is None:
            return response(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {asked.topic}"
            )
        reply = response(ResponseCode.SUCCESS, body=body)
        if not request.is_oneway:
            self._replies.remember(request, reply)
        return reply

    def _is_waiting_for_brokers(self) -> bool:
        config = self._settings.value
        age_s = self._clock.monotonic() - self._started_s
        return config.need_wait_for_service and age_s < config.wait_seconds_for_service

    def _body(self, asked: headers.GetRouteInfoRequestHeader, version: int) -> bytes | None:
        if asked.zone_mode and asked.zone_name and asked.zone_name.strip():
            route = self._answers.route(asked.topic)
            # Like Java: a zone's answer is in the dialect whoever asks.
            return None if route is None else encode_route(in_zone(route, asked.zone_name), strict=False)
        strict = version >= V4_9_4 or bool(asked.accept_standard_json_only)
        return self._answers.body(asked.topic, strict=strict)
