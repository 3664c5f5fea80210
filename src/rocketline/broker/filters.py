"""Which messages of a queue a subscription wants, told by the hashes of their tags.

A queue's entry holds the 32-bit hash of the message's tag, and that is all a broker looks at: another tag with the same
hash passes too, and the client compares the text.
"""

from __future__ import annotations

from typing import TypeAlias

from rocketline.model.java_hash import tags_code
from rocketline.model.subscription import SubscriptionData

ALL_TAGS = "*"
TAG_TYPE = "TAG"
EXPRESSION_MAX = 128 * 1024
"""Characters of an expression: thousands of tags. Reading so many takes a fiftieth of a second."""

Wanted: TypeAlias = "frozenset[int] | None"
"""The hashes of the tags that are wanted; None: every message, tagged or not."""


def is_tag_type(expression_type: str | None) -> bool:
    """The expression is one of tags: nobody said otherwise."""
    return not expression_type or expression_type == TAG_TYPE


def wanted_tags(expression: str | None) -> Wanted:
    """The tags in an expression like `A || B`; `*` or nothing is all. Raises `ValueError` for one of bars
    alone, and for one that is too long.

    >>> wanted_tags("*") is None, sorted(wanted_tags("TagA || TagB")), wanted_tags(" || ")
    (True, [2598919, 2598920], frozenset())
    """
    if not expression or expression == ALL_TAGS:
        return None
    if len(expression) > EXPRESSION_MAX:
        raise ValueError(f"it has {len(expression)} characters, at most {EXPRESSION_MAX} are read")
    parts = expression.split("||")
    if not any(parts):
        raise ValueError(f"the expression {expression[:80]!r} names no tag")
    return frozenset(tags_code(tag) for part in parts if (tag := part.strip()))


def wanted_by(subscription: SubscriptionData) -> Wanted:
    """What a consumer's heartbeat said: the hashes are those that the client worked out."""
    if subscription.sub_string == ALL_TAGS or subscription.class_filter_mode:
        return None
    return frozenset(subscription.code_set)
