"""What brokers say of gaps: only what a broker has looked at is called filtered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rocketline.client.consumer.pulls import PullStatus
from rocketline.errors import BrokerNotFoundError, RocketlineError, TopicNotExistError, TopicNotFoundError
from rocketline.model.queue import MessageQueue
from rocketline.pipelines.definition import Source
from rocketline.pipelines.offset_spans import OffsetSpan
from rocketline.pipelines.proof import broker_gaps
from rocketline.pipelines.proof.broker_gaps import BrokerAnswers
from rocketline.pipelines.proof.compare import QueueFindings

QUEUE = MessageQueue("orders", "broker-a", 0)
SOURCE = Source("orders", {"nameServer": "127.0.0.1:9876", "subscribe": "orders", "tags": "a"})
ALL = Source("orders", {"nameServer": "127.0.0.1:9876", "subscribe": "orders", "rocketmq.namespace": "shop"})
FOUND, NONE_NEW = PullStatus.FOUND, PullStatus.NO_NEW_MESSAGE
NONE_MATCHED, ILLEGAL = PullStatus.NO_MATCHED_MESSAGE, PullStatus.OFFSET_ILLEGAL


class Broker:
    """Answers pulls as a test has written down, and has offsets from `begin` to 100; `low` says what pulls tell."""

    def __init__(self, answers: dict[int, tuple[PullStatus, int, list[int]]], low: int = 0, begin: int = 0) -> None:
        self._answers, self._low, self._begin = answers, low, begin

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass

    def min_offset(self, queue: MessageQueue) -> int:
        return self._begin

    def max_offset(self, queue: MessageQueue) -> int:
        return 100

    def pull(self, queue: MessageQueue, offset: int, *more: Any) -> SimpleNamespace:
        status, following, offsets = self._answers[offset]
        messages = [SimpleNamespace(queue_offset=offset) for offset in offsets]
        return SimpleNamespace(status=status, next_offset=following, min_offset=self._low, messages=messages)


class Links:
    """Knows which topics are compacted, and nothing else."""

    def __init__(self, *compacted: str) -> None:
        self._compacted = compacted

    def node(self, queue: MessageQueue, route_ttl_s: float) -> str:
        return queue.broker_name

    def is_compacted(self, topic_on_wire: str, node: str, timeout_s: float) -> bool:
        return topic_on_wire in self._compacted

    def close(self) -> None:
        pass


def explained(
    monkeypatch: pytest.MonkeyPatch, broker: Broker, *gaps: OffsetSpan, source: Source = SOURCE
) -> QueueFindings:
    monkeypatch.setattr(broker_gaps, "PullConsumer", lambda *given, **more: broker)
    with BrokerAnswers(source) as answers:
        return answers.explained(QueueFindings(queue=QUEUE, read=(OffsetSpan(0, 200),), rows=0, gaps=gaps))


def test_gap_is_filtered_lost_or_beyond_what_the_broker_has(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({10: (FOUND, 60, [12, 15]), 60: (NONE_MATCHED, 100, [])})
    found = explained(monkeypatch, broker, OffsetSpan(10, 14), OffsetSpan(50, 120))

    assert found.gaps == (OffsetSpan(12, 13),), "15 is in the table"
    assert found.filtered == (OffsetSpan(10, 12), OffsetSpan(13, 14), OffsetSpan(50, 100))
    assert found.unknown == (OffsetSpan(100, 120),)


def test_gap_before_all_that_the_broker_has_is_gone_and_what_it_still_has_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker({50: (FOUND, 100, list(range(50, 100)))}, low=50, begin=50)
    found = explained(monkeypatch, broker, OffsetSpan(10, 20), OffsetSpan(40, 60), OffsetSpan(110, 120))

    assert found.gone == (OffsetSpan(10, 20), OffsetSpan(40, 50))
    assert found.gaps == (OffsetSpan(50, 60),)
    assert found.unknown == (OffsetSpan(110, 120),)
    assert not found.is_sound

    expired = explained(monkeypatch, broker, OffsetSpan(10, 20))
    assert expired.is_sound
    assert not expired.is_clean


def test_what_comes_after_a_broker_shows_no_more_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({10: (NONE_MATCHED, 30, []), 30: (NONE_NEW, 30, [])})
    found = explained(monkeypatch, broker, OffsetSpan(10, 50))

    assert found.filtered == (OffsetSpan(10, 30),)
    assert found.unknown == (OffsetSpan(30, 50),)
    assert not found.is_clean


def test_broker_that_goes_ahead_without_having_looked_explains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = explained(monkeypatch, Broker({10: (NONE_NEW, 100, [])}), OffsetSpan(10, 50))

    assert not found.filtered
    assert found.unknown == (OffsetSpan(10, 50),)


def test_what_was_deleted_meanwhile_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    jump = Broker({10: (ILLEGAL, 30, []), 30: (NONE_MATCHED, 50, [])})
    silent = Broker({10: (NONE_MATCHED, 50, [])}, low=30)
    for broker in (jump, silent):
        found = explained(monkeypatch, broker, OffsetSpan(10, 50))

        assert found.filtered == (OffsetSpan(30, 50),)
        assert found.unknown == (OffsetSpan(10, 30),)


def test_without_a_filter_what_the_broker_cannot_show_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_gaps, "ExecutorClient", lambda settings: Links())
    broker = Broker({10: (FOUND, 60, [12])})
    found = explained(monkeypatch, broker, OffsetSpan(10, 20), source=ALL)

    assert found.gaps == (OffsetSpan(12, 13),)
    assert not found.filtered
    assert found.unknown == (OffsetSpan(10, 12), OffsetSpan(13, 20))
    assert not found.is_clean


def test_without_a_filter_a_compacted_topic_leaves_out_messages_on_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_gaps, "ExecutorClient", lambda settings: Links("shop%orders"))
    found = explained(monkeypatch, Broker({10: (NONE_MATCHED, 60, [])}), OffsetSpan(10, 20), source=ALL)

    assert found.filtered == (OffsetSpan(10, 20),)
    assert found.is_clean


@pytest.mark.parametrize(
    "problem", [TopicNotFoundError("orders"), BrokerNotFoundError("broker-a"), TopicNotExistError(17, "gone")]
)
def test_gap_is_unknown_if_its_topic_or_broker_is_gone(
    monkeypatch: pytest.MonkeyPatch, problem: RocketlineError, caplog: pytest.LogCaptureFixture
) -> None:
    class Gone(Broker):
        def min_offset(self, queue: MessageQueue) -> int:
            raise problem

    found = explained(monkeypatch, Gone({}), OffsetSpan(10, 20))

    assert not found.gaps
    assert found.unknown == (OffsetSpan(10, 20),)
    assert not found.is_clean
    assert str(problem)[:20] in caplog.text
