from __future__ import annotations

import json
from typing import Any

import pytest

from rocketline.errors import ConfigError
from rocketline.model.queue import MessageQueue
from rocketline.spark.planning.offsets import StreamOffset, initial_offset, parse_offset, ranges_between
from rocketline.spark.planning.planner import QueueRange

Q0, Q1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def as_checkpointed(offset: StreamOffset) -> dict[str, Any]:
    """Spark writes it and reads it again."""
    found: dict[str, Any] = json.loads(json.dumps(offset.as_json()))
    return found


def test_the_first_offset_is_a_constant_that_says_nothing_has_begun() -> None:
    assert initial_offset() == {"version": 1, "queues": {}}
    assert not parse_offset(initial_offset()).is_begun


def test_an_offset_is_read_as_it_was_written() -> None:
    offset = StreamOffset({Q0: 12, Q1: 7}, {Q1: 5}, {Q0: 1_763_282_001_234}, {Q1: 2})
    assert parse_offset(as_checkpointed(offset)) == offset


def test_a_queue_that_is_new_begins_at_its_base() -> None:
    end = as_checkpointed(StreamOffset({Q0: 12}, {Q0: 10}, {Q0: 99}))
    assert ranges_between(initial_offset(), end) == [QueueRange("orders", "broker-a", 0, 10, 12)]


def test_a_queue_that_is_known_goes_on_where_it_ended_with_the_time_of_the_message_before() -> None:
    start = as_checkpointed(StreamOffset({Q0: 12, Q1: 3}, {Q0: 10, Q1: 3}, {Q0: 99}))
    end = as_checkpointed(StreamOffset({Q0: 20, Q1: 4}, {}, {Q0: 120, Q1: 121}))
    assert ranges_between(start, end) == [
        QueueRange("orders", "broker-a", 0, 12, 20, mark_ms=99),
        QueueRange("orders", "broker-a", 1, 3, 4),
    ]


def test_a_queue_that_lost_messages_goes_on_at_its_new_base_and_there_is_nothing_to_compare() -> None:
    start = as_checkpointed(StreamOffset({Q0: 12}, {}, {Q0: 99}))
    end = as_checkpointed(StreamOffset({Q0: 8}, {Q0: 2}, {Q0: 200}))
    assert ranges_between(start, end) == [QueueRange("orders", "broker-a", 0, 2, 8)]


def test_queues_without_new_messages_are_not_read() -> None:
    start = as_checkpointed(StreamOffset({Q0: 12}))
    end = as_checkpointed(StreamOffset({Q0: 12, Q1: 3}, {Q1: 3}))
    assert ranges_between(start, end) == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, "an object is wanted"),
        ({"version": 2, "queues": {}}, "its version is 2"),
        ({"queues": {}}, "its version is None"),
        ({"version": 1}, "an object is wanted"),
        ({"version": 1, "queues": {"t": {"b": {"0": "x"}}}}, "'x' is no whole number"),
    ],
)
def test_the_checkpoint_of_somebody_else_is_told(given: object, problem: str) -> None:
    with pytest.raises(ConfigError, match="the offset in the checkpoint cannot be used") as raised:
        parse_offset(given)
    assert problem in str(raised.value)


def test_offsets_that_do_not_belong_together_are_told() -> None:
    end = as_checkpointed(StreamOffset({Q0: 12}))
    with pytest.raises(ConfigError, match="do not say where queue 0 of topic 'orders' on broker 'broker-a' begins"):
        ranges_between(initial_offset(), end)


def test_between_an_offset_and_itself_there_is_nothing() -> None:
    offset = as_checkpointed(StreamOffset({Q0: 12}, {Q0: 10}))
    assert ranges_between(offset, offset) == []
