"""Whether a connection is read and its frames handled: the flow control of `Channel`, as a state machine.

| state   | is read, frames are handled | left by |
|---------|-----------------------------|---------|
| OPEN    | yes | `hold`: the next frame is a request without room for its answer; `end_turn`: it had its share |
| HOLDING | no  | `let_in`, to YIELDED, once there is room: the peer takes bytes again, or had one of its answers |
| YIELDED | no  | `begin_turn`, when others have had theirs |
| CLOSED  | no  | – |

No way leads from HOLDING straight to OPEN: who makes room is answering others, perhaps in the midst of a commit.
`close` leads from everywhere to CLOSED. There is no room (`is_full`) while the peer does not take what we write, or
when as many of its requests wait for their answers as may. That alone does not stop the reading: only a request that
comes then does, because until then there may be answers to our own requests, on which the peer's reading may depend.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class GateState(Enum):
    OPEN = "open"
    HOLDING = "holding"
    YIELDED = "yielded"
    CLOSED = "closed"


_OPEN: Final = GateState.OPEN


class ReadGate:
    """The gate of one connection. It decides; the channel pauses and resumes its transport."""

    __slots__ = ("_state", "_unanswered_max", "is_open", "is_write_paused", "unanswered")

    def __init__(self, unanswered_max: int) -> None:
        self._unanswered_max = unanswered_max
        self._state = _OPEN
        self.is_open = True
        """The state is OPEN. An attribute, because it is asked for with each answer."""
        self.unanswered = 0
        """Requests of the peer whose answers come later."""
        self.is_write_paused = False
        """The transport holds as much as it may of what we wrote."""

    @property
    def state(self) -> GateState:
        return self._state

    @property
    def is_closed(self) -> bool:
        return self._state is GateState.CLOSED

    @property
    def is_full(self) -> bool:
        """Whether the peer's requests have to wait."""
        return self.is_write_paused or self.unanswered >= self._unanswered_max

    def hold(self) -> None:
        """The next frame is a request that must not be handled yet."""
        self._go(_OPEN, GateState.HOLDING)

    def let_in(self) -> bool:
        """Whether there is room for the request that is held. Then it waits for its turn."""
        return not self.is_full and self._go(GateState.HOLDING, GateState.YIELDED)

    def end_turn(self) -> bool:
        """Whether it is to wait for its next turn: not if it stands still for another reason already."""
        return self._go(_OPEN, GateState.YIELDED)

    def begin_turn(self) -> bool:
        """Whether it has waited for this turn. Then the gate is open."""
        return self._go(GateState.YIELDED, _OPEN)

    def close(self) -> None:
        self._state, self.is_open = GateState.CLOSED, False

    def _go(self, before: GateState, after: GateState) -> bool:
        if self._state is not before:
            return False
        self._state, self.is_open = after, after is _OPEN
        return True
