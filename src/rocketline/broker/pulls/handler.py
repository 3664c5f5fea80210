"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): read a span of one queue, or wait for one.

Like Apache: the checks and their order, the codes, and the status's name as the remark; a pull at the end of its queue
waits if it says so, and once woken it is answered, whatever it finds.

Differs:
- the pull that is told of a reset does not commit the offset it carries: Apache lets it overwrite the reset's;
- a pull with a very long expression, or with one in SQL that is new, is answered in its turn, one such at a time; one
  that would have to wait is refused (2) when those that wait take too much memory;
- a pull by SQL looks at up to 4,096 messages, and at fewer while others do so too; Apache's broker looks at 800;
- a woken pull whose connection takes no bytes is answered 20 with its own offset and no messages, so that they do not
  pile up here;
- offsets of broadcasting groups are not remembered for proxies (Java: enableBroadcastOffsetStore).
"""

from __future__ import annotations

from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import SqlFilters, Wanted, is_tag_type
from rocketline.broker.long_work import LongWork, put_off
from rocketline.broker.pulls.checks import Admitted, PullChecks, Said
from rocketline.broker.pulls.long_poll import HeldPull, HeldPulls
from rocketline.broker.pulls.reading import PullReading, pull_code
from rocketline.clock import Clock
from rocketline.filter import SqlFilter
from rocketline.logs import Throttle
from rocketline.model.sys_flags import PULL_COMMIT_OFFSET, PULL_SUSPEND
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings
from rocketline.store.reading import ReadResult
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import PullMessageRequestHeader, PullMessageResponseHeader

_LONG_TEXT: Final = 8 * 1024
"""An expression as long as this takes a millisecond to read."""


class PullHandlers:
    """Answers pulls at once, or later through `HeldPulls`."""

    def __init__(
        self,
        checks: PullChecks,
        reading: PullReading,
        held: HeldPulls,
        settings: Settings[BrokerConfig],
        clock: Clock,
        log: Throttle,
        work: LongWork,
        expressions: SqlFilters,
    ) -> None:
        self._work, self._expressions = work, expressions
        self._checks, self._reading, self._held = checks, reading, held
        self._settings, self._clock, self._log = settings, clock, log

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.PULL_MESSAGE: self._pull_in_turn, RequestCode.LITE_PULL_MESSAGE: self._pull_in_turn}

    def _pull_in_turn(self, channel: Channel, request: Command) -> Outcome:
        """A long expression, and one that was never compiled, has a turn of the loop for itself."""
        text = request.ext.get("subscription", "")
        if is_tag_type(request.ext.get("expressionType")):
            is_quick = len(text) < _LONG_TEXT
        else:
            is_quick = not text or self._expressions.has(text) or not self._settings.value.enable_property_filter
        if is_quick:
            return self._pull(channel, request)
        return self._work.begin(channel, request, put_off(self._pull_now, channel, request))

    def _pull(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(PullMessageRequestHeader, request.ext)
        admitted = self._admit(channel, request, asked)
        if isinstance(admitted, Command):
            return admitted
        if isinstance(admitted.wanted, SqlFilter) and not admitted.wanted.is_ready:
            return self._work.begin(channel, request, put_off(self._pull_now, channel, request))
        return self._begin(channel, request, asked, admitted)

    def _pull_now(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(PullMessageRequestHeader, request.ext)
        admitted = self._admit(channel, request, asked)
        return admitted if isinstance(admitted, Command) else self._begin(channel, request, asked, admitted)

    def _begin(
        self, channel: Channel, request: Command, asked: PullMessageRequestHeader, admitted: Admitted
    ) -> Outcome:
        result = self._read(asked, admitted)
        commit_offset = asked.commit_offset if asked.sys_flag & PULL_COMMIT_OFFSET else None
        self._note(asked, result, commit_offset)
        if (
            asked.sys_flag & PULL_SUSPEND
            and pull_code(result.status, asked.queue_offset) is ResponseCode.PULL_NOT_FOUND
        ):
            return self._hold(channel, request, asked, admitted)
        return self._answer(asked, admitted, result)

    def _hold(self, channel: Channel, request: Command, asked: PullMessageRequestHeader, admitted: Admitted) -> Outcome:
        config = self._settings.value
        wait_ms = asked.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
        deadline_s = self._clock.monotonic() + wait_ms / 1000
        request.body = b""  # a pull has none; if somebody sends one, it is not kept
        held = HeldPull(channel, request, asked.queue_offset, admitted.wanted, deadline_s, self._wake)
        problem = self._held.hold(asked.topic, asked.queue_id, held)
        return LATER if problem is None else response(ResponseCode.SYSTEM_BUSY, problem)

    def _wake(self, held: HeldPull) -> None:
        try:
            answer = self._answer_woken(held.channel, held.request, held.wanted)
        except Exception as error:  # noqa: BLE001  # a fault of ours: whoever woke this pull must not suffer
            self._log.error("handler failed", "held pull", error=error, peer=held.channel.peer)
            answer = response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        held.channel.reply(held.request, answer)

    def _answer_woken(self, channel: Channel, request: Command, wanted: Wanted) -> Command:
        """Everything is looked at anew, but for what the pull itself says: much may have changed while it waited."""
        asked = headers.read(PullMessageRequestHeader, request.ext)
        admitted = self._admit(channel, request, asked, Said(wanted))
        if isinstance(admitted, Command):
            return admitted
        if channel.is_congested:
            result = self._reading.nothing_yet(asked.topic, asked.queue_id, asked.queue_offset)
        else:
            result = self._read(asked, admitted)
            self._note(asked, result, None)
        return self._answer(asked, admitted, result)

    def _admit(
        self, channel: Channel, request: Command, asked: PullMessageRequestHeader, said: Said | None = None
    ) -> Admitted | Command:
        return self._checks.admit(channel, asked, said, is_lite=request.code == RequestCode.LITE_PULL_MESSAGE)

    def _read(self, asked: PullMessageRequestHeader, admitted: Admitted) -> ReadResult:
        return self._reading.read(
            asked.consumer_group, asked.topic, asked.queue_id, asked.queue_offset, asked.max_msg_nums, admitted.wanted
        )

    def _note(self, asked: PullMessageRequestHeader, result: ReadResult, commit_offset: int | None) -> None:
        self._reading.note(asked.consumer_group, asked.topic, asked.queue_id, result, commit_offset)

    def _answer(self, asked: PullMessageRequestHeader, admitted: Admitted, result: ReadResult) -> Command:
        header = PullMessageResponseHeader(
            suggest_which_broker_id=self._reading.suggested_broker(admitted.group, asked.topic, asked.queue_id, result),
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            topic_sys_flag=admitted.topic.topic_sys_flag,
            group_sys_flag=admitted.group.group_sys_flag,
        )
        code = pull_code(result.status, asked.queue_offset)
        return response(code, result.status.name, ext=headers.encode(header), body=b"".join(result.records))
