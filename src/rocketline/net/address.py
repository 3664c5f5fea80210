"""Addresses as people and RocketMQ write them: `host:port`, an IPv6 host in brackets or bare; and our own."""

from __future__ import annotations

import socket
from functools import cache
from typing import Final

from rocketline.errors import ConfigError

LOOPBACK: Final = "127.0.0.1"
_ANY_PUBLIC: Final = ("192.0.2.1", 9)
"""An address reserved for documentation. Nothing is sent: a datagram socket only looks up the way."""
_PORT_DIGITS_MAX: Final = 10
_SHOWN_MAX: Final = 200


def parse_address(text: str) -> tuple[str, int]:
    """Host and port; the last colon divides them. Raises `ConfigError`.

    Strangers may have registered the text: what could be no host, as one with a NUL, is no address.

    >>> parse_address("localhost:9876"), parse_address("[::1]:9876")
    (('localhost', 9876), ('::1', 9876))
    """
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host.isprintable() and host and colon and is_port(port)):
        shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
        raise ConfigError([f"{shown!r} is no address: write host:port, for example 127.0.0.1:9876"])
    return host, int(port)


def is_port(text: str) -> bool:
    """Its length comes first: Python makes no number of thousands of digits, and says so by an error of its own."""
    return len(text) <= _PORT_DIGITS_MAX and text.isascii() and text.isdigit() and 0 < int(text) < 65536


def format_address(host: str, port: int) -> str:
    """The reverse of `parse_address`.

    >>> format_address("::1", 9876)
    '[::1]:9876'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@cache
def local_address() -> str:
    """What others reach this machine by: the IPv4 address of the interface that leads outside; loopback if it has none.

    Java (NetworkUtil.getLocalAddress) takes the first suitable interface instead, which is the same one on a machine
    with a single network.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ANY_PUBLIC)
            return str(probe.getsockname()[0])
        except OSError:
            return LOOPBACK
