"""Pulls that found nothing and wait for a message, each at its queue. Java: PullRequestHoldService.

What wakes a pull: a message that it wants, at once and within the append that brought it; a look every five seconds,
because a message with another tag moves the queue on too; and the end of its time. For those that want what fulfils an
expression in SQL, new messages are looked at in the next turn of the loop, so many at a time. A pull that was woken is
answered, whatever it finds, and never waits again.

A message costs what it wakes, not what waits: pulls are found by the tags that they want. Those at one queue that want
the same share what is known of it, and are taken from it at once, however many they are. Then some are answered in each
turn of the loop, one of each connection after the other: whoever waits a hundred thousand times delays nobody else.
What all of them take, and what those of one connection take, is counted in bytes and bounded; beyond that a pull is
refused.

Differs: Apache sees the end of a pull's time up to five seconds late, here it is seen at the next check.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, cast

from rocketline.broker.filters import Wanted
from rocketline.broker.in_turn import InTurn
from rocketline.broker.pulls.filter_work import FilterWork
from rocketline.clock import Clock
from rocketline.filter import SqlFilter, memory_of
from rocketline.net.channel import Channel
from rocketline.store.queues.queue_table import Queue
from rocketline.store.reading import ReadResult
from rocketline.wire.command import Command

LOOK_S: Final = 5.0
_WOKEN_PER_TURN: Final = 64
"""One message may wake thousands: what one turn of the loop answers of them takes a few milliseconds."""
_LOOKS_PER_TURN: Final = 4096
"""So many pulls, or tags of them, are looked at in one turn."""
_SQL_LOOKS_PER_TURN: Final = 128
"""For so many expressions new messages are looked at in one turn: to begin takes longer than many a message."""
PULL_BYTES: Final = 1280
"""What a pull takes while it waits, but for its fields and the tags that it wants."""
TAG_BYTES: Final = 160
"""For each tag of pulls at one queue that want the same."""
HELD_BYTES_MAX: Final = 512 * 1024 * 1024
"""Held pulls of all connections: a quarter of a million that want a few tags each."""
HELD_BYTES_OF_ONE_MAX: Final = 64 * 1024 * 1024
"""Held pulls of one connection."""

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
    """The pulls at one queue that want the same."""

    queue: _Queue
    wanted: Wanted
    text: str | None
    """What the first of them said it wants; the others have it from there."""
    pulls: dict[HeldPull, None] = field(default_factory=dict)
    is_ripe: bool = False
    """A message has come that they want: they are at the queue no more, and woken some at a time."""
    looked: int = 0
    """For an expression: no message before this offset, from that of the first pull on, fulfils it."""


class _AtQueue:
    """The pulls at one queue, by what they want."""

    __slots__ = ("alike", "by_code", "by_sql")

    def __init__(self) -> None:
        self.alike: dict[Wanted, _Alike] = {}
        self.by_code: dict[int, dict[_Alike, None]] = {}
        self.by_sql: OrderedDict[SqlFilter, _Alike] = OrderedDict()
        """Pulls by SQL; the ones that are to be looked at next come first."""

    def interested(self, tags_codes: Collection[int]) -> list[_Alike]:
        """The pulls that want a message with one of the tags, each once."""
        everything = self.alike.get(None)
        found: dict[_Alike, None] = {} if everything is None else {everything: None}
        for code in tags_codes:
            found.update(self.by_code.get(code, {}))
        return list(found)

    def add(self, alike: _Alike) -> None:
        self.alike[alike.wanted] = alike
        if isinstance(alike.wanted, SqlFilter):
            self.by_sql[alike.wanted] = alike
        for code in _codes(alike.wanted):
            self.by_code.setdefault(code, {})[alike] = None

    def remove(self, alike: _Alike) -> int:
        """How many tags that took."""
        del self.alike[alike.wanted]
        if isinstance(alike.wanted, SqlFilter):
            del self.by_sql[alike.wanted]
        for code in _codes(alike.wanted):
            del self.by_code[code][alike]
            if not self.by_code[code]:
                del self.by_code[code]
        return len(_codes(alike.wanted))


def _codes(wanted: Wanted) -> Collection[int]:
    return wanted if isinstance(wanted, frozenset) else ()


class WatchedQueues(Protocol):
    """What is asked of the store."""

    def max_offset(self, topic: str, queue_id: int, /) -> int: ...

    def read_matching(
        self, topic: str, queue_id: int, offset: int, max_messages: int, wanted: SqlFilter, work_max: int, /
    ) -> tuple[ReadResult, int]: ...


class HeldPulls:
    """All pulls that wait, and the lines of those that were woken and wait for their answer."""

    def __init__(
        self,
        store: WatchedQueues,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
        filter_work: FilterWork,
    ) -> None:
        self._store, self._clock, self._call_soon, self._filter_work = store, clock, call_soon, filter_work
        self._unlooked: OrderedDict[_Queue, int] = OrderedDict()
        """Queues with messages that were not looked at yet for pulls by SQL: for how many expressions."""
        self._filters: Counter[tuple[Channel, SqlFilter]] = Counter()
        """How many pulls of a connection want the same: its filter counts once."""
        self._queues: dict[_Queue, _AtQueue] = {}
        self._held: dict[HeldPull, None] = {}
        self._ripe: deque[_Alike] = deque()
        self._woken: InTurn[HeldPull] = InTurn()
        self._is_turn_due = False
        self._to_check: deque[HeldPull] = deque()
        self._bytes_of: Counter[Channel] = Counter()
        self.bytes = 0
        """What all of them take."""

    def __len__(self) -> int:
        return len(self._held) + len(self._woken)

    def hold(self, topic: str, queue_id: int, held: HeldPull) -> str | None:
        """Keep a pull until there is something to tell it; or why it is not kept: there are too many already."""
        place = topic, queue_id
        at_queue = self._queues.get(place)
        alike = at_queue.alike.get(held.wanted) if at_queue is not None else None
        text = held.request.ext.get(_TEXT)
        cost = PULL_BYTES + _size(held.request)
        if alike is None:
            cost += TAG_BYTES * len(_codes(held.wanted))
        elif alike.text == text and text is not None:
            cost -= sys.getsizeof(text)
        of_one, of_filter = self._bytes_of[held.channel], self._bytes_of_filter(held.channel, held.wanted)
        if of_one + cost + of_filter > HELD_BYTES_OF_ONE_MAX or self.bytes + cost + of_filter > HELD_BYTES_MAX:
            return f"pulls that wait take {self.bytes} bytes, those of this connection {of_one}: no room for more"
        if alike is not None and alike.text == text and text is not None:
            held.wanted, held.request.ext[_TEXT] = alike.wanted, cast("str", alike.text)
        self._wait(place, held)
        self._held[held] = None
        held.look_s, held.bytes = self._clock.monotonic() + LOOK_S, cost
        if isinstance(held.wanted, SqlFilter):
            self._filters[held.channel, held.wanted] += 1
        self._charge(held.channel, cost + of_filter)
        return None

    def _bytes_of_filter(self, channel: Channel, wanted: Wanted) -> int:
        """What it takes that no pull of this connection that waits wants it by now, or no more."""
        if not isinstance(wanted, SqlFilter) or self._filters[channel, wanted]:
            return 0
        return memory_of(wanted.expression)

    def _charge(self, channel: Channel, size: int) -> None:
        self._bytes_of[channel] += size
        self.bytes += size
        if not self._bytes_of[channel]:
            del self._bytes_of[channel]

    def _wait(self, place: _Queue, held: HeldPull) -> None:
        """Put a pull among those at its queue."""
        at_queue = self._queues.get(place)
        if at_queue is None:
            at_queue = self._queues[place] = _AtQueue()
        alike = at_queue.alike.get(held.wanted)
        if alike is None:
            alike = _Alike(place, held.wanted, held.request.ext.get(_TEXT), looked=held.offset)
            at_queue.add(alike)
        held.alike = alike
        alike.pulls[held] = None

    def on_arrival(self, arrivals: Mapping[Queue, Collection[int]]) -> None:
        """Messages with these tags codes can be read from now on."""
        if self._queues:
            for queue, tags_codes in arrivals.items():
                place = queue.topic, queue.queue_id
                at_queue = self._queues.get(place)
                if at_queue is not None:
                    if at_queue.by_sql:
                        self._unlooked[place] = len(at_queue.by_sql)
                    for alike in at_queue.interested(tags_codes):
                        self._leave_queue(alike)
                        alike.is_ripe = True
                        self._ripe.append(alike)
            self._answer_soon()

    def check(self) -> None:
        """Wake those whose time is over or whose queue has grown, and drop those whose connection is gone.

        Called every second; a turn of the loop looks at some thousands of them.
        """
        if not self._to_check:
            self._to_check.extend(self._held)
            self._check_some()

    def _check_some(self) -> None:
        now_s, looks = self._clock.monotonic(), 0
        while self._to_check and looks < _LOOKS_PER_TURN:
            held, looks = self._to_check.popleft(), looks + 1
            if held.alike is not None and self._is_due(held, held.alike, now_s):
                looks += self._wake(held)
        if self._to_check:
            self._call_soon(self._check_some)
        self._answer_soon()

    def _is_due(self, held: HeldPull, alike: _Alike, now_s: float) -> bool:
        if held.channel.is_closed or now_s >= held.deadline_s:
            return True
        if now_s < held.look_s:
            return False
        held.look_s = now_s + LOOK_S
        return held.offset < self._store.max_offset(*alike.queue)

    def _leave_queue(self, alike: _Alike) -> int:
        """How many tags that took."""
        at_queue = self._queues[alike.queue]
        looks = at_queue.remove(alike)
        if not at_queue.alike:
            del self._queues[alike.queue]
        return looks

    def _wake(self, held: HeldPull) -> int:
        """Let a pull stand in line for its answer; how many tags were looked at for it."""
        alike = held.alike
        assert alike is not None
        held.alike = None
        del alike.pulls[held], self._held[held]
        self._woken.add(held)
        return 0 if alike.pulls or alike.is_ripe else self._leave_queue(alike)

    def _wake_ripe(self, looks: int) -> int:
        """Wake pulls for which a message came; how many looks are left. One that waits for a later message, because its
        topic was made anew, goes back to its queue."""
        while self._ripe and looks > 0:
            alike = self._ripe[0]
            if not alike.pulls:
                self._ripe.popleft()
                continue
            held, looks = next(iter(alike.pulls)), looks - 1
            if held.offset < self._store.max_offset(*alike.queue):
                self._wake(held)
            else:
                del alike.pulls[held]
                self._wait(alike.queue, held)
        return looks

    def _answer_soon(self) -> None:
        """Never at once: an answer may let the next requests of its connection in, which append and wake others, and we
        are told of arrivals in the midst of an append."""
        if (self._woken or self._ripe or self._unlooked) and not self._is_turn_due:
            self._is_turn_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Answer some of those that were woken."""
        self._is_turn_due = False
        try:
            self._look_for_matches()
            looks = self._wake_ripe(_LOOKS_PER_TURN)
            for _ in range(_WOKEN_PER_TURN):
                if not self._woken:
                    looks = self._wake_ripe(looks)
                if not self._woken:
                    break
                self._answer(self._woken.next())
        finally:
            self._answer_soon()

    def _look_for_matches(self) -> None:
        """See which expressions new messages fulfil, as far as this turn allows. At least one read is made, and queues
        take turns, as do the expressions at one: pulls that spend all there is hold up nobody that waits."""
        looks = _SQL_LOOKS_PER_TURN
        while self._unlooked and looks > 0:
            place, count = next(iter(self._unlooked.items()))
            at_queue = self._queues.get(place)
            if not count or at_queue is None or not at_queue.by_sql:
                del self._unlooked[place]
                continue
            wanted, alike = next(iter(at_queue.by_sql.items()))
            looks, before = looks - 1, alike.looked
            if self._look(place, alike):
                self._unlooked[place] = count - 1
                if not alike.is_ripe:
                    at_queue.by_sql.move_to_end(wanted)
            if self._filter_work.is_over and (alike.is_ripe or alike.looked > before):
                self._unlooked.move_to_end(place)
                return

    def _look(self, place: _Queue, alike: _Alike) -> bool:
        """False if there is more to look at, in another turn."""
        wanted = cast("SqlFilter", alike.wanted)
        while alike.looked < self._store.max_offset(*place):
            try:
                found, work = self._store.read_matching(*place, alike.looked, 1, wanted, self._filter_work.left)
            except OSError:  # whoever reads for the answer meets it too, and has somebody to tell
                found, work = None, 0
            self._filter_work.spend(work)
            if found is None or found.message_count or found.next_offset <= alike.looked:
                self._leave_queue(alike)
                alike.is_ripe = True
                self._ripe.append(alike)
                return True
            alike.looked = found.next_offset
            if self._filter_work.is_over:
                return alike.looked >= self._store.max_offset(*place)
        return True

    def _answer(self, held: HeldPull) -> None:
        size = held.bytes
        if isinstance(held.wanted, SqlFilter):
            self._filters[held.channel, held.wanted] -= 1
            if size_of_filter := self._bytes_of_filter(held.channel, held.wanted):
                del self._filters[held.channel, held.wanted]
                size += size_of_filter
        self._charge(held.channel, -size)
        if not held.channel.is_closed:
            held.answer(held)


def _size(request: Command) -> int:
    """The bytes that its fields take, as they are kept."""
    return len(request.body) + sum(map(sys.getsizeof, request.ext.values())) + sum(map(len, request.ext))
