"""JSON headers as peers really write them, and as they should not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from rocketline.errors import RemoteProtocolError
from rocketline.wire import header_json
from rocketline.wire.command import Command
from rocketline.wire.header_json import decode_plain

Decode = Callable[[bytes, bytes], Command]
either_decoder = pytest.mark.parametrize("decode", [header_json.decode, decode_plain], ids=["chosen", "plain"])


@either_decoder
def test_decode_when_header_is_empty_fills_in_what_java_does(decode: Decode) -> None:
    command = decode(b"{}", b"")
    assert command == Command(0, version=0, language="JAVA")


@either_decoder
def test_decode_when_fields_mix_types_keeps_text(decode: Decode) -> None:
    """C++ clients send numbers among the texts, others booleans."""
    header = b'{"code":10,"extFields":{"queueId":0,"batch":true,"x":1.5,"y":1.0,"gone":null,"z":[1,"a"],"o":{"k":1}}}'
    expected = {"queueId": "0", "batch": "true", "x": "1.5", "y": "1.0", "z": '[1,"a"]', "o": '{"k":1}'}
    assert decode(header, b"").ext == expected


@either_decoder
@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"105", 105),
        (b'"105"', 105),
        (b"1.0", 1),
        (b"-1.7", -1),
        (b"1e3", 1000),
        (b"true", 1),
        (b"null", 0),
        (b"-0", 0),
    ],
)
def test_decode_when_number_is_written_oddly_reads_it_as_java_does(decode: Decode, value: bytes, code: int) -> None:
    assert decode(b'{"code":%b}' % value, b"").code == code


@either_decoder
@pytest.mark.parametrize("name", ["code", "flag", "opaque", "version"])
@pytest.mark.parametrize(
    "value",
    [b'"abc"', b'""', b'" 5"', b'"1_0"', b'"1.0"', b"[1]", b"{}", b"2147483648", b"-2147483649", b"1e400", b"9" * 5000],
)
def test_decode_when_number_cannot_be_read_names_the_key(decode: Decode, name: str, value: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="JSON header"):
        decode(b'{"%b":%b}' % (name.encode(), value), b"")


@either_decoder
@pytest.mark.parametrize(
    ("value", "language"),
    [
        (b'"GO"', "GO"),
        (b"9", "GO"),
        (b'"KLINGON"', None),
        (b"99", None),
        (b"-1", None),
        (b"null", None),
        (b"true", None),
    ],
)
def test_decode_when_language_is_odd_reads_it_or_gives_none(decode: Decode, value: bytes, language: str | None) -> None:
    assert decode(b'{"language":%b}' % value, b"").language == language


@either_decoder
@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (b"a\x01\n\tb", "a\x01\n\tb"),
        (b"\\u0001", "\x01"),
        (b"\\ud83d\\ude00", "😀"),
        ("grün".encode(), "grün"),
        (b"\\ud800", "\ud800"),
        (b"", ""),
    ],
)
def test_decode_when_text_is_unusual_keeps_it(decode: Decode, text: bytes, meaning: str) -> None:
    assert decode(b'{"remark":"%b"}' % text, b"").remark == meaning


@either_decoder
def test_decode_when_a_key_is_repeated_takes_the_last(decode: Decode) -> None:
    header = b'{"code":1,"code":2,"extFields":{"a":"1"},"extFields":{"b":"2","b":"3"}}'
    assert (decode(header, b"").code, decode(header, b"").ext) == (2, {"b": "3"})


@either_decoder
def test_decode_when_keys_are_unknown_passes_them_over(decode: Decode) -> None:
    assert decode(b'{"code":5,"Code":6,"new":{"a":[1,{"b":null}]}}', b"body") == Command(
        5, body=b"body", version=0, language="JAVA"
    )


@either_decoder
@pytest.mark.parametrize(
    "header",
    [
        b"", b"null", b"[]", b'"x"', b"5", b'{"code":1}x', b'{"code":1}{}', b"\xef\xbb\xbf{}", b'{"code":1,}',
        b'{"code":1', b"{code:1}", b'{"code":NaN}', b'{"remark":NaN}', b'{"remark":-Infinity}', b'{"remark":"\xff"}',
        b'{"remark":"\\q"}', b'{"extFields":"x"}', b'{"extFields":[]}', b'{"extFields":5}',
        b"[" * 100_000, b'{"x":' * 100_000, b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    ],
    ids=lambda header: header[:20].decode("latin-1"),
)  # fmt: skip
def test_decode_when_header_is_malformed_raises_a_protocol_error(decode: Decode, header: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="JSON header"):
        decode(header, b"")


def test_encode_writes_keys_in_order_and_nothing_that_is_null() -> None:
    assert header_json.encode(Command(105, opaque=3)) == (
        b'{"code":105,"flag":0,"language":"PYTHON","opaque":3,"serializeTypeCurrentRPC":"JSON","version":513}'
    )


def test_encode_when_text_needs_escapes_is_read_back() -> None:
    command = Command(310, {"i": 'TAGS\x01a"b\\\x02', "ü": "\x7f\u2028"}, remark="grün\n")
    encoded = header_json.encode(command)
    assert b"TAGS\\u0001" in encoded
    assert header_json.decode(encoded, b"") == command == decode_plain(encoded, b"")


def test_encode_when_text_has_half_a_surrogate_pair_writes_a_question_mark() -> None:
    assert b'"remark":"a?b"' in header_json.encode(Command(1, remark="a\ud800b"))


def test_encode_when_language_is_unknown_says_other() -> None:
    assert b'"language":"OTHER"' in header_json.encode(Command(1, language=None))


def test_decode_when_a_field_can_be_read_but_is_too_deep_to_be_written_is_a_protocol_error() -> None:
    """How deep that is depends on the calls above, so all depths around Python's own limit are tried."""
    for depth in range(sys.getrecursionlimit() - 200, sys.getrecursionlimit() + 20):
        with suppress(RemoteProtocolError):
            header_json.decode(b'{"extFields":{"a":' + b"[" * depth + b"]" * depth + b"}}", b"")
