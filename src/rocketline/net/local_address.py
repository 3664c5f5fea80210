"""Addresses of this machine: the one that others reach it by, and ports that nobody has."""

from __future__ import annotations

import socket
from functools import cache

_ANY_PUBLIC = ("192.0.2.1", 9)
"""An address reserved for documentation. Nothing is sent: a datagram socket only looks up the way."""

LOOPBACK = "127.0.0.1"


@cache
def local_address() -> str:
    """The IPv4 address of the interface that leads outside; loopback on a machine without one.

    Java (NetworkUtil.getLocalAddress) takes the first suitable interface instead, which is the same one on a machine
    with a single network.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ANY_PUBLIC)
            return str(probe.getsockname()[0])
        except OSError:
            return LOOPBACK


def free_port(host: str, *, below: int) -> int:
    """A port on which nobody listens, and neither on the one `below` it. Another program may take them before we do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        with socket.create_server((host, 0), family=family) as taken:
            port = int(taken.getsockname()[1])
            try:
                socket.create_server((host, port - below), family=family).close()
            except OSError:
                continue
            return port
