"""Where pops wait, and for which messages: found by a message's place and tag, so that it costs what it wakes.

Those at one place that want the same are a line. What lines keep is counted in bytes, and the connection that began
one is charged for it until the last has left it.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from rocketline.broker.filters import Wanted
from rocketline.filter import SqlFilter, memory_of
from rocketline.net.channel import Channel
from rocketline.wire.command import Command
from rocketline.wire.pop_handles import TopicKind

ANY_QUEUE: Final = -1
POP_BYTES: Final = 640
"""What a pop takes while it waits, but for its fields."""
LINE_BYTES: Final = 2304
"""What a line takes, and the place where it is the first."""
TAG_BYTES: Final = 384
"""For each tag by which a line is found."""
WIDE_TAG_BYTES: Final = 128
"""For each tag of one that wants more than so many:"""
_INDEXED_MAX: Final = 512
HELD_BYTES_MAX: Final = 256 * 1024 * 1024
"""Of all that wait."""
HELD_BYTES_OF_ONE_MAX: Final = 32 * 1024 * 1024
"""Of one connection."""
_TEXT: Final = "exp"
"""The field that says what is wanted, and may be long."""
_LEFT_MAX: Final = 64

_Asked: TypeAlias = "tuple[str, str]"
"""The topic and the group of a pop."""


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
    line: Line | None = None
    """Where it waits, while it does."""


@dataclass(slots=True, eq=False)
class Line:
    """Those at one place that want the same."""

    place: PopPlace
    wanted: Wanted
    text: str | None
    """What the first of them said it wants; the others have it from there."""
    payer: Channel
    bytes: int
    count: int = 0
    order: list[tuple[float, int, HeldPop]] = field(default_factory=list)
    """A heap: by deadline, then by who came first. Those that have left it stay until they come up, or are too many."""

    def add(self, held: HeldPop, rank: float, number: int) -> None:
        self.count += 1
        if len(self.order) > 2 * self.count + _LEFT_MAX:
            self.order = [entry for entry in self.order if entry[2].line is self]
            heapq.heapify(self.order)
        heapq.heappush(self.order, (rank, number, held))

    def first(self) -> HeldPop | None:
        """Who is next; None if nobody is left."""
        while self.order and self.order[0][2].line is not self:
            heapq.heappop(self.order)
        return self.order[0][2] if self.order else None


class HeldBytes:
    """What pops and notifications take together, and what those of each connection take."""

    def __init__(self) -> None:
        self.total = 0
        self._of_one: Counter[Channel] = Counter()

    def have_room(self, channel: Channel, size: int) -> bool:
        return self.total + size <= HELD_BYTES_MAX and self._of_one[channel] + size <= HELD_BYTES_OF_ONE_MAX

    def charge(self, channel: Channel, size: int) -> None:
        self.total += size
        self._of_one[channel] += size
        if not self._of_one[channel]:
            del self._of_one[channel]


class _AtPlace:
    """Those that wait at one place, by what they want: mostly all want the same."""

    __slots__ = ("count", "lines")

    def __init__(self) -> None:
        self.lines: dict[Wanted, Line] = {}
        self.count = 0


class _AtQueue:
    """Those that wait for one queue of a topic, or for any, whosever they are."""

    __slots__ = ("by_code", "places", "wide")

    def __init__(self) -> None:
        self.places: dict[PopPlace, None] = {}
        self.by_code: dict[int | None, dict[Line, None]] = {}
        """None: lines that want all, or what only a look can tell."""
        self.wide: dict[Line, None] = {}
        """Those that want a great many tags: to look into these costs less than to be found by each."""


class _OfTopic:
    """Who waits for messages of a topic."""

    __slots__ = ("asked", "queues")

    def __init__(self) -> None:
        self.queues: dict[int, _AtQueue] = {}
        self.asked: dict[_Asked, None] = {}
        """Those of whose retry topics it is one."""


class HeldLines:
    """All lines."""

    def __init__(self, held_bytes: HeldBytes, *, is_last_first: bool) -> None:
        self.bytes = held_bytes
        self._sign = -1.0 if is_last_first else 1.0
        self._number = 0
        self._places: dict[PopPlace, _AtPlace] = {}
        self._of: dict[_Asked, dict[PopPlace, None]] = {}
        self._topics: dict[str, _OfTopic] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def waiting(self, place: PopPlace) -> int:
        """How many wait there."""
        at_place = self._places.get(place)
        return at_place.count if at_place is not None else 0

    # --- coming and going

    def add(self, held: HeldPop) -> bool:
        """False if there is no room for it."""
        at_place, text = self._places.get(held.place), held.request.ext.get(_TEXT)
        line = at_place.lines.get(held.wanted) if at_place is not None else None
        size, line_size = POP_BYTES + _size(held.request), 0
        if text is not None and (line is None or line.text == text):  # the line pays for it
            size -= sys.getsizeof(text)
        if line is None:
            line_size = LINE_BYTES + _bytes_of(held.wanted) + (sys.getsizeof(text) if text is not None else 0)
        if not self.bytes.have_room(held.channel, size + line_size):
            return False
        if line is None:
            line = Line(held.place, held.wanted, text, held.channel, line_size)
            self._open(line)
        elif text is not None and line.text is not None and line.text == text:
            held.wanted, held.request.ext[_TEXT] = line.wanted, line.text
        self._number += 1
        held.bytes, held.line = size, line
        line.add(held, self._sign * held.deadline_s, self._number)
        self._places[held.place].count += 1
        self.bytes.charge(held.channel, size)
        return True

    def remove(self, held: HeldPop) -> int:
        """Let it leave its line; how many tags were looked at for that. What it takes counts on: see `release`."""
        line = held.line
        assert line is not None
        held.line = None
        line.count -= 1
        self._places[held.place].count -= 1
        return 0 if line.count else self._close(line)

    def release(self, held: HeldPop) -> None:
        """It is answered: its bytes are free."""
        self.bytes.charge(held.channel, -held.bytes)

    def _open(self, line: Line) -> None:
        place = line.place
        if place not in self._places:
            self._open_place(place)
        self._places[place].lines[line.wanted] = line
        at_queue = self._topics[place.topic].queues[place.queue_id]
        if _is_wide(line.wanted):
            at_queue.wide[line] = None
        else:
            for code in _codes(line.wanted):
                at_queue.by_code.setdefault(code, {})[line] = None
        self.bytes.charge(line.payer, line.bytes)

    def _open_place(self, place: PopPlace) -> None:
        self._places[place], asked = _AtPlace(), place[:2]
        queues = self._topic(place.topic).queues
        if place.queue_id not in queues:
            queues[place.queue_id] = _AtQueue()
        queues[place.queue_id].places[place] = None
        if asked not in self._of:
            self._of[asked] = {}
            for name in retry_topics(place):
                self._topic(name).asked[asked] = None
        self._of[asked][place] = None

    def _close(self, line: Line) -> int:
        """How many tags that took."""
        place, looks = line.place, 0
        at_queue = self._topics[place.topic].queues[place.queue_id]
        if _is_wide(line.wanted):
            del at_queue.wide[line]
        else:
            looks = len(_codes(line.wanted))
            for code in _codes(line.wanted):
                del at_queue.by_code[code][line]
                if not at_queue.by_code[code]:
                    del at_queue.by_code[code]
        del self._places[place].lines[line.wanted]
        if not self._places[place].lines:
            self._close_place(place)
        self.bytes.charge(line.payer, -line.bytes)
        return looks

    def _close_place(self, place: PopPlace) -> None:
        asked, queues = place[:2], self._topics[place.topic].queues
        del self._places[place], self._of[asked][place], queues[place.queue_id].places[place]
        if not queues[place.queue_id].places:
            del queues[place.queue_id]
        if not self._of[asked]:
            del self._of[asked]
            for name in retry_topics(place):
                del self._topics[name].asked[asked]
                self._forget_topic(name)
        self._forget_topic(place.topic)

    def _topic(self, name: str) -> _OfTopic:
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = _OfTopic()
        return found

    def _forget_topic(self, name: str) -> None:
        found = self._topics.get(name)
        if found is not None and not found.queues and not found.asked:
            del self._topics[name]

    # --- finding

    def has_topic(self, topic: str) -> bool:
        """Somebody waits for messages that come there."""
        return topic in self._topics

    def has_asked(self, topic: str, group: str) -> bool:
        return (topic, group) in self._of

    def at(self, place: PopPlace) -> list[Line]:
        at_place = self._places.get(place)
        return list(at_place.lines.values()) if at_place is not None else []

    def places_of(self, topic: str, queue_id: int) -> list[PopPlace]:
        """Whose messages of this queue are, but for those that come again."""
        return [place for at_queue in self._at(topic, queue_id) for place in at_queue.places]

    def for_all(self, topic: str, queue_id: int) -> Iterator[Line]:
        """The lines there that want whatever comes, or may."""
        for at_queue in self._at(topic, queue_id):
            yield from list(at_queue.by_code.get(None, ()))

    def by_tag(self, topic: str, queue_id: int, code: int) -> Iterator[Line | None]:
        """Those that want this tag; None for a look that finds none."""
        for at_queue in self._at(topic, queue_id):
            yield from list(at_queue.by_code.get(code, ()))
            for line in list(at_queue.wide):
                yield line if isinstance(line.wanted, frozenset) and code in line.wanted else None

    def _at(self, topic: str, queue_id: int) -> Iterable[_AtQueue]:
        of_topic = self._topics.get(topic)
        if of_topic is None:
            return []
        found = (of_topic.queues.get(each) for each in (queue_id, ANY_QUEUE))
        return [at_queue for at_queue in found if at_queue is not None]

    def places_again(self, topic: str) -> Iterator[PopPlace]:
        """Where those wait of whose retry topics this is one, from whichever queue they pop."""
        of_topic = self._topics.get(topic)
        for asked in list(of_topic.asked) if of_topic is not None else ():
            yield from list(self._of.get(asked, ()))


def _codes(wanted: Wanted) -> Collection[int | None]:
    return wanted if isinstance(wanted, frozenset) else (None,)


def _bytes_of(wanted: Wanted) -> int:
    """What it takes besides its text."""
    if isinstance(wanted, SqlFilter):
        return memory_of(wanted.expression)
    return (WIDE_TAG_BYTES if _is_wide(wanted) else TAG_BYTES) * len(wanted) if wanted is not None else 0


def _is_wide(wanted: Wanted) -> bool:
    return isinstance(wanted, frozenset) and len(wanted) > _INDEXED_MAX


def _size(request: Command) -> int:
    """The bytes that its fields take, as they are kept."""
    return len(request.body) + sum(map(sys.getsizeof, request.ext)) + sum(map(sys.getsizeof, request.ext.values()))


def retry_topics(place: PopPlace) -> tuple[str, ...]:
    """Where messages come again for those who wait there."""
    return tuple(kind.store_topic(place.topic, place.group) for kind in (TopicKind.RETRY_V1, TopicKind.RETRY_V2))
