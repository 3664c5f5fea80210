"""Pops, and questions whether there is something to pop, that wait until there is. Java: PopLongPollingService.

They wait by topic, group and queue, or any queue; the one whose time ends first is woken first. A message wakes one pop
of each group; once woken, a pop is tried anew, and waits again if others were faster.

A message costs what it wakes, not what waits: see `held_lines`. What a turn of the loop does of telling, waking and
trying is bounded, and those that were woken are tried in turn, one of each connection.

Differs: a message that is no group's wakes nobody, and what all of them take in memory is bounded.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, TypeAlias

from rocketline.broker.config import BrokerConfig
from rocketline.broker.due import Due
from rocketline.broker.filters import Wanted
from rocketline.broker.in_turn import InTurn
from rocketline.broker.long_work import Steps
from rocketline.broker.pop.held_lines import ANY_QUEUE, HeldBytes, HeldLines, HeldPop, Line, PopPlace, retry_topics
from rocketline.broker.pop.news import News
from rocketline.clock import Clock
from rocketline.settings import Settings
from rocketline.store.queues.queue_table import Queue

__all__ = ["ANY_QUEUE", "HeldBytes", "HeldPop", "HeldPops", "Holding", "PopPlace"]

_WOKEN_PER_TURN: Final = 32
_TURN_S: Final = 0.002
"""With which a turn has tried enough of those that were woken, however few they were."""
_LOOKS_PER_TURN: Final = 2048
"""So many lines, and those who wait in them, are looked at in one turn to tell what has come."""
_ENDS_PER_TURN: Final = 512
"""Of so many the time is over in one turn."""
_SWEPT_PER_TURN: Final = 4096
_REMOVAL: Final = 8
"""Looks that it takes to remove a pop; a tag of its line takes one more."""
_CODES_MAX: Final = 4096
"""Different tags that are remembered of one queue's new messages, until those who wait are told."""
_ENDS_MS: Final = 50
"""So much before its time a pop is given up: its consumer does not wait for the answer any longer than that."""
_TICKS_A_SECOND: Final = 100
"""Pops whose time ends in the same tick are found together."""
_TIME_MS_MAX: Final = 2**63 - 1
"""Beyond that Apache's broker counts on with a time that is long over, and so its answer is that."""

_Looks: TypeAlias = "Iterator[int]"
"""Work in steps, each of so many looks."""


class Holding(Enum):
    """What became of a pop that was to wait."""

    WAITS = auto()
    IS_OVER = auto()
    """It does not wait, or its time is over."""
    IS_FULL = auto()
    """Too many wait already."""


@dataclass(slots=True)
class _Arrived:
    """New messages of one queue, of which nobody was told yet."""

    codes: Counter[int] = field(default_factory=Counter)
    is_for_all: bool = False
    """Whoever waits is to look, whatever he wants: his group's offset may have fallen far behind."""


class HeldPops:
    """All that wait, and the line of those that were woken."""

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
        held_bytes: HeldBytes,
        *,
        is_last_first: bool = False,
    ) -> None:
        """`is_last_first`: the one whose time ends last is woken first, as Apache does with notifications."""
        self._settings, self._clock, self._call_soon = settings, clock, call_soon
        self._lines = HeldLines(held_bytes, is_last_first=is_last_first)
        self._held: dict[HeldPop, None] = {}
        self._ends: Due[HeldPop] = Due()
        self._arrived: OrderedDict[tuple[str, int], _Arrived] = OrderedDict()
        self._called: OrderedDict[PopPlace, None] = OrderedDict()
        """Where there is more, whatever its tag."""
        self._telling: _Looks = iter(())
        self._is_telling = False
        self._news: dict[str, News] = {}
        self._woken: InTurn[HeldPop] = InTurn()
        self._to_check: deque[HeldPop] = deque()
        self._is_turn_due = self._is_checking = False

    def __len__(self) -> int:
        return len(self._held) + len(self._woken)

    @property
    def bytes(self) -> int:
        """What those take that wait here or elsewhere by the same bound."""
        return self._lines.bytes.total

    def waiting(self, place: PopPlace) -> int:
        """How many wait there."""
        return self._lines.waiting(place)

    # --- waiting

    def hold(self, held: HeldPop, poll_ms: int, born_ms: int, now_ms: int) -> Holding:
        """Keep a pop until there is something for it, or its time is over."""
        config = self._settings.value
        left_ms = born_ms + poll_ms - _ENDS_MS - now_ms
        if poll_ms <= 0 or left_ms < 0 or born_ms + poll_ms > _TIME_MS_MAX:
            return Holding.IS_OVER
        if len(self) >= config.max_pop_polling_size or self.waiting(held.place) > config.pop_polling_size:
            return Holding.IS_FULL
        held.deadline_s = self._clock.monotonic() + left_ms / 1000
        if not self._lines.add(held):
            return Holding.IS_FULL
        self._held[held] = None
        self._ends.add(_tick(held), held)
        return Holding.WAITS

    def _remove(self, held: HeldPop) -> int:
        """It waits no more; how many looks that took."""
        del self._held[held]
        self._ends.discard(_tick(held), held)
        return _REMOVAL + self._lines.remove(held)

    def _drop(self, held: HeldPop) -> int:
        """Nobody is there to be answered."""
        looks = self._remove(held)
        self._lines.release(held)
        return looks

    def _wake(self, held: HeldPop) -> int:
        looks = self._remove(held)
        self._woken.add(held)
        return looks

    # --- what there is to tell

    def on_arrival(self, arrivals: Mapping[Queue, Collection[int]]) -> None:
        """Messages with these tags codes can be read from now on. Only noted: this runs in the midst of an append."""
        if not self._lines and not self._news:
            return
        for queue, codes in arrivals.items():
            if self._lines.has_topic(queue.topic):
                self._note(queue, codes)
            if (news := self._news.get(queue.topic)) is not None:
                news.add(codes)

    def _note(self, queue: Queue, codes: Collection[int]) -> None:
        known = self._arrived.setdefault((queue.topic, queue.queue_id), _Arrived())
        known.codes.update(codes)
        known.is_for_all |= self._is_for_all(queue.max_offset, len(codes))
        if len(known.codes) > _CODES_MAX:
            known.codes, known.is_for_all = Counter(), True
        self._work_soon()

    def _is_for_all(self, end: int, more: int) -> bool:
        """Every so many messages, whoever waits is to look. Java: popLongPollingForceNotifyInterval."""
        step = max(self._settings.value.pop_long_polling_force_notify_interval, 1)
        return end // step != (end - more) // step

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """There is more for the group in this queue, whatever its tag: one is to look, of those who would take it."""
        if (news := self._news.get(topic)) is not None:
            news.forget()
        if self._lines.has_asked(topic, group):
            self._called[PopPlace(topic, group, queue_id)] = None
            self._work_soon()

    def watched(self, place: PopPlace, wanted: Wanted, looking: Steps[None]) -> Steps[bool]:
        """Look through queues in steps; whether something has come meanwhile that may have been missed."""
        if next(looking, looking) is looking:
            return False  # nothing can have come within one step
        topics = [place.topic, *retry_topics(place)]
        watched = [self._news.setdefault(topic, News()) for topic in topics]
        since = [news.end for news in watched]
        for news in watched:
            news.watchers += 1
        try:
            yield
            yield from looking
            return any(news.has_any(end, wanted) for news, end in zip(watched, since, strict=True))
        finally:
            for topic, news in zip(topics, watched, strict=True):
                news.watchers -= 1
                if not news.watchers:
                    del self._news[topic]

    # --- telling

    def _tell(self, topic: str, queue_id: int, arrived: _Arrived) -> _Looks:
        """Wake as many at each place as there are messages for them."""
        for place in self._lines.places_again(topic):
            for line in self._lines.at(place):
                yield len(arrived.codes) // 16
                yield from self._wake_some(line, _count_for(line.wanted, arrived))
        if arrived.is_for_all:
            for place in self._lines.places_of(topic, queue_id):
                yield from self._wake_any(place)
        woken: Counter[PopPlace] = Counter()
        total = arrived.codes.total()
        for line in self._lines.for_all(topic, queue_id):
            woken[line.place] += yield from self._wake_some(line, total - woken[line.place])
        for code, count in arrived.codes.items():
            yield 1
            for found in self._lines.by_tag(topic, queue_id, code):
                yield 1
                if found is not None:
                    left = min(count, total - woken[found.place])
                    woken[found.place] += yield from self._wake_some(found, left)

    def _call(self, place: PopPlace) -> _Looks:
        """Wake one who waits there, or for any queue."""
        if not (yield from self._wake_any(place)) and place.queue_id != ANY_QUEUE:
            yield from self._wake_any(place._replace(queue_id=ANY_QUEUE))

    def _wake_any(self, place: PopPlace) -> Generator[int, None, bool]:
        for line in self._lines.at(place):
            if (yield from self._wake_some(line, 1)):
                return True
        return False

    def _wake_some(self, line: Line, count: int) -> Generator[int, None, int]:
        """Wake so many, or as many as there are; how many that were."""
        woken = 0
        yield 1
        while woken < count and (held := line.first()) is not None:
            if held.channel.is_closed:
                yield self._drop(held)
            else:
                woken += 1
                yield self._wake(held)
        return woken

    # --- ends

    def check(self) -> None:
        """Wake those whose time is over, some hundreds in each turn; called every so many milliseconds."""
        if not self._is_checking:
            self._check_some()

    def _check_some(self) -> None:
        now, looks = int(self._clock.monotonic() * _TICKS_A_SECOND), _ENDS_PER_TURN * _REMOVAL
        while looks > 0 and (held := self._ends.next(now)) is not None:
            looks -= self._wake(held)
        self._is_checking = looks <= 0
        if self._is_checking:
            self._call_soon(self._check_some)
        self._work_soon()

    def sweep(self) -> None:
        """Forget those whose connection is gone, some in each turn of the loop; called every second."""
        if not self._to_check:
            self._to_check.extend(self._held)
            self._sweep_some()

    def _sweep_some(self) -> None:
        looks = _SWEPT_PER_TURN
        while self._to_check and looks > 0:
            held, looks = self._to_check.popleft(), looks - 1
            if held.channel.is_closed and held in self._held:
                looks -= self._drop(held)
        if self._to_check:
            self._call_soon(self._sweep_some)

    # --- turns

    def _work_soon(self) -> None:
        has_work = self._woken or self._arrived or self._called or self._is_telling
        if has_work and not self._is_turn_due:
            self._is_turn_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Tell some of what has come, and try some of those that were woken."""
        self._is_turn_due = False
        try:
            self._tell_some()
            self._try_some()
        finally:
            self._work_soon()

    def _tell_some(self) -> None:
        looks = _LOOKS_PER_TURN
        while looks > 0 and len(self._woken) < _WOKEN_PER_TURN:
            taken = next(self._telling, None)
            if taken is not None:
                self._is_telling, looks = True, looks - taken
            elif self._called:
                self._telling = self._call(self._called.popitem(last=False)[0])
            elif self._arrived:
                (topic, queue_id), arrived = self._arrived.popitem(last=False)
                self._telling = self._tell(topic, queue_id, arrived)
            else:
                self._is_telling = False
                return

    def _try_some(self) -> None:
        end_s = self._clock.monotonic() + _TURN_S
        for _ in range(min(_WOKEN_PER_TURN, len(self._woken))):
            held = self._woken.next()
            self._lines.release(held)
            if held.channel.is_closed:  # whom it was woken for is for somebody else
                self.wake(*held.place)
            else:
                held.answer(held)
            if self._clock.monotonic() >= end_s:
                return


def _tick(held: HeldPop) -> int:
    return math.ceil(held.deadline_s * _TICKS_A_SECOND)


def _count_for(wanted: Wanted, arrived: _Arrived) -> int:
    """How many of the messages may be wanted."""
    if isinstance(wanted, frozenset):
        found = sum(count for code, count in arrived.codes.items() if code in wanted)
    else:
        found = arrived.codes.total()
    return max(found, arrived.is_for_all)
