from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from rocketline.spark.planning.planner import QueueRange, QueueRanges, plan, share


def queue_range(queue_id: int, start: int, end: int, mark_ms: int | None = None) -> QueueRange:
    return QueueRange("orders", "broker-a", queue_id, start, end, mark_ms)


def sizes(tasks: list[QueueRanges]) -> list[list[int]]:
    return [[each.size for each in task.ranges] for task in tasks]


# --- tasks


def test_each_queue_has_a_task_of_its_own() -> None:
    assert sizes(plan([queue_range(0, 0, 10), queue_range(1, 5, 10)])) == [[10], [5]]


def test_empty_ranges_have_no_task() -> None:
    assert plan([queue_range(0, 7, 7)]) == []


def test_long_ranges_are_cut_into_even_parts() -> None:
    tasks = plan([queue_range(0, 0, 10)], records_max=4)
    assert [(each.start, each.end) for task in tasks for each in task.ranges] == [(0, 3), (3, 6), (6, 10)]


def test_only_the_first_part_is_compared_with_what_was_read_before() -> None:
    tasks = plan([queue_range(0, 0, 10, mark_ms=99)], records_max=4)
    assert [task.ranges[0].mark_ms for task in tasks] == [99, None, None]


def test_the_largest_ranges_are_cut_until_there_are_enough_tasks() -> None:
    assert sizes(plan([queue_range(0, 0, 100), queue_range(1, 0, 10)], min_partitions=4)) == [[33], [33], [34], [10]]


def test_there_are_no_more_tasks_than_messages() -> None:
    assert sizes(plan([queue_range(0, 0, 2)], min_partitions=8)) == [[1], [1]]


def test_small_ranges_share_a_task_up_to_the_number_that_makes_them_small() -> None:
    ranges = [queue_range(index, 0, 4) for index in range(5)]
    assert sizes(plan(ranges, records_min=10)) == [[4, 4], [4, 4], [4]]


def test_ranges_that_are_large_enough_share_with_nobody() -> None:
    ranges = [queue_range(0, 0, 4), queue_range(1, 0, 10), queue_range(2, 0, 4)]
    assert sizes(plan(ranges, records_min=10)) == [[4, 4], [10]]


def test_sharing_keeps_to_the_most_of_a_task() -> None:
    ranges = [queue_range(index, 0, 4) for index in range(4)]
    assert sizes(plan(ranges, records_min=5000, records_max=8)) == [[4, 4], [4, 4]]


def test_sharing_leaves_as_many_tasks_as_are_wanted() -> None:
    ranges = [queue_range(index, 0, 4) for index in range(5)]
    assert len(plan(ranges, records_min=1000, min_partitions=4)) == 4


_RANGES = st.lists(
    st.builds(
        lambda queue_id, start, size: queue_range(queue_id, start, start + size, 7),
        st.integers(0, 5), st.integers(0, 1000), st.integers(0, 300),
    ),
    max_size=12,
    unique_by=lambda each: each.queue_id,
)  # fmt: skip


@given(_RANGES, st.none() | st.integers(1, 20), st.none() | st.integers(1, 100), st.integers(0, 200))
def test_every_offset_is_in_exactly_one_task_whatever_the_options(
    ranges: list[QueueRange], min_partitions: int | None, records_max: int | None, records_min: int
) -> None:
    tasks = plan(ranges, min_partitions=min_partitions, records_max=records_max, records_min=records_min)
    planned = [(part.queue_id, at) for task in tasks for part in task.ranges for at in range(part.start, part.end)]
    assert sorted(planned) == sorted((each.queue_id, at) for each in ranges for at in range(each.start, each.end))
    assert all(part.size > 0 for task in tasks for part in task.ranges)
    if records_max is not None:
        assert all(task.size <= records_max for task in tasks)
    if min_partitions is not None:
        assert len(tasks) >= min(min_partitions, len(planned))
    assert all(len(task.ranges) == 1 or task.size <= records_min for task in tasks)
    marks = [part.mark_ms for task in tasks for part in task.ranges if part.mark_ms is not None]
    assert len(marks) == sum(each.size > 0 for each in ranges)


def test_tasks_survive_pickling() -> None:
    task = QueueRanges((queue_range(0, 1, 2, 3),))
    assert pickle.loads(pickle.dumps(task)) == task


# --- limits


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 1000)), st.integers(1, 2000), st.integers(0, 10**6))
def test_a_limit_is_used_up_and_never_exceeded_and_nobody_gets_more_than_there_is(
    backlogs: dict[int, int], limit: int, turn: int
) -> None:
    shares = share(backlogs, limit, turn)
    assert shares.keys() == backlogs.keys()
    assert sum(shares.values()) == min(limit, sum(backlogs.values()))
    assert all(0 <= shares[key] <= backlogs[key] for key in backlogs)
    waiting = sum(backlog > 0 for backlog in backlogs.values())
    if limit >= waiting:
        assert all(shares[key] > 0 for key, backlog in backlogs.items() if backlog)


def test_with_less_than_one_for_each_queue_all_have_their_turn() -> None:
    backlogs, positions = dict.fromkeys("abcde", 100), dict.fromkeys("abcde", 0)
    for _ in range(5):
        taken = share(backlogs, 2, turn=sum(positions.values()))
        for key, count in taken.items():
            positions[key] += count
            backlogs[key] -= count
    assert set(positions.values()) == {2}
