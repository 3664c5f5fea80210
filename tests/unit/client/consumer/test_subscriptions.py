from __future__ import annotations

import pytest

from rocketline.client.consumer.subscriptions import Subscriptions, by_sql, by_tags, parse_subscription
from rocketline.errors import ClientError, InvalidFilterError
from rocketline.model.subscription import SubscriptionData
from rocketline.testing.fake_clock import FakeClock


@pytest.mark.parametrize("expression", [None, "", "*", by_tags(""), by_tags("*")])
def test_no_expression_means_all_messages(expression: str | None) -> None:
    """C164."""
    assert parse_subscription("T", expression, sub_version=7) == SubscriptionData("T", "*", [], [], 7)


def test_tags_are_split_trimmed_and_hashed() -> None:
    """C163: the hashes are what a broker filters by."""
    found = parse_subscription("T", " TagA ||TagB|| ||TagA", sub_version=1)
    assert found.sub_string == " TagA ||TagB|| ||TagA"
    assert (found.tags_set, found.code_set) == (["TagA", "TagB"], [2598919, 2598920])


def test_two_tags_with_one_hash_are_both_named() -> None:
    found = parse_subscription("T", "Aa || BB", sub_version=1)
    assert (found.tags_set, found.code_set) == (["Aa", "BB"], [2112])


def test_blanks_are_those_that_java_trims() -> None:
    assert parse_subscription("T", "\x01A\t||\u00a0B", sub_version=1).tags_set == ["A", "\u00a0B"]


@pytest.mark.parametrize("expression", ["||", " || ", "|| ||"])
def test_expression_without_any_tag_is_refused(expression: str) -> None:
    with pytest.raises(ClientError, match=r"names no tag: write 'A \|\| B'"):
        parse_subscription("T", expression, sub_version=1)


def test_sql_is_read_here_and_worked_out_by_the_broker() -> None:
    found = parse_subscription("T", by_sql("a > 5 AND b = 'x'"), sub_version=1)
    assert found == SubscriptionData("T", "a > 5 AND b = 'x'", [], [], 1, "SQL92")
    with pytest.raises(ClientError, match="SQL92 expression must not be empty"):
        parse_subscription("T", by_sql(""), sub_version=1)


def test_sql_that_no_broker_reads_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidFilterError, match=r"by SQL: 'a > 5 \|\| b': line 1, column 7, near '\|\| b'") as raised:
        parse_subscription("T", by_sql("a > 5 || b"), sub_version=1)
    assert (raised.value.code, raised.value.topic) == (23, "T")


def test_sql_that_is_only_too_long_for_us_is_left_to_the_broker() -> None:
    long = " OR ".join(["a = 1"] * 1000)
    assert parse_subscription("T", by_sql(long), sub_version=1).sub_string == long


def test_end_of_an_expression_that_does_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """S238: brokers say nothing of it."""
    parse_subscription("T", by_sql("a LIKE 'x%'"), sub_version=1)
    assert "end of an expression has no effect" in caplog.text


def test_version_is_the_time_and_grows_with_each_change() -> None:
    clock = FakeClock()
    subscriptions = Subscriptions(clock)
    first = subscriptions.put("T", "A").sub_version
    assert first == clock.wall_ms()
    assert subscriptions.put("T", "B").sub_version == first + 1, "also within one millisecond"
    clock.advance(1.0)
    subscriptions.raise_version("T")
    assert subscriptions["T"].sub_version == first + 1000
    assert subscriptions["T"].tags_set == ["B"]


def test_wrong_expression_leaves_the_old_subscription() -> None:
    subscriptions = Subscriptions(FakeClock())
    subscriptions.put("T", "A")
    with pytest.raises(ClientError):
        subscriptions.put("T", "||")
    assert subscriptions["T"].tags_set == ["A"]


def test_topic_that_is_removed_is_gone_and_stays_gone() -> None:
    subscriptions = Subscriptions(FakeClock())
    subscriptions.put("T")
    subscriptions.remove("T")
    subscriptions.remove("T")
    subscriptions.raise_version("T")
    assert list(subscriptions) == []
    assert len(subscriptions) == 0
