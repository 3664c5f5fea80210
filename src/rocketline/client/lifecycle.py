"""The life of a client: made, started once, closed once."""

from __future__ import annotations

from enum import Enum

from rocketline.errors import ClientError, ClosedError, NotStartedError


class _Stage(Enum):
    NEW = "new"
    RUNNING = "running"
    CLOSED = "closed"


class Lifecycle:
    """Where a client is in its life. Any thread may ask. Java: ServiceState."""

    def __init__(self, thing: str) -> None:
        """`thing` is what errors call the client."""
        self._thing, self._stage = thing, _Stage.NEW

    @property
    def is_running(self) -> bool:
        return self._stage is _Stage.RUNNING

    @property
    def is_closed(self) -> bool:
        return self._stage is _Stage.CLOSED

    def start(self) -> None:
        """It runs from now on. Raises `ClientError` if it does already, `ClosedError` if it did."""
        self._check_open()
        if self._stage is _Stage.RUNNING:
            raise ClientError(f"{self._thing} is started already")
        self._stage = _Stage.RUNNING

    def check(self) -> None:
        """Raise `NotStartedError` or `ClosedError` unless it runs."""
        self._check_open()
        if self._stage is _Stage.NEW:
            raise NotStartedError(self._thing)

    def close(self) -> bool:
        """It is closed from now on; whether it was running."""
        was_running, self._stage = self.is_running, _Stage.CLOSED
        return was_running

    def _check_open(self) -> None:
        if self._stage is _Stage.CLOSED:
            raise ClosedError(f"{self._thing} is closed: make a new one")
