"""What the answer to a pop means, for messages of every topic of a group."""

from __future__ import annotations

from typing import Any

import pytest

from rocketline.client.consumer.pulls import FilterContext
from rocketline.client.consumer.subscriptions import parse_subscription
from rocketline.client.pop.pops import ALL_QUEUES, PopPlan, PopQuery, PopResult, PopStatus
from rocketline.errors import NoPopError, RemoteProtocolError, ResponseError
from rocketline.model.queue import MessageQueue
from rocketline.wire.command import Command, response
from rocketline.wire.pop_handles import TopicKind
from support.clients.popping import POP_MS, popped, record

QUERY = PopQuery(
    MessageQueue("N%T", "broker-a", ALL_QUEUES),
    parse_subscription("N%T", None, sub_version=1),
    count_max=32,
    invisible_s=60,
    poll_s=15,
    from_first=True,
)


def answered(answer: Command, **options: Any) -> PopResult:
    return PopPlan("N%g", namespace="N", **options).answered(QUERY, "host:1", answer, now_s=100)


def test_messages_of_a_namespace_are_seen_without_it() -> None:
    (message,) = answered(popped([record(b"a", 3, topic="N%T")], "0 0 3", "0 0 3")).messages
    assert (message.topic, message.group, message.queue) == ("T", "N%g", MessageQueue("T", "broker-a", 0))
    assert message.handle.format() == f"3 {POP_MS} 60000 3 0 broker-a 0 3"


@pytest.mark.parametrize(
    ("topic", "kind"), [("%RETRY%N%g_N%T", TopicKind.RETRY_V1), ("%RETRY%N%g+N%T", TopicKind.RETRY_V2)]
)
def test_message_that_tells_its_retry_topic_is_seen_in_its_own(topic: str, kind: TopicKind) -> None:
    """As brokers with popResponseReturnActualRetryTopic send them."""
    records = [record(b"a", 3, topic=topic), record(b"b", 3, topic="N%T")]
    retry, plain = answered(popped(records, f"{kind:d} 0 2;0 0 3", f"{kind:d} 0 3;0 0 3")).messages
    assert (retry.topic, retry.handle.kind, retry.handle.start_offset) == ("T", kind, 2)
    assert (plain.topic, plain.handle.kind) == ("T", TopicKind.NORMAL)


def test_old_broker_tells_nothing_of_offsets() -> None:
    """Then the first message of each queue begins its checkpoint."""
    records = [record(b"a", 3, queue_id=1), record(b"b", 4, queue_id=1), record(b"c", 9)]
    messages = answered(popped(records, "", "")).messages
    assert [(message.handle.start_offset, message.handle.queue_offset) for message in messages] == [
        (3, 3),
        (3, 4),
        (9, 9),
    ]


def test_message_is_ours_for_as_long_as_was_asked_for_whatever_the_broker_says() -> None:
    long = answered(popped([record(b"a", 0)], invisible_ms=10**15)).messages[0]
    short = answered(popped([record(b"a", 0)], invisible_ms=1000)).messages[0]
    assert (long.expires_s, short.expires_s) == (160, 101)


def test_handle_is_among_the_properties_whoever_read_them_first() -> None:
    (message,) = answered(popped([record(b"a", 0)])).messages
    assert message.tags is None
    assert message.properties["POP_CK"] == message.handle.format()
    message.renew(message.handle.renewed(POP_MS + 5, 1000, 7), expires_s=200)
    assert message.properties["POP_CK"] == f"0 {POP_MS + 5} 1000 7 0 broker-a 0 0"
    assert message.properties["1ST_POP_TIME"] == str(POP_MS)


@pytest.mark.parametrize(
    ("starts", "offsets"),
    [
        ("0 1 0", "0 0 0"),
        ("0 0 0", ""),
        ("0 0 0", "0 0 x"),
        ("0 0", "0 0 0"),
        ("0 0 0;0 0 0", "0 0 0"),
        ("3 0 0", "0 0 0"),
    ],
)
def test_texts_that_make_no_sense_are_refused(starts: str, offsets: str) -> None:
    with pytest.raises(RemoteProtocolError):
        answered(popped([record(b"a", 0)], starts, offsets))


def test_torn_records_and_missing_fields_are_refused() -> None:
    whole = popped([record(b"a", 0)])
    with pytest.raises(RemoteProtocolError):
        answered(Command(0, whole.ext, whole.body[:-1]))
    with pytest.raises(RemoteProtocolError):
        answered(response(0, body=whole.body))


def test_codes_mean_what_they_do_in_java() -> None:
    assert answered(response(209)).status is PopStatus.POLLING_FULL
    assert answered(response(210)).status is answered(response(19)).status is PopStatus.NOTHING_FOUND
    with pytest.raises(NoPopError):
        answered(response(3))
    with pytest.raises(ResponseError):
        answered(response(26))


def test_hook_takes_messages_out_and_one_that_fails_takes_none() -> None:
    class OnlyOdd:
        def filter_messages(self, context: FilterContext) -> None:
            context.messages[:] = [message for message in context.messages if message.queue_offset % 2]

    class Broken:
        def filter_messages(self, context: FilterContext) -> None:
            raise ValueError

    answer = popped([record(b"%d" % n, n) for n in range(3)], "0 0 0", "0 0 0,1,2")
    result = answered(answer, filter_hooks=(Broken(), OnlyOdd()))
    assert [message.body for message in result.messages] == [b"1"]
    assert [message.body for message in result.unwanted] == [b"0", b"2"]
