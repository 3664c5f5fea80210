"""The arithmetic of offsets, beside sets of numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rocketline.pipelines.offset_spans import OffsetSpan, before, common, joined, merged, spans_of, total, without

SPANS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: OffsetSpan(pair[0], pair[0] + pair[1]))
)


def offsets(spans: list[OffsetSpan]) -> set[int]:
    return {offset for span in spans for offset in range(span.start, span.end)}


@given(SPANS)
def test_merged_spans_hold_the_same_offsets_and_do_not_touch(spans: list[OffsetSpan]) -> None:
    found = merged(spans)

    assert offsets(found) == offsets(spans)
    assert total(found) == len(offsets(spans))
    assert all(left.end < right.start for left, right in pairwise(found))


@given(SPANS, SPANS)
def test_difference_and_intersection_are_those_of_sets(spans: list[OffsetSpan], others: list[OffsetSpan]) -> None:
    assert offsets(without(spans, others)) == offsets(spans) - offsets(others)
    assert offsets(common(spans, others)) == offsets(spans) & offsets(others)


@given(SPANS, st.integers(0, 80))
def test_what_comes_before_an_end_is_that_of_sets(spans: list[OffsetSpan], end: int) -> None:
    assert offsets(before(spans, end)) == {offset for offset in offsets(spans) if offset < end}


@given(SPANS, st.integers(1, 9))
def test_joined_spans_hold_all_and_are_far_apart(spans: list[OffsetSpan], near: int) -> None:
    found = joined(spans, near)

    assert offsets(found) >= offsets(spans)
    assert all(right.start - left.end > near for left, right in pairwise(found))
    assert {span.start for span in found} <= {span.start for span in spans}


def test_difference_of_many_spans_takes_no_longer_than_there_are_spans() -> None:
    """Each odd offset without each even one: compared pair by pair, this would take minutes."""
    odd = [OffsetSpan(2 * number + 1, 2 * number + 2) for number in range(20_000)]
    even = [OffsetSpan(2 * number, 2 * number + 1) for number in range(20_000)]

    assert without(odd, even) == odd
    assert common(odd, even) == []


@given(st.sets(st.integers(0, 100)))
def test_single_offsets_become_the_fewest_spans(numbers: set[int]) -> None:
    assert offsets(spans_of(numbers)) == numbers
