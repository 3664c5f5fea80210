"""Whatever a broker gives at once, each offset is pulled once, and pieces come out in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketline.spark.pulling.schedule import IN_FLIGHT_MAX, Piece, PullSchedule

Answer = Callable[[Piece[str]], tuple[int, int]]
"""A piece's next offset, and the size of its answer."""


def gives(most: int, size: int = 100) -> Answer:
    """A broker that gives so many messages at once."""
    return lambda piece: (piece.low + min(most, piece.count), size * min(most, piece.count))


def pulled(schedule: PullSchedule[str], answer: Answer) -> tuple[list[tuple[int, int, int]], list[int]]:
    """The pieces that came out, and how many pulls were under way when each was answered."""
    out, depths = [], []
    under_way: list[Piece[str]] = []
    while not schedule.is_done:
        under_way += schedule.to_ask()
        assert under_way, "nothing is under way, and nothing is done"
        depths.append(len(under_way))
        piece = under_way.pop(0)
        schedule.answered(piece, *answer(piece))
        out += [(piece.range_index, piece.low, piece.high) for piece in schedule.ready()]
    assert not under_way
    return out, depths


def check_cover(pieces: Sequence[tuple[int, int, int]], ranges: Sequence[tuple[int, int]]) -> None:
    for index, (start, end) in enumerate(ranges):
        at = start
        for low, high in [(low, high) for number, low, high in pieces if number == index]:
            assert low == at
            assert high > low
            at = high
        assert at == max(start, end)
    assert [index for index, _, _ in pieces] == sorted(index for index, _, _ in pieces)


def test_a_broker_that_gives_little_is_asked_for_many_pieces_at_once() -> None:
    ranges = [(100, 10_100)]
    pieces, depths = pulled(PullSchedule(ranges, 1000), gives(32))
    check_cover(pieces, ranges)
    assert len(pieces) == 314  # 10,000 messages in pulls of 32, and the first guess was 1,000
    assert max(depths) == IN_FLIGHT_MAX


def test_a_broker_that_gives_all_that_is_asked_for_gets_large_pulls() -> None:
    pieces, _ = pulled(PullSchedule([(0, 10_000)], 1000), gives(1000))
    assert len(pieces) == 10


def test_before_the_first_answer_a_range_is_asked_for_once_and_others_with_it() -> None:
    schedule: PullSchedule[str] = PullSchedule([(0, 50), (0, 5000), (7, 9)], 1000)
    assert [(piece.range_index, piece.low, piece.high) for piece in schedule.to_ask()] == [(0, 0, 50), (1, 0, 1000)]


def test_with_a_known_grain_the_first_pulls_are_many() -> None:
    schedule: PullSchedule[str] = PullSchedule([(0, 5000)], 1000, grain=32)
    assert [piece.high - piece.low for piece in schedule.to_ask()] == [32] * 4


def test_many_small_ranges_are_asked_for_together_and_come_out_in_order() -> None:
    ranges = [(index, index + 5) for index in range(100)]
    pieces, depths = pulled(PullSchedule(ranges, 1000), gives(32))
    check_cover(pieces, ranges)
    assert len(pieces) == 100
    assert max(depths) > 10


def test_empty_ranges_are_passed_over() -> None:
    ranges = [(5, 5), (0, 3), (9, 9), (9, 9), (2, 4), (8, 7)]
    pieces, _ = pulled(PullSchedule(ranges, 10), gives(10))
    assert pieces == [(1, 0, 3), (4, 2, 4)]
    assert PullSchedule([(1, 1)], 10).is_done
    assert PullSchedule([], 10).is_done


def test_one_short_answer_does_not_make_the_pieces_smaller() -> None:
    asked: list[int] = []

    def answer(piece: Piece[str]) -> tuple[int, int]:
        asked.append(piece.count)
        most = 3 if piece.low == 320 else 32  # a file of the queue ends here
        return piece.low + min(most, piece.count), 3200

    ranges = [(0, 3200)]
    pieces, _ = pulled(PullSchedule(ranges, 1000, grain=32), answer)
    check_cover(pieces, ranges)
    assert len(pieces) == 101
    assert (0, 323, 352) in pieces


def test_a_broker_that_begins_to_give_more_is_noticed() -> None:
    ranges = [(0, 100_000)]
    pieces, _ = pulled(
        PullSchedule(ranges, 1000), lambda piece: (piece.low + min(8 if piece.low < 4000 else 32, piece.count), 800)
    )
    check_cover(pieces, ranges)
    assert len([low for _, low, _ in pieces if low > 10_000]) < 90_000 / 32 * 1.05


def test_large_answers_are_not_asked_for_all_at_once() -> None:
    pieces, depths = pulled(PullSchedule([(0, 100_000)], 1000), gives(1000, size=4000))
    assert len(pieces) == 100
    assert max(depths[5:]) <= 2


def test_a_filter_that_lets_little_through_moves_far_with_each_pull() -> None:
    ranges = [(0, 100_000)]
    pieces, depths = pulled(PullSchedule(ranges, 32, is_filtered=True), lambda piece: (piece.low + 800, 2000))
    check_cover(pieces, ranges)
    assert len(pieces) == 125
    assert max(depths) > 10


def test_answers_in_another_order_come_out_in_order() -> None:
    schedule: PullSchedule[str] = PullSchedule([(0, 128)], 32, grain=32)
    first, second, third, fourth = schedule.to_ask()
    schedule.answered(fourth, 128, 10)
    schedule.answered(second, 64, 10)
    assert list(schedule.ready()) == []
    schedule.answered(first, 32, 10)
    assert list(schedule.ready()) == [first, second]
    schedule.answered(third, 96, 10)
    assert list(schedule.ready()) == [third, fourth]
    assert schedule.is_done


def test_what_was_put_back_is_asked_for_again_before_anything_else() -> None:
    schedule: PullSchedule[str] = PullSchedule([(0, 10_000)], 32, grain=32)
    first, second, third, fourth = schedule.to_ask()
    schedule.put_back(second)
    assert list(schedule.to_ask()) == [second]
    schedule.put_back_all()
    assert list(schedule.to_ask()) == [first, second]  # the broker had more to do than it could
    schedule.answered(first, 32, 100)
    assert list(schedule.to_ask())[:2] == [third, fourth]
