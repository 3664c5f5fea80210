"""Which pulls to have under way, so that a broker that gives 32 messages at a time keeps giving. Pure: no socket.

A range of a queue is cut into pieces of the size that the broker was seen to give at once, and several pieces are asked
for before the first is answered. That is a guess, and a wrong one costs no more than another pull: what an answer
leaves of its piece becomes a piece of its own, what it brings beyond its piece is another one's business. Every piece
stands for its own offsets, so whatever brokers do, each offset is read once. Pieces are handed out in order.

    while not schedule.is_done:
        for piece in schedule.to_ask(): ...          # ask for piece.count messages from piece.low on
        schedule.answered(piece, next_offset, size)  # in any order; then set piece.cargo
        for piece in schedule.ready(): ...           # in the order of ranges and offsets
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

IN_FLIGHT_MAX: Final = 64
"""Pieces that may be under way, or wait for one that is."""
WINDOW_BYTES: Final = 4 * 2**20
"""What these may bring, by the size of the latest answers."""
_IN_FLIGHT_MIN: Final = 2
_IN_FLIGHT_FIRST: Final = 4
"""Until it is known how large answers are."""
_REMEMBERED: Final = 16
"""A short answer or two do not make pieces smaller: the end of a file has them, and large messages."""
_PROBE_EVERY: Final = 32
"""So often a piece asks for all that a pull may bring: brokers give more from memory than from disk."""
_FILTERED_PULLS: Final = 4
"""With a filter nobody can say how far a pull gets: a piece is some pulls long, and only the last brings too much."""

Cargo = TypeVar("Cargo")


@dataclass(slots=True, eq=False)
class Piece(Generic[Cargo]):
    """The offsets from `low` to before `high` of one range, and what was pulled of them."""

    range_index: int
    low: int
    high: int
    count: int
    """How many messages to ask for."""
    cargo: Cargo | None = None
    """Whatever the caller keeps with it."""


class PullSchedule(Generic[Cargo]):
    """The pieces of several ranges of one broker."""

    def __init__(
        self,
        ranges: Sequence[tuple[int, int]],
        count_max: int,
        *,
        is_filtered: bool = False,
        grain: int | None = None,
    ) -> None:
        """`ranges`: the first offset of each, and where it ends. `grain`: how many messages this broker gave at once
        before, if that is known."""
        self._ranges = ranges
        self._count_max = count_max
        self._is_filtered = is_filtered
        self._advances: deque[int] = deque([grain] if grain else [], _REMEMBERED)
        self.grain = grain
        """How many offsets the broker moves on at once; None before the first answer."""
        self._answer_bytes: int | None = None
        self._in_flight_max = _IN_FLIGHT_FIRST
        self._asked = 0
        self._again: list[tuple[int, int, Piece[Cargo]]] = []  # a heap
        self._next_range, self._next_offset = -1, 0
        self._in_flight: set[Piece[Cargo]] = set()
        self._answered: dict[tuple[int, int], Piece[Cargo]] = {}
        self._out_range, self._out_offset = 0, ranges[0][0] if ranges else 0
        self._enter_range(0)
        self._skip_finished()

    @property
    def current_range(self) -> int:
        """The number of the range whose pieces are handed out next."""
        return self._out_range

    @property
    def is_done(self) -> bool:
        """Every piece was handed out."""
        return self._out_range == len(self._ranges)

    # --- asking

    def to_ask(self) -> Iterator[Piece[Cargo]]:
        """The pieces to ask for now; they count as asked for. Rather many at once than one by one."""
        if not self._again and 2 * len(self._in_flight) > self._in_flight_max:
            return
        while (piece := self._next_piece()) is not None:
            self._in_flight.add(piece)
            yield piece

    def _next_piece(self) -> Piece[Cargo] | None:
        if len(self._in_flight) >= self._in_flight_max:
            return None
        if self._again:  # others wait for these
            return heapq.heappop(self._again)[2]
        held = len(self._in_flight) + len(self._answered)
        if self._next_range == len(self._ranges) or held >= self._in_flight_max:
            return None
        index, low = self._next_range, self._next_offset
        if self._in_flight and self.grain is None and low > self._ranges[index][0]:
            return None  # how to cut the rest of the range is known soon
        high = min(low + self._piece_size, self._ranges[index][1])
        self._next_offset = high
        if high == self._ranges[index][1]:
            self._enter_range(index + 1)
        return Piece(index, low, high, self._count(low, high))

    @property
    def _piece_size(self) -> int:
        if self.grain is None:
            return self._count_max
        return _FILTERED_PULLS * self.grain if self._is_filtered else min(self.grain, self._count_max)

    def _count(self, low: int, high: int) -> int:
        self._asked += 1
        is_probe = self._asked % _PROBE_EVERY == 0
        return self._count_max if self._is_filtered or is_probe else min(high - low, self._count_max)

    def _enter_range(self, index: int) -> None:
        while index < len(self._ranges) and self._ranges[index][0] >= self._ranges[index][1]:
            index += 1
        self._next_range = index
        if index < len(self._ranges):
            self._next_offset = self._ranges[index][0]

    # --- answers

    def answered(self, piece: Piece[Cargo], next_offset: int, answer_bytes: int) -> None:
        """The piece's pull got as far as before `next_offset`, which is beyond its `low`.

        Its `high` is final now: give it what was pulled up to there as `cargo`, before it is handed out.
        """
        assert next_offset > piece.low
        self._in_flight.remove(piece)
        self._learn(next_offset - piece.low, piece.high - piece.low, answer_bytes)
        if next_offset > piece.high and (piece.range_index, piece.high) == (self._next_range, self._next_offset):
            self._extend(piece, next_offset)
        rest, piece.high = piece.high, min(next_offset, piece.high)
        self._answered[piece.range_index, piece.low] = piece
        size, low = self._piece_size, piece.high
        while low < rest:
            high = min(low + size, rest)
            again: Piece[Cargo] = Piece(piece.range_index, low, high, self._count(low, high))
            heapq.heappush(self._again, (again.range_index, low, again))
            low = high

    def _extend(self, piece: Piece[Cargo], next_offset: int) -> None:
        """What it brought beyond its end is nobody else's business yet."""
        end = self._ranges[piece.range_index][1]
        piece.high = self._next_offset = min(next_offset, end)
        if piece.high == end:
            self._enter_range(piece.range_index + 1)

    def _learn(self, advance: int, wanted: int, answer_bytes: int) -> None:
        # A whole piece that is smaller than others says nothing: the broker might have given more.
        if advance < wanted or advance >= (self.grain or self._count_max):
            self._advances.append(advance)
            self.grain = max(self._advances)
        before = answer_bytes if self._answer_bytes is None else self._answer_bytes
        self._answer_bytes = (3 * before + answer_bytes) // 4
        self._in_flight_max = min(max(WINDOW_BYTES // max(self._answer_bytes, 1), _IN_FLIGHT_MIN), IN_FLIGHT_MAX)

    def put_back(self, piece: Piece[Cargo]) -> None:
        """Its pull brought nothing: it is to be asked for again."""
        self._in_flight.remove(piece)
        heapq.heappush(self._again, (piece.range_index, piece.low, piece))

    def put_back_all(self) -> None:
        """The connection is gone, and with it every answer that was to come. It may have been too much for the broker:
        the next pulls are few."""
        self._in_flight_max = _IN_FLIGHT_MIN
        for piece in list(self._in_flight):
            self.put_back(piece)

    # --- handing out

    def ready(self) -> Iterator[Piece[Cargo]]:
        """The pieces that are answered and whose predecessors are out, in order."""
        while (piece := self._answered.pop((self._out_range, self._out_offset), None)) is not None:
            self._out_offset = piece.high
            self._skip_finished()
            yield piece

    def _skip_finished(self) -> None:
        while self._out_range < len(self._ranges) and self._out_offset >= self._ranges[self._out_range][1]:
            self._out_range += 1
            if self._out_range < len(self._ranges):
                self._out_offset = self._ranges[self._out_range][0]
