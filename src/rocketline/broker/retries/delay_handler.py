"""GET_ALL_DELAY_OFFSET (45): how far each delay level was delivered, for replicas."""

from __future__ import annotations

from rocketline.broker.retries.delay_levels import DelayedDelivery
from rocketline.net.channel import Channel
from rocketline.net.dispatch import Handler
from rocketline.wire.bodies import encode
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response


class ScheduleHandlers:
    """Answers about delayed messages."""

    def __init__(self, schedule: DelayedDelivery) -> None:
        self._schedule = schedule

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.GET_ALL_DELAY_OFFSET: self._get_offsets}

    def _get_offsets(self, channel: Channel, request: Command) -> Command:
        return response(ResponseCode.SUCCESS, body=encode(self._schedule.table))
