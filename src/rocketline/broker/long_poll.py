"""Pulls that found nothing and wait for a message, each at its queue. Java: PullRequestHoldService.

What wakes a pull: a message that it wants, at once and within the append that brought it; a look every five seconds,
because a message with another tag moves the queue on too; and the end of its time. A pull that was woken is answered,
whatever it finds, and never waits again. How many may wait is bounded by the connections: each has a limit of requests
that are answered later.

Differs: Apache sees the end of a pull's time up to five seconds late, here it is seen at the next check.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from rocketline.broker.filters import Wanted
from rocketline.clock import Clock
from rocketline.net.channel import Channel
from rocketline.store.queue_table import Queue
from rocketline.wire.command import Command

LOOK_S: Final = 5.0
_WOKEN_PER_TURN: Final = 64
"""One message may wake thousands: what one turn of the loop answers of them takes a few milliseconds."""

_Queue: TypeAlias = tuple[str, int]


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull that waits at `offset`, the end of its queue."""

    channel: Channel
    request: Command
    offset: int
    wanted: Wanted
    deadline_s: float
    answer: Callable[[HeldPull], None]
    """Called when it is woken; must not raise, because it runs within somebody else's request."""
    look_s: float = 0.0
    """When to see whether the queue has grown without a message that it wants."""


class QueueEnds(Protocol):
    """What is asked of the store."""

    def max_offset(self, topic: str, queue_id: int, /) -> int: ...


class HeldPulls:
    """All pulls that wait, and the line of those that were woken and wait for their answer."""

    def __init__(self, store: QueueEnds, clock: Clock, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._store, self._clock, self._call_soon = store, clock, call_soon
        self._queues: dict[_Queue, list[HeldPull]] = {}
        self._woken: deque[HeldPull] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values())) + len(self._woken)

    def hold(self, topic: str, queue_id: int, held: HeldPull) -> None:
        """Keep a pull until there is something to tell it."""
        held.look_s = self._clock.monotonic() + LOOK_S
        self._queues.setdefault((topic, queue_id), []).append(held)

    def on_arrival(self, arrivals: Mapping[Queue, Collection[int]]) -> None:
        """Messages with these tags codes can be read from now on."""
        if self._queues:
            for queue, tags_codes in arrivals.items():
                waiting = self._queues.get((queue.topic, queue.queue_id))
                if waiting is not None:
                    woken = [held for held in waiting if _wants(held, queue.max_offset, tags_codes)]
                    self._wake((queue.topic, queue.queue_id), woken)
            self._answer_woken()

    def check(self) -> None:
        """Wake those whose time is over or whose queue has grown, and drop those whose connection is gone."""
        now_s = self._clock.monotonic()
        for (topic, queue_id), waiting in list(self._queues.items()):
            max_offset = self._store.max_offset(topic, queue_id)
            self._wake((topic, queue_id), [held for held in waiting if _is_due(held, max_offset, now_s)])
        self._answer_woken()

    def _wake(self, queue: _Queue, woken: list[HeldPull]) -> None:
        if not woken:
            return
        self._woken.extend(woken)
        leaving = set(woken)
        kept = [held for held in self._queues[queue] if held not in leaving]
        if kept:
            self._queues[queue] = kept
        else:
            del self._queues[queue]

    def _answer_woken(self) -> None:
        """An answer may let the next requests of its connection in, and those may wake others."""
        for _ in range(min(len(self._woken), _WOKEN_PER_TURN)):
            if not self._woken:
                return
            held = self._woken.popleft()
            if not held.channel.is_closed:
                held.answer(held)
        if self._woken:
            self._call_soon(self._answer_woken)


def _wants(held: HeldPull, max_offset: int, tags_codes: Collection[int]) -> bool:
    return held.offset < max_offset and (held.wanted is None or not held.wanted.isdisjoint(tags_codes))


def _is_due(held: HeldPull, max_offset: int, now_s: float) -> bool:
    if held.channel.is_closed or now_s >= held.deadline_s:
        return True
    if now_s < held.look_s:
        return False
    held.look_s = now_s + LOOK_S
    return held.offset < max_offset
