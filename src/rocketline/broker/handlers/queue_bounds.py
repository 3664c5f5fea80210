"""Where a queue begins, where it ends, and where in it a time is.

SEARCH_OFFSET_BY_TIMESTAMP (29), GET_MAX_OFFSET (30), GET_MIN_OFFSET (31), GET_EARLIEST_MSG_STORETIME (32).

Neither topic nor queue need exist: of what is not there, offsets are 0 and times -1.
"""

from __future__ import annotations

from typing import Protocol

from rocketline.net.channel import Channel
from rocketline.net.dispatch import Handler
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.headers import BoundaryType


class BoundedQueues(Protocol):
    """What is asked of the store here; all of it is 0 or, for times, -1 where there is no such queue."""

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    def earliest_store_ms(self, topic: str, queue_id: int) -> int: ...

    def offset_at_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: BoundaryType) -> int: ...


class QueueBoundHandlers:
    """Questions about one queue."""

    def __init__(self, store: BoundedQueues) -> None:
        self._store = store

    def by_code(self) -> dict[int, Handler]:
        return {
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
            RequestCode.GET_MAX_OFFSET: self._get_max,
            RequestCode.GET_MIN_OFFSET: self._get_min,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self._get_earliest_time,
        }

    def _search(self, channel: Channel, request: Command) -> Command:
        asked = headers.read(headers.SearchOffsetRequestHeader, request.ext)
        boundary = asked.boundary_type or BoundaryType.LOWER
        offset = self._store.offset_at_time(asked.topic, asked.queue_id, asked.timestamp, boundary)
        return response(ResponseCode.SUCCESS, ext=headers.encode(headers.SearchOffsetResponseHeader(offset=offset)))

    def _get_max(self, channel: Channel, request: Command) -> Command:
        asked = headers.read(headers.GetMaxOffsetRequestHeader, request.ext)
        offset = self._store.max_offset(asked.topic, asked.queue_id)
        return response(ResponseCode.SUCCESS, ext=headers.encode(headers.GetMaxOffsetResponseHeader(offset=offset)))

    def _get_min(self, channel: Channel, request: Command) -> Command:
        asked = headers.read(headers.GetMinOffsetRequestHeader, request.ext)
        offset = self._store.min_offset(asked.topic, asked.queue_id)
        return response(ResponseCode.SUCCESS, ext=headers.encode(headers.GetMinOffsetResponseHeader(offset=offset)))

    def _get_earliest_time(self, channel: Channel, request: Command) -> Command:
        asked = headers.read(headers.GetEarliestMsgStoretimeRequestHeader, request.ext)
        header = headers.GetEarliestMsgStoretimeResponseHeader(
            timestamp=self._store.earliest_store_ms(asked.topic, asked.queue_id)
        )
        return response(ResponseCode.SUCCESS, ext=headers.encode(header))
