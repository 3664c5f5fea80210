"""Where pops go on, and how far a group is meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketline.broker.pop.positions import PopPositions
from rocketline.testing.fake_clock import FakeClock
from support.brokers.tables import Tables, tables

QUEUE = "g", "T", 0


@pytest.fixture
def kept(clock: FakeClock) -> Iterator[Tables]:
    with tables(clock) as made:
        yield made


def test_group_gets_on_in_the_order_of_pops(kept: Tables) -> None:
    """S192: what is safe waits for what was popped before it."""
    positions = PopPositions(kept.offsets)
    first, second, third = (positions.take(*QUEUE, end) for end in (4, 6, 9))
    assert (positions.next_offset(*QUEUE), kept.offsets.query(*QUEUE)) == (9, -1)
    positions.safe(second)
    assert (kept.offsets.query(*QUEUE), positions.waiting(*QUEUE)) == (-1, 3)
    positions.safe(first)
    assert (kept.offsets.query(*QUEUE), positions.waiting(*QUEUE)) == (6, 1)
    positions.move(*QUEUE, 12)
    assert (positions.next_offset(*QUEUE), kept.offsets.query(*QUEUE)) == (12, 6)
    positions.safe(third)
    assert (kept.offsets.query(*QUEUE), positions.waiting(*QUEUE)) == (12, 0)


def test_what_was_lost_is_popped_anew(kept: Tables) -> None:
    positions = PopPositions(kept.offsets)
    positions.move(*QUEUE, 3)
    first, second = positions.take(*QUEUE, 5), positions.take(*QUEUE, 8)
    positions.lost(second)
    assert positions.next_offset(*QUEUE) == 5
    positions.take(*QUEUE, 9)
    positions.lost(first)
    assert positions.next_offset(*QUEUE) == 3


def test_group_that_was_sent_elsewhere_is_not_brought_back(kept: Tables) -> None:
    positions = PopPositions(kept.offsets)
    taken = positions.take(*QUEUE, 8)
    positions.forget(*QUEUE)
    kept.offsets.commit(*QUEUE, 1)
    positions.safe(taken)
    assert kept.offsets.query(*QUEUE) == 1
