"""Orders to run the reference pipeline on: the same for the same seed, with known numbers of what is wrong."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rocketline.model.message import Message

PRODUCTS: Final = {"teapot": 24.5, "samovar": 189.0, "cup": 4.2, "kettle": 31.0, "saucer": 2.8}
_START: Final = dt.datetime(2026, 11, 16, 8, 0, tzinfo=dt.UTC)
_STEP_S: Final = 0.5
"""The time between two orders."""
_LATE_S: Final = 300
"""Late, but not too late: the pipeline waits for ten minutes."""
_MALFORMED: Final = (b" ", b"{", b"not json", b'{"order_id": 7, "quantity": "many"}', b"\xff\xfe")


@dataclass(slots=True)
class Counts:
    """How many of each kind were made."""

    messages: int = 0
    orders: int = 0
    """Different ones that are all right."""
    late: int = 0
    duplicates: int = 0
    malformed: int = 0
    senseless: int = 0
    """Orders that can be read, and sell nothing, or for less than nothing."""


class OrderStream:
    """Orders as messages of a topic: some late, some twice, some that cannot be read, some that make no sense.

    >>> stream = OrderStream("orders", seed=7)
    >>> len(list(stream.messages(1000))), stream.counts.orders + stream.counts.duplicates <= 1000
    (1000, True)
    """

    def __init__(self, topic: str, *, seed: int = 0) -> None:
        self._topic, self._random = topic, random.Random(seed)  # noqa: S311  # a story, no secret
        self.counts = Counts()
        self.revenue: dict[str, float] = {}
        """Of all orders that are all right, by product."""
        self._recent: list[Message] = []

    def messages(self, count: int) -> Iterator[Message]:
        """The next `count` messages."""
        for _ in range(count):
            yield self._next()
            self.counts.messages += 1

    def _next(self) -> Message:
        chance = self._random.random()
        if chance < 0.02:
            self.counts.malformed += 1
            return Message(self._topic, self._random.choice(_MALFORMED), tags="unknown")
        if chance < 0.07 and self._recent:
            self.counts.duplicates += 1
            return self._random.choice(self._recent)
        if chance < 0.09:
            self.counts.senseless += 1
            return self._order(quantity=self._random.choice((0, -1)))
        message = self._order(quantity=self._random.randint(1, 6), is_late=chance < 0.2)
        self._recent = [*self._recent[-50:], message]
        return message

    def _order(self, *, quantity: int, is_late: bool = False) -> Message:
        number = self.counts.messages
        at = _START + dt.timedelta(seconds=number * _STEP_S)
        product, price = self._random.choice(list(PRODUCTS.items()))
        if quantity > 0:
            self.counts.orders += 1
            self.revenue[product] = self.revenue.get(product, 0.0) + quantity * price
        if is_late:
            self.counts.late += 1
            at -= dt.timedelta(seconds=self._random.uniform(0, _LATE_S))
        order = {
            "order_id": f"order-{number}",
            "product": product,
            "quantity": quantity,
            "price": price,
            "ordered_at": at.isoformat(),
        }
        return Message(self._topic, json.dumps(order).encode(), tags=product, keys=[f"order-{number}"])
