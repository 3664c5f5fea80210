"""GET_TIMER_CHECK_POINT (60) and GET_TIMER_METRICS (61): what replicas, and administrators, ask of timers."""

from __future__ import annotations

from rocketline.broker.long_work import LARGE_TABLE, LongWork, Steps, answered
from rocketline.broker.timers.service import TimerService
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_OFF = "this broker has no timers: timerWheelEnable=false"


class TimerHandlers:
    """Answers about timer messages; without timers there is nothing to tell."""

    def __init__(self, timers: TimerService | None, work: LongWork) -> None:
        self._timers, self._work = timers, work

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_TIMER_CHECK_POINT: self._get_checkpoint,
            RequestCode.GET_TIMER_METRICS: self._get_metrics,
        }

    def _get_checkpoint(self, channel: Channel, request: Command) -> Command:
        if self._timers is None:
            return response(ResponseCode.SYSTEM_ERROR, _OFF)
        return response(ResponseCode.SUCCESS, body=self._timers.checkpoint.encode())

    def _get_metrics(self, channel: Channel, request: Command) -> Outcome:
        if self._timers is None:
            return response(ResponseCode.SYSTEM_ERROR, _OFF)
        return self._work.begin(channel, request, self._metrics_told(self._timers))

    def _metrics_told(self, timers: TimerService) -> Steps[Command]:
        if timers.waiting_topics > LARGE_TABLE:
            yield
        return (yield from answered(timers.metrics))
