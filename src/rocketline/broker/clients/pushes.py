"""What a broker hands to clients of its own accord and wants answered, in any number: replies to their requests.

A connection takes a few at a time, and none while it takes no bytes; the others stand in its line. A push costs no task
and no timer: its connection limits the wait of those that are written, and one alarm serves all lines.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from rocketline.broker.clients.memberships import Client
from rocketline.clock import Clock
from rocketline.errors import ClosedError, OverloadedError, RequestTimeoutError, RocketlineError
from rocketline.net.channel import Channel
from rocketline.wire.command import Command

PUSH_TIMEOUT_S: Final = 10.0
"""How long a client may take, the wait in its line included."""
AT_ONCE: Final = 32
"""So many that are written wait for their answers on one connection; other calls to the client have room beside."""
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""What stands in all lines together; one more is refused."""
_ENTRY_BYTES: Final = 1024
_LOOK_S: Final = 0.05
_STEPS_A_TURN: Final = 256
"""So many pushes are written or given up in one turn of the loop: a client that is gone may leave tens of thousands."""
_STEPS_AFTER_AN_ANSWER: Final = 4

Told = Callable[["Command | RocketlineError"], None]


class CallLater(Protocol):
    """`call_later` of a loop."""

    def __call__(self, delay_s: float, action: Callable[[], None], /) -> asyncio.TimerHandle: ...


class _Push(NamedTuple):
    call: Command
    size: int
    due_s: float
    told: Told


class Pushes:
    """Hands them over, first come first served. On one loop, until `close`."""

    def __init__(self, clock: Clock, call_later: CallLater) -> None:
        self._clock, self._call_later = clock, call_later
        self._lines: dict[Channel, deque[_Push]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.waiting_bytes = 0

    def push(self, client: Client, call: Command, told: Told) -> None:
        """Ask the client; `told` gets what it answers, whatever the code, or why it did not. Maybe at once."""
        channel, size = client.channel, _ENTRY_BYTES + len(call.body)
        size += sum([len(key) + len(value) for key, value in call.ext.items()])
        due_s = self._clock.monotonic() + PUSH_TIMEOUT_S
        if channel.is_closed or (channel not in self._lines and _has_room(channel)):
            self._begin(channel, _Push(call, 0, due_s, told))
        elif self._is_closed:
            told(ClosedError("the broker closes"))
        elif self.waiting_bytes + size > WAITING_BYTES_MAX:
            told(OverloadedError(channel.peer, f"{self.waiting_bytes} bytes wait for clients already: try again"))
        else:
            self.waiting_bytes += size
            self._lines.setdefault(channel, deque()).append(_Push(call, size, due_s, told))
            self._look_later()

    def _begin(self, channel: Channel, push: _Push) -> None:
        try:
            answer = channel.begin(push.call, push.due_s - self._clock.monotonic())
        except RocketlineError as error:
            push.told(error)
        else:
            told = push.told  # and nothing else of it: what was written is not kept until it is answered
            answer.add_done_callback(lambda done: self._answered(channel, told, done))

    def _answered(self, channel: Channel, told: Told, answer: asyncio.Future[Command]) -> None:
        error = ClosedError("the broker closes") if answer.cancelled() else answer.exception()
        assert error is None or isinstance(error, RocketlineError)
        told(answer.result() if error is None else error)
        if channel in self._lines:
            self._advance(channel, _STEPS_AFTER_AN_ANSWER)

    # --- lines

    def _advance(self, channel: Channel, steps: int) -> int:
        """Write what there is room for, and give up what waited for too long. Returns how many steps are left."""
        line, now_s = self._lines[channel], self._clock.monotonic()
        while steps and line and (line[0].due_s <= now_s or channel.is_closed or _has_room(channel)):
            push, steps = line.popleft(), steps - 1
            self.waiting_bytes -= push.size
            if push.due_s <= now_s:
                push.told(RequestTimeoutError(channel.peer, f"the client took no bytes for {PUSH_TIMEOUT_S:g} s"))
            else:
                self._begin(channel, push)
        if not line:
            self._lines.pop(channel, None)
        return steps

    def _look_later(self, delay_s: float = _LOOK_S) -> None:
        if self._alarm is None:
            self._alarm = self._call_later(delay_s, self._look)

    def _look(self) -> None:
        """A connection that takes bytes again does not say so, nor one that is gone."""
        self._alarm, steps = None, _STEPS_A_TURN
        for channel in list(self._lines):
            steps = self._advance(channel, steps)
            if not steps:
                break
        if self._lines:
            self._look_later(_LOOK_S if steps else 0)

    def close(self) -> None:
        """Give up what waits."""
        self._is_closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        lines, self._lines = self._lines, {}
        for push in [push for line in lines.values() for push in line]:
            push.told(ClosedError("the broker closes"))
        self.waiting_bytes = 0


def _has_room(channel: Channel) -> bool:
    return not channel.is_congested and channel.in_flight < AT_ONCE
