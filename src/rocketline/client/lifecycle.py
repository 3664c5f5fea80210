"""The life of a client: made, started once, closed once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum

from rocketline.errors import ClientError, ClosedError, ForkedError, NotStartedError


class _Stage(Enum):
    NEW = "not started"
    RUNNING = "running"
    CLOSED = "closed"


class Lifecycle:
    """Where a client is in its life, and whether it may be used where the caller is. Java: ServiceState."""

    def __init__(self, thing: str, check_place: Callable[[str], None]) -> None:
        """`thing` is what errors call the client.

        `check_place` gets it and raises unless a client that runs can be used here: in this process, on this loop.
        """
        self._thing, self._check_place, self._stage = thing, check_place, _Stage.NEW
        self._turn = threading.RLock()
        """For changes of the stage: blocking clients are closed by any thread, and by signal handlers in between."""

    def __str__(self) -> str:
        return self._stage.value

    @property
    def is_new(self) -> bool:
        return self._stage is _Stage.NEW

    @property
    def is_running(self) -> bool:
        return self._stage is _Stage.RUNNING

    @property
    def is_closed(self) -> bool:
        return self._stage is _Stage.CLOSED

    def start(self) -> None:
        """It runs from now on. Raises like `check_new`."""
        with self._turn:
            self.check_new()
            self._stage = _Stage.RUNNING

    def check_new(self) -> None:
        """Raise `ClientError` if it runs already, `ClosedError` if it did."""
        self.check_open()
        if self._stage is _Stage.RUNNING:
            raise ClientError(f"{self._thing} is started already")

    def check(self) -> None:
        """Raise the error that tells why it cannot be used here and now: `NotStartedError`, `ClosedError`,
        `ForkedError` or `WrongLoopError`."""
        if self._stage is not _Stage.RUNNING:
            self.check_running()
        self._check_place(self._thing)

    def check_running(self) -> None:
        """Raise `NotStartedError` or `ClosedError` unless it runs. From any thread."""
        self.check_open()
        if self._stage is _Stage.NEW:
            raise NotStartedError(self._thing)

    def check_if_running(self) -> None:
        """For what may be done before the start, too, and then anywhere: once it runs, raise unless it can be here."""
        if self._stage is _Stage.RUNNING:
            self._check_place(self._thing)

    def close(self) -> bool:
        """It is closed from now on; whether there is anything to end. Raises `WrongLoopError`, and then it runs on."""
        with self._turn:
            is_mine = True
            if self.is_running:
                try:
                    self._check_place(self._thing)
                except ForkedError:
                    is_mine = False  # its connections are the parent's, who goes on using them
                except ClosedError:
                    pass  # what it shared with others is closed, what it has of its own is not
            was_running = self.is_running
            self._stage = _Stage.CLOSED
        return was_running and is_mine

    def close_if_new(self) -> bool:
        """If it does not run yet it is closed from now on, and a start under way finds that out; whether it is so. From
        any thread."""
        with self._turn:
            if self.is_new:
                self._stage = _Stage.CLOSED
                return True
            return False

    def abandon(self) -> None:
        """It is closed from now on: it could not start, and has nothing to end."""
        with self._turn:
            self._stage = _Stage.CLOSED

    def check_open(self) -> None:
        """Raise `ClosedError` if it was closed."""
        if self._stage is _Stage.CLOSED:
            raise ClosedError(f"{self._thing} is closed: make a new one")


class Living:
    """What a client tells of its life, to users and to the blocking client that has it. From any thread."""

    _life: Lifecycle

    @property
    def is_running(self) -> bool:
        return self._life.is_running

    @property
    def is_closed(self) -> bool:
        return self._life.is_closed

    def check_new(self) -> None:
        """Raise `ClientError` if it runs already, `ClosedError` if it did."""
        self._life.check_new()

    def check_running(self) -> None:
        """Raise `NotStartedError` or `ClosedError` unless it runs."""
        self._life.check_running()

    def close_if_new(self) -> bool:
        """Close it if it does not run yet, and say whether that is done. A start under way then fails."""
        return self._life.close_if_new()
