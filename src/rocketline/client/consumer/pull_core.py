"""What a pull consumer knows and decides, for both of its shells, the asyncio one and the blocking one: no socket, no
wait. Any thread may call it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rocketline.client.consumer.pull_options import PullOptions
from rocketline.client.consumer.pull_request import PullQuery
from rocketline.client.consumer.pulls import PullPlan
from rocketline.client.consumer.subscriptions import MessageSelector, parse_subscription
from rocketline.client.runtime.namespaced import on_wire
from rocketline.clock import Clock
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData
from rocketline.wire.namespaces import with_namespace

if TYPE_CHECKING:
    from rocketline.client.runtime.routes import ClientRoutes

COUNT_MAX: Final = 32
"""What Apache's brokers give at most, by default."""
_SUBSCRIPTIONS_MAX: Final = 256
"""So many expressions are remembered: the same one in the next pull need not be parsed, and keeps its version."""


class PullCore:
    """The core of one pull consumer."""

    def __init__(self, group: str, options: PullOptions, *, namespace: str, routes: ClientRoutes, clock: Clock) -> None:
        self.group = with_namespace(namespace, group)
        """As on the wire."""
        self._options, self._namespace, self._clock = options, namespace, clock
        self.plan = PullPlan(
            routes,
            self.group,
            filter_hooks=options.filter_hooks,
            namespace=namespace,
            unit_mode=options.unit_mode,
        )
        self._subscription = lru_cache(_SUBSCRIPTIONS_MAX)(self._parse)

    def query(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int,
        selector: MessageSelector | str | None,
        *,
        waits: bool,
    ) -> PullQuery:
        """What a pull asks. Raises `ValueError` for an offset or a count that cannot be."""
        if offset < 0 or count_max <= 0:
            raise ValueError(f"pull of {count_max} messages at offset {offset}: at least one, at 0 or above")
        wanted = on_wire(self._namespace, queue)
        return PullQuery(
            wanted,
            offset,
            self._subscription(wanted.topic, selector),
            count_max,
            suspend_s=self._options.suspend_s if waits else None,
            with_subscription=True,
        )

    def _parse(self, topic: str, selector: MessageSelector | str | None) -> SubscriptionData:
        return parse_subscription(topic, selector, sub_version=self._clock.wall_ms())

    def timeout_s(self, given_s: float | None, *, waits: bool) -> float:
        """How long a pull may take."""
        if given_s is not None:
            return given_s
        return self._options.suspend_timeout_s if waits else self._options.pull_timeout_s
