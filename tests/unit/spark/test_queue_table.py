from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rocketline.model.queue import MessageQueue
from rocketline.spark.queue_table import numbers_of, parse_numbers, table_of

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
