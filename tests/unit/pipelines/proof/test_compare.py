"""The verdict on a table: what is missing, doubled or strange is found exactly, and nothing else is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.model.queue import MessageQueue
from rocketline.pipelines.offset_spans import OffsetSpan
from rocketline.pipelines.proof.compare import (
    BLOCK,
    Block,
    OffsetFindings,
    QueueFindings,
    bitmap_spans,
    compare,
    done_by_all,
    expired_for_all,
)

QUEUE = MessageQueue("orders", "broker-a", 0)


def blocks(offsets: list[int], queue: MessageQueue = QUEUE) -> list[Block]:
    """What Spark would compute of a table with these offsets."""
    found = []
    for number in sorted({offset // BLOCK for offset in offsets}):
        here = [offset % BLOCK for offset in offsets if offset // BLOCK == number]
        bits = sum(1 << offset for offset in set(here))
        bitmap = None if len(set(here)) == BLOCK else bits.to_bytes(BLOCK // 8, "little")
        found.append(Block(queue, number, len(here), len(set(here)), bitmap))
    return found


def findings(read: list[OffsetSpan], offsets: list[int], planned: list[OffsetSpan] | None = None) -> QueueFindings:
    (found,) = compare({QUEUE: read}, {QUEUE: planned or read}, blocks(offsets))
    return found


def test_every_offset_once_is_clean_across_blocks() -> None:
    found = findings([OffsetSpan(5, 2 * BLOCK + 7)], list(range(5, 2 * BLOCK + 7)))

    assert found.is_clean
    assert found.rows == 2 * BLOCK + 2


def test_missing_offsets_are_listed_as_gaps() -> None:
    there = [offset for offset in range(10, BLOCK + 100) if offset not in (10, 11, 50, BLOCK, BLOCK + 99)]
    found = findings([OffsetSpan(10, BLOCK + 100)], there)

    assert not found.is_clean
    assert found.gaps == (
        OffsetSpan(10, 12),
        OffsetSpan(50, 51),
        OffsetSpan(BLOCK, BLOCK + 1),
        OffsetSpan(BLOCK + 99, BLOCK + 100),
    )
    assert not found.strangers
    assert not found.doubled_rows


def test_queue_without_any_row_is_one_gap() -> None:
    assert findings([OffsetSpan(0, 40)], []).gaps == (OffsetSpan(0, 40),)


def test_rows_that_are_there_twice_are_counted() -> None:
    found = findings([OffsetSpan(0, 10)], [*range(10), 3, 3, 7])

    assert not found.is_clean
    assert found.doubled_rows == 3
    assert not found.gaps


def test_rows_that_nobody_read_are_strange() -> None:
    found = findings([OffsetSpan(10, 20)], [9, *range(10, 20), 20, 21])

    assert not found.is_clean
    assert found.strangers == (OffsetSpan(9, 10), OffsetSpan(20, 22))


def test_queue_that_nobody_read_is_strange_as_a_whole() -> None:
    other = MessageQueue("orders", "broker-b", 1)
    found = {each.queue: each for each in compare({QUEUE: [OffsetSpan(0, 1)]}, {}, [*blocks([0]), *blocks([4], other)])}

    assert found[QUEUE].is_clean
    assert found[other].strangers == (OffsetSpan(4, 5),)


def test_rows_of_a_batch_that_is_not_done_may_be_there_and_may_be_missing() -> None:
    planned = [OffsetSpan(0, 30)]

    assert findings([OffsetSpan(0, 20)], list(range(20)), planned).is_clean
    assert findings([OffsetSpan(0, 20)], list(range(30)), planned).is_clean
    assert findings([OffsetSpan(0, 20)], list(range(31)), planned).strangers == (OffsetSpan(30, 31),)


def test_offsets_that_the_source_had_to_skip_are_no_gap_and_clean_only_if_they_are_allowed() -> None:
    done = {QUEUE: [OffsetSpan(0, 5), OffsetSpan(9, 12)]}
    (found,) = compare(done, done, blocks([*range(5), *range(9, 12)]), expired={QUEUE: [OffsetSpan(5, 9)]})

    assert not found.gaps
    assert found.skipped == (OffsetSpan(5, 9),)
    assert not OffsetFindings("raw", 2, (found,)).is_clean
    assert OffsetFindings("raw", 2, (found,), allows_expired=True).is_clean
    assert OffsetFindings("raw", 2, (found,)).expired == 4


@pytest.mark.parametrize("read", [[], [OffsetSpan(100, 110)]])
def test_offsets_that_were_skipped_before_anything_was_read_are_told(read: list[OffsetSpan]) -> None:
    done = {QUEUE: read} if read else {}
    rows = blocks([offset for span in read for offset in range(*span)])
    (found,) = compare(done, done, rows, expired={QUEUE: [OffsetSpan(0, 100)]})

    assert found.skipped == (OffsetSpan(0, 100),)
    assert not found.is_clean


def test_hole_in_what_was_read_is_no_loss_by_itself() -> None:
    """The topic was made anew, and has not come to its old offsets yet."""
    assert findings([OffsetSpan(0, 4), OffsetSpan(90, 100)], [*range(4), *range(90, 100)]).is_clean


def test_gaps_that_are_gone_by_now_are_clean_only_if_they_are_allowed() -> None:
    found = QueueFindings(queue=QUEUE, read=(OffsetSpan(0, 10),), rows=5, gone=(OffsetSpan(0, 5),))

    assert not OffsetFindings("raw", 2, (found,)).is_clean
    assert OffsetFindings("raw", 2, (found,), allows_expired=True).is_clean
    assert (OffsetFindings("raw", 2, (found,)).expired, OffsetFindings("raw", 2, (found,)).gone) == (5, 5)


@pytest.mark.parametrize("there", [[*range(20), *range(5)], list(range(20))])
def test_queue_that_began_anew_is_never_clean_and_has_no_doubles(there: list[int]) -> None:
    """With all rows of both reads, and without those of the second: the offsets do not tell."""
    (found,) = compare({QUEUE: [OffsetSpan(0, 20)]}, {}, blocks(there), {QUEUE: [OffsetSpan(0, 5)]})

    assert not found.is_clean
    assert found.begun_anew == (OffsetSpan(0, 5),)
    assert found.doubled_rows == 0
    assert not found.gaps


@pytest.mark.parametrize("there", [list(range(5, 20)), [*range(5, 20), 20, 21]])
def test_what_a_query_that_began_later_did_not_read_is_missing(there: list[int]) -> None:
    """The rows that are accepted are all there; of the rejected ones, those before 5 are in no table."""
    table, side = {QUEUE: [OffsetSpan(0, 22)]}, {QUEUE: [OffsetSpan(5, 20)]}
    done = done_by_all([table, side], [{QUEUE: 22}, {QUEUE: 20}])
    (found,) = compare(done, table, blocks(there))

    assert found.read == (OffsetSpan(0, 20),)
    assert found.gaps == (OffsetSpan(0, 5),)


def test_query_that_began_at_the_end_and_has_read_nothing_is_not_behind() -> None:
    assert done_by_all([{QUEUE: [OffsetSpan(0, 10)]}, {}], [{QUEUE: 10}, {QUEUE: 10}]) == {QUEUE: [OffsetSpan(0, 10)]}


def test_queue_that_one_query_has_not_come_to_yet_is_not_done() -> None:
    assert done_by_all([{QUEUE: [OffsetSpan(0, 10)]}, {}], [{QUEUE: 10}, {}]) == {QUEUE: []}


def test_what_one_of_two_queries_had_to_skip_is_to_be_there() -> None:
    table, side = {QUEUE: [OffsetSpan(0, 10)]}, {QUEUE: [OffsetSpan(0, 3), OffsetSpan(6, 10)]}

    assert done_by_all([table, side], [{QUEUE: 10}, {QUEUE: 10}]) == {QUEUE: [OffsetSpan(0, 10)]}


def test_what_another_query_has_read_has_not_expired() -> None:
    table, side = {QUEUE: [OffsetSpan(0, 10)]}, {QUEUE: [OffsetSpan(9, 10)]}

    assert expired_for_all([table], [{QUEUE: [OffsetSpan(5, 9)]}]) == {QUEUE: [OffsetSpan(5, 9)]}, (
        "of a topic made anew"
    )
    assert expired_for_all([table, side], [{}, {QUEUE: [OffsetSpan(3, 9)]}]) == {QUEUE: []}
    assert expired_for_all([{}, side], [{QUEUE: [OffsetSpan(0, 10)]}, {QUEUE: [OffsetSpan(0, 9)]}]) == {
        QUEUE: [OffsetSpan(0, 9)]
    }


@given(st.sets(st.integers(0, 200)), st.lists(st.integers(0, 200), max_size=5))
def test_any_table_is_clean_exactly_if_it_is(there: set[int], again: list[int]) -> None:
    doubled = [offset for offset in again if offset in there]
    found = findings([OffsetSpan(20, 120)], [*there, *doubled])

    assert found.is_clean == (there == set(range(20, 120)) and not doubled)
    assert found.doubled_rows == len(doubled)


@given(st.binary(max_size=64))
def test_bitmaps_become_spans(bitmap: bytes) -> None:
    wanted = {at for at in range(len(bitmap) * 8) if bitmap[at // 8] >> at % 8 & 1}
    spans = bitmap_spans(bitmap)

    assert {offset for span in spans for offset in range(span.start, span.end)} == wanted
    assert all(left.end < right.start for left, right in pairwise(spans))
