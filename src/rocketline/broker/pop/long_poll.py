"""Pops, and questions whether there is something to pop, that wait until there is. Java: PopLongPollingService.

They wait by topic, group and queue, or any queue; the one whose time ends first is woken first. A message wakes one pop
of each group; once woken, a pop is tried anew, and waits again if others were faster.

Differs: a message that is no group's wakes nobody, and neither does it wake pops whose connection takes no bytes: they
are answered that there is nothing. What all of them take in memory is bounded.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import Wanted
from rocketline.clock import Clock
from rocketline.net.channel import Channel
from rocketline.settings import Settings
from rocketline.store.queues.queue_table import Queue
from rocketline.wire.command import Command
from rocketline.wire.pop_handles import TopicKind

ANY_QUEUE: Final = -1
_WOKEN_PER_TURN: Final = 32
"""So many are tried in one turn of the loop: a few milliseconds."""
_LOOKS_PER_TURN: Final = 4096
_POP_BYTES: Final = 1280
"""What a pop takes while it waits, but for its fields."""
HELD_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of all that wait."""
HELD_BYTES_OF_ONE_MAX: Final = 32 * 1024 * 1024
"""Of one connection."""
_LEFT_MAX: Final = 64
_CODES_MAX: Final = 4096
"""Tags that are remembered of one queue's new messages, until those who wait are told."""
_ENDS_MS: Final = 50
"""So much before its time a pop is given up: its consumer does not wait for the answer any longer than that."""


_TIME_MS_MAX: Final = 2**63 - 1
"""Beyond that Apache's broker counts on with a time that is long over, and so its answer is that."""


class Holding(Enum):
    """What became of a pop that was to wait."""

    WAITS = auto()
    IS_OVER = auto()
    """It does not wait, or its time is over."""
    IS_FULL = auto()
    """Too many wait already."""


class PopPlace(NamedTuple):
    """Where a pop waits."""

    topic: str
    group: str
    queue_id: int


@dataclass(slots=True, eq=False)
class HeldPop:
    """A pop, or a notification, that waits."""

    channel: Channel
    request: Command
    place: PopPlace
    wanted: Wanted
    deadline_s: float
    answer: Callable[[HeldPop], None]
    """Called when it is woken; must not raise, because it runs within somebody else's request."""
    bytes: int = 0


_Asked: TypeAlias = "tuple[str, str]"
"""The topic and the group of a pop."""
_Line: TypeAlias = "list[tuple[float, int, HeldPop]]"
"""A heap: by deadline, then by who came first."""


@dataclass(slots=True)
class _Arrived:
    """New messages of one queue, of which nobody was told yet."""

    codes: list[int]
    is_for_all: bool
    """Whoever waits is to look, whatever he wants: his group's offset may have fallen far behind."""


class _AtPlace:
    """Those that wait at one place, by what they want: mostly all want the same."""

    __slots__ = ("count", "lines")

    def __init__(self) -> None:
        self.lines: dict[Wanted, _Line] = {}
        self.count = 0


class HeldPops:
    """All that wait, and the line of those that were woken."""

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
        *,
        is_last_first: bool = False,
    ) -> None:
        """`is_last_first`: the one whose time ends last is woken first, as Apache does with notifications."""
        self._settings, self._clock, self._call_soon = settings, clock, call_soon
        self._sign = -1.0 if is_last_first else 1.0
        self._places: dict[PopPlace, _AtPlace] = {}
        self._lines: dict[_Asked, set[PopPlace]] = {}
        self._readers: dict[str, Counter[_Asked]] = {}
        """For whom a topic's messages are: those who pop it, or of whose retry topics it is one; with how many pops."""
        self._held: dict[HeldPop, None] = {}
        self._ends: _Line = []
        self._number = 0
        self._arrived: dict[tuple[str, int], _Arrived] = {}
        self._woken: deque[HeldPop] = deque()
        self._to_check: deque[HeldPop] = deque()
        self._bytes_of: Counter[Channel] = Counter()
        self.bytes = 0
        self._is_turn_due = False

    def __len__(self) -> int:
        return len(self._held) + len(self._woken)

    def waiting(self, place: PopPlace) -> int:
        """How many wait there."""
        at_place = self._places.get(place)
        return at_place.count if at_place is not None else 0

    # --- waiting

    def hold(self, held: HeldPop, poll_ms: int, born_ms: int, now_ms: int) -> Holding:
        """Keep a pop until there is something for it, or its time is over."""
        config = self._settings.value
        left_ms = born_ms + poll_ms - _ENDS_MS - now_ms
        if poll_ms <= 0 or left_ms < 0 or born_ms + poll_ms > _TIME_MS_MAX:
            return Holding.IS_OVER
        if len(self) >= config.max_pop_polling_size or self.waiting(held.place) > config.pop_polling_size:
            return Holding.IS_FULL
        held.bytes = _POP_BYTES + sum(map(sys.getsizeof, held.request.ext.values())) + len(held.request.body)
        of_one = self._bytes_of[held.channel] + held.bytes
        if of_one > HELD_BYTES_OF_ONE_MAX or self.bytes + held.bytes > HELD_BYTES_MAX:
            return Holding.IS_FULL
        held.deadline_s = self._clock.monotonic() + left_ms / 1000
        self._add(held)
        return Holding.WAITS

    def _add(self, held: HeldPop) -> None:
        place, self._number = held.place, self._number + 1
        at_place = self._places.get(place)
        if at_place is None:
            at_place = self._places[place] = _AtPlace()
            self._lines.setdefault(place[:2], set()).add(place)
        at_place.count += 1
        self._held[held] = None
        line = self._cleared(at_place.lines.get(held.wanted, []), at_place.count)
        at_place.lines[held.wanted] = line
        heapq.heappush(line, (self._sign * held.deadline_s, self._number, held))
        self._ends = self._cleared(self._ends, len(self._held))
        heapq.heappush(self._ends, (held.deadline_s, self._number, held))
        for topic in _topics_of(place):
            self._readers.setdefault(topic, Counter())[place[:2]] += 1
        self._bytes_of[held.channel] += held.bytes
        self.bytes += held.bytes

    def _cleared(self, line: _Line, count: int) -> _Line:
        """The line without those that have left it, if these have become many."""
        if len(line) <= 2 * count + _LEFT_MAX:
            return line
        line = [entry for entry in line if entry[2] in self._held]
        heapq.heapify(line)
        return line

    def _remove(self, held: HeldPop) -> None:
        """Its entries in heaps stay until they come up, or are too many."""
        place = held.place
        del self._held[held]
        at_place = self._places[place]
        at_place.count -= 1
        if not at_place.count:
            del self._places[place]
            self._lines[place[:2]].discard(place)
            if not self._lines[place[:2]]:
                del self._lines[place[:2]]
        for topic in _topics_of(place):
            _count_out(self._readers, topic, place[:2])
        self._bytes_of[held.channel] -= held.bytes
        if not self._bytes_of[held.channel]:
            del self._bytes_of[held.channel]
        self.bytes -= held.bytes

    # --- waking

    def on_arrival(self, arrivals: Mapping[Queue, Collection[int]]) -> None:
        """Messages with these tags codes can be read from now on. Only noted: this runs in the midst of an append."""
        if not self._readers:
            return
        for queue, codes in arrivals.items():
            if queue.topic in self._readers:
                place = queue.topic, queue.queue_id
                known = self._arrived.setdefault(place, _Arrived([], is_for_all=False))
                known.codes += codes
                known.is_for_all |= self._is_for_all(queue.max_offset, len(codes))
                del known.codes[_CODES_MAX:]
                self._work_soon()

    def _is_for_all(self, end: int, more: int) -> bool:
        """Every so many messages, whoever waits is to look. Java: popLongPollingForceNotifyInterval."""
        step = max(self._settings.value.pop_long_polling_force_notify_interval, 1)
        return end // step != (end - more) // step

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """There is more for the group in this queue, whatever its tag: one is to look, of those who would take it."""
        place = PopPlace(topic, group, queue_id)
        if not self._wake_one(place, None) and queue_id != ANY_QUEUE:
            self._wake_one(PopPlace(topic, group, ANY_QUEUE), None)
        self._work_soon()

    def _tell(self, topic: str, queue_id: int, arrived: _Arrived) -> None:
        """Wake as many of each group as there are messages for them."""
        for asked in list(self._readers[topic]):
            if asked[0] == topic:
                places = [PopPlace(*asked, queue_id), PopPlace(*asked, ANY_QUEUE)]
            else:  # what comes again is for whoever pops the topic, from whichever queue
                places = list(self._lines[asked])
            for place in places:
                for code in arrived.codes:
                    if place not in self._places:
                        break
                    self._wake_one(place, None if arrived.is_for_all else code)

    def _wake_one(self, place: PopPlace, code: int | None) -> bool:
        """False if nobody waits there who wants such a message."""
        at_place = self._places.get(place)
        if at_place is None:
            return False
        for wanted, line in at_place.lines.items():
            if code is None or not isinstance(wanted, frozenset) or code in wanted:
                while line:
                    held = heapq.heappop(line)[2]
                    if held not in self._held:
                        continue
                    if not held.channel.is_closed:
                        self._wake(held)
                        return True
                    self._remove(held)
        return False

    def _wake(self, held: HeldPop) -> None:
        self._remove(held)
        self._woken.append(held)

    def check(self) -> None:
        """Wake those whose time is over; called every so many milliseconds."""
        now_s = self._clock.monotonic()
        while self._ends and (self._ends[0][0] <= now_s or self._ends[0][2] not in self._held):
            held = heapq.heappop(self._ends)[2]
            if held in self._held:
                self._wake(held)
        self._work_soon()

    def sweep(self) -> None:
        """Forget those whose connection is gone, some thousands in each turn of the loop; called every second."""
        if not self._to_check:
            self._to_check.extend(self._held)
            self._sweep_some()

    def _sweep_some(self) -> None:
        for _ in range(min(_LOOKS_PER_TURN, len(self._to_check))):
            held = self._to_check.popleft()
            if held.channel.is_closed and held in self._held:
                self._remove(held)
        if self._to_check:
            self._call_soon(self._sweep_some)

    def _work_soon(self) -> None:
        if (self._woken or self._arrived) and not self._is_turn_due:
            self._is_turn_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Tell some of what has come, and try some of those that were woken."""
        self._is_turn_due = False
        try:
            while self._arrived and len(self._woken) < _WOKEN_PER_TURN:
                (topic, queue_id), arrived = self._arrived.popitem()
                if topic in self._readers:
                    self._tell(topic, queue_id, arrived)
            for _ in range(min(_WOKEN_PER_TURN, len(self._woken))):
                held = self._woken.popleft()
                if not held.channel.is_closed:
                    held.answer(held)
        finally:
            self._work_soon()


def _count_out(readers: dict[str, Counter[_Asked]], topic: str, asked: _Asked) -> None:
    counts = readers[topic]
    counts[asked] -= 1
    if not counts[asked]:
        del counts[asked]
    if not counts:
        del readers[topic]


def _topics_of(place: PopPlace) -> tuple[str, ...]:
    """Where messages come for those who wait there."""
    return place.topic, *(
        kind.store_topic(place.topic, place.group) for kind in (TopicKind.RETRY_V1, TopicKind.RETRY_V2)
    )
