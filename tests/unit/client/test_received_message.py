"""What consumers see of a message, and what happens to one that is broken."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from rocketline.client.received_message import ReceivedMessage, decode_messages
from rocketline.errors import RemoteProtocolError
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import Message, StoredMessage
from rocketline.model.queue import MessageQueue
from rocketline.model.sys_flags import INNER_BATCH, NEED_UNWRAP, CompressionType
from rocketline.wire.batch import encode_batch
from rocketline.wire.compression import compress
from rocketline.wire.message_codec import encode_blank, encode_record

QUEUE = MessageQueue("T", "broker-a", 3)
STORED = StoredMessage(
    topic="T",
    body=b"hello",
    properties={"UNIQ_KEY": "AB" * 16, "TAGS": "new", "KEYS": "k1  k2", "DELAY": "3", "TRAN_MSG": "true"},
    flag=7,
    queue_id=3,
    queue_offset=QueueOffset(41),
    log_offset=LogOffset(4096),
    sys_flag=0,
    born_ms=1_700_000_000_000,
    born_host=HostAddress.parse("127.0.0.1:50000"),
    store_ms=1_700_000_000_005,
    store_host=HostAddress.parse("127.0.0.1:10911"),
    reconsume_times=2,
)
INNER = StoredMessage(
    topic="T",
    body=encode_batch([Message.of("T", b"a", {"TAGS": "x"}, 1), Message.of("T", b"bb", {"TAGS": "y"}, 2)]),
    properties={"INNER_NUM": "2"},
    flag=0,
    queue_id=3,
    queue_offset=QueueOffset(100),
    log_offset=LogOffset(8192),
    sys_flag=NEED_UNWRAP | INNER_BATCH,
    born_ms=1,
    born_host=STORED.born_host,
    store_ms=2,
    store_host=STORED.store_host,
)


def received(stored: StoredMessage = STORED) -> ReceivedMessage:
    [message] = decode_messages(encode_record(stored), QUEUE, min_offset=5, max_offset=50)
    return message


def test_message_tells_everything_that_its_record_says() -> None:
    message = received()
    assert (message.topic, message.body, message.tags, message.keys, message.flag) == (
        "T", b"hello", "new", ("k1", "k2"), 7,
    )  # fmt: skip
    assert message.message_id == message.transaction_id == "AB" * 16
    assert message.offset_message_id == STORED.offset_message_id
    assert (message.queue, message.queue_offset, message.log_offset) == (QUEUE, 41, 4096)
    assert (message.born_ms, message.store_ms, message.reconsume_times) == (STORED.born_ms, STORED.store_ms, 2)
    assert (message.born_host, message.store_host) == (STORED.born_host, STORED.store_host)
    assert (message.delay_level, message.body_bytes, message.stored_body) == (3, 5, b"hello")
    assert (message.queue_min_offset, message.queue_max_offset) == (5, 50)


def test_message_without_properties_is_named_by_its_place() -> None:
    message = received(replace(STORED, properties={}))
    assert message.message_id == STORED.offset_message_id
    assert (message.tags, message.keys, message.delay_level, message.transaction_id) == (None, (), 0, None)


def test_queue_is_taken_from_the_record_where_no_queue_was_asked() -> None:
    [message] = decode_messages(encode_record(STORED), broker_name="b")
    assert message.queue == MessageQueue("T", "b", 3)


def test_namespace_is_not_seen() -> None:
    """C225: the user sees T of N%T."""
    [message] = decode_messages(encode_record(replace(STORED, topic="N%T")), namespace="N")
    assert message.topic == "T"
    [message] = decode_messages(encode_record(replace(STORED, topic="%RETRY%N%g")), namespace="N")
    assert message.topic == "%RETRY%g"


@pytest.mark.parametrize("kind", CompressionType)
def test_compressed_body_is_expanded_when_it_is_touched(kind: CompressionType) -> None:
    body = compress(b"hello " * 1000, kind)
    message = received(replace(STORED, body=body, sys_flag=kind.sys_flag))
    assert (message.body_bytes, message.stored_body) == (len(body), body)
    assert message.body == b"hello " * 1000
    assert (message.stored_body, message.sys_flag) == (body, kind.sys_flag & ~1)


def test_body_with_a_wrong_crc_raises_for_that_message_alone() -> None:
    record = bytearray(encode_record(STORED))
    record[record.index(b"hello")] ^= 1
    good, bad = decode_messages(encode_record(STORED) + bytes(record), QUEUE)
    assert good.body == b"hello"
    with pytest.raises(RemoteProtocolError, match=r"41 of .*broker-a.*CRC"):
        _ = bad.body
    assert bad.tags == "new"


def test_body_that_cannot_be_expanded_raises_and_is_there_as_stored() -> None:
    message = received(replace(STORED, body=b"no zlib", sys_flag=CompressionType.ZLIB.sys_flag))
    with pytest.raises(RemoteProtocolError, match="ZLIB"):
        _ = message.body
    assert message.stored_body == b"no zlib"


def test_inner_batch_is_unwrapped_with_consecutive_offsets() -> None:
    """C168."""
    messages = decode_messages(encode_record(INNER) + encode_record(STORED), QUEUE)
    assert [(message.queue_offset, message.body, message.tags, message.flag) for message in messages] == [
        (100, b"a", "x", 1), (101, b"bb", "y", 2), (41, b"hello", "new", 7),
    ]  # fmt: skip
    assert [message.topic for message in messages] == ["T"] * 3
    assert [message.body_bytes for message in messages] == [1, 2, 5]
    assert messages[1].stored_body == b"bb"
    assert messages[1].store_ms == 2


def test_members_of_an_inner_batch_before_the_offset_asked_for_are_left_out() -> None:
    messages = decode_messages(encode_record(INNER), QUEUE, first_offset=101)
    assert [message.queue_offset for message in messages] == [101]


def test_offset_delta_is_added_to_every_offset() -> None:
    messages = decode_messages(encode_record(INNER) + encode_record(STORED), QUEUE, offset_delta=1000)
    assert [message.queue_offset for message in messages] == [1100, 1101, 1041]


def test_inner_batch_that_is_compressed_is_refused() -> None:
    data = encode_record(replace(INNER, sys_flag=INNER.sys_flag | CompressionType.ZLIB.sys_flag))
    with pytest.raises(RemoteProtocolError, match="no writer compresses"):
        decode_messages(data, QUEUE)


@pytest.mark.parametrize("cut", [1, 50, 90, 100])
def test_records_cut_short_are_refused(cut: int) -> None:
    with pytest.raises(RemoteProtocolError, match="stored message at"):
        decode_messages(encode_record(STORED)[:cut])


def test_blank_record_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="blank"):
        decode_messages(encode_blank(200).ljust(200, b"\0"))


def test_consumers_may_restore_a_topic_and_count_failures() -> None:
    message = received(replace(STORED, topic="%RETRY%g"))
    message.topic, message.reconsume_times = "T", message.reconsume_times + 1
    assert (message.topic, message.reconsume_times) == ("T", 3)


def test_message_shows_where_it_comes_from() -> None:
    assert repr(received()).startswith(f"<ReceivedMessage {'AB' * 16} of MessageQueue(topic='T'")


def test_message_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(received())).body == b"hello"
