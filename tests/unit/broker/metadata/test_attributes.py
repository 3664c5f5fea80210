"""Attributes of topics: the signed form of requests, and which changes are allowed."""

from __future__ import annotations

import pytest

from rocketline.broker.metadata.attributes import TOPIC_ATTRIBUTES, altered, parse_changes
from rocketline.errors import RemoteProtocolError
from support.effort import calls_of


def test_changes_are_read_with_their_signs() -> None:
    text = "+message.type=FIFO,+queue.type=BatchCQ,-cleanup.policy"
    assert parse_changes(text) == {"+message.type": "FIFO", "+queue.type": "BatchCQ", "-cleanup.policy": ""}
    assert parse_changes(None) == parse_changes("") == {}


@pytest.mark.parametrize(
    "text", ["message.type=FIFO", "-message.type=FIFO", "+message.type", "message.type", "+a=", "+a=1,,", "+a=1,+a=2"]
)
def test_changes_that_are_not_well_formed_are_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="attribute"):
        parse_changes(text)


def test_creation_takes_every_known_attribute() -> None:
    made = {"queue.type": "BatchCQ", "cleanup.policy": "COMPACTION", "message.type": "DELAY", "reserve.time": "-1"}
    assert altered(TOPIC_ATTRIBUTES, None, {f"+{key}": value for key, value in made.items()}) == made


def test_changeable_attribute_is_added_changed_and_removed_later() -> None:
    added = altered(TOPIC_ATTRIBUTES, {}, {"+message.type": "FIFO"})
    changed = altered(TOPIC_ATTRIBUTES, added, {"+message.type": "DELAY"})
    removed = altered(TOPIC_ATTRIBUTES, changed, {"-message.type": ""})
    assert [added, changed, removed] == [{"message.type": "FIFO"}, {"message.type": "DELAY"}, {}]


@pytest.mark.parametrize(
    ("current", "changes", "problem"),
    [
        (None, {"+nonsense": "1"}, "not known"),
        (None, {"+message.type": "fifo"}, "must be one of"),
        (None, {"+queue.type": "RocksCQ"}, "must be one of SimpleCQ, BatchCQ"),
        (None, {"+reserve.time": "-2"}, "whole number"),
        (None, {"-message.type": ""}, "being created"),
        (None, {"message.type": "FIFO"}, r"must be \+key=value"),
        ({}, {"-message.type": ""}, "not set"),
        ({}, {"+queue.type": "SimpleCQ"}, "fixed"),
        ({"queue.type": "SimpleCQ"}, {"+queue.type": "SimpleCQ"}, "fixed"),
        ({"cleanup.policy": "DELETE"}, {"-cleanup.policy": ""}, "fixed"),
        ({"message.type": "FIFO"}, {"+message.type": "DELAY", "-message.type": ""}, "named twice"),
    ],
)
def test_change_that_is_not_allowed_is_refused_and_says_why(
    current: dict[str, str] | None, changes: dict[str, str], problem: str
) -> None:
    """S68."""
    with pytest.raises(RemoteProtocolError, match=problem):
        altered(TOPIC_ATTRIBUTES, current, changes)


def test_text_of_a_hundred_thousand_changes_is_not_taken_apart() -> None:
    text = ",".join(f"+a{number}=x" for number in range(100_000))
    assert calls_of(lambda: parse_changes(text)) < 1_000
    with pytest.raises(RemoteProtocolError, match="not known"):
        altered(TOPIC_ATTRIBUTES, None, parse_changes(text))
