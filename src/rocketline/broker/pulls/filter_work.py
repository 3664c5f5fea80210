"""How much work expressions may do in one turn of the loop, whoever pulls by them and however many do.

Work is counted as the store counts it: for each message the bytes of its properties, for each comparison. A pull that
comes when all is done still looks at some messages, so that each gets on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

TURN_WORK: Final = 4 * 1024 * 1024
"""Some thousands of messages with a usual expression: a few milliseconds."""
_PULL_WORK_MIN: Final = 64 * 1024


class FilterWork:
    """What is left of it in this turn."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._left = TURN_WORK
        self._is_counting = False

    @property
    def is_over(self) -> bool:
        """The work of this turn is done: a pull that can wait for the next one should."""
        return self._left <= 0

    @property
    def left(self) -> int:
        """What a pull may do now."""
        return max(self._left, _PULL_WORK_MIN)

    def spend(self, work: int) -> None:
        """Count work that was done against this turn's share."""
        self._left -= work
        if not self._is_counting:
            self._is_counting = True
            self._call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._left, self._is_counting = TURN_WORK, False
