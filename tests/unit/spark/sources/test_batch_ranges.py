from __future__ import annotations

import pytest

from rocketline.model.queue import MessageQueue
from rocketline.spark.cluster.view import QueueExtent
from rocketline.spark.planning.data_loss import DataLossError
from rocketline.spark.sources.batch_reader import batch_ranges

QUEUE = MessageQueue("orders", "broker-a", 0)


def ranges(start: int, end: int, low: int, high: int, *, fails: bool = True) -> list[tuple[int, int]]:
    found = batch_ranges({QUEUE: start}, {QUEUE: end}, {QUEUE: QueueExtent(low, high)}, fails_on_data_loss=fails)
    return [(each.start, each.end) for each in found]


def test_what_is_there_is_read() -> None:
    assert ranges(2, 9, 0, 10) == [(2, 9)]


@pytest.mark.parametrize(
    ("start", "end", "low", "high", "cause"),
    [
        (1, 9, 3, 10, "the first of them were deleted"),
        (1, 2, 3, 10, "the first of them were deleted"),
        (1, 12, 0, 10, "the queue ends before"),
        (11, 12, 0, 10, "the queue ends before"),
    ],
)
def test_what_is_not_there_is_an_error(start: int, end: int, low: int, high: int, cause: str) -> None:
    with pytest.raises(
        DataLossError, match=f"offsets {start} to {end} were to be read, {low} to {high} are there: {cause}"
    ):
        ranges(start, end, low, high)


@pytest.mark.parametrize(
    ("start", "end", "low", "high", "expected"),
    [(1, 9, 3, 10, (3, 9)), (1, 2, 3, 10, (3, 3)), (1, 12, 0, 10, (1, 10)), (11, 12, 0, 10, (10, 10))],
)
def test_what_is_not_there_is_left_out_if_that_is_allowed(
    start: int, end: int, low: int, high: int, expected: tuple[int, int]
) -> None:
    assert ranges(start, end, low, high, fails=False) == [expected]


def test_a_range_that_ends_before_it_begins_is_empty() -> None:
    assert ranges(7, 3, 0, 10) == [(7, 7)]


@pytest.mark.parametrize("end", [10, 11, 3])
def test_a_start_beyond_the_end_of_the_queue_is_an_error_whatever_the_end_is(end: int) -> None:
    with pytest.raises(
        DataLossError, match="offsets from 11 were to be read, 0 to 10 are there: the queue ends before"
    ):
        ranges(11, end, 0, 10)
    assert ranges(11, end, 0, 10, fails=False) == [(10, 10)]


@pytest.mark.parametrize(("start", "end"), [(10, 10), (10, 3), (3, 3), (10, 0)])
def test_a_start_at_the_end_of_the_queue_is_none(start: int, end: int) -> None:
    assert ranges(start, end, 3, 10) == [(start, start)]
