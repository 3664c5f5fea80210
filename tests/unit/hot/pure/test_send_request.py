"""The header of a send: both ways of reading it agree on what is usual."""

from __future__ import annotations

import pytest

from rocketline.hot.pure import send_request
from rocketline.wire import header_json
from support.brokers.sends import send_v2

USUAL = header_json.encode(send_v2(opaque=7))
BOTH = pytest.mark.parametrize("read", [send_request.read, send_request.read_plain])


@BOTH
def test_usual_header_gives_its_fields(read: object) -> None:
    assert callable(read)
    header = read(USUAL)
    assert header is not None
    assert (header.opaque, header.extFields.b, header.extFields.e) == (7, "T", "0")


@BOTH
@pytest.mark.parametrize(
    ("usual", "unusual"),
    [
        (b'"b":"T"', b'"b":"\xff"'),
        (b'"b":"T"', b'"b":"\xed\xa0\x80"'),
        (b'"b":"T"', b'"b":"\\ud800"'),
        (b'"b":"T"', b'"b":5'),
        (b'"b":"T",', b""),
        (b'"opaque":7', b'"opaque":"7"'),
        (b'"opaque":7', b'"opaque":7.5'),
        (b"{", b"[" * 5000),
    ],
)
def test_unusual_header_is_left_to_the_handler(read: object, usual: bytes, unusual: bytes) -> None:
    assert callable(read)
    assert usual in USUAL
    assert read(USUAL.replace(usual, unusual, 1)) is None
