"""The fast twin of the pop's handler: the same answers and records, without a command in between.

Pops of a consumer differ in nothing but the moment when they were sent. What the checks find out of the rest is kept by
its text, for as long as topics, groups and settings stay what they are. What is unusual (a refusal, a pop in order or
by SQL, one that finds nothing and may wait) is left to the handler.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rocketline.broker.config import BrokerConfig
from rocketline.broker.filters import is_tag_type
from rocketline.broker.metadata.groups import GroupTable
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.pop.handler import LATE_MS, PopHandlers, refused, wish_of
from rocketline.broker.pop.reading import QUEUES_A_STEP, PopFound, PopReading, PopWish
from rocketline.broker.storing.admission import Admission
from rocketline.errors import RemoteProtocolError
from rocketline.hot import HotPeer
from rocketline.hot.pure.pop_request import POP_START, PopFields, parse_pop, present
from rocketline.model.topic_config import TopicConfig
from rocketline.settings import Settings
from rocketline.wire import frame, headers
from rocketline.wire.codes import CURRENT_VERSION
from rocketline.wire.command import Command
from rocketline.wire.headers import PopMessageRequestHeader
from rocketline.wire.pop_handles import TopicKind, format_message_offsets, format_start_offsets

_POPS_MAX: Final = 8
"""In one call: each brings up to 32 messages, and the channel looks at the clock between calls."""
_KEPT_MAX: Final = 4096
_KEPT_TEXT_MAX: Final = 1024
_DIGITS_MAX: Final = 15
_PREFIX: Final = struct.Struct(">II")
_END: Final = f'"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'

_Key: TypeAlias = "tuple[str | None, ...]"


@dataclass(slots=True)
class _Known:
    """Pops of one consumer, as the checks left them."""

    topic: TopicConfig
    wish: PopWish
    poll_ms: int


class PopPath:
    """Takes POP_MESSAGE (200050) with JSON headers, for servers that write these."""

    def __init__(
        self,
        pops: PopHandlers,
        reading: PopReading,
        topics: TopicTable,
        groups: GroupTable,
        admission: Admission,
        settings: Settings[BrokerConfig],
        now_ms: Callable[[], int],
    ) -> None:
        self._pops, self._reading, self._topics, self._groups = pops, reading, topics, groups
        self._admission, self._settings, self._now_ms = admission, settings, now_ms
        self._known: dict[_Key, _Known] = {}
        self._version = -1

    def __call__(self, peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        """Answer the plain pops from `start` on that find something. See `HotPath`."""
        if self._admission.is_pull_late(peer.read_s):
            return start, b"", 0  # the ordinary way tells why not
        version = self._topics.version + self._groups.version + self._settings.version
        if version != self._version:
            self._known.clear()
            self._version = version
        replies, later, size = list[bytes](), 0, len(data)
        while start < size and reply_bytes_max > 0 and len(replies) + later < _POPS_MAX:
            parsed = parse_pop(data, start) if data.startswith(POP_START, start + 8) else None
            reply = self._answer(peer, parsed[1].extFields, parsed[1].opaque) if parsed is not None else None
            if parsed is None or reply is None:
                break
            start = parsed[0]
            if reply:
                replies.append(reply)
                reply_bytes_max -= len(reply)
            else:
                later += 1
        return start, b"".join(replies), later

    def _answer(self, peer: HotPeer, fields: PopFields, opaque: int) -> bytes | None:
        """The whole reply frame; empty if it is given later, None if the handler is to answer."""
        now_ms, born = self._now_ms(), fields.bornTime
        if born is not None and not (born.isdecimal() and born.isascii() and len(born) <= _DIGITS_MAX):
            return None
        born_ms = int(born or 0) or now_ms
        known = self._find(fields, born_ms)
        if known is None or now_ms - born_ms - known.poll_ms > LATE_MS:
            return None
        reading, wish = self._reading, known.wish
        try:
            if not reading.may_find(wish, known.topic):
                return None
        except OSError:  # the handler will meet it too, and has somebody to tell
            return None
        found = reading.begin(is_order=False)
        for _ in reading.take(wish, known.topic, found):
            pass  # of so few queues it is one step
        if not found.count:
            reading.put_back(found)
            return None
        return self._handed_out(peer, wish, found, opaque)

    def _handed_out(self, peer: HotPeer, wish: PopWish, found: PopFound, opaque: int) -> bytes:
        """The frame, or nothing if it is given by itself, after a flush."""
        given, is_late = list[bytes](), False

        def done(problem: str | None) -> None:
            reply = _found(wish, found, opaque) if problem is None else _refused(problem, opaque)
            if is_late:
                peer.reply_bytes(reply, 1)
            else:
                given.append(reply)

        self._pops.hand_out(wish, found, done)
        is_late = not given
        return given[0] if given else b""

    def _find(self, fields: PopFields, born_ms: int) -> _Known | None:
        # fmt: off
        key = (
            fields.consumerGroup, fields.topic, fields.queueId, fields.maxMsgNums, fields.invisibleTime,
            fields.pollTime, fields.initMode, fields.expType, fields.exp, fields.order, fields.attemptId,
        )
        # fmt: on
        return self._known.get(key) or self._learn(fields, born_ms, key)

    def _learn(self, fields: PopFields, born_ms: int, key: _Key) -> _Known | None:
        try:
            asked = headers.decode(PopMessageRequestHeader, present(fields))
        except RemoteProtocolError:
            return None
        if asked.order or not (is_tag_type(asked.expression_type) or not asked.expression):
            return None
        admitted = self._pops.admit(asked, born_ms)
        if isinstance(admitted, Command):
            return None
        topic, wanted = admitted
        if self._queues(asked, topic) > QUEUES_A_STEP:
            return None
        if len(self._known) >= _KEPT_MAX:
            self._known.clear()
        known = _Known(topic, wish_of(asked, wanted), asked.poll_time)
        if len(asked.expression or "") <= _KEPT_TEXT_MAX:
            self._known[key] = known
        return known

    def _queues(self, asked: PopMessageRequestHeader, topic: TopicConfig) -> int:
        """How many a pop may look into, those of its retry topics included."""
        names = [kind.store_topic(asked.topic, asked.consumer_group) for kind in TopicKind if kind]
        retries = [self._topics.get(name) for name in names]
        return topic.read_queue_nums + sum(found.read_queue_nums for found in retries if found is not None)


def _found(wish: PopWish, found: PopFound, opaque: int) -> bytes:
    header = (
        f'{{"code":0,"extFields":{{"popTime":"{found.pop_ms}","invisibleTime":"{wish.invisible_ms}",'
        f'"reviveQid":"{found.revive_queue_id}","restNum":"{found.rest}",'
        f'"startOffsetInfo":"{format_start_offsets(found.starts)}",'
        f'"msgOffsetInfo":"{format_message_offsets(found.offsets)}"}},'
        f'"flag":1,"language":"PYTHON","opaque":{opaque},{_END}'
    ).encode()
    size = len(header)
    return b"".join((_PREFIX.pack(4 + size + found.bytes, size), header, *found.records))


def _refused(problem: str, opaque: int) -> bytes:
    return frame.encode(replace(refused(problem), opaque=opaque))
