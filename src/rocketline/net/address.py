"""Addresses as people and RocketMQ write them: `host:port`, an IPv6 host in brackets or bare."""

from __future__ import annotations

from rocketline.errors import ConfigError


def parse_address(text: str) -> tuple[str, int]:
    """Host and port; the last colon divides them. Raises `ConfigError`.

    >>> parse_address("localhost:9876"), parse_address("[::1]:9876")
    (('localhost', 9876), ('::1', 9876))
    """
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError([f"{text!r} is no address: write host:port, for example 127.0.0.1:9876"])
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """The reverse of `parse_address`.

    >>> format_address("::1", 9876)
    '[::1]:9876'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
