"""Sharing the queues of a topic out among the clients of a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from rocketline.model.queue import MessageQueue
from rocketline.model.queue_shares import circular_share, contiguous_share

Strategy = Callable[[int, int, Sequence[MessageQueue]], Sequence[MessageQueue]]
"""From a client's place among its group's clients, and their number, to its share."""

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


_STRATEGIES: Mapping[str, Strategy] = {"AVG": contiguous_share, "AVG_BY_CIRCLE": circular_share}
