"""The PROXY protocol's preamble (versions 1 and 2): a load balancer's word on who the client is.

v1   PROXY TCP4 192.0.2.1 127.0.0.1 56324 9876\\r\\n            at most 107 bytes of text
v2   12 bytes of signature, version and command, family, length, addresses, TLVs
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, field

from rocketline.errors import RemoteProtocolError

V1_START = b"PROXY "
V2_START = b"\r\n\r\n\x00\r\nQUIT\n"
_V1_BYTES_MAX = 107
_V2_PAYLOAD_BYTES_MAX = 4096
"""Addresses take 216 bytes at most; the rest is for TLVs, of which real balancers send a few hundred bytes."""
_V2_HEAD = struct.Struct(">12sBBH")
_LOCAL, _PROXY = 0x20, 0x21


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """What the balancer said. `source` is None where it spoke for itself (a health check) or did not know."""

    size: int
    source: str | None
    tlvs: dict[int, bytes] = field(default_factory=dict)


def may_begin(data: bytes) -> bool:
    """Whether these first bytes are, or could still become, a preamble. No frame and no TLS hello begins like one."""
    return any(data[: len(start)] == start[: len(data)] for start in (V1_START, V2_START))


def parse(data: bytes) -> ProxyHeader | None:
    """The preamble at the head of `data`; None while it is not whole. Raises `RemoteProtocolError`.

    >>> parse(b"PROXY TCP4 192.0.2.1 127.0.0.1 56324 9876\\r\\n...").source
    '192.0.2.1:56324'
    """
    return _parse_v1(data) if data[:1] == V1_START[:1] else _parse_v2(data)


def _parse_v1(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, _V1_BYTES_MAX)
    if end < 0:
        if len(data) >= _V1_BYTES_MAX:
            raise RemoteProtocolError(f"PROXY line without an end within {_V1_BYTES_MAX} bytes")
        return None
    match data[:end].split(b" "):
        case [_, b"UNKNOWN", *_]:
            return ProxyHeader(end + 2, None)
        case [_, b"TCP4" | b"TCP6", source, _, port, _] if port.isdigit() and int(port) < 65536:
            return ProxyHeader(end + 2, _endpoint(source.decode("ascii", "replace"), int(port)))
    raise RemoteProtocolError(f"PROXY line cannot be read: {data[:end]!r}")


def _endpoint(host: str | bytes, port: int) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise RemoteProtocolError(f"PROXY preamble: {error}") from None
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def _parse_v2(data: bytes) -> ProxyHeader | None:
    if len(data) < _V2_HEAD.size:
        return None
    _, command, family, length = _V2_HEAD.unpack_from(data)
    if command not in (_LOCAL, _PROXY):
        raise RemoteProtocolError(f"PROXY preamble: version and command {command:#04x} are unknown")
    if length > _V2_PAYLOAD_BYTES_MAX:
        raise RemoteProtocolError(f"PROXY preamble of {length} bytes, at most {_V2_PAYLOAD_BYTES_MAX} are accepted")
    end = _V2_HEAD.size + length
    if len(data) < end:
        return None
    payload = data[_V2_HEAD.size : end]
    if command == _LOCAL:
        return ProxyHeader(end, None)
    addresses = {0x11: 4, 0x21: 16}.get(family)
    if addresses is None:  # UNSPEC, UDP and Unix sockets: legal, and of no use to us
        return ProxyHeader(end, None)
    if len(payload) < 2 * addresses + 4:
        raise RemoteProtocolError(f"PROXY preamble: {len(payload)} bytes cannot hold two addresses and ports")
    (port,) = struct.unpack_from(">H", payload, 2 * addresses)
    return ProxyHeader(end, _endpoint(payload[:addresses], port), _parse_tlvs(payload[2 * addresses + 4 :]))


def _parse_tlvs(data: bytes) -> dict[int, bytes]:
    tlvs: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        if at + 3 > len(data) or at + 3 + int.from_bytes(data[at + 1 : at + 3], "big") > len(data):
            raise RemoteProtocolError(f"PROXY preamble: a TLV at byte {at} is cut short")
        end = at + 3 + int.from_bytes(data[at + 1 : at + 3], "big")
        tlvs[data[at]] = data[at + 3 : end]
        at = end
    return tlvs
