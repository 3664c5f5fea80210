from __future__ import annotations

from rocketline.client.trace.records import (
    encode_begun,
    encode_consumed,
    encode_ended,
    encode_recalled,
    encode_sent,
)
from rocketline.client.trace.timeline import MessageTrace, TraceStep


def sent(message_id: str = "ID", at_ms: int = 100, kind: int = 0, *, is_ok: bool = True) -> str:
    return encode_sent(at_ms, "R", "shop", "orders", message_id, "new", "42", "b:1", 7, 3, kind, "OFFSET", is_ok)


def read(*texts: str, message_id: str = "ID") -> MessageTrace:
    return MessageTrace.read(message_id, [("10.0.0.9", text.encode()) for text in texts])


def test_message_is_followed_from_its_producer_to_each_consumer() -> None:
    first = encode_begun(200, "R", "billing", "1", "ID", 0, "42") + encode_consumed(
        205, "billing", "1", "ID", 5, False, "42", 2
    )
    again = encode_begun(10_200, "R", "billing", "2", "ID", 1, "42") + encode_consumed(
        10_201, "billing", "2", "ID", 1, True, "42", 0
    )
    other = encode_begun(150, "R", "audit", "3", "ID", 0, "42")
    trace = read(again, sent(), other, first)
    assert (trace.topic, trace.tags, trace.keys, trace.offset_message_id) == ("orders", "new", "42", "OFFSET")
    assert [(event.step, event.at_ms, event.group, event.took_ms, event.outcome) for event in trace.events] == [
        (TraceStep.SENT, 100, "shop", None, ""),
        (TraceStep.STORED, 103, "shop", 3, "OK"),
        (TraceStep.DELIVERED, 150, "audit", None, ""),
        (TraceStep.DELIVERED, 200, "billing", 5, "EXCEPTION"),
        (TraceStep.RETRIED, 10_200, "billing", 1, "SUCCESS"),
    ]
    assert [event.retries for event in trace.events] == [None, None, 0, 0, 1]
    assert [event.where for event in trace.events] == ["10.0.0.9", "b:1", "10.0.0.9", "10.0.0.9", "10.0.0.9"]


def test_only_this_message_is_told_of_be_it_in_a_batch_of_javas() -> None:
    trace = read(sent("OTHER") + sent("ID,NEXT"), message_id="NEXT")
    assert [event.step for event in trace.events] == [TraceStep.SENT, TraceStep.STORED]
    assert not read(sent("OTHER"), "broken\x02").events
    assert read(sent("OTHER"), "broken\x02").broken == 1


def test_end_of_a_transaction_and_recall_are_steps() -> None:
    def ended(at_ms: int, state: str, *, is_check: bool) -> str:
        return encode_ended(at_ms, "R", "shop", "orders", "ID", "new", "42", "b:1", "TX", state, is_check)

    recall = encode_recalled(400, "R", "shop", "orders", "ID", is_ok=True)
    trace = read(ended(300, "COMMIT_MESSAGE", is_check=True), sent(kind=1, is_ok=False), recall)
    assert [(event.step, event.outcome) for event in trace.events] == [
        (TraceStep.HALF_SENT, ""),
        (TraceStep.STORED, "NOT_SAFE"),
        (TraceStep.CHECKED, "COMMIT_MESSAGE"),
        (TraceStep.RECALLED, "OK"),
    ]
    (event,) = read(ended(300, "UNKNOW", is_check=False)).events
    assert (event.step, event.outcome, event.where) == (TraceStep.ENDED, "UNKNOW", "b:1")


def test_end_without_its_begin_tells_when_it_began_if_it_can() -> None:
    (event,) = read(encode_consumed(205, "billing", "1", "ID", 5, True, "null", 0)).events
    assert (event.step, event.at_ms, event.outcome) == (TraceStep.DELIVERED, 200, "SUCCESS")
    old = read("SubAfter\x011\x01ID\x015\x01true\x01null\x02", sent())
    assert [event.at_ms for event in old.events] == [100, 103, None]
