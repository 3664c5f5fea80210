"""The life of a client: made, started once, closed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketline.errors import ClientError, ClosedError, ForkedError, NotStartedError

_NEW: Final = "not started"
_RUNNING: Final = "running"
_CLOSED: Final = "closed"


class Lifecycle:
    """Where a client is in its life, and whether it may be used where the caller is. Java: ServiceState.

    Blocking clients are closed by any thread, in the midst of a start too, by signal handlers and in forked children,
    where a lock might be held for ever. So there is none: of those who end a stage, the first one counts.
    """

    def __init__(self, thing: str, check_place: Callable[[str], None]) -> None:
        """`thing` is what errors call the client.

        `check_place` gets it and raises unless a client that runs can be used here: in this process, on this loop.
        """
        self._thing, self._check_place = thing, check_place
        self._next: dict[str, list[str]] = {}
        """Finished stage → `[next stage]`. `dict.setdefault` is atomic, so of two threads that end a stage the first
        wins, without a lock: signal handlers and forks may come at any moment."""

    def seen_from(self, check_place: Callable[[str], None]) -> Lifecycle:
        """The same life, for those who use the client from another place: whoever ends a stage, ends it for both."""
        seen = Lifecycle(self._thing, check_place)
        seen._next = self._next
        return seen

    def __str__(self) -> str:
        return self._stage

    @property
    def _stage(self) -> str:
        stage = _NEW
        while (claim := self._next.get(stage)) is not None:
            stage = claim[0]
        return stage

    def _move(self, stage: str, following: str) -> bool:
        """End the stage, and say whether it was us."""
        claim = [following]
        return self._next.setdefault(stage, claim) is claim

    @property
    def is_new(self) -> bool:
        return self._stage is _NEW

    @property
    def is_running(self) -> bool:
        return self._stage is _RUNNING

    @property
    def is_closed(self) -> bool:
        return self._stage is _CLOSED

    def start(self) -> None:
        """The client runs from now on. Raises like `check_new`."""
        if not self._move(_NEW, _RUNNING):
            self.check_new()

    def check_new(self) -> None:
        """Raise `ClientError` if it runs already, `ClosedError` if it did."""
        self.check_open()
        if self.is_running:
            raise ClientError(f"{self._thing} is started already")

    def check(self) -> None:
        """Raise the error that tells why it cannot be used here and now: `NotStartedError`, `ClosedError`,
        `ForkedError` or `WrongLoopError`."""
        self.check_running()
        self._check_place(self._thing)

    def check_running(self) -> None:
        """Raise `NotStartedError` or `ClosedError` unless it runs. From any thread."""
        if not self.is_running:
            self.check_open()
            raise NotStartedError(self._thing)

    def check_if_running(self) -> None:
        """For what may be done before the start, too, and then anywhere: once it runs, raise unless it can be here."""
        if self.is_running:
            self._check_place(self._thing)

    def close(self) -> bool:
        """Close the client; whether there is anything to end. Raises `WrongLoopError`, and then it runs on."""
        if self.close_if_new() or self.is_closed:
            return False
        is_mine = True
        try:
            self._check_place(self._thing)
        except ForkedError:
            is_mine = False  # its connections are the parent's, who goes on using them
        except ClosedError:
            pass  # what it shared with others is closed, what it has of its own is not
        return self._move(_RUNNING, _CLOSED) and is_mine

    def close_if_new(self) -> bool:
        """If it does not run yet it is closed from now on, and a start under way finds that out; whether it is so. From
        any thread."""
        return self._move(_NEW, _CLOSED)

    def check_open(self) -> None:
        """Raise `ClosedError` if it was closed."""
        if self.is_closed:
            raise ClosedError(f"{self._thing} is closed: make a new one")


class HasLifecycle:
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
