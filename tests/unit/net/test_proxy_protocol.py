from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.errors import RemoteProtocolError
from rocketline.net.proxy_protocol import V2_START, may_begin, parse
from rocketline.wire import frame
from rocketline.wire.command import Command

TCP4 = b"PROXY TCP4 192.0.2.1 127.0.0.1 56324 9876\r\n"
TCP6 = b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n"
V2_TCP4 = V2_START + bytes.fromhex("2111 000c c0000201 7f000001 dc04 2694")
V2_TCP6 = V2_START + bytes.fromhex("2121 0024") + bytes(15) + b"\x01" + bytes(16) + bytes.fromhex("1f90 2694")
V2_TLV = V2_START + bytes.fromhex("2111 0012 c0000201 7f000001 dc04 2694 05 0003 616263")
V2_LOCAL = V2_START + bytes.fromhex("2000 0000")
V2_UNIX = V2_START + bytes.fromhex("2131 00d8") + bytes(216)


@pytest.mark.parametrize(
    ("data", "source"),
    [
        (TCP4, "192.0.2.1:56324"),
        (TCP6, "[2001:db8::1]:1"),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::1 65535 65535\r\n", None),
        (V2_TCP4, "192.0.2.1:56324"),
        (V2_TCP6, "[::1]:8080"),
        (V2_LOCAL, None),
        (V2_UNIX, None),
    ],
)
def test_preamble_names_the_source_and_its_own_size(data: bytes, source: str | None) -> None:
    preamble = parse(data + b"rest")
    assert preamble is not None
    assert (preamble.source, preamble.size) == (source, len(data))


def test_tlvs_are_kept() -> None:
    preamble = parse(V2_TLV)
    assert preamble is not None
    assert preamble.tlvs == {5: b"abc"}


@pytest.mark.parametrize("data", [TCP4, TCP6, V2_TCP4, V2_TCP6, V2_TLV, V2_LOCAL])
def test_every_cut_of_a_preamble_asks_for_more(data: bytes) -> None:
    for size in range(1, len(data)):
        assert may_begin(data[:size])
        assert parse(data[:size]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY TCP4 192.0.2.1 127.0.0.1 56324\r\n",
        b"PROXY TCP4 999.0.2.1 127.0.0.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 127.0.0.1 70000 2\r\n",
        b"PROXY NOPE\r\n",
        b"PROXY " + b"x" * 200,
        V2_START + bytes.fromhex("3111 0000"),
        V2_START + bytes.fromhex("2111 ffff"),
        V2_START + bytes.fromhex("2111 0004 00000000"),
        V2_START + bytes.fromhex("2111 000f c0000201 7f000001 dc04 2694 05 00ff"),
    ],
)
def test_broken_preamble_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="PROXY"):
        parse(data)


def test_frames_and_tls_hellos_are_no_preamble() -> None:
    assert not may_begin(frame.encode(Command(105)))
    assert not may_begin(b"\x16\x03\x01")


@given(st.sampled_from([V2_START, b"PROXY TCP4 "]), st.binary(max_size=300))
def test_any_bytes_give_a_preamble_or_a_protocol_error(start: bytes, rest: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        parse(start + rest)
