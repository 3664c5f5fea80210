"""What consumers say of messages that they popped in order: it counts at once, and is in no revive topic."""

from __future__ import annotations

from collections.abc import Callable

from rocketline.broker.metadata.offsets import ConsumerOffsets
from rocketline.broker.pop.order_infos import OrderInfos
from rocketline.wire import headers
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import ChangeInvisibleTimeResponseHeader
from rocketline.wire.pop_handles import ORDER_REVIVE_QUEUE_ID

Wake = Callable[[str, str, int], None]
"""Lets somebody look who waits for messages of a topic, group and queue."""


class OrderlyAcks:
    """Moves groups on that pop in order."""

    def __init__(self, orders: OrderInfos, offsets: ConsumerOffsets, now_ms: Callable[[], int], wake: Wake) -> None:
        self._orders, self._offsets, self._now_ms, self._wake = orders, offsets, now_ms, wake

    def ack(self, queue: tuple[str, str, int], offset: int, pop_ms: int) -> Command:
        """One of topic, group and queue. What lies before the group's offset, or was popped anew, is answered well."""
        topic, group, queue_id = queue
        if offset < self._offsets.query(group, topic, queue_id):
            return response(ResponseCode.SUCCESS)
        after = self._orders.acked(*queue, offset, pop_ms)
        if after is None:
            remark = f"message {offset} in queue {queue_id} of {topic} is none of those that {group} popped last"
            return response(ResponseCode.MESSAGE_ILLEGAL, remark)
        if after >= 0:
            if self._offsets.pending_reset(group, topic, queue_id) is None:
                self._offsets.commit(group, topic, queue_id, after)
            if not self._orders.is_closed(*queue):
                self._wake(*queue)
        return response(ResponseCode.SUCCESS)

    def put_off(self, queue: tuple[str, str, int], offset: int, pop_ms: int, invisible_ms: int) -> Command:
        """Let it be invisible for so long from now on. Its handle stays as it is, but for the time; one that
        lies before the group's offset has none any more."""
        topic, group, queue_id = queue
        if offset < self._offsets.query(group, topic, queue_id):
            header = ChangeInvisibleTimeResponseHeader(pop_time=0, invisible_time=0, revive_qid=0)
        else:
            visible_ms = self._now_ms() + invisible_ms
            self._orders.put_off(*queue, offset, pop_ms, visible_ms)
            header = ChangeInvisibleTimeResponseHeader(
                pop_time=pop_ms, invisible_time=visible_ms - pop_ms, revive_qid=ORDER_REVIVE_QUEUE_ID
            )
        return response(ResponseCode.SUCCESS, ext=headers.encode(header))
