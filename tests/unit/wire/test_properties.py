from __future__ import annotations

import pytest

from rocketline.errors import LocalProtocolError
from rocketline.wire.properties import (
    decode_properties,
    encode_properties,
    format_properties,
    parse_properties,
)


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02c\x01d\x02", {"a": "b", "c": "d"}),
        ("a\x01b\x02c\x01d", {"a": "b", "c": "d"}),
        ("a\x01b\x02a\x01c\x02", {"a": "c"}),
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("a\x01\x02b\x01c\x02", {"b": "c"}),
        ("\x01b\x02", {}),
        ("abc\x02\x02\x02", {}),
        ("ab\x02\x01c\x01d\x02", {}),
    ],
)
def test_properties_when_parsed_are_those_java_finds(text: str, properties: dict[str, str]) -> None:
    """Each line was read by `MessageDecoder.string2messageProperties` of 5.5.0 with the same outcome."""
    assert parse_properties(text) == properties


def test_empty_values_are_kept_if_asked_for() -> None:
    assert parse_properties("a\x01\x02b\x02\x01c\x02", keep_empty=True) == {"a": ""}


def test_properties_when_formatted_end_in_a_separator() -> None:
    assert format_properties({"TAGS": "TagA", "k": ""}) == "TAGS\x01TagA\x02k\x01\x02"
    assert format_properties({}) == ""


@pytest.mark.parametrize("properties", [{"": "v"}, {"a\x01b": "v"}, {"a\x02b": "v"}, {"ok": "v", "a": "v\x02w"}])
def test_property_that_a_reader_would_misread_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(LocalProtocolError, match="characters 1 and 2"):
        format_properties(properties)


def test_properties_up_to_the_limit_are_written() -> None:
    assert len(encode_properties({"k": "é" * 16382})) == 32767
    with pytest.raises(LocalProtocolError, match="32768 bytes: a message carries at most 32767"):
        encode_properties({"k": "é" * 16382 + "x"})


def test_properties_that_are_no_utf8_are_read_with_replacements() -> None:
    assert decode_properties(b"a\x01\xff\x02") == {"a": "\ufffd"}
    assert decode_properties(memoryview(b"a\x01b\x02")) == {"a": "b"}
