"""Who asks whether there is something to pop: PEEK_MESSAGE (200052), NOTIFICATION (200054), POLLING_INFO (200055).

None of them takes anything, or makes the group's offsets. Like Apache: the checks of a pop, and a notification waits as
a pop does.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Final

from rocketline.broker.chores import Chores
from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import SqlFilters, Wanted
from rocketline.broker.long_work import LongWork, Steps, put_off
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.pop.answer import PopAnswer
from rocketline.broker.pop.checks import PopChecks, is_quick, wanted_by
from rocketline.broker.pop.long_poll import ANY_QUEUE, HeldPop, HeldPops, Holding, PopPlace
from rocketline.broker.pop.order_infos import OrderInfos
from rocketline.broker.pop.positions import PopPositions
from rocketline.filter import SqlFilter
from rocketline.logs import Throttle
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler, failure
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.store.reading import ReadStatus
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import (
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PollingInfoResponseHeader,
    PopMessageResponseHeader,
)
from rocketline.wire.pop_handles import TopicKind

_QUEUES_A_STEP: Final = 128
_ANSWER_BYTES: Final = 512 * 1024
_FILTER_WORK: Final = 64 * 1024


class NotificationHandlers:
    """Looks at what the next pop would find."""

    def __init__(
        self,
        checks: PopChecks,
        store: MessageStore,
        topics: TopicTable,
        positions: PopPositions,
        orders: OrderInfos,
        pops: HeldPops,
        held: HeldPops,
        expressions: SqlFilters,
        settings: Settings[BrokerConfig],
        chores: Chores,
        work: LongWork,
        log: Throttle,
    ) -> None:
        self._checks, self._store, self._topics, self._positions = checks, store, topics, positions
        self._orders = orders
        self._pops, self._held, self._expressions, self._settings = pops, held, expressions, settings
        self._chores, self._work, self._log = chores, work, log
        self._random = random.random

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.PEEK_MESSAGE: self._peek,
            RequestCode.NOTIFICATION: self._notify,
            RequestCode.POLLING_INFO: self._count,
        }

    def _count(self, channel: Channel, request: Command) -> Command:
        asked = headers.read(PollingInfoRequestHeader, request.ext)
        topic = self._checks.admit(asked.consumer_group, asked.topic, asked.queue_id)
        if isinstance(topic, Command):
            topic.ext |= headers.encode(PollingInfoResponseHeader(polling_num=0))
            return topic
        waiting = self._pops.waiting(PopPlace(asked.topic, asked.consumer_group, max(asked.queue_id, ANY_QUEUE)))
        return response(ResponseCode.SUCCESS, ext=headers.encode(PollingInfoResponseHeader(polling_num=waiting)))

    def _queues(self, group: str, topic: TopicConfig, queue_id: int) -> Iterator[tuple[str, int]]:
        """Where a pop would look, the retry topics first or last."""
        queues = range(topic.read_queue_nums) if queue_id < 0 else range(queue_id, queue_id + 1)
        own = ((topic.topic_name, each) for each in queues)
        retries = (
            (name, each)
            for kind in (TopicKind.RETRY_V1, TopicKind.RETRY_V2)
            if (found := self._topics.get(name := kind.store_topic(topic.topic_name, group))) is not None
            for each in range(found.read_queue_nums)
        )
        is_retry_first = self._random() * 100 < self._settings.value.pop_from_retry_probability
        return itertools.chain(retries, own) if is_retry_first else itertools.chain(own, retries)

    def _offset(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group would go on."""
        known = self._positions.next_offset(group, topic, queue_id)
        return known if known >= 0 else self._store.min_offset(topic, queue_id)

    # --- peeks

    def _peek(self, channel: Channel, request: Command) -> Outcome:
        answer = PopAnswer(channel, request)
        self._chores.begin(self._guarded(answer, self._peeked(answer)), channel)
        return answer.outcome()

    def _guarded(self, answer: PopAnswer, steps: Steps[None]) -> Steps[None]:
        try:
            for _ in steps:
                yield
                if answer.channel.is_closed:  # thousands of them may be left
                    return
        except Exception as error:  # noqa: BLE001  # told to the peer
            answer.give(failure(error, self._log, answer.channel, answer.request))

    def _peeked(self, answer: PopAnswer) -> Steps[None]:
        asked = headers.read(PeekMessageRequestHeader, answer.request.ext)
        none_or_less = min(asked.max_msg_nums, 0)  # a peek may ask for as many as it likes
        topic = self._checks.admit(asked.consumer_group, asked.topic, asked.queue_id, none_or_less)
        if isinstance(topic, Command):
            answer.give(topic)
            return
        records: list[bytes] = []
        count = rest = size = 0
        for number, (name, queue_id) in enumerate(self._queues(asked.consumer_group, topic, asked.queue_id), 1):
            if not number % _QUEUES_A_STEP:
                yield
            offset = self._offset(asked.consumer_group, name, queue_id)
            if count < asked.max_msg_nums and size < _ANSWER_BYTES:
                result = self._store.read(name, queue_id, offset, asked.max_msg_nums - count, None)
                records += result.records
                count, size = count + result.message_count, size + result.byte_count
            rest += max(self._store.max_offset(name, queue_id) - offset, 0)
        header = PopMessageResponseHeader(pop_time=0, invisible_time=0, revive_qid=0, rest_num=rest)
        if count:
            code, status = ResponseCode.SUCCESS, ReadStatus.FOUND
        else:
            code, status = ResponseCode.PULL_NOT_FOUND, ReadStatus.NO_MESSAGE_IN_QUEUE
        answer.give(response(code, status.name, ext=headers.encode(header), body=b"".join(records)))

    # --- notifications

    def _notify(self, channel: Channel, request: Command) -> Outcome:
        """An expression that takes long to read has a turn of the loop for itself."""
        if is_quick(request.ext.get("expType"), request.ext.get("exp"), self._expressions):
            return self._notify_now(channel, request)
        return self._work.begin(channel, request, put_off(self._notify_now, channel, request))

    def _notify_now(self, channel: Channel, request: Command) -> Outcome:
        answer = PopAnswer(channel, request)
        self._chores.begin(self._guarded(answer, self._notified(answer, None)), channel)
        return answer.outcome()

    def _notified(self, answer: PopAnswer, held: HeldPop | None) -> Steps[None]:
        """One look, and another if what came meanwhile may have been missed."""
        while (yield from self._look(answer, held)):
            yield

    def _look(self, answer: PopAnswer, held: HeldPop | None) -> Steps[bool]:
        """Whether it is to be looked at again."""
        asked = headers.read(NotificationRequestHeader, answer.request.ext)
        topic = self._checks.admit(asked.consumer_group, asked.topic, asked.queue_id)
        if held is not None:  # what it wants was read when it came
            wanted: Wanted | Command = held.wanted
        else:
            wanted = wanted_by(asked.expression_type, asked.expression, self._expressions)
        if isinstance(topic, Command):
            answer.give(_refused(topic))
            return False
        if isinstance(wanted, Command):
            answer.give(_refused(wanted))
            return False
        came_ms = self._store.store_clock.now_ms()
        has_news = yield from self._held.watched(_place(asked), wanted, self._looked(answer, asked, topic, wanted))
        if answer.is_given:  # whatever its times are
            return False
        born_ms = asked.born_time or came_ms
        answer.request.ext["bornTime"] = str(born_ms)  # its time counts from when it came first
        if has_news and born_ms + asked.poll_time > self._store.store_clock.now_ms():
            return True
        self._wait(answer, asked, wanted, born_ms)
        return False

    def _looked(
        self, answer: PopAnswer, asked: NotificationRequestHeader, topic: TopicConfig, wanted: Wanted
    ) -> Steps[None]:
        """Give the answer once there is a message."""
        for number, (name, queue_id) in enumerate(self._queues(asked.consumer_group, topic, asked.queue_id), 1):
            if not number % _QUEUES_A_STEP:
                yield
            if asked.order and (
                name != asked.topic or self._orders.is_closed(name, asked.consumer_group, queue_id, asked.attempt_id)
            ):
                continue
            if self._has_message(asked.consumer_group, name, queue_id, wanted):
                answer.give(_told(has_msg=True))
                return

    def _has_message(self, group: str, topic: str, queue_id: int, wanted: Wanted) -> bool:
        offset = self._offset(group, topic, queue_id)
        if wanted is None:
            return offset < self._store.max_offset(topic, queue_id)
        if isinstance(wanted, SqlFilter):
            result, _ = self._store.read_matching(topic, queue_id, offset, 1, wanted, _FILTER_WORK)
        else:
            result = self._store.read(topic, queue_id, offset, 1, wanted)
        return bool(result.message_count)

    def _wait(self, answer: PopAnswer, asked: NotificationRequestHeader, wanted: Wanted, born_ms: int) -> None:
        answer.request.body = b""
        held = HeldPop(answer.channel, answer.request, _place(asked), wanted, 0.0, self._again)
        outcome = self._held.hold(held, asked.poll_time, born_ms, self._store.store_clock.now_ms())
        if outcome is not Holding.WAITS:
            answer.give(_told(has_msg=False, polling_full=outcome is Holding.IS_FULL))

    def _again(self, held: HeldPop) -> None:
        answer = PopAnswer(held.channel, held.request)
        answer.outcome()
        self._chores.begin(self._guarded(answer, self._notified(answer, held)), held.channel)


def _place(asked: NotificationRequestHeader) -> PopPlace:
    return PopPlace(asked.topic, asked.consumer_group, max(asked.queue_id, ANY_QUEUE))


def _refused(answer: Command) -> Command:
    """The fields are there all the same, as Apache's broker has them."""
    answer.ext |= headers.encode(NotificationResponseHeader(has_msg=False))
    return answer


def _told(*, has_msg: bool, polling_full: bool = False) -> Command:
    header = NotificationResponseHeader(has_msg=has_msg, polling_full=polling_full)
    return response(ResponseCode.SUCCESS, ext=headers.encode(header))
