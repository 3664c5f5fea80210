"""Messages that wait for their time: how many, for which topics, and until when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketline.admin.calls import Calls, together
from rocketline.admin.offsets import Offsets
from rocketline.admin.reading import TopicReading
from rocketline.admin.topics import Topics
from rocketline.admin.views import BrokerAddress
from rocketline.errors import TopicNotFoundError
from rocketline.model import property_names
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.model.queue import MessageQueue
from rocketline.wire.bodies import decode_answer
from rocketline.wire.bodies.stats import TimerMetrics
from rocketline.wire.codes import RequestCode
from rocketline.wire.recall_handle import recalled_key

if TYPE_CHECKING:
    from rocketline.client.received_message import ReceivedMessage

_COUNT_MAX: Final = 10_000
_DIGITS_MAX: Final = 14
"""Of a moment in milliseconds, until the year 5138: what a broker tells beyond that is none."""


@dataclass(frozen=True, slots=True)
class TimerMoments:
    """When the messages that wait are due."""

    due_ms: list[int]
    """Of each message, the earliest first, as its broker has rounded it down."""
    is_complete: bool
    """All messages of the timer topic were looked at, and not only the newest."""


class TimerMessages:
    """`admin.timers`."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self._topics, self._offsets = calls, Topics(calls), Offsets(calls)

    async def waiting(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[BrokerAddress, dict[str, int]]:
        """How many messages wait at each master, by the topic where they belong."""
        answers = await self._calls.each(
            await self._calls.brokers(cluster=cluster, broker=broker),
            lambda target: self._calls.ask(target.address, RequestCode.GET_TIMER_METRICS),
        )
        return {
            target: {
                topic: metric.count
                for topic, metric in sorted(decode_answer(TimerMetrics, answer.body).timing_count.items())
            }
            for target, answer in answers.items()
        }

    async def moments(self, *, broker: str | None = None, count_max: int = _COUNT_MAX) -> TimerMoments:
        """When messages are due, read from the newest `count_max` of each broker's timer topic."""
        reading = TopicReading(self._calls.runtime, WHEEL_TIMER_TOPIC)
        try:
            queues = await self._topics.readable_queues(WHEEL_TIMER_TOPIC)
        except TopicNotFoundError:  # no broker has timers
            queues = []
        now_ms = self._calls.runtime.clock.wall_ms()

        async def read(queue: MessageQueue) -> tuple[list[int], bool]:
            low, high = await together([self._offsets.min(queue), self._offsets.max(queue)])
            first, due = max(low, high - count_max), DueTimes(now_ms)
            async for messages in reading.parts(queue, first, high):
                due.add(messages)
            return due.times, first == low

        found = await together(read(queue) for queue in queues if broker in (None, queue.broker_name))
        return TimerMoments(sorted(time for times, _ in found for time in times), all(is_all for _, is_all in found))


class DueTimes:
    """The slots of those that wait: each message once, however often it was parked, and none that was called back.

    A marker calls back whatever is in its slot, also what is parked there after it. No message is kept.
    """

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._parked, self._recalled = set[tuple[str, str, int]](), set[tuple[str, str, int]]()

    def add(self, messages: Iterable[ReceivedMessage]) -> None:
        """Those that come next in the topic."""
        for message in messages:
            properties = message.properties
            slot, topic = properties.get(property_names.TIMER_OUT_MS, ""), properties.get(property_names.REAL_TOPIC, "")
            if not (slot.isdecimal() and len(slot) <= _DIGITS_MAX and int(slot) > self._now_ms):
                continue
            if (key := recalled_key(properties)) is not None:
                self._recalled.add((*key, int(slot)))
            else:
                unique_key = properties.get(property_names.UNIQ_KEY) or str(message.queue_offset)
                self._parked.add((topic, unique_key, int(slot)))

    @property
    def times(self) -> list[int]:
        return [slot_ms for _, _, slot_ms in self._parked - self._recalled]
