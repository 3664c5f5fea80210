"""Whether messages have come behind the back of somebody who looks through many queues, and does not wait yet."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rocketline.broker.filters import Wanted

_CODES_MAX: Final = 4096
"""Tags that are remembered of one topic."""


class News:
    """What has come to one topic while anybody watches it."""

    def __init__(self) -> None:
        self._forgotten = 0
        self._codes: list[int] = []
        self.watchers = 0

    @property
    def end(self) -> int:
        """How many messages have come by now."""
        return self._forgotten + len(self._codes)

    def add(self, codes: Collection[int]) -> None:
        self._codes += codes
        if len(self._codes) > _CODES_MAX:
            self.forget()

    def forget(self) -> None:
        """Whoever watches is to look again, whatever he wants."""
        self._forgotten = self.end + 1
        self._codes = []

    def has_any(self, since: int, wanted: Wanted) -> bool:
        """A message has come since then that may be wanted."""
        if since == self.end:
            return False
        if since < self._forgotten or not isinstance(wanted, frozenset):
            return True
        return not wanted.isdisjoint(self._codes[since - self._forgotten :])
