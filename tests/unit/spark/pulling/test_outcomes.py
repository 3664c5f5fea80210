"""Every answer to a pull is progress, a loss, a reason to try again, or an error."""

from __future__ import annotations

import pytest

from rocketline.errors import NoPermissionError, ResponseError
from rocketline.spark.planning.data_loss import BEYOND_THE_END, EXPIRED, QUEUE_GONE
from rocketline.spark.pulling.frames import PullAnswer
from rocketline.spark.pulling.outcomes import Advance, Loss, Meaning, TryAgain, classify

FOUND, BUSY, NO_PERMISSION, NO_TOPIC, NOT_FOUND, RETRY, MOVED, BAD_PARAMETER = 0, 2, 16, 17, 19, 20, 21, 29


def means(
    code: int,
    next_offset: int = -1,
    low: int = -1,
    high: int = -1,
    remark: str | None = None,
    *,
    is_slave: bool = False,
) -> Meaning:
    """Of a pull at offset 100, whose piece ends at 132."""
    answer = PullAnswer(1, code, next_offset, low, high, 0, remark)
    return classify(answer, 100, 132, address="127.0.0.1:1", is_slave=is_slave)


def test_messages_are_progress_as_far_as_the_broker_says() -> None:
    assert means(FOUND, 132, 0, 500) == Advance(132)
    assert means(FOUND, 140, 0, 500) == Advance(140)
    assert isinstance(means(FOUND, 100, 0, 500), TryAgain)


def test_nothing_that_matches_is_progress_too() -> None:
    assert means(RETRY, 900, 0, 1000) == Advance(900)


def test_a_broker_that_skips_a_missing_file_of_its_queue_makes_progress() -> None:
    assert means(NOT_FOUND, 120, 0, 1000) == Advance(120)


def test_an_offset_below_the_first_is_a_loss_up_to_the_first() -> None:
    assert means(MOVED, 110, 110, 500) == Loss(110, EXPIRED)
    assert means(MOVED, 400, 400, 500) == Loss(132, EXPIRED)
    assert means(RETRY, 100, 110, 500, is_slave=True) == Loss(110, EXPIRED)


@pytest.mark.parametrize("code", [NOT_FOUND, MOVED])
def test_an_offset_at_or_beyond_the_end_is_a_loss_unless_a_replica_is_just_behind(code: int) -> None:
    assert means(code, 90, 0, 90) == Loss(132, BEYOND_THE_END)
    assert means(code, 100, 0, 100) == Loss(132, BEYOND_THE_END)
    assert isinstance(means(code, 90, 0, 90, is_slave=True), TryAgain)


def test_the_reset_of_a_groups_offset_changes_nothing() -> None:
    assert isinstance(means(MOVED, 300, 0, 500), TryAgain)
    assert isinstance(means(MOVED, 5, 0, 500), TryAgain)


def test_nothing_new_although_there_is_something_is_asked_again() -> None:
    assert isinstance(means(NOT_FOUND, 100, 0, 500), TryAgain)
    assert isinstance(means(RETRY, 100, 0, 500), TryAgain)


@pytest.mark.parametrize("code", [BUSY, 14, 215, 501])
def test_a_busy_broker_is_asked_again(code: int) -> None:
    found = means(code, remark="too much to do")
    assert isinstance(found, TryAgain)
    assert "too much to do" in found.problem


@pytest.mark.parametrize(
    ("code", "remark"),
    [(NO_TOPIC, "topic[T] not exist"), (BAD_PARAMETER, "queueId[9] is illegal"), (1, "queueId[9] is illegal")],
)
def test_a_queue_that_is_gone_is_a_loss(code: int, remark: str) -> None:
    assert means(code, remark=remark) == Loss(132, QUEUE_GONE)


def test_other_refusals_are_errors() -> None:
    with pytest.raises(NoPermissionError, match=r"127\.0\.0\.1:1"):
        means(NO_PERMISSION, remark="no")
    with pytest.raises(ResponseError, match="PULL_MESSAGE"):
        means(1, remark="something else")
