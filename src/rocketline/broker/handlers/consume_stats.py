"""GET_CONSUME_STATS (208), GET_BROKER_CONSUME_STATS (317), QUERY_CONSUME_TIME_SPAN (303): how far groups are.

Differs: 317 tells how far pulls are ahead of commits, where Java forgets the pulls and sums up nonsense; and 303 counts
the delay of a group that has committed nothing from the first message, where Java takes 1970 for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rocketline.broker.long_work import LongWork, Steps, answered_with
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.stats.consume_progress import ConsumeProgress
from rocketline.clock import Clock
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.wire import headers
from rocketline.wire.bodies.stats import ConsumeTimeSpans, QueueTimeSpan
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response

_NAME: Final = re.compile("[^;]+")


class ConsumeStatsHandlers:
    """Answers from what `ConsumeProgress` sees; `address` is the broker's own, as clients know it."""

    def __init__(
        self, progress: ConsumeProgress, topics: TopicTable, work: LongWork, clock: Clock, address: str
    ) -> None:
        self._progress, self._topics, self._work, self._clock = progress, topics, work, clock
        self._address = address

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_CONSUME_STATS: self._of_group,
            RequestCode.GET_BROKER_CONSUME_STATS: self._of_all_groups,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self._time_spans,
        }

    def _of_group(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.GetConsumeStatsRequestHeader, request.ext)
        topics: Iterator[str]
        if (asked.topic_list or "").strip(";"):
            topics = _each_name(asked.topic_list or "")
        elif asked.topic:
            topics = self._progress.subscribed(asked.consumer_group, [asked.topic])
        else:
            topics = self._progress.consumed_topics(asked.consumer_group)
        return self._answer(channel, request, self._progress.of_group(asked.consumer_group, topics))

    def _of_all_groups(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.GetConsumeStatsInBrokerHeader, request.ext)
        stats = self._progress.of_all_groups(order_only=asked.is_order, address=self._address)
        return self._answer(channel, request, stats)

    def _time_spans(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(headers.QueryConsumeTimeSpanRequestHeader, request.ext)
        config = self._topics.get(asked.topic)
        if config is None:
            return response(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist")
        spans = self._progress.time_spans(asked.group, config, self._clock.wall_ms())
        return self._answer(channel, request, _as_body(spans))

    def _answer(self, channel: Channel, request: Command, body: Steps[object]) -> Outcome:
        return self._work.begin(channel, request, answered_with(body))


def _each_name(listed: str) -> Iterator[str]:
    """One after the other: a header has room for half a million."""
    return (found[0] for found in _NAME.finditer(listed))


def _as_body(spans: Steps[list[QueueTimeSpan]]) -> Steps[ConsumeTimeSpans]:
    return ConsumeTimeSpans((yield from spans))
