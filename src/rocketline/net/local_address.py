"""The address that others reach this machine by."""

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
