"""Sharing out queues: nothing is left over, nothing is given twice, and everybody counts alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.broker.metadata.assignment import share
from rocketline.model.queue import MessageQueue

EIGHT = [MessageQueue("T", "B", queue_id) for queue_id in range(8)]


def ids(queues: list[MessageQueue] | None) -> list[int] | None:
    return None if queues is None else [queue.queue_id for queue in queues]


def test_two_clients_get_four_neighbouring_queues_each() -> None:
    """S184."""
    assert ids(share("AVG", "a", ["b", "a"], EIGHT[::-1])) == [0, 1, 2, 3]
    assert ids(share("AVG", "b", ["b", "a"], EIGHT)) == [4, 5, 6, 7]


def test_first_clients_get_one_more_when_the_numbers_do_not_fit() -> None:
    shares = [ids(share("AVG", client, ["a", "b", "c"], EIGHT)) for client in "abc"]
    assert shares == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_circle_deals_queues_out_one_by_one() -> None:
    shares = [ids(share("AVG_BY_CIRCLE", client, ["a", "b", "c"], EIGHT)) for client in "abc"]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
def test_last_clients_get_nothing_when_there_are_more_of_them_than_queues(strategy: str) -> None:
    assert [ids(share(strategy, client, ["a", "b", "c"], EIGHT[:2])) for client in "abc"] == [[0], [1], []]


def test_queues_of_several_brokers_are_in_the_order_of_topic_broker_and_number() -> None:
    both = [MessageQueue("T", broker, queue_id) for queue_id in range(2) for broker in ("B", "A")]
    assert share("AVG", "a", ["a", "b"], both) == [MessageQueue("T", "A", 0), MessageQueue("T", "A", 1)]


@pytest.mark.parametrize(
    ("strategy", "client", "queues"),
    [("NO_SUCH", "a", EIGHT), (None, "a", EIGHT), ("AVG", "", EIGHT), ("AVG", None, EIGHT), ("AVG", "a", [])],
)
def test_without_strategy_client_or_queues_there_is_no_answer(
    strategy: str | None, client: str | None, queues: list[MessageQueue]
) -> None:
    """S185."""
    assert share(strategy, client, ["a"], queues) is None


def test_client_that_is_not_of_the_group_gets_nothing() -> None:
    assert share("AVG", "stranger", ["a"], EIGHT) == []


@given(st.sampled_from(["AVG", "AVG_BY_CIRCLE"]), st.integers(1, 40), st.integers(1, 40))
def test_shares_cover_all_queues_once_and_differ_by_one_at_most(strategy: str, clients: int, queues: int) -> None:
    names = [f"c{number}" for number in range(clients)]
    every = [MessageQueue("T", "B", queue_id) for queue_id in range(queues)]
    shares = [share(strategy, name, names, every) or [] for name in names]
    assert sorted(queue for one in shares for queue in one) == every
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
