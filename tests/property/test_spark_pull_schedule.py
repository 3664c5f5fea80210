"""Brokers that answer as they like, in any order, or not at all: each offset is read once, in order."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from rocketline.spark.pulling.schedule import IN_FLIGHT_MAX, Piece, PullSchedule

starts, lengths = st.integers(0, 50), st.integers(0, 300)
ranges = st.lists(st.builds(lambda start, length: (start, start + length), starts, lengths), max_size=4)


@given(ranges, st.integers(1, 100), st.booleans(), st.one_of(st.none(), st.integers(1, 100)), st.integers(0, 2**32))
def test_every_offset_is_handed_out_once_and_in_order(
    ranges: list[tuple[int, int]], count_max: int, is_filtered: bool, grain: int | None, seed: int
) -> None:
    dice = random.Random(seed)
    schedule: PullSchedule[None] = PullSchedule(ranges, count_max, is_filtered=is_filtered, grain=grain)
    under_way: list[Piece[None]] = []
    out: list[tuple[int, int]] = []
    while not schedule.is_done:
        under_way += schedule.to_ask()
        assert 0 < len(under_way) <= 2 * IN_FLIGHT_MAX
        piece = under_way.pop(dice.randrange(len(under_way)))
        assert piece.count <= count_max
        outcome = dice.random()
        if outcome < 0.05:
            schedule.put_back(piece)
        elif outcome < 0.06:
            under_way.clear()
            schedule.put_back_all()
        else:
            most = 3 * count_max if is_filtered else piece.count
            schedule.answered(piece, piece.low + dice.randint(1, most), dice.randint(0, 2**21))
        out += [(piece.range_index, offset) for piece in schedule.ready() for offset in range(piece.low, piece.high)]
    assert out == [(index, offset) for index, (start, end) in enumerate(ranges) for offset in range(start, end)]
