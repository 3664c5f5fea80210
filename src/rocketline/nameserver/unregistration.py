"""Brokers that wait to be forgotten, so that many that go at once cost one pass over the tables.

Java: BatchUnregistrationService.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rocketline.logs import Throttle
from rocketline.nameserver.registration import MinBrokerIdChange, Unregistration
from rocketline.nameserver.route_table import RouteTable


class Unregistrations:
    """A queue that is emptied as a whole.

    `call_soon` is asked once to call `apply` when the first one starts to wait; `on_change` is told of each broker name
    whose smallest id left.
    """

    def __init__(
        self,
        table: RouteTable,
        capacity: int,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        on_change: Callable[[MinBrokerIdChange], None],
        log: Throttle,
    ) -> None:
        self._log = log
        self._table, self._capacity = table, capacity
        self._call_soon, self._on_change = call_soon, on_change
        self._waiting: dict[Unregistration, None] = {}
        self._is_tidying = False

    def submit(self, asked: Unregistration) -> bool:
        """What a peer asked for; False, and nothing is done, if `capacity` wait already."""
        if len(self._waiting) >= self._capacity and asked not in self._waiting:
            return False
        self.add((asked,))
        return True

    def add(self, gone: Iterable[Unregistration]) -> None:
        """What we found out ourselves. It is never refused, and never more than there are live brokers."""
        was_empty = not self._waiting
        self._waiting.update(dict.fromkeys(gone))
        if was_empty and self._waiting:
            self._call_soon(self.apply)

    def apply(self) -> None:
        """Forget all that wait. A registration calls this first, so that what was asked before happens before."""
        if not self._waiting:
            return
        batch, self._waiting = self._waiting, {}
        for gone in batch:
            if self._table.live.get((gone.cluster, gone.address)) is not None:
                self._log.info("broker gone", gone.broker_name, address=gone.address)
        for change in self._table.unregister(batch):
            self._on_change(change)
        self.tidy()

    def tidy(self) -> None:
        """Have what left taken out of the tables, some in each turn."""
        if not self._is_tidying and self._table.has_leftovers:
            self._is_tidying = True
            self._call_soon(self._sweep)

    def _sweep(self) -> None:
        self._is_tidying = self._table.sweep()
        if self._is_tidying:
            self._call_soon(self._sweep)
