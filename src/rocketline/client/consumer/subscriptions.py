"""What a consumer wants to read: topics, and an expression for each that chooses among its messages.

subscriptions = Subscriptions(clock)
subscriptions.put("orders", "new || paid")      # tags
subscriptions.put("orders", by_sql("a > 5"))    # SQL92, which the broker works out
subscriptions["orders"].code_set
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from rocketline.clock import Clock
from rocketline.errors import ClientError, ExpressionError, InvalidFilterError
from rocketline.filter import compile_sql
from rocketline.logs import Log
from rocketline.model.java_hash import java_string_hash
from rocketline.model.subscription import SubscriptionData

_log = Log(__name__)

ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
"""What Java's String.trim takes away, neither more nor less."""


@dataclass(frozen=True, slots=True)
class MessageSelector:
    """An expression and the language it is written in. Java: MessageSelector."""

    expression: str
    expression_type: str = TAG


def by_tags(expression: str) -> MessageSelector:
    """Messages with one of these tags, as in `"new || paid"`; `"*"` takes all. Java: MessageSelector.byTag."""
    return MessageSelector(expression, TAG)


def by_sql(expression: str) -> MessageSelector:
    """Messages whose properties fulfil an SQL92 expression. Java: MessageSelector.bySql."""
    return MessageSelector(expression, SQL92)


def parse_subscription(topic: str, selector: MessageSelector | str | None, *, sub_version: int) -> SubscriptionData:
    """What a heartbeat says about a topic. Raises `ClientError` for an expression that can choose nothing, and
    `InvalidFilterError`, which is one, for one in SQL that brokers could not read.

    >>> parse_subscription("T", "TagA || TagB", sub_version=1).code_set
    [2598919, 2598920]
    >>> parse_subscription("T", None, sub_version=1).sub_string
    '*'
    """
    if not isinstance(selector, MessageSelector):
        selector = by_tags(selector or ALL)
    if selector.expression_type != TAG:
        if not selector.expression:
            raise ClientError(f"subscription to {topic!r}: a {selector.expression_type} expression must not be empty")
        if selector.expression_type == SQL92:
            _check_sql(topic, selector.expression)
        return SubscriptionData(
            topic, selector.expression, sub_version=sub_version, expression_type=selector.expression_type
        )
    expression = selector.expression or ALL
    if expression == ALL:
        return SubscriptionData(topic, ALL, sub_version=sub_version)
    tags = list(dict.fromkeys(tag for part in expression.split("||") if (tag := part.strip(_JAVA_BLANKS))))
    if not tags:
        raise ClientError(
            f"subscription to {topic!r}: {expression!r} names no tag: write 'A || B' for tags, '*' for all messages"
        )
    codes = list(dict.fromkeys(map(java_string_hash, tags)))
    return SubscriptionData(topic, expression, tags, codes, sub_version)


def _check_sql(topic: str, expression: str) -> None:
    """Here rather than at the broker: Apache's sends all messages to a pull whose expression it cannot read."""
    try:
        ignored = compile_sql(expression).ignored
    except ExpressionError as error:
        if not error.is_too_much:  # else it is for the broker to say
            raise InvalidFilterError(topic, expression, str(error)) from None
        return
    if ignored:
        _log.warning("end of an expression has no effect", topic=topic, expression=expression[:200], end=ignored[:80])


class Subscriptions(Mapping[str, SubscriptionData]):
    """The subscriptions of one consumer by topic. Java: RebalanceImpl.subscriptionInner.

    Every change makes the topic's `sub_version` greater than it was, which is how a broker knows the newer one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_topic: dict[str, SubscriptionData] = {}

    def put(self, topic: str, selector: MessageSelector | str | None = None) -> SubscriptionData:
        """Subscribe, or subscribe anew. Raises `ClientError`."""
        subscription = parse_subscription(topic, selector, sub_version=self._next_version(topic))
        self._by_topic[topic] = subscription
        return subscription

    def remove(self, topic: str) -> None:
        """Queues of the topic are dropped by the next rebalance."""
        self._by_topic.pop(topic, None)

    def raise_version(self, topic: str) -> None:
        """The queues that are read have changed: brokers must find the next heartbeat's subscription newer."""
        if topic in self._by_topic:
            self._by_topic[topic] = replace(self._by_topic[topic], sub_version=self._next_version(topic))

    def _next_version(self, topic: str) -> int:
        known = self._by_topic.get(topic)
        now_ms = self._clock.wall_ms()
        return now_ms if known is None else max(now_ms, known.sub_version + 1)

    def __getitem__(self, topic: str) -> SubscriptionData:
        return self._by_topic[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_topic)

    def __len__(self) -> int:
        return len(self._by_topic)
