"""What small questions about large things keep while they wait for their turn: hundreds may."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Final, cast
from unittest.mock import Mock

import pytest

from rocketline.broker.handlers.assignment import AssignmentHandlers
from rocketline.broker.handlers.connections import ConnectionHandlers
from rocketline.broker.handlers.groups import GroupHandlers
from rocketline.broker.handlers.queue_inspection import QueueInspectionHandlers
from rocketline.broker.handlers.subscriptions import SubscriptionHandlers
from rocketline.broker.handlers.topics import TopicHandlers
from rocketline.broker.long_work import LongWork
from rocketline.broker.timers.handler import TimerHandlers
from rocketline.broker.timers.service import TimerService
from rocketline.model.group_config import SubscriptionGroupConfig
from rocketline.model.topic_config import TopicConfig
from rocketline.net.channel import LATER
from rocketline.net.dispatch import Handler
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire.bodies.stats import TimerMetric, TimerMetrics
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from support.brokers.connections import channel
from support.brokers.tables import Tables, tables
from support.long_steps import at_once

MANY: Final = 2_000
WAITING: Final = 20
KEPT_MAX: Final = 8 * 1024
"""Of each: copies of what is asked for take 30 KB and more."""


@pytest.fixture
def kept() -> Iterator[Tables]:
    with tables(FakeClock()) as made:
        made.topics.update(TopicConfig("W", MANY, MANY), *(TopicConfig(f"t{number}", 1, 1) for number in range(MANY)))
        made.groups.update(*(SubscriptionGroupConfig(f"g{number}") for number in range(MANY)))
        made.subscribe(channel(made.clock)[0], "G", *(f"t{number}" for number in range(MANY)))
        for number in range(MANY):
            made.append()
            made.offsets.commit("G", f"t{number}", 0, 0)
            made.offsets.commit(f"g{number}", "T", 0, 0)
        yield made


class Timers:
    """Messages wait for a moment, in many topics."""

    waiting_topics = MANY

    @property
    def metrics(self) -> TimerMetrics:
        return TimerMetrics(timing_count={f"t{number}": TimerMetric(number, number) for number in range(MANY)})


def handlers(kept: Tables, work: LongWork) -> dict[int, Handler]:
    nowhere = Mock()
    families = (
        TopicHandlers(kept.topics, kept.offsets, kept.store, kept.stats, kept.settings, work, kept.log, at_once),
        GroupHandlers(kept.groups, kept.offsets, kept.stats, kept.settings, work, kept.log),
        SubscriptionHandlers(kept.consumers, kept.offsets, "broker:1", work),
        ConnectionHandlers(kept.consumers, nowhere, work),
        QueueInspectionHandlers(kept.store, kept.consumers, kept.filters, work),
        AssignmentHandlers(kept.consumers, kept.topics, kept.groups, nowhere, nowhere, nowhere, kept.settings, work),
        TimerHandlers(cast("TimerService", Timers()), work),
    )
    return {code: handler for family in families for code, handler in family.by_code().items()}


@pytest.mark.parametrize(
    ("code", "ext", "body"),
    [
        (RequestCode.GET_ALL_TOPIC_CONFIG, {}, b""),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}, b""),
        (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "G"}, b""),
        (RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "G"}, b""),
        (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"}, b""),
        (RequestCode.QUERY_CONSUME_QUEUE, {"topic": "T", "queueId": "0", "index": "0", "count": str(MANY)}, b""),
        (RequestCode.QUERY_ASSIGNMENT, {}, b'{"topic":"W","consumerGroup":"G","messageModel":"BROADCASTING"}'),
        (RequestCode.GET_TIMER_METRICS, {}, b""),
    ],
    ids=["topics", "groups", "subscriptions", "topics of a group", "groups of a topic", "units", "queues", "timers"],
)
def test_questions_that_wait_keep_nothing_of_their_answers(
    kept: Tables, code: int, ext: dict[str, str], body: bytes
) -> None:
    work = LongWork(lambda delay_s, action: None, kept.log)  # whose next turn never comes
    handler, asker = handlers(kept, work)[code], channel(kept.clock)[0]
    tracemalloc.start()
    try:
        for _ in range(WAITING):
            assert handler(asker, Command(code, dict(ext), body)) is LATER
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < WAITING * KEPT_MAX
