"""Sharing the queues of a topic out among the clients of a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from rocketline.model.queue import MessageQueue
from rocketline.model.queue_shares import circular_share, contiguous_share

Strategy = Callable[[int, int, Sequence[MessageQueue]], Sequence[MessageQueue]]
"""From a client's place among its group's clients, and their number, to its share."""

ANY_QUEUE: Final = -1
"""In place of a queue's id: whichever of the broker's has something."""

_PLACE = attrgetter("topic", "broker_name", "queue_id")
"""The order of queues; to compare these is quicker than to compare queues."""


def share(
    strategy: str | None, client_id: str | None, clients: Sequence[str], queues: Sequence[MessageQueue]
) -> list[MessageQueue] | None:
    """The client's queues: none if it is not of the group, None if there is nothing to go by.

    That is: a strategy that is not known, no client id, no queues. Every client gets the same picture, because queues
    and clients are put in order first.
    """
    chosen = _STRATEGIES.get(strategy or "")
    if chosen is None or not client_id or not queues:
        return None
    if client_id not in clients:
        return []
    in_order = sorted(clients)
    return list(chosen(in_order.index(client_id), len(in_order), sorted(queues, key=_PLACE)))


def pop_share(
    strategy: str | None,
    client_id: str | None,
    clients: Sequence[str],
    queues: Sequence[MessageQueue],
    share_queues: int,
) -> list[MessageQueue] | None:
    """What the client pops from: with no bound on who shares a queue, each broker as a whole (queue -1); else its own
    queues and those of the next `share_queues` clients. Java: QueryAssignmentProcessor.allocate4Pop.

    >>> queues = [MessageQueue("T", "b", queue_id) for queue_id in range(4)]
    >>> [queue.queue_id for queue in pop_share("AVG", "c0", ["c0", "c1", "c2", "c3"], queues, 1)]
    [0, 1]
    >>> pop_share("AVG", "c0", ["c0", "c1"], queues, -1)
    [MessageQueue(topic='T', broker_name='b', queue_id=-1)]
    """
    share_of = _STRATEGIES.get(strategy or "")
    if share_of is None or not client_id or not queues:
        return None
    in_order, queues = sorted(clients), sorted(queues, key=_PLACE)
    if share_queues <= 0 or share_queues >= len(clients) - 1:
        brokers = dict.fromkeys((queue.topic, queue.broker_name) for queue in queues)
        return [MessageQueue(topic, broker, ANY_QUEUE) for topic, broker in brokers]
    if client_id not in clients:
        return []
    at, count = in_order.index(client_id), len(in_order)
    if count > len(queues):
        return [queues[at % len(queues)]]
    return [queue for next_one in range(share_queues + 1) for queue in share_of((at + next_one) % count, count, queues)]


_STRATEGIES: Mapping[str, Strategy] = {"AVG": contiguous_share, "AVG_BY_CIRCLE": circular_share}
