"""Vectors F and G, every recorded record of real brokers, and every way a record can be wrong."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import Message, StoredMessage
from rocketline.model.sys_flags import CompressionType
from rocketline.wire import frame
from rocketline.wire.batch import encode_batch
from rocketline.wire.compression import compress
from rocketline.wire.message_codec import (
    MAGIC_V1,
    MAGIC_V2,
    body_crc,
    decode_messages,
    decode_record,
    decode_records,
    encode_blank,
    encode_record,
    expanded,
    is_blank_record,
    scan_records,
)
from support.golden import golden_frames, read_lines

VECTOR_F = bytes.fromhex(
    "0000009ddaa320a73610a686000000020000000000000000000000070000000000001000000000000000018bcfe568007f0000010000c350"
    "0000018bcfe568057f00000100002a9f0000000000000000000000000000000568656c6c6f09546f706963546573740034554e49515f4b45"
    "590137463030303030313030303130303030303030313030303030303041303030300254414753015461674102"
)
VECTOR_G = bytes.fromhex(
    "0000008cdaa320ab3610a686000000000000000000000000000000000000000000000000000000300000018bcfe568000000000000000000"
    "00000000000000010000c3500000018bcfe5680520010db800000000000000000000000100002a9f00000001000000000000000000000005"
    "68656c6c6f0009546f70696354657374000a54414753015461674102"
)
MESSAGE_F = StoredMessage(
    topic="TopicTest",
    body=b"hello",
    properties={"UNIQ_KEY": "7F0000010001000000010000000A0000", "TAGS": "TagA"},
    flag=0,
    queue_id=2,
    queue_offset=QueueOffset(7),
    log_offset=LogOffset(4096),
    sys_flag=0,
    born_ms=1700000000000,
    born_host=HostAddress.parse("127.0.0.1:50000"),
    store_ms=1700000000005,
    store_host=HostAddress.parse("127.0.0.1:10911"),
)
MESSAGE_G = replace(
    MESSAGE_F,
    properties={"TAGS": "TagA"},
    queue_id=0,
    queue_offset=QueueOffset(0),
    log_offset=LogOffset(0),
    sys_flag=0x30,
    born_host=HostAddress.parse("[::1]:50000"),
    store_host=HostAddress.parse("[2001:db8::1]:10911"),
    reconsume_times=1,
    version=2,
)

RECORDS = [
    line for line in read_lines("store-5.5.0.jsonl") if line["file"] == "commitlog" and "blank" not in line["what"]
]
BLANK = next(bytes.fromhex(line["hex"]) for line in read_lines("store-5.5.0.jsonl") if "blank" in line["what"])


def record_of(what: str) -> bytes:
    return next(bytes.fromhex(line["hex"]) for line in RECORDS if line["what"].startswith(what))


def poked(record: bytes, at: int, layout: str, value: int) -> bytes:
    """`record` with another number at `at`."""
    changed = bytearray(record)
    struct.pack_into(layout, changed, at, value)
    return bytes(changed)


# --- the vectors


@pytest.mark.parametrize(
    ("record", "message", "offset_message_id"),
    [
        (VECTOR_F, MESSAGE_F, "7F00000100002A9F0000000000001000"),
        (VECTOR_G, MESSAGE_G, "20010DB800000000000000000000000100002A9F0000000000000000"),
    ],
)
def test_vector_when_read_and_written_is_the_same(
    record: bytes, message: StoredMessage, offset_message_id: str
) -> None:
    """Vectors F and G."""
    assert decode_record(record, check_crc=True) == message
    assert encode_record(message) == record
    assert message.offset_message_id == offset_message_id


def test_message_id_of_vector_is_the_unique_key() -> None:
    assert decode_record(VECTOR_F).message_id == "7F0000010001000000010000000A0000"


def test_body_crc_has_no_sign_bit() -> None:
    """Vector N."""
    assert body_crc(b"hello") == 907060870
    assert body_crc(b"123456789") == 1274296614


# --- recorded records


@pytest.mark.parametrize("line", RECORDS, ids=[f"{line['ver']} {line['what']} at {line['at']}" for line in RECORDS])
def test_recorded_record_when_written_again_has_the_same_bytes(line: dict[str, Any]) -> None:
    record = bytes.fromhex(line["hex"])
    message = decode_record(record, check_crc=True)
    assert encode_record(message) == record
    assert message.log_offset == line["at"]
    assert str(message.store_host) == "127.0.0.1:50911"


@pytest.mark.parametrize(
    ("what", "fields"),
    [
        ("member of a client batch", {"body": b"b0", "properties": {"UNIQ_KEY": "UB0", "TAGS": "T0"}}),
        ("delay level 1, parked", {"topic": "SCHEDULE_TOPIC_XXXX", "queue_id": 0}),
        ("delay level 1, delivered", {"topic": "S1794776004", "queue_id": 3, "queue_offset": 4}),
        ("timer message, parked", {"topic": "rmq_sys_wheel_timer", "body": b"timer3"}),
        ("dead letter", {"reconsume_times": 1}),
        ("half message", {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "sys_flag": 0}),
        ("committed transaction", {"sys_flag": 8, "prepared_log_offset": 4240040}),
        ("op message", {"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC", "properties": {"WAIT": "true", "TAGS": "d"}}),
        ("POP retry message", {"reconsume_times": 1}),
        ("plain message", {"tag": "TagA", "keys": ["key0"], "topic": "JT1"}),
        ("zlib body", {"sys_flag": 0x301}),
        ("born host IPv6", {"sys_flag": 0x10, "born_host": HostAddress.parse("[::1]:53742")}),
        ("v2 record", {"version": 2}),
    ],
)
def test_recorded_record_means_what_its_name_says(what: str, fields: dict[str, Any]) -> None:
    message = decode_record(record_of(what))
    assert {name: getattr(message, name) for name in fields} == fields


def test_recorded_long_topic_has_two_bytes_of_length() -> None:
    assert len(decode_record(record_of("v2 record")).topic) == 158


def test_recorded_empty_property_is_kept_as_stored_and_hidden_from_applications() -> None:
    """Java 5.5.0 writes TRACE_CONTEXT without a value into a recall marker, and drops it when it reads."""
    record = record_of("timer recall marker")
    assert decode_record(record).properties["TRACE_CONTEXT"] == ""
    assert "TRACE_CONTEXT" not in decode_messages(record)[0].properties


def test_recorded_zlib_body_is_expanded_and_its_flag_cleared() -> None:
    stored = decode_record(record_of("zlib body"))
    (message,) = decode_messages(record_of("zlib body"))
    assert message.sys_flag == 0x300
    assert len(message.body) > len(stored.body)
    assert message.body == bytes(len(message.body))


def test_recorded_inner_batch_is_taken_apart() -> None:
    messages = decode_messages(record_of("inner batch"))
    assert [m.body for m in messages] == [b"b0", b"b1", b"b2"]
    assert [m.queue_offset for m in messages] == [0, 1, 2]
    assert [m.message_id for m in messages] == ["UB0", "UB1", "UB2"]
    assert {(m.topic, m.log_offset, m.sys_flag) for m in messages} == {("S1794776004bcq", 4232740, 0xC0)}


def test_recorded_bodies_of_pulls_and_others_are_whole_messages() -> None:
    bodies = [frame.decode(golden.data).body for golden in golden_frames()]
    delivered = [body for body in bodies if body[4:8] in (MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big"))]
    assert len(delivered) == 11
    for body in delivered:
        assert decode_messages(body, check_crc=True)
        assert b"".join(encode_record(message) for message in decode_records(body)) == body


# --- walking


def test_scan_of_many_records_tells_where_each_lies() -> None:
    data = VECTOR_F + VECTOR_G + VECTOR_F
    assert scan_records(data) == [(0, 157), (157, 140), (297, 157)]
    assert scan_records(data, 157) == [(157, 140), (297, 157)]
    assert scan_records(memoryview(data)) == scan_records(data)
    assert decode_record(data, 157) == MESSAGE_G
    assert scan_records(b"") == []


def test_scan_of_a_log_file_ends_at_the_blank_record() -> None:
    data = VECTOR_F + encode_blank(100) + bytes(92)
    assert scan_records(data) == [(0, 157)]
    assert is_blank_record(data, 157)
    assert not is_blank_record(data)
    assert not is_blank_record(data, len(data))


def test_recorded_blank_record_is_recognised() -> None:
    """It lay at 1005870 of a file of 1 MiB."""
    assert is_blank_record(BLANK)
    assert encode_blank(1024 * 1024 - 1005870) == BLANK[:8]


def test_blank_record_among_delivered_messages_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="stored message at 157: a blank record"):
        decode_messages(VECTOR_F + encode_blank(8))


def test_blank_record_that_passes_the_end_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="9 bytes announced, 8 left"):
        scan_records(encode_blank(9))


# --- what is wrong is refused


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (VECTOR_F[:7], "7 bytes are too few"),
        (VECTOR_F[:-1], "157 bytes announced, 156 left"),
        (poked(VECTOR_F, 0, ">i", -1), "-1 bytes announced"),
        (poked(VECTOR_F, 0, ">i", 0), "0 bytes announced"),
        (poked(VECTOR_F, 0, ">i", 2**31 - 1), "2147483647 bytes announced"),
        (poked(VECTOR_F, 0, ">i", 156), "properties of 52 bytes where 51 are left"),
        (poked(VECTOR_F, 4, ">I", 0xDAA320A8), "magic 0xdaa320a8"),
        (poked(VECTOR_F, 36, ">i", 0x30), "does not"),
        (poked(VECTOR_F[:91], 0, ">i", 91)[:36] + b"\x00\x00\x00\x30" + VECTOR_F[40:91], "too few for its IPv6 hosts"),
        (poked(VECTOR_F, 52, ">i", 65536), "port 65536 or 10911"),
        (poked(VECTOR_F, 68, ">i", -1), "port 50000 or -1"),
        (poked(VECTOR_F, 84, ">i", -1), "body of -1 bytes"),
        (poked(VECTOR_F, 84, ">i", 2**31 - 1), "body of 2147483647 bytes"),
        (poked(VECTOR_F, 93, ">B", 128), "topic of 128 bytes"),
        (poked(VECTOR_F, 93, ">B", 127), "topic of 127 bytes"),
        (poked(VECTOR_F, 103, ">h", -1), "properties of -1 bytes where 52 are left"),
        (poked(VECTOR_F, 103, ">h", 53), "properties of 53 bytes where 52 are left"),
        (poked(VECTOR_G, 117, ">H", 0x8009), "topic of 32777 bytes"),
    ],
)
def test_record_with_a_wrong_field_is_refused(record: bytes, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        decode_messages(record)


def test_error_names_the_place_of_the_record() -> None:
    with pytest.raises(RemoteProtocolError, match="stored message at 157: "):
        decode_records(VECTOR_F + VECTOR_F[:50])


def test_crc_that_does_not_fit_the_body_is_seen_only_if_asked_for() -> None:
    record = poked(VECTOR_F, 88, ">B", ord("j"))
    assert decode_record(record).body == b"jello"
    with pytest.raises(RemoteProtocolError, match="907060870 was stored"):
        decode_record(record, check_crc=True)


def test_text_that_is_no_utf8_does_not_block_the_queue() -> None:
    """Java reads such a topic or property with a replacement character, and so do we."""
    message = decode_record(poked(poked(VECTOR_F, 94, ">B", 0xFF), 156 - 4, ">B", 0xFF))
    assert message.topic == "\ufffdopicTest"
    assert message.properties["TAGS"] == "\ufffdagA"


# --- compression and batches


@pytest.mark.parametrize("kind", list(CompressionType))
def test_compressed_body_of_each_kind_is_expanded(kind: CompressionType) -> None:
    body = b"hello " * 2000
    stored = replace(MESSAGE_F, body=compress(body, kind), sys_flag=kind.sys_flag | 0x8)
    record = encode_record(stored)
    assert decode_records(record, check_crc=True) == [stored]
    assert decode_messages(record, check_crc=True) == [replace(stored, body=body, sys_flag=kind << 8 | 0x8)]


def test_compressed_flag_without_a_body_is_left_alone() -> None:
    message = replace(MESSAGE_F, body=b"", sys_flag=0x701)
    assert decode_messages(encode_record(message)) == [message]


def test_compressed_body_of_unknown_type_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="compression type 4"):
        expanded(replace(MESSAGE_F, sys_flag=0x401))


def test_body_marked_compressed_that_is_not_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="ZLIB body cannot be expanded"):
        decode_messages(encode_record(replace(MESSAGE_F, sys_flag=1)))


def test_many_small_bombs_share_one_bound() -> None:
    """Each body alone stays within the bound; together they do not, and memory never holds more than the bound."""
    bomb = replace(MESSAGE_F, body=compress(bytes(1_000_000), CompressionType.ZLIB), sys_flag=1)
    data = encode_record(bomb) * 100
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="expands beyond"):
            decode_messages(data, expanded_bytes_max=3_500_000)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_compressed_inner_batch_is_refused() -> None:
    """No client compresses batches; a few bytes of one could become millions of messages."""
    with pytest.raises(RemoteProtocolError, match="no writer compresses an inner batch"):
        decode_messages(encode_record(replace(MESSAGE_F, sys_flag=0xC1)))


def test_inner_batch_takes_only_flag_body_and_properties_from_inside() -> None:
    inside = [Message.of("TopicTest", b"a", {"TAGS": "x"}, flag=5), Message("TopicTest", b"b")]
    outer = replace(MESSAGE_F, body=encode_batch(inside), sys_flag=0xC0, flag=9)
    first, second = decode_messages(encode_record(outer))
    assert first == replace(outer, body=b"a", properties={"TAGS": "x"}, flag=5)
    assert second == replace(outer, body=b"b", properties={}, flag=0, queue_offset=QueueOffset(8))


def test_inner_batch_with_a_broken_body_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="batch: "):
        decode_messages(encode_record(replace(MESSAGE_F, sys_flag=0xC0)))


@pytest.mark.parametrize("sys_flag", [0x40, 0x80])
def test_half_of_the_marks_of_an_inner_batch_leaves_the_message_whole(sys_flag: int) -> None:
    message = replace(MESSAGE_F, sys_flag=sys_flag)
    assert decode_messages(encode_record(message)) == [message]


# --- encoding


def test_topic_beyond_127_bytes_makes_version_2() -> None:
    assert encode_record(replace(MESSAGE_F, topic="t" * 127))[4:8] == MAGIC_V1.to_bytes(4, "big")
    long = encode_record(replace(MESSAGE_F, topic="t" * 128))
    assert long[4:8] == MAGIC_V2.to_bytes(4, "big")
    assert decode_record(long).topic == "t" * 128
    assert encode_record(replace(MESSAGE_F, topic="é" * 64))[4:8] == MAGIC_V2.to_bytes(4, "big")


def test_flags_of_hosts_follow_the_hosts() -> None:
    message = replace(MESSAGE_F, born_host=MESSAGE_G.born_host, sys_flag=0x20)
    assert decode_record(encode_record(message)) == replace(message, sys_flag=0x10)


@pytest.mark.parametrize(
    "message",
    [
        replace(MESSAGE_F, flag=2**31),
        replace(MESSAGE_F, queue_offset=QueueOffset(2**63)),
        replace(MESSAGE_F, sys_flag=2**31),
        replace(MESSAGE_F, reconsume_times=-(2**31) - 1),
        replace(MESSAGE_F, born_host=HostAddress(bytes(5), 1)),
        replace(MESSAGE_F, store_host=HostAddress(bytes(4), 65536)),
        replace(MESSAGE_F, topic="t" * 32768),
        replace(MESSAGE_F, properties={"a": "b" * 32765}),
        replace(MESSAGE_F, properties={"": "b"}),
        replace(MESSAGE_F, properties={"a\x01": "b"}),
        replace(MESSAGE_F, properties={"a": "b\x02"}),
    ],
)
def test_message_that_no_record_can_carry_is_refused(message: StoredMessage) -> None:
    with pytest.raises(LocalProtocolError):
        encode_record(message)


def test_text_with_half_a_surrogate_pair_is_written_with_question_marks() -> None:
    message = decode_record(encode_record(replace(MESSAGE_F, topic="T\ud800", properties={"a": "\udc00"})))
    assert (message.topic, message.properties) == ("T?", {"a": "?"})
