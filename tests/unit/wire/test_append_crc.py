from __future__ import annotations

import pytest

from rocketline.wire.append_crc import APPEND_CRC_BYTES, format_append_crc, has_valid_append_crc
from support.golden import read_lines

RECORDS = [bytes.fromhex(line["hex"]) for line in read_lines("store-5.5.0.jsonl") if "append-CRC" in line["what"]]


@pytest.mark.parametrize("record", RECORDS)
def test_recorded_record_has_a_valid_sum(record: bytes) -> None:
    assert has_valid_append_crc(record)


@pytest.mark.parametrize("at", [0, 50, -21, -20, -2, -1])
def test_record_with_one_changed_byte_has_none(at: int) -> None:
    changed = bytearray(RECORDS[0])
    changed[at] ^= 1
    assert not has_valid_append_crc(bytes(changed))


def test_record_without_the_property_has_none() -> None:
    assert not has_valid_append_crc(RECORDS[0][:-APPEND_CRC_BYTES])
    assert not has_valid_append_crc(b"")


@pytest.mark.parametrize("crc", [0, 1, 2**31 - 1])
def test_property_has_always_the_same_length(crc: int) -> None:
    assert len(format_append_crc(crc)) == APPEND_CRC_BYTES
