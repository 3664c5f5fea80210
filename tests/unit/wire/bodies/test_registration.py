"""REGISTER_BROKER's body in all its forms."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model.route import TopicQueueMappingInfo
from rocketline.model.topic_config import DataVersion, TopicConfig
from rocketline.wire.bodies import RegisterBrokerBody, decode_register_body, encode, encode_register_body
from rocketline.wire.bodies import registration as registration_module
from rocketline.wire.bodies.topics import TopicConfigTable

V3_0_10, V4_9_8, V5_0_0, V5_5_0 = 36, 409, 413, 513

VERSION = DataVersion(3, 0, 1_700_000_000_000)
BODY = RegisterBrokerBody(TopicConfigTable(VERSION, topic_config_table={"TopicTest": TopicConfig("TopicTest", 8, 8)}))
PLAIN = bytes.fromhex(
    "000000387b22636f756e746572223a332c22737461746556657273696f6e223a302c2274696d657374616d70223a31373030303030303030"
    "3030307d000000010000001d546f706963546573742038203820362053494e474c455f544147207b7d000000025b5d00000000"
)
COMPRESSED = bytes.fromhex(
    "78da636060b0a8564ace2fcd2b492d52b232d6512a2e492c490d4b2d2acecccf53b232d0512ac9cc4d050ae6162859199a1b20402d030303"
    "2310cb86e41764268700d5285800a19942b0a79fbb8f6b7c88a3bb4235481153742c90640000540f1b6b"
)


def part(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def read(plain: bytes, version: int = V5_5_0) -> RegisterBrokerBody:
    return decode_register_body(zlib.compress(plain), compressed=True, version=version)


def test_compressed_body_when_read_is_what_java_meant() -> None:
    assert decode_register_body(COMPRESSED, compressed=True, version=V5_5_0) == BODY
    assert zlib.crc32(COMPRESSED) & 0x7FFFFFFF == 2083926730


def test_compressed_body_when_written_inflates_to_javas_bytes() -> None:
    written = encode_register_body(BODY, compressed=True)
    assert zlib.decompress(written) == PLAIN


def test_compressed_body_with_mappings_when_read_and_written_is_the_same() -> None:
    mapping = TopicQueueMappingInfo("Static", "broker-a", 2, 7, curr_id_map={0: 1, 1: 0})
    topics = {"Static": TopicConfig("Static", attributes={"+message.type": "FIFO"})}
    table = TopicConfigTable(VERSION, topic_config_table=topics, topic_queue_mapping_info_map={"Static": mapping})
    body = RegisterBrokerBody(table, ["10.0.0.1:30000"])
    for version in (V5_0_0, V5_5_0):
        data = encode_register_body(body, compressed=True, version=version)
        assert decode_register_body(data, compressed=True, version=version) == body


def test_compressed_body_of_4x_when_read_and_written_has_no_mappings() -> None:
    data = encode_register_body(BODY, compressed=True, version=V4_9_8)
    assert zlib.decompress(data) == PLAIN[:-4]
    assert decode_register_body(data, compressed=True, version=V4_9_8) == BODY


def test_topic_line_of_4x_when_read_needs_no_attributes() -> None:
    plain = PLAIN.replace(part(b"TopicTest 8 8 6 SINGLE_TAG {}"), part(b"TopicTest 8 8 6 SINGLE_TAG"))
    assert read(plain) == BODY


def test_plain_body_when_read_and_written_is_the_same() -> None:
    data = encode_register_body(BODY, compressed=False)
    assert data == encode(BODY)
    assert decode_register_body(data, compressed=False, version=V5_5_0) == BODY


def test_body_before_3_0_11_when_read_and_written_is_the_topic_table_alone() -> None:
    data = encode_register_body(BODY, compressed=True, version=V3_0_10)
    assert data == encode(BODY.topic_config_serialize_wrapper)
    assert decode_register_body(data, compressed=True, version=V3_0_10) == BODY


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("version", [V3_0_10, V5_5_0])
def test_no_body_when_read_is_a_broker_without_topics(compressed: bool, version: int) -> None:
    assert decode_register_body(b"", compressed=compressed, version=version) == RegisterBrokerBody()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{}", "compressed registration of 2 bytes is no zlib stream"),
        (COMPRESSED[:-10], "compressed registration of 88 bytes ends in the middle of its stream"),
        (zlib.compress(b""), "compressed registration ends at byte 0, where a length should be"),
        (zlib.compress(b"\xff\xff\xff\xff"), "compressed registration: a part of -1 at byte 0, but 0 bytes are left"),
        (zlib.compress(part(b"{}") + b"\x7f\xff\xff\xff"), "a count of 2147483647 at byte 6, but 0 bytes are left"),
        (zlib.compress(part(b"[]")), "DataVersion of 2 bytes cannot be read"),
        (zlib.compress(PLAIN[:-1]), "compressed registration ends at byte 103, where a length should be"),
        (zlib.compress(PLAIN.replace(b"8 8 6", b"8-8-6")), "has 4 fields, not 5 or 6"),
        (
            zlib.compress(PLAIN.replace(b"8 8 6", b"8 x 6")),
            "TopicConfig.writeQueueNums: expected an integer of 32 bits",
        ),
        (zlib.compress(PLAIN.replace(b"{}", b"{x")), "JSON body at character 2: expected a colon"),
    ],
)
def test_broken_compressed_body_when_read_is_refused_with_its_place(data: bytes, problem: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_register_body(data, compressed=True, version=V5_5_0)
    assert problem in str(caught.value)


def test_bomb_when_read_is_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_module, "PLAIN_BYTES_MAX", 1000)
    with pytest.raises(RemoteProtocolError, match="holds more than 1000"):
        read(b"\0" * 1001)


def test_topic_with_a_blank_in_its_name_cannot_be_compressed() -> None:
    topic = TopicConfig("two words")
    table = replace(BODY.topic_config_serialize_wrapper, topic_config_table={topic.topic_name: topic})
    with pytest.raises(LocalProtocolError, match="'two words'"):
        encode_register_body(RegisterBrokerBody(table), compressed=True)
