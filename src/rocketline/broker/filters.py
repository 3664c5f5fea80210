"""Which messages of a queue a subscription wants, told by the hashes of their tags or by an expression in SQL.

A queue's entry holds the 32-bit hash of the message's tag, and that is all a broker looks at: another tag with the same
hash passes too, and the client compares the text. An expression is compiled once, and shared by all who say it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias

from rocketline.errors import ExpressionError
from rocketline.filter import EXPRESSION_MAX as SQL_MAX
from rocketline.filter import SqlFilter, compile_sql, memory_of
from rocketline.model.java_hash import tags_code
from rocketline.model.subscription import SubscriptionData

ALL_TAGS = "*"
TAG_TYPE = "TAG"
EXPRESSION_MAX = 128 * 1024
"""Characters of an expression of tags: thousands of tags. Reading so many takes a fiftieth of a second."""

SQL_TYPE: Final = "SQL92"
_COMPILED_MAX: Final = 1024
_COMPILED_BYTES_MAX: Final = 64 * 1024 * 1024

Wanted: TypeAlias = "frozenset[int] | SqlFilter | None"
"""The hashes of the tags that are wanted, or the expression; None: every message, tagged or not."""


def is_tag_type(expression_type: str | None) -> bool:
    """The expression is one of tags: nobody said otherwise."""
    return not expression_type or expression_type == TAG_TYPE


def not_by_tags(subscriptions: Iterable[SubscriptionData]) -> list[SubscriptionData]:
    """Those with another expression: mostly none, of thousands."""
    return [said for said in subscriptions if said.expression_type != TAG_TYPE and said.expression_type]


class SqlFilters:
    """Expressions that were compiled, and those that cannot be; those that are used least give way to others."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, SqlFilter | ExpressionError] = OrderedDict()
        self._bytes = 0

    def has(self, expression: str) -> bool:
        """It was compiled, or found wrong, and costs no time any more."""
        known = self._known.get(expression)
        return isinstance(known, ExpressionError) or (known is not None and known.is_ready)

    def find(self, expression: str) -> SqlFilter:
        """The expression, compiled. Raises `ExpressionError`."""
        if len(expression) > SQL_MAX:  # refused at a glance: kept, one of them would drive out all others
            return compile_sql(expression)
        known = self._known.get(expression)
        if known is None:
            known = self._add(expression)
        else:
            self._known.move_to_end(expression)
        if isinstance(known, ExpressionError):
            raise known.with_traceback(None)
        return known

    def _add(self, expression: str) -> SqlFilter | ExpressionError:
        made: SqlFilter | ExpressionError
        try:
            made = compile_sql(expression)
        except ExpressionError as error:
            made = error.with_traceback(None)
        self._known[expression] = made
        self._bytes += memory_of(expression)
        while len(self._known) > _COMPILED_MAX or self._bytes > _COMPILED_BYTES_MAX:
            forgotten, _ = self._known.popitem(last=False)
            self._bytes -= memory_of(forgotten)
        return made


def wanted_tags(expression: str | None) -> frozenset[int] | None:
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


def wanted_by(subscription: SubscriptionData) -> frozenset[int] | None:
    """What a consumer's heartbeat said: the hashes are those that the client worked out."""
    if subscription.sub_string == ALL_TAGS or subscription.class_filter_mode:
        return None
    return frozenset(subscription.code_set)
