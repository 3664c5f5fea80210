from __future__ import annotations

import pytest

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model.ids import HostAddress, LogOffset, OffsetMessageId, parse_hex_id


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("10.1.2.3:10911", "0A01020300002A9F00000000075BCD15"),
        ("[2001:db8::1]:10911", "20010DB800000000000000000000000100002A9F00000000075BCD15"),
    ],
)
def test_offset_message_id_of_either_length_tells_broker_and_place(address: str, text: str) -> None:
    """Vector I."""
    message_id = OffsetMessageId(HostAddress.parse(address), LogOffset(123456789))
    assert str(message_id) == text
    assert OffsetMessageId.parse(text) == OffsetMessageId.parse(text.lower()) == message_id
    assert str(OffsetMessageId.parse(text).store_host) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0A01020300002A9F00000000075BCD1",
        "0A01020300002A9F00000000075BCD155",
        "0A01020300002A9F00000000075BCDXY",
        " 0A01020300002A9F00000000075BCD1",
        "0A 1020300002A9F00000000075BCD15",
        "٠" * 32,
    ],
)
def test_id_that_is_not_hexadecimal_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="32 or 56 hexadecimal digits"):
        parse_hex_id(text)


def test_offset_message_id_with_an_impossible_port_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="port 65536 does not exist"):
        OffsetMessageId.parse("7F000001000100000000000000001000")


@pytest.mark.parametrize("text", ["127.0.0.1:0", "255.255.255.255:65535", "[::1]:10911", "[fe80::1:2]:1"])
def test_address_when_parsed_is_written_the_same(text: str) -> None:
    assert str(HostAddress.parse(text)) == text


def test_address_tells_its_family() -> None:
    assert HostAddress.parse("[::1]:1").is_ipv6
    assert not HostAddress.parse("127.0.0.1:1").is_ipv6
    assert HostAddress.parse("[::1]:1").host == "::1"


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "localhost:1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "1.2.3.4:٣", "1.2.3:1"]
)
def test_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LocalProtocolError):
        HostAddress.parse(text)
