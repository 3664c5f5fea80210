from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketline.model.queue import MessageQueue
from rocketline.spark.queue_json import numbers_of, parse_assignment, parse_numbers, table_of

_QUEUES = st.builds(
    MessageQueue, st.sampled_from(["orders", "bills", "%RETRY%g"]), st.sampled_from(["a", "b"]), st.integers(0, 20)
)
_NUMBERS = st.dictionaries(_QUEUES, st.integers(-(2**63) + 1, 2**63 - 1))


@given(_NUMBERS)
def test_what_is_written_is_read_again(numbers: dict[MessageQueue, int]) -> None:
    assert numbers_of(json.loads(json.dumps(table_of(numbers)))) == numbers


@given(_NUMBERS, st.randoms())
def test_the_text_does_not_depend_on_the_order_of_the_queues(numbers: dict[MessageQueue, int], random: object) -> None:
    shuffled = list(numbers.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert json.dumps(table_of(dict(shuffled))) == json.dumps(table_of(numbers))


def test_queues_are_sorted_by_their_numbers() -> None:
    text = '{"t": {"b": {"10": 1, "9": 2}}}'
    assert json.dumps(table_of(parse_numbers(text))) == '{"t": {"b": {"9": 2, "10": 1}}}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"t": {"b": {"0": 1, "1": 2, "0": 3}}}', "'0' is there more than once"),
        ('{"t": {"b": {"0": 1}}, "t": {"b": {"1": 1}}}', "'t' is there more than once"),
        ('{"t": {"b": {"0": 1, "00": 2}}}', "'00' is no number of a queue"),
        ('{"t": ', "it is no JSON"),
    ],
)
def test_a_queue_that_would_silently_lose_to_another_is_told(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_numbers(text)
    with pytest.raises(ValueError, match="more than once"):
        parse_assignment('{"t": {"b": [0], "b": [1]}}')
