"""QUERY_MESSAGE (12) and VIEW_MESSAGE_BY_ID (33): messages by key, unique id or tag, and by their place in the log.

Keys are found by their hashes, so others with the same hash may be among the answers; clients look again.
Differs: as many messages are given as one frame carries, where Apache makes a frame that its clients refuse; `lastKey`
is accepted and not looked at, as it only pages through Apache's RocksDB index.
"""

from __future__ import annotations

from typing import Final

from rocketline.broker.config import BrokerConfig
from rocketline.broker.long_work import LongWork, Steps
from rocketline.net.channel import Channel, Outcome
from rocketline.net.dispatch import Handler
from rocketline.settings import Settings
from rocketline.store.message_store import MessageStore
from rocketline.wire import headers
from rocketline.wire.codes import RequestCode, ResponseCode
from rocketline.wire.command import Command, response
from rocketline.wire.frame import FRAME_BYTES_MAX
from rocketline.wire.headers import QueryMessageRequestHeader, QueryMessageResponseHeader, ViewMessageRequestHeader

_BODY_BYTES_MAX: Final = FRAME_BYTES_MAX - 64 * 1024
"""The header takes the rest."""


class QueryHandlers:
    """Finds single messages."""

    def __init__(self, store: MessageStore, settings: Settings[BrokerConfig], work: LongWork) -> None:
        self._store, self._settings, self._work = store, settings, work

    def by_code(self) -> dict[int, Handler]:
        return {RequestCode.QUERY_MESSAGE: self._query, RequestCode.VIEW_MESSAGE_BY_ID: self._view}

    def _query(self, channel: Channel, request: Command) -> Outcome:
        asked = headers.read(QueryMessageRequestHeader, request.ext)
        max_count = self._settings.value.store.default_query_max_num if asked.is_unique_key_query else asked.max_num
        if max_count < 0:
            return response(ResponseCode.SYSTEM_ERROR, f"maxNum is {max_count}: a number from 0 on is needed")
        return self._work.begin(channel, request, self._found(asked, max_count))

    def _found(self, asked: QueryMessageRequestHeader, max_count: int) -> Steps[Command]:
        records: list[bytes] = []
        if max_count:
            records = yield from self._store.query_steps(
                asked.topic, asked.key, max_count, asked.begin_timestamp, asked.end_timestamp, asked.index_type
            )
        store_ms, log_offset = self._store.index.last_update
        header = QueryMessageResponseHeader(
            index_last_update_timestamp=store_ms, index_last_update_phyoffset=log_offset
        )
        if not records:
            return response(ResponseCode.QUERY_NOT_FOUND, self._nothing_found(asked.key), ext=headers.encode(header))
        return response(ResponseCode.SUCCESS, ext=headers.encode(header), body=_joined(records))

    def _nothing_found(self, key: str) -> str:
        if self._store.index.is_behind:
            return f"nothing found for {key}, but the index is still being rebuilt: ask again in a while"
        if not self._settings.value.store.message_index_enable:
            return f"nothing found for {key}: there is no index, messageIndexEnable=false"
        return f"nothing found for {key} in that topic and time"

    def _view(self, channel: Channel, request: Command) -> Command:
        asked = headers.read(ViewMessageRequestHeader, request.ext)
        record = self._store.record_at(asked.offset)
        if record is None:
            return response(ResponseCode.SYSTEM_ERROR, f"there is no message at the log offset {asked.offset}")
        return response(ResponseCode.SUCCESS, body=record)


def _joined(records: list[bytes]) -> bytes:
    """The records in their order, as many as fit; a single one always does."""
    size, count = 0, 0
    for record in records:
        size += len(record)
        if size > _BODY_BYTES_MAX:
            break
        count += 1
    return b"".join(records[:count])
