"""The header of a pull: both ways of reading it agree on what is usual."""

from __future__ import annotations

import json

import pytest

from rocketline.hot.pure import pull_request
from rocketline.wire import header_json
from support.brokers.pulls import pull

USUAL = header_json.encode(pull(5))
BOTH = pytest.mark.parametrize("read", [pull_request.read, pull_request.read_plain])


@BOTH
def test_usual_header_gives_its_fields(read: object) -> None:
    assert callable(read)
    header = read(USUAL)
    assert header is not None
    assert (header.flag, header.opaque) == (0, 0)
    assert pull_request.present(header.extFields) == pull(5).ext


@BOTH
@pytest.mark.parametrize(
    "change",
    [
        {"extFields": None},
        {"extFields": {"queueOffset": 5}},
        {"extFields": []},
        {"flag": "0"},
        {"opaque": 1.5},
        {"opaque": 2**31},
        {"version": True},
    ],
    ids=str,
)
def test_unusual_header_is_left_to_the_handler(read: object, change: dict[str, object]) -> None:
    assert callable(read)
    assert read(json.dumps(json.loads(USUAL) | change).encode()) is None


@BOTH
@pytest.mark.parametrize("header", [b"", b"{", b"[]", b"5", b"\xff", b"{}"])
def test_what_is_no_header_is_left_to_the_handler(read: object, header: bytes) -> None:
    assert callable(read)
    assert read(header) is None


@BOTH
@pytest.mark.parametrize("text", [b"\xff", b"\xed\xa0\x80", b"\\ud800"])
def test_text_that_is_no_utf8_is_left_to_the_handler(read: object, text: bytes) -> None:
    assert callable(read)
    assert read(USUAL.replace(b'"topic":"T"', b'"topic":"%b"' % text)) is None
