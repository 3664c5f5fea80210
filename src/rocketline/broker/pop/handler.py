"""POP_MESSAGE (200050): messages of any queue, invisible to others of the group until they are acknowledged.

Like Apache: the checks and their order, the codes, the fields of every answer; a pop that finds nothing waits if it
says so, and once woken it is tried anew.

Differs: a pop whose messages would be invisible for longer than timers take (timerMaxDelaySec) is refused with code 29;
Apache's broker hands them out, and they never come again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketline.broker.chores import Chores
from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import SqlFilters, Wanted
from rocketline.broker.long_work import LongWork, Steps, put_off
from rocketline.broker.pop.answer import PopAnswer
from rocketline.broker.pop.checks import PopChecks, is_quick, wanted_by
from rocketline.broker.pop.long_poll import ANY_QUEUE, HeldPop, HeldPops, Holding, PopPlace
from rocketline.broker.pop.order_infos import ATTEMPT_ID_MAX
from rocketline.broker.pop.positions import PopPositions
from rocketline.broker.pop.reading import PopFound, PopReading, PopWish
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.logs import Throttle
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler, failure
from rocketline.settings import Settings
from rocketline.store.reading import ReadStatus
from rocketline.store.store_clock import StoreClock
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import PopMessageRequestHeader, PopMessageResponseHeader
from rocketline.wire.pop_handles import format_message_offsets, format_order_counts, format_start_offsets

LATE_MS: Final = 500
"""By which a pop may be beyond its time when it is taken up."""
_NO_WAIT: Final = {
    Holding.IS_OVER: ResponseCode.POLLING_TIMEOUT,
    Holding.IS_FULL: ResponseCode.POLLING_FULL,
}


class PopHandlers:
    """Answers pops at once, after a flush, or later through `HeldPops`."""

    def __init__(
        self,
        checks: PopChecks,
        reading: PopReading,
        positions: PopPositions,
        revive: ReviveTopic,
        held: HeldPops,
        expressions: SqlFilters,
        settings: Settings[BrokerConfig],
        clock: StoreClock,
        chores: Chores,
        work: LongWork,
        log: Throttle,
    ) -> None:
        self._checks, self._reading, self._positions, self._revive = checks, reading, positions, revive
        self._held, self._expressions, self._settings, self._clock = held, expressions, settings, clock
        self._chores, self._work, self._log = chores, work, log

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.POP_MESSAGE: self._pop}

    def _pop(self, channel: Channel, request: Command) -> Outcome:
        """An expression that takes long to read has a turn of the loop for itself."""
        if is_quick(request.ext.get("expType"), request.ext.get("exp"), self._expressions):
            return self._pop_now(channel, request)
        return self._work.begin(channel, request, put_off(self._pop_now, channel, request))

    def _pop_now(self, channel: Channel, request: Command) -> Outcome:
        answer = PopAnswer(channel, request)
        self._chores.begin(self._popped(answer, None), channel)
        return answer.outcome()

    def _popped(self, answer: PopAnswer, held: HeldPop | None) -> Steps[None]:
        """One try, in steps if there are many queues, and another if what came meanwhile may have been missed."""
        try:
            while (yield from self._try(answer, held)):
                yield
        except Exception as error:  # noqa: BLE001  # told to the peer, whoever woke the pop
            answer.give(failure(error, self._log, answer.channel, answer.request))

    def _try(self, answer: PopAnswer, held: HeldPop | None) -> Steps[bool]:
        """Whether it is to be tried again."""
        asked = headers.read(PopMessageRequestHeader, answer.request.ext)
        born_ms = asked.born_time or self._clock.now_ms()
        admitted = self._admit(asked, born_ms, held)
        if isinstance(admitted, Command):
            self._turn_away(answer, held, _refused(admitted))
            return False
        found = self._reading.begin(is_order=asked.order)
        if answer.channel.is_congested:
            self._turn_away(answer, held, _nothing(ResponseCode.POLLING_TIMEOUT, asked, found))
            return False
        topic, wanted = admitted
        wish = wish_of(asked, wanted)
        looking = _while_there(answer.channel, self._reading.take(wish, topic, found))
        has_news = yield from self._held.watched(_place(asked), wanted, looking)
        if answer.channel.is_closed and not found.count:
            self._turn_away(answer, held, _nothing(ResponseCode.POLLING_TIMEOUT, asked, found))
            return False
        has_time = born_ms + asked.poll_time > self._clock.now_ms()
        if has_news and has_time and not found.count and found.error is None and found.problem is None:
            answer.request.ext["bornTime"] = str(born_ms)  # its time counts from when it came first
            return True
        self._answer(answer, asked, wish, born_ms, found)
        return False

    def _turn_away(self, answer: PopAnswer, held: HeldPop | None, refusal: Command) -> None:
        """What it was woken for, if it was, is for somebody else."""
        if held is not None:
            self._held.wake(*held.place)
        answer.give(refusal)

    def _answer(
        self, answer: PopAnswer, asked: PopMessageRequestHeader, wish: PopWish, born_ms: int, found: PopFound
    ) -> None:
        if found.count:
            self.hand_out(
                wish, found, lambda problem: answer.give(_found(asked, found) if problem is None else refused(problem))
            )
        elif found.error is not None:
            raise found.error
        elif found.problem is not None:
            answer.give(refused(found.problem))
        else:
            self._wait(answer, asked, wish.wanted, born_ms, found)

    def admit(self, asked: PopMessageRequestHeader, born_ms: int) -> tuple[TopicConfig, Wanted] | Command:
        """The topic, and which of its messages are wanted; or the answer to a pop that is refused."""
        return self._admit(asked, born_ms, None)

    def _admit(
        self, asked: PopMessageRequestHeader, born_ms: int, held: HeldPop | None
    ) -> tuple[TopicConfig, Wanted] | Command:
        if self._clock.now_ms() - born_ms - asked.poll_time > LATE_MS:
            return response(ResponseCode.POLLING_TIMEOUT, "the time of this pop was over before it came here")
        topic = self._checks.admit(asked.consumer_group, asked.topic, asked.queue_id, asked.max_msg_nums)
        if isinstance(topic, Command):
            return topic
        if asked.invisible_time > self._revive.delay_ms_max:
            return response(
                ResponseCode.INVALID_PARAMETER,
                f"invisibleTime {asked.invisible_time}: timerMaxDelaySec allows {self._revive.delay_ms_max} ms",
            )
        if len(asked.attempt_id or "") > ATTEMPT_ID_MAX:
            return response(ResponseCode.INVALID_PARAMETER, f"attemptId has more than {ATTEMPT_ID_MAX} characters")
        if held is not None:  # what it wants was read when it came
            return topic, held.wanted
        wanted = wanted_by(asked.expression_type, asked.expression, self._expressions)
        return wanted if isinstance(wanted, Command) else (topic, wanted)

    def hand_out(self, wish: PopWish, found: PopFound, done: Callable[[str | None], None]) -> None:
        """Call `done` once the checkpoints are safe, or with why they are not: what is not noted must come again."""
        if found.error is not None:
            self._log.error("queue cannot be popped", str(found.error), topic=wish.topic)

        def noted(problem: str | None) -> None:
            for taken in found.taken:
                if problem is None:
                    self._positions.safe(taken)
                else:
                    self._positions.lost(taken)
            if problem is None and found.rest:
                self._held.wake(wish.topic, wish.group, wish.queue_id)
            done(problem)

        if found.taken:
            self._revive.wait(noted)
        else:  # popped in order, or kept in memory
            noted(None)

    def _wait(
        self, answer: PopAnswer, asked: PopMessageRequestHeader, wanted: Wanted, born_ms: int, found: PopFound
    ) -> None:
        place, request = _place(asked), answer.request
        if not asked.born_time:  # its time counts from when it came first
            request.ext["bornTime"] = str(born_ms)
        request.body = b""  # a pop has none; if somebody sends one, it is not kept
        held = HeldPop(answer.channel, request, place, wanted, 0.0, self._again)
        outcome = self._held.hold(held, asked.poll_time, born_ms, self._clock.now_ms())
        if outcome is Holding.WAITS:
            if found.has_moved and found.rest:
                self._held.wake(*place)
        else:
            answer.give(_nothing(_NO_WAIT[outcome], asked, found))

    def _again(self, held: HeldPop) -> None:
        """Everything is looked at anew: much may have changed while it waited."""
        answer = PopAnswer(held.channel, held.request)
        answer.outcome()
        self._chores.begin(self._popped(answer, held), held.channel)


def _place(asked: PopMessageRequestHeader) -> PopPlace:
    return PopPlace(asked.topic, asked.consumer_group, max(asked.queue_id, ANY_QUEUE))


def wish_of(asked: PopMessageRequestHeader, wanted: Wanted) -> PopWish:
    return PopWish(
        asked.consumer_group,
        asked.topic,
        max(asked.queue_id, ANY_QUEUE),
        asked.max_msg_nums,
        asked.invisible_time,
        asked.init_mode,
        wanted,
        asked.order,
        asked.attempt_id,
    )


def _while_there(channel: Channel, looking: Steps[None]) -> Steps[None]:
    """Thousands of steps may be left for a connection that has been closed meanwhile."""
    for _ in looking:
        if channel.is_closed:
            return
        yield


def _found(asked: PopMessageRequestHeader, found: PopFound) -> Command:
    header = PopMessageResponseHeader(
        pop_time=found.pop_ms,
        invisible_time=asked.invisible_time,
        revive_qid=found.revive_queue_id,
        rest_num=found.rest,
        start_offset_info=format_start_offsets(found.starts),
        msg_offset_info=format_message_offsets(found.offsets),
        order_count_info=format_order_counts(found.counts) if asked.order else None,
    )
    body = b"".join(found.records)
    return response(ResponseCode.SUCCESS, ReadStatus.FOUND.name, ext=headers.encode(header), body=body)


def _nothing(code: ResponseCode, asked: PopMessageRequestHeader, found: PopFound) -> Command:
    header = PopMessageResponseHeader(
        pop_time=found.pop_ms,
        invisible_time=asked.invisible_time,
        revive_qid=found.revive_queue_id,
        rest_num=found.rest,
        start_offset_info="",
        msg_offset_info="",
        order_count_info="" if asked.order else None,
    )
    return response(code, ReadStatus.NO_MESSAGE_IN_QUEUE.name, ext=headers.encode(header))


def refused(problem: str) -> Command:
    """The answer to a pop of which nothing can be noted."""
    return _refused(response(ResponseCode.SYSTEM_ERROR, problem))


def _refused(answer: Command) -> Command:
    """The fields are there all the same, as Apache's broker has them."""
    answer.ext |= headers.encode(PopMessageResponseHeader(pop_time=0, invisible_time=0, revive_qid=0, rest_num=0))
    return answer
