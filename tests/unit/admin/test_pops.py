"""What is in flight, as it is read from where brokers note pops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rocketline.admin.pops import OpenCheckpoints
from rocketline.client.received_message import ReceivedMessage, decode_messages
from rocketline.model.ids import QueueOffset
from rocketline.model.names import WHEEL_TIMER_TOPIC, revive_topic
from rocketline.model.queue import MessageQueue
from rocketline.wire.bodies import encode
from rocketline.wire.bodies.pop import AckMsg, PopCheckPoint
from rocketline.wire.message_codec import encode_record
from support.brokers.tables import message

NOW_MS = 1_700_000_000_000
REVIVE = revive_topic("DefaultCluster")
POINT = PopCheckPoint("T", "g", 1, 100, NOW_MS - 5000, 60_000, 3, [0, 1, 2], broker_name="broker-a")
OVER = replace(POINT, invisible_time=5000)
ACK = AckMsg("T", "g", 1, 100, NOW_MS - 5000, 101, "broker-a")
SEVERAL = replace(ACK, ack_offset=-1, ack_offset_list=[100, 102], broker_name=None)

Noted = PopCheckPoint | AckMsg | bytes


def record(noted: Noted, *, topic: str = WHEEL_TIMER_TOPIC, real_topic: str = REVIVE) -> ReceivedMessage:
    """A record of a broker's."""
    tag = "ack" if isinstance(noted, AckMsg) else "ck"
    if isinstance(noted, AckMsg) and noted.ack_offset_list is not None:
        tag = "bAck"
    parked = {"REAL_TOPIC": real_topic} if topic == WHEEL_TIMER_TOPIC else {}
    stored = message(topic, noted if isinstance(noted, bytes) else encode(noted), queue_id=0, TAGS=tag, **parked)
    (read,) = decode_messages(encode_record(replace(stored, queue_offset=QueueOffset(7))))
    return read


def found(*records: ReceivedMessage) -> list[tuple[str, str, int, int, int, int]]:
    checkpoints = OpenCheckpoints("g", frozenset({REVIVE}), NOW_MS)
    checkpoints.add("broker-a", records)
    return [
        (*_place(each.queue), each.message_count, each.popped_ms - NOW_MS, each.visible_ms - NOW_MS)
        for each in checkpoints.queues()
    ]


def _place(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id


WHOLE = [("T", "broker-a", 1, 3, -5000, 55_000)]


@pytest.mark.parametrize(
    ("noted", "left"),
    [
        ([POINT], 3),
        ([POINT, POINT], 3),
        ([POINT, ACK], 2),
        ([ACK, ACK, POINT], 2),
        ([POINT, SEVERAL], 1),
        ([POINT, SEVERAL, ACK], 0),
        ([POINT, replace(ACK, pop_time=NOW_MS)], 3),
        ([replace(POINT, consumer_group="other")], 0),
        ([replace(POINT, queue_offset_diff=None)], 3),
        ([replace(POINT, queue_offset_diff=None, message_count=2**31 - 1)], 0),
        ([b"{", POINT], 3),
        ([OVER], 0),
    ],
    ids=["popped", "parked again", "acknowledged", "in any order", "several", "all", "of another pop", "of others",
         "of old brokers", "no pop is so large", "broken", "over"],
)  # fmt: skip
def test_messages_that_were_not_acknowledged_are_told_once(noted: Sequence[Noted], left: int) -> None:
    told = found(*map(record, noted))
    assert told == ([("T", "broker-a", 1, left, -5000, 55_000)] if left else [])


def test_what_is_due_and_has_not_come_again_is_in_flight_still() -> None:
    assert found(record(OVER, topic=REVIVE)) == [("T", "broker-a", 1, 3, -5000, 0)]


def test_message_that_was_extended_counts_once() -> None:
    later = PopCheckPoint("T", "g", 1, 101, NOW_MS - 1000, 90_000, 1, [0], broker_name="broker-a")
    assert found(record(POINT), record(later)) == WHOLE
    assert found(record(POINT), record(later), record(SEVERAL), record(ACK)) == [("T", "broker-a", 1, 1, -1000, 89_000)]


def test_records_of_applications_are_none() -> None:
    assert found(record(POINT, real_topic="orders"), record(POINT, topic="orders")) == []
