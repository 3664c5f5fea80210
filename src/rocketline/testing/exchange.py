"""Requests and their answers over a blocking socket: enough to look into any server."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from rocketline.wire import frame
from rocketline.wire.command import Command


class Exchange:
    """One connection, on which each request waits for its answer. `address` is `host:port`.

    It waits for long: on a busy machine the first answer of a JVM that has just started takes many seconds.
    """

    def __init__(self, address: str, *, timeout_s: float = 30) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        self._connection = socket.create_connection((host, int(port)), timeout_s)
        self._reader = frame.FrameReader()
        self._opaque = 0

    def ask(self, request: Command) -> Command:
        """The answer to `request`. Raises `OSError` if none comes. What the server asks by itself stays unanswered."""
        self._opaque += 1
        request.opaque = self._opaque
        self._connection.sendall(frame.encode(request))
        while not (command := self._receive()).is_response:
            continue
        assert command.opaque == self._opaque, f"asked {self._opaque}, answered {command.opaque}"
        return command

    def _receive(self) -> Command:
        while (data := self._reader.take()) is None:
            received = self._connection.recv(65_536)
            if not received:
                raise ConnectionError(f"{self.address} closed the connection instead of answering")
            self._reader.feed(received)
        return frame.decode(data)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def ask(address: str, request: Command) -> Command:
    """The answer of the server at `address`, over a connection of its own. Raises `OSError` if none comes."""
    with Exchange(address) as exchange:
        return exchange.ask(request)
