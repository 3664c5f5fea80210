from __future__ import annotations

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model.ids import QueueOffset
from rocketline.wire import frame
from rocketline.wire.message_codec import decode_messages
from rocketline.wire.pop_handles import (
    PopHandle,
    PopMessage,
    PopQueue,
    TopicKind,
    build_handles,
    format_message_offsets,
    format_order_counts,
    format_start_offsets,
    parse_message_offsets,
    parse_order_counts,
    parse_start_offsets,
)
from support.golden import golden_frames

NORMAL, RETRY_V1, RETRY_V2 = TopicKind.NORMAL, TopicKind.RETRY_V1, TopicKind.RETRY_V2
TEXT_O = "100 1700000000000 60000 3 0 broker-a 1 101"
HANDLE_O = PopHandle(QueueOffset(100), 1700000000000, 60000, 3, NORMAL, "broker-a", 1, QueueOffset(101))


def popped(kind: TopicKind, queue_id: int, queue_offset: int) -> PopMessage:
    return PopMessage(kind, queue_id, QueueOffset(queue_offset))


def test_handle_when_read_and_written_is_the_same() -> None:
    """Vector O."""
    assert PopHandle.parse(TEXT_O) == HANDLE_O
    assert HANDLE_O.format() == TEXT_O


def test_handles_of_a_reply_are_built_from_its_texts() -> None:
    """Vector O."""
    starts, offsets = parse_start_offsets("0 1 100;0 2 50"), parse_message_offsets("0 1 100,101;0 2 50")
    messages = [popped(NORMAL, 1, 100), popped(NORMAL, 2, 50), popped(NORMAL, 1, 101)]
    first, second, third = build_handles(messages, HANDLE_O, starts, offsets)
    assert first.format() == "100 1700000000000 60000 3 0 broker-a 1 100"
    assert second.format() == "50 1700000000000 60000 3 0 broker-a 2 50"
    assert third.format() == TEXT_O


def test_recorded_pop_gives_the_handle_that_was_acknowledged() -> None:
    """The probe built its handle by hand from the reply before it."""
    golden = next(golden for golden in golden_frames() if golden.what == "reply 0 to 200050 POP_MESSAGE FOUND")
    reply = frame.decode(golden.data)
    shared = PopHandle(
        QueueOffset(0),
        int(reply.ext["popTime"]),
        int(reply.ext["invisibleTime"]),
        int(reply.ext["reviveQid"]),
        NORMAL,
        "broker-a",
        0,
        QueueOffset(0),
    )
    handles = build_handles(
        [PopMessage(TopicKind.of(m.topic), m.queue_id, m.queue_offset) for m in decode_messages(reply.body)],
        shared,
        parse_start_offsets(reply.ext["startOffsetInfo"]),
        parse_message_offsets(reply.ext["msgOffsetInfo"]),
    )
    assert [handle.queue_offset for handle in handles] == [0, 1, 2]
    acknowledged = {frame.decode(other.data).ext.get("extraInfo") for other in golden_frames()}
    assert handles[0].format() in acknowledged


def test_recorded_handles_when_written_again_are_the_same() -> None:
    exts = [frame.decode(golden.data).ext for golden in golden_frames()]
    handles = [ext["extraInfo"] for ext in exts if "extraInfo" in ext]
    assert len(handles) == 5
    assert [PopHandle.parse(handle).format() for handle in handles] == handles


def test_reply_of_an_old_broker_starts_each_queue_at_its_first_message() -> None:
    messages = [popped(NORMAL, 1, 7), popped(NORMAL, 1, 9), popped(RETRY_V1, 1, 3)]
    handles = build_handles(messages, HANDLE_O, {}, {})
    assert [(h.start_offset, h.kind, h.queue_offset) for h in handles] == [(7, 0, 7), (7, 0, 9), (3, 1, 3)]


@pytest.mark.parametrize(("starts", "offsets"), [("0 2 50", "0 1 100"), ("0 1 100", "0 2 50"), ("0 1 100", "")])
def test_reply_that_does_not_speak_of_its_message_is_refused(starts: str, offsets: str) -> None:
    with pytest.raises(RemoteProtocolError, match="OffsetInfo of a POP reply"):
        build_handles([popped(NORMAL, 1, 100)], HANDLE_O, parse_start_offsets(starts), parse_message_offsets(offsets))


def test_handle_after_a_change_of_invisible_time_is_its_own_checkpoint() -> None:
    renewed = HANDLE_O.renewed(pop_ms=1700000001000, invisible_ms=10000, revive_queue_id=5)
    assert renewed.format() == "101 1700000001000 10000 5 0 broker-a 1 101"


def test_orderly_pop_is_told_by_its_revive_queue() -> None:
    assert PopHandle.parse("0 1 2 999 0 b 0 0").is_order
    assert not HANDLE_O.is_order


@pytest.mark.parametrize(
    "text",
    [
        "",
        "100 1700000000000 60000 3 0 broker-a 1",
        "100 1700000000000 60000 3 3 broker-a 1 101",
        "100 1700000000000 60000 3 0  1 101",
        "x 1700000000000 60000 3 0 broker-a 1 101",
        "1_0 1700000000000 60000 3 0 broker-a 1 101",
        "٣ 1700000000000 60000 3 0 broker-a 1 101",
        "9223372036854775808 1700000000000 60000 3 0 broker-a 1 101",
        "9" * 5000 + " 1700000000000 60000 3 0 broker-a 1 101",
    ],
)
def test_handle_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="POP"):
        PopHandle.parse(text)


@pytest.mark.parametrize("broker_name", ["", "a b"])
def test_handle_of_a_broker_whose_name_blanks_would_split_is_refused(broker_name: str) -> None:
    handle = PopHandle(QueueOffset(0), 0, 0, 0, NORMAL, broker_name, 0, QueueOffset(0))
    with pytest.raises(LocalProtocolError, match="broker name"):
        handle.format()


@pytest.mark.parametrize("text", ["", "0 1 100", "0 1 100;0 2 50;1 0 -1;2 0 9223372036854775807"])
def test_start_offsets_when_read_and_written_are_the_same(text: str) -> None:
    assert format_start_offsets(parse_start_offsets(text)) == text


@pytest.mark.parametrize("text", ["", "0 1 100,101;0 2 50", "2 7 1"])
def test_message_offsets_when_read_and_written_are_the_same(text: str) -> None:
    assert format_message_offsets(parse_message_offsets(text)) == text


def test_order_counts_of_queues_and_of_single_messages_are_told_apart() -> None:
    text = "0 1 2;0 qo1%101 3;1 qo0%5 1"
    counts = parse_order_counts(text)
    assert counts[PopQueue(NORMAL, 1)] == 2
    assert counts[PopMessage(NORMAL, 1, QueueOffset(101))] == 3
    assert counts[PopMessage(RETRY_V1, 0, QueueOffset(5))] == 1
    assert format_order_counts(counts) == text


@pytest.mark.parametrize("text", ["0", "0 1", "0 1 2 3", "0 1 2;", ";", "0 1 x", "3 1 2", "0 x 2", "0 1 2;0 1 3", " "])
def test_text_of_a_reply_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="POP"):
        parse_start_offsets(text)
    with pytest.raises(RemoteProtocolError, match="POP"):
        parse_message_offsets(text)
    with pytest.raises(RemoteProtocolError, match="POP"):
        parse_order_counts(text)


@pytest.mark.parametrize(
    ("topic", "kind"),
    [("T", NORMAL), ("a+b", NORMAL), ("%RETRY%g", RETRY_V1), ("%RETRY%g_T", RETRY_V1), ("%RETRY%g+T", RETRY_V2)],
)
def test_kind_of_a_topic_is_told_by_its_name(topic: str, kind: TopicKind) -> None:
    assert TopicKind.of(topic) is kind


def test_topic_to_acknowledge_is_where_the_message_is_stored() -> None:
    assert [kind.store_topic("T", "g") for kind in TopicKind] == ["T", "%RETRY%g_T", "%RETRY%g+T"]
