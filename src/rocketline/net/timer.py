"""Work that comes round again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timer:
    """Calls `action` after `first_s` and then every `period_s`, until cancelled."""

    def __init__(self, action: Callable[[], object], *, first_s: float, period_s: float) -> None:
        self._action, self._period_s = action, period_s
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(first_s, self._tick)

    def _tick(self) -> None:
        # Before the action: should that fail, which the loop logs, the next time comes all the same.
        self._handle = self._loop.call_later(self._period_s, self._tick)
        self._action()

    def cancel(self) -> None:
        self._handle.cancel()
