"""One request and its answer over a blocking socket of their own: enough to look into any server."""

from __future__ import annotations

import socket

from rocketline.wire import frame
from rocketline.wire.command import Command


def ask(address: str, request: Command, *, timeout_s: float = 5) -> Command:
    """The answer of the server at `address` (`host:port`). Raises `OSError` if it gives none."""
    host, _, port = address.rpartition(":")
    reader = frame.FrameReader()
    with socket.create_connection((host, int(port)), timeout_s) as connection:
        connection.sendall(frame.encode(request))
        while (answer := reader.take()) is None:
            data = connection.recv(65_536)
            if not data:
                raise ConnectionError(f"{address} closed the connection instead of answering")
            reader.feed(data)
    return frame.decode(answer)
