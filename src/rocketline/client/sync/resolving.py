"""Finding out where a host is, in the time that a call has left.

The system's resolver blocks for as long as it likes, and nothing can interrupt it. So it is asked in a thread of its
own, which a caller leaves behind when its time is over. Callers who want the same host wait for the same thread: a
resolver that hangs has one for each host, however often it is asked.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import TypeAlias

Place: TypeAlias = "tuple[int, int, int, tuple[object, ...]]"
"""Family, kind, protocol and address, as sockets want them."""

_under_way: dict[tuple[str, int], _Question] = {}


def resolve(host: str, port: int, timeout_s: float) -> list[Place]:
    """Where to dial, at least one place. Raises `TimeoutError`, or what the resolver raises."""
    try:
        return _look_up(host, port, socket.AI_NUMERICHOST)  # which asks nobody
    except socket.gaierror:
        question = _Question(host, port)
    asked = _under_way.setdefault((host, port), question)
    if asked is question:
        question.ask()
    return asked.answer(timeout_s)


class _Question(threading.Thread):
    """One to the resolver, and who waits for its answer."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(name=f"resolve {host}", daemon=True)
        self._host, self._port = host, port
        self._is_over = threading.Event()
        self._found: list[Place] = []
        self._problem: Exception | None = None

    def ask(self) -> None:
        try:
            self.start()
        except RuntimeError as error:  # there are too many threads, of whomever
            self._end(OSError(str(error)))

    def run(self) -> None:
        problem: Exception | None = None
        try:
            self._found = _look_up(self._host, self._port)
        except Exception as error:  # noqa: BLE001  # whoever waits is told
            problem = error
        self._end(problem)

    def _end(self, problem: Exception | None) -> None:
        self._problem = problem
        _under_way.pop((self._host, self._port), None)
        self._is_over.set()

    def answer(self, timeout_s: float) -> list[Place]:
        if not self._is_over.wait(timeout_s):
            raise TimeoutError
        if self._problem is not None:
            raise type(self._problem)(*self._problem.args) from self._problem  # each has a traceback of its own
        return self._found


def _look_up(host: str, port: int, flags: int = 0) -> list[Place]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, kind, protocol, address) for family, kind, protocol, _, address in found]


os.register_at_fork(after_in_child=_under_way.clear)  # the threads are the parent's
