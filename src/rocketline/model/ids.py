"""What points at a message: its place in a queue, its place in a log, and the address of the log's owner."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple, NewType

from rocketline.errors import LocalProtocolError, RemoteProtocolError

QueueOffset = NewType("QueueOffset", int)
"""The index of a message in its queue, counted from zero."""

LogOffset = NewType("LogOffset", int)
"""The first byte of a record in a broker's commit log, counted over all of its files."""

_PORT_MAX = 65535


class HostAddress(NamedTuple):
    """An IP address, packed in 4 or 16 bytes, and a port.

    >>> str(HostAddress(bytes([127, 0, 0, 1]), 10911)), str(HostAddress.parse("[::1]:10911"))
    ('127.0.0.1:10911', '[::1]:10911')
    """

    ip: bytes
    port: int

    @classmethod
    def parse(cls, text: str) -> HostAddress:
        """The address in `10.0.0.1:10911` or `[::1]:10911`; no name is looked up. Raises `LocalProtocolError`."""
        host, _, port = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        try:
            ip = ipaddress.ip_address(bare).packed
        except ValueError:
            raise LocalProtocolError(f"{text!r} is no address like 10.0.0.1:10911 or [::1]:10911") from None
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= _PORT_MAX):
            raise LocalProtocolError(f"{text!r}: the port must be a number from 0 to {_PORT_MAX}")
        return cls(ip, int(port))

    @property
    def is_ipv6(self) -> bool:
        return len(self.ip) == 16

    @property
    def host(self) -> str:
        return str(ipaddress.ip_address(self.ip))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"


class OffsetMessageId(NamedTuple):
    """The id a broker gives: whom to ask for a message, and where its log has it. Java: MessageId.

    >>> text = str(OffsetMessageId(HostAddress.parse("10.1.2.3:10911"), LogOffset(123456789)))
    >>> text, str(OffsetMessageId.parse(text).store_host)
    ('0A01020300002A9F00000000075BCD15', '10.1.2.3:10911')
    """

    store_host: HostAddress
    log_offset: LogOffset

    @classmethod
    def parse(cls, text: str) -> OffsetMessageId:
        """The id in 32 (IPv4) or 56 (IPv6) hexadecimal digits of either case. Raises `RemoteProtocolError`."""
        packed = parse_hex_id(text)
        ip, port, log_offset = packed[:-12], packed[-12:-8], packed[-8:]
        host = HostAddress(ip, int.from_bytes(port, "big"))
        if host.port > _PORT_MAX:
            raise RemoteProtocolError(f"message id {text}: port {host.port} does not exist, so no broker gave this id")
        return cls(host, LogOffset(int.from_bytes(log_offset, "big", signed=True)))

    def __str__(self) -> str:
        host = self.store_host
        return (host.ip + host.port.to_bytes(4, "big") + self.log_offset.to_bytes(8, "big", signed=True)).hex().upper()


def parse_hex_id(text: str) -> bytes:
    """The 16 or 28 bytes that a message id of either kind writes as hexadecimal. Raises `RemoteProtocolError`."""
    try:
        packed = bytes.fromhex(text) if len(text) in (32, 56) else b""
    except ValueError:
        packed = b""
    # fromhex skips blanks, so the length of what it made is compared too.
    if not packed or 2 * len(packed) != len(text):
        raise RemoteProtocolError(f"message id {text[:80]!r} is not made of 32 or 56 hexadecimal digits")
    return packed
