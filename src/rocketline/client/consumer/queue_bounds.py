"""Asking a queue's broker where the queue begins, ends, and is at a time. Java: MQAdminImpl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketline.errors import BrokerNotFoundError
from rocketline.model.queue import MessageQueue
from rocketline.model.route import MASTER_ID
from rocketline.wire import headers
from rocketline.wire.headers import (
    BoundaryType,
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    Header,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from rocketline.wire.headers.fields import AnyHeader

if TYPE_CHECKING:
    from rocketline.client.runtime.runtime import ClientRuntime

_TIMEOUT_S: Final = 6.0
"""Java: MQAdminImpl.timeoutMillis."""


async def find_broker(
    runtime: ClientRuntime, queue: MessageQueue, *, only_master: bool = True, or_any: bool = False
) -> str:
    """The address of the queue's broker, its master if that is known; the route is asked for once if nobody is.

    With `or_any` a slave will do if the newest route has no master either; without `only_master`, at once. Raises
    `BrokerNotFoundError`, and what asking for the route raises.
    """
    routes = runtime.routes
    found = routes.address_for_pull(routes.broker_of(queue), MASTER_ID, only_this=only_master)
    if found is None:
        await runtime.update_route(queue.topic)
        found = routes.address_for_pull(routes.broker_of(queue), MASTER_ID, only_this=only_master and not or_any)
    if found is None:
        raise BrokerNotFoundError(routes.broker_of(queue), f"the newest route of {queue.topic!r} has none that serves")
    return found[0]


class QueueBounds:
    """The bounds of queues, as their masters tell them. Calls raise `TransportError`, `ResponseError`, `RouteError`."""

    def __init__(self, runtime: ClientRuntime, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._runtime, self._timeout_s = runtime, timeout_s

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, target_broker=queue.broker_name)
        return (await self._ask(queue, header, GetMinOffsetResponseHeader)).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will have."""
        header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, target_broker=queue.broker_name)
        return (await self._ask(queue, header, GetMaxOffsetResponseHeader)).offset

    async def search_offset(
        self, queue: MessageQueue, time_ms: int, boundary: BoundaryType = BoundaryType.LOWER
    ) -> int:
        """The offset of the first message stored at that time or after it; the last one of it with UPPER."""
        header = SearchOffsetRequestHeader(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=time_ms,
            boundary_type=boundary,
            target_broker=queue.broker_name,
        )
        return (await self._ask(queue, header, SearchOffsetResponseHeader)).offset

    async def earliest_store_ms(self, queue: MessageQueue) -> int:
        """When the first message that is still there was stored. Java: earliestMsgStoreTime."""
        header = GetEarliestMsgStoretimeRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, target_broker=queue.broker_name
        )
        return (await self._ask(queue, header, GetEarliestMsgStoretimeResponseHeader)).timestamp

    async def _ask(self, queue: MessageQueue, header: Header, answer: type[AnyHeader]) -> AnyHeader:
        address = await find_broker(self._runtime, queue)
        reply = await self._runtime.ask_ok(address, header, timeout_s=self._timeout_s, vip=True)
        return headers.decode(answer, reply.ext)
