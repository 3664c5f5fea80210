"""Which queue a message goes to: in turn, around brokers that failed or were slow, or as the application says.

Java: TopicPublishInfo.selectOneMessageQueue, MQFaultStrategy, LatencyFaultToleranceImpl, MessageQueueSelector.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketline.errors import SelectorError
from rocketline.model.java_hash import java_string_hash
from rocketline.model.message import Message
from rocketline.model.queue import MessageQueue

QueueSelector: TypeAlias = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses a queue for a message. Whatever else it needs, it brings along. Java: MessageQueueSelector."""

Positions: TypeAlias = dict[str, int]
"""Whose turn it is, by topic: one for each thread that sends, so that none waits for another."""

_ISOLATED_S: Final = 10.0
"""A broker that failed counts as one that took this long."""
LATENCY_LEVELS: Final = (
    (0.05, 0.0),
    (0.1, 0.0),
    (0.55, 2.0),
    (1.8, 5.0),
    (3.0, 6.0),
    (5.0, 10.0),
    (15.0, 30.0),
)
"""A broker that took at least so many seconds is left alone for so many. Java: latencyMax, notAvailableDuration."""

_START_MAX: Final = 2**30


def by_hash(key: str | int) -> QueueSelector:
    """Chooses the same queue for the same key, as long as the topic keeps its queues; the same one as Java does.

    `producer.send(message, selector=by_hash(order_id))`. Java: SelectMessageQueueByHash.

    >>> queues = [MessageQueue("T", "a", number) for number in range(4)]
    >>> by_hash("order-7")(queues, Message("T", b"x")).queue_id, by_hash(-6)(queues, Message("T", b"x")).queue_id
    (0, 2)
    """
    hashed = abs(java_string_hash(key) if isinstance(key, str) else _java_integer_hash(key))
    return lambda queues, message: queues[hashed % len(queues)]


def _java_integer_hash(number: int) -> int:
    """Integer.hashCode of what fits 32 bits, Long.hashCode of the rest."""
    if -(2**31) <= number < 2**31:
        return number
    bits = number & (2**64 - 1)
    folded = (bits ^ bits >> 32) & (2**32 - 1)
    return folded - 2**32 if folded >= 2**31 else folded


def at_random(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """Any queue. Java: SelectMessageQueueByRandom."""
    return random.choice(queues)  # noqa: S311  # nothing secret


def select(selector: QueueSelector, queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """What `selector` chooses. Raises `SelectorError` if it fails or chooses something else than one of the queues."""
    try:
        chosen: object = selector(queues, message)
    except Exception as error:
        raise SelectorError(f"the queue selector failed for topic {message.topic!r}: {error!r}") from error
    if not isinstance(chosen, MessageQueue) or chosen.topic != message.topic:
        raise SelectorError(f"the queue selector chose {chosen!r}, which is no queue of topic {message.topic!r}")
    return chosen


@dataclass(slots=True)
class BrokerFault:
    """What we hold against a broker. Java: FaultItem."""

    avoid_until_s: float = 0.0
    is_reachable: bool = True
    probe_at_s: float = 0.0


class BrokerFaults:
    """Which brokers to leave alone for a while. Any thread may call it: each change is one assignment.

    >>> faults = BrokerFaults()
    >>> faults.note("a", 0.6, 100.0)
    >>> faults.is_available("a", 101.9), faults.is_available("a", 102.0), faults.is_available("b", 0.0)
    (False, True, True)
    """

    def __init__(self, levels: Sequence[tuple[float, float]] = LATENCY_LEVELS) -> None:
        self._levels = sorted(levels, reverse=True)
        self._faults: dict[str, BrokerFault] = {}

    def note(
        self, broker_name: str, latency_s: float, now_s: float, *, is_failed: bool = False, is_reachable: bool = True
    ) -> None:
        """An attempt took `latency_s`; `is_failed`: and brought no answer, or a refusal."""
        latency_s = _ISOLATED_S if is_failed else latency_s
        rest_s = next((rest_s for least_s, rest_s in self._levels if latency_s >= least_s), 0.0)
        fault = self._faults.get(broker_name)
        if fault is None:
            if not rest_s and is_reachable:
                return  # nothing to hold against it
            fault = self._faults.setdefault(broker_name, BrokerFault())
        fault.is_reachable = is_reachable
        if rest_s:
            fault.avoid_until_s = max(fault.avoid_until_s, now_s + rest_s)

    def is_available(self, broker_name: str, now_s: float) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or now_s >= fault.avoid_until_s

    def is_reachable(self, broker_name: str) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or fault.is_reachable

    def due(self, now_s: float, period_s: float) -> list[str]:
        """The brokers to be probed now; each comes up again after `period_s`. Java: detectByOneRound."""
        names = [name for name, fault in list(self._faults.items()) if now_s >= fault.probe_at_s]
        for name in names:
            self._faults[name].probe_at_s = now_s + period_s
        return names

    def answers(self, broker_name: str) -> None:
        """A probe got through: it can be reached again."""
        if broker_name in self._faults:
            self._faults[broker_name].is_reachable = True

    def forget(self, broker_name: str) -> None:
        """The broker is in no route any more."""
        self._faults.pop(broker_name, None)


def choose(
    positions: Positions,
    topic: str,
    queues: Sequence[MessageQueue],
    last_broker: str | None,
    faults: BrokerFaults | None,
    now_s: float,
) -> MessageQueue:
    """The next queue in turn, of another broker than the one that just failed if there is one.

    With `faults`: one that is to be left alone comes only if all are; one that cannot be reached, last of all.
    """
    at, count = positions.get(topic), len(queues)
    if at is None or (faults is not None and last_broker is not None):
        at = random.randrange(_START_MAX)  # noqa: S311  # nothing secret
    if faults is None and last_broker is None:
        positions[topic] = at + 1
        return queues[at % count]
    for is_wanted in _wishes(faults, now_s):
        for _ in range(count):
            queue = queues[at % count]
            at += 1
            if queue.broker_name != last_broker and is_wanted(queue.broker_name):
                positions[topic] = at
                return queue
    positions[topic] = at + 1
    return queues[at % count]


def _wishes(faults: BrokerFaults | None, now_s: float) -> tuple[Callable[[str], bool], ...]:
    if faults is None:
        return (lambda name: True,)
    return (lambda name: faults.is_available(name, now_s)), faults.is_reachable
