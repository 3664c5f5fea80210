"""Records laid out for the log are those that the codec of single records reads."""

from __future__ import annotations

import pytest

from rocketline.hot.pure.record import FORMATS, lay_members, lay_record
from rocketline.wire.append_crc import APPEND_CRC_BYTES, has_valid_append_crc
from rocketline.wire.message_codec import MAGIC_V1, decode_records
from rocketline.wire.record_layout import HOSTS, Hosts, fixed_bytes

TOPIC_FIELD = b"\x01T"
BODY, PROPERTIES = b"body", b"TAGS\x01a\x02"


@pytest.mark.parametrize("hosts", HOSTS, ids=str)
@pytest.mark.parametrize("crc_bytes", [0, APPEND_CRC_BYTES])
def test_a_record_is_what_the_codec_reads(hosts: Hosts, crc_bytes: int) -> None:
    chunks = _record(hosts, BODY, PROPERTIES, log_offset=500, queue_offset=9, crc_bytes=crc_bytes)
    record = b"".join(chunks)
    (message,) = decode_records(record)
    assert (message.topic, message.body, message.queue_id, message.queue_offset) == ("T", BODY, 2, 9)
    assert (message.log_offset, message.flag, message.reconsume_times) == (500, 4, 3)
    assert message.sys_flag == HOSTS.index(hosts) << 4 | 1
    assert message.properties["TAGS"] == "a"
    assert has_valid_append_crc(record) == bool(crc_bytes)


@pytest.mark.parametrize("hosts", HOSTS, ids=str)
def test_members_of_a_batch_are_laid_out_as_single_messages_are(hosts: Hosts) -> None:
    members = [(4, b"one", b""), (4, b"other", PROPERTIES), (4, b"", b"KEYS\x01k\x02")]
    chunks: list[bytes] = []
    born, store = _hosts(hosts)
    places, sizes = lay_members(
        chunks,
        FORMATS[hosts],
        members,
        MAGIC_V1,
        2,
        9,
        500,
        0x31,
        1_700_000_000_000,
        born,
        1_700_000_000_001,
        store,
        3,
        TOPIC_FIELD,
    )
    alone, log_offset = b"", 500
    for number, (_, body, properties) in enumerate(members):
        assert log_offset == places[number]
        record = b"".join(_record(hosts, body, properties, log_offset=log_offset, queue_offset=9 + number))
        assert len(record) == sizes[number]
        alone, log_offset = alone + record, log_offset + len(record)
    assert b"".join(chunks) == alone


def _hosts(hosts: Hosts) -> tuple[bytes, bytes]:
    port = (10911).to_bytes(4, "big")
    return bytes([1] * (hosts.born_host - 4)) + port, bytes([2] * (hosts.store_host - 4)) + port


def _record(
    hosts: Hosts, body: bytes, properties: bytes, *, log_offset: int, queue_offset: int, crc_bytes: int = 0
) -> list[bytes]:
    chunks: list[bytes] = []
    born, store = _hosts(hosts)
    size = fixed_bytes(hosts) + len(body) + len(TOPIC_FIELD) + 2 + len(properties) + crc_bytes
    lay_record(
        chunks,
        FORMATS[hosts],
        size,
        MAGIC_V1,
        2,
        4,
        queue_offset,
        log_offset,
        0x31,
        1_700_000_000_000,
        born,
        1_700_000_000_001,
        store,
        3,
        0,
        body,
        TOPIC_FIELD,
        properties,
        crc_bytes,
    )
    assert size == sum(map(len, chunks))
    return chunks
