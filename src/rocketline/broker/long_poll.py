"""Pulls that found nothing and wait for a message, each at its queue. Java: PullRequestHoldService.

What wakes a pull: a message that it wants, at once and within the append that brought it; a look every five seconds,
because a message with another tag moves the queue on too; and the end of its time. A pull that was woken is answered,
whatever it finds, and never waits again.

A message costs what it wakes, not what waits: pulls are found by the tags that they want. Those at one queue that want
the same share what is known of it. What all of them take, and what those of one connection take, is counted in bytes
and bounded; beyond that a pull is refused.

Differs: Apache sees the end of a pull's time up to five seconds late, here it is seen at the next check.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, cast

from rocketline.broker.filters import Wanted
from rocketline.clock import Clock
from rocketline.net.channel import Channel
from rocketline.store.queue_table import Queue
from rocketline.wire.command import Command

LOOK_S: Final = 5.0
_WOKEN_PER_TURN: Final = 64
"""One message may wake thousands: what one turn of the loop answers of them takes a few milliseconds."""
_CHECKED_PER_TURN: Final = 4096
PULL_BYTES: Final = 2048
"""What a pull takes while it waits, but for the tags that it wants."""
TAG_BYTES: Final = 160
"""For each tag of pulls at one queue that want the same."""
HELD_BYTES_MAX: Final = 512 * 1024 * 1024
"""Of all pulls: a quarter of a million that want a few tags each."""
HELD_BYTES_OF_ONE_MAX: Final = 64 * 1024 * 1024
"""Of one connection."""

_TEXT: Final = "subscription"
"""The field of a pull that says what it wants, and may be long."""
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
    alike: _Alike | None = None
    """Where it waits, while it does."""
    bytes: int = 0


@dataclass(slots=True, eq=False)
class _Alike:
    """The pulls at one queue that want the same tags."""

    queue: _Queue
    wanted: Wanted
    text: str | None
    """What the first of them said it wants; the others have it from there."""
    pulls: dict[HeldPull, None] = field(default_factory=dict)


class _AtQueue:
    """The pulls at one queue, by what they want."""

    __slots__ = ("alike", "by_code")

    def __init__(self) -> None:
        self.alike: dict[Wanted, _Alike] = {}
        self.by_code: dict[int, dict[_Alike, None]] = {}

    def interested(self, tags_codes: Collection[int]) -> list[_Alike]:
        """Those who want a message with one of the tags, each once."""
        everything = self.alike.get(None)
        found: dict[_Alike, None] = {} if everything is None else {everything: None}
        for code in tags_codes:
            found.update(self.by_code.get(code, {}))
        return list(found)

    def add(self, alike: _Alike) -> None:
        self.alike[alike.wanted] = alike
        for code in alike.wanted or ():
            self.by_code.setdefault(code, {})[alike] = None

    def remove(self, alike: _Alike) -> None:
        del self.alike[alike.wanted]
        for code in alike.wanted or ():
            del self.by_code[code][alike]
            if not self.by_code[code]:
                del self.by_code[code]


class QueueEnds(Protocol):
    """What is asked of the store."""

    def max_offset(self, topic: str, queue_id: int, /) -> int: ...


class HeldPulls:
    """All pulls that wait, and the line of those that were woken and wait for their answer."""

    def __init__(self, store: QueueEnds, clock: Clock, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._store, self._clock, self._call_soon = store, clock, call_soon
        self._queues: dict[_Queue, _AtQueue] = {}
        self._held: dict[HeldPull, None] = {}
        self._woken: deque[HeldPull] = deque()
        self._to_check: deque[HeldPull] = deque()
        self._bytes_of: Counter[Channel] = Counter()
        self.bytes = 0
        """What all of them take."""

    def __len__(self) -> int:
        return len(self._held) + len(self._woken)

    def hold(self, topic: str, queue_id: int, held: HeldPull) -> str | None:
        """Keep a pull until there is something to tell it; or why it is not kept: there are too many already."""
        place = topic, queue_id
        at_queue = self._queues.get(place) or _AtQueue()
        alike = at_queue.alike.get(held.wanted)
        text = held.request.ext.get(_TEXT)
        cost = PULL_BYTES
        if alike is None:
            cost += TAG_BYTES * len(held.wanted or ()) + len(text or "")
        elif alike.text != text:
            cost += len(text or "")
        of_one = self._bytes_of[held.channel] + cost
        if of_one > HELD_BYTES_OF_ONE_MAX or self.bytes + cost > HELD_BYTES_MAX:
            return (
                f"pulls that wait take {self.bytes} bytes, those of this connection {of_one - cost}: no room for more"
            )
        if alike is None:
            alike = _Alike(place, held.wanted, text)
            at_queue.add(alike)
            self._queues[place] = at_queue
        elif alike.text == text and text is not None:
            held.wanted, held.request.ext[_TEXT] = alike.wanted, cast("str", alike.text)
        alike.pulls[held] = self._held[held] = None
        held.look_s, held.alike, held.bytes = self._clock.monotonic() + LOOK_S, alike, cost
        self._bytes_of[held.channel] = of_one
        self.bytes += cost
        return None

    def on_arrival(self, arrivals: Mapping[Queue, Collection[int]]) -> None:
        """Messages with these tags codes can be read from now on."""
        if self._queues:
            for queue, tags_codes in arrivals.items():
                at_queue = self._queues.get((queue.topic, queue.queue_id))
                if at_queue is not None:
                    for alike in at_queue.interested(tags_codes):
                        for held in [held for held in alike.pulls if held.offset < queue.max_offset]:
                            self._wake(held)
            self._answer_woken()

    def check(self) -> None:
        """Wake those whose time is over or whose queue has grown, and drop those whose connection is gone.

        Called every second; a turn of the loop looks at some thousands of them.
        """
        if not self._to_check:
            self._to_check.extend(self._held)
            self._check_some()

    def _check_some(self) -> None:
        now_s = self._clock.monotonic()
        for _ in range(min(len(self._to_check), _CHECKED_PER_TURN)):
            held = self._to_check.popleft()
            if held.alike is not None and self._is_due(held, held.alike, now_s):
                self._wake(held)
        if self._to_check:
            self._call_soon(self._check_some)
        self._answer_woken()

    def _is_due(self, held: HeldPull, alike: _Alike, now_s: float) -> bool:
        if held.channel.is_closed or now_s >= held.deadline_s:
            return True
        if now_s < held.look_s:
            return False
        held.look_s = now_s + LOOK_S
        return held.offset < self._store.max_offset(*alike.queue)

    def _wake(self, held: HeldPull) -> None:
        alike = held.alike
        assert alike is not None
        held.alike = None
        del alike.pulls[held], self._held[held]
        if not alike.pulls:
            at_queue = self._queues[alike.queue]
            at_queue.remove(alike)
            if not at_queue.alike:
                del self._queues[alike.queue]
        self._woken.append(held)

    def _answer_woken(self) -> None:
        """An answer may let the next requests of its connection in, and those may wake others."""
        for _ in range(min(len(self._woken), _WOKEN_PER_TURN)):
            if not self._woken:
                return
            held = self._woken.popleft()
            self._forget_bytes(held)
            if not held.channel.is_closed:
                held.answer(held)
        if self._woken:
            self._call_soon(self._answer_woken)

    def _forget_bytes(self, held: HeldPull) -> None:
        self.bytes -= held.bytes
        self._bytes_of[held.channel] -= held.bytes
        if not self._bytes_of[held.channel]:
            del self._bytes_of[held.channel]
