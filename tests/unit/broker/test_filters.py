"""Subscriptions by tag."""

from __future__ import annotations

import pytest

from rocketline.broker.filters import SqlFilters, is_tag_type, wanted_by, wanted_tags
from rocketline.errors import ExpressionError
from rocketline.filter import EXPRESSION_MAX
from rocketline.model.java_hash import tags_code
from rocketline.model.subscription import SubscriptionData


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_and_a_star_want_everything(expression: str | None) -> None:
    assert wanted_tags(expression) is None


@pytest.mark.parametrize("expression", ["A||B", " A || B ", "A||B||", "||A||B", "A|| ||B"])
def test_bars_part_tags_and_blanks_do_not_count(expression: str) -> None:
    assert wanted_tags(expression) == frozenset({tags_code("A"), tags_code("B")})


def test_blanks_alone_want_nothing() -> None:
    assert wanted_tags(" || ") == frozenset()


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_bars_alone_cannot_be_read(expression: str) -> None:
    with pytest.raises(ValueError, match="names no tag"):
        wanted_tags(expression)


def test_heartbeat_counts_by_the_hashes_it_brings() -> None:
    subscription = SubscriptionData("T", "A || B", ["A", "B"], [65, 66])
    assert wanted_by(subscription) == frozenset({65, 66})


@pytest.mark.parametrize("subscription", [SubscriptionData("T"), SubscriptionData("T", "x.Y", class_filter_mode=True)])
def test_heartbeat_with_a_star_or_a_class_filter_wants_everything(subscription: SubscriptionData) -> None:
    assert wanted_by(subscription) is None


def test_only_a_named_other_type_is_not_of_tags() -> None:
    assert [is_tag_type(name) for name in (None, "", "TAG", "SQL92", "tag")] == [True, True, True, False, False]


def test_an_expression_of_megabytes_drives_no_other_out() -> None:
    """One question with it had all others compiled anew."""
    filters = SqlFilters()
    known = [filters.find(f"a > {number}") for number in range(100)]
    for length in (EXPRESSION_MAX + 1, 8 * 1024 * 1024):
        with pytest.raises(ExpressionError, match="characters"):
            filters.find("a > 1".ljust(length))
    assert [filters.find(each.expression) for each in known] == known
