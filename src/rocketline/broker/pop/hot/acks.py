"""The fast twin of the acknowledgement's handler: runs of them in, one write to the log, all their answers out.

Handles of the messages that a pop took of one queue differ in nothing but the last number, and so do the records that
note their acknowledgements. So the record is made once, as the handler makes it, and kept by the text of the rest, cut
where the offset stands. What is unusual (a message popped in order, a time that is over, a refusal) is left to the
handler, and nothing has happened then.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from rocketline.broker.config import BrokerConfig
from rocketline.broker.metadata.topics import TopicTable
from rocketline.broker.pop.checks import PopChecks
from rocketline.broker.pop.merge import MergeBuffer
from rocketline.broker.pop.revive_topic import ReviveTopic
from rocketline.broker.storing.admission import Admission
from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.hot import HotPeer
from rocketline.hot.pure.ack_request import ACK_START, parse_ack
from rocketline.hot.pure.success_reply import success_replies
from rocketline.model import property_names
from rocketline.model.java_hash import tags_code
from rocketline.model.names import WHEEL_TIMER_TOPIC
from rocketline.settings import Settings
from rocketline.store.log_writer import LogWriter
from rocketline.store.message_store import MessageStore
from rocketline.store.queues.queue_table import Queue
from rocketline.wire import frame
from rocketline.wire.bodies.pop import ACK_TAG, AckMsg
from rocketline.wire.codes import ResponseCode
from rocketline.wire.command import response
from rocketline.wire.pop_handles import PopHandle
from rocketline.wire.properties import encode_properties

_REQUESTS_MAX: Final = 256
_KEPT_MAX: Final = 1024
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,17}").fullmatch
_QUEUE_DIGITS_MAX: Final = 9
_OFFSET: Final = -(2**62)
"""Stands for the offset in a record that is to be cut there: no offset is like it."""
_ACK_CODE: Final = tags_code(ACK_TAG)

_Key: TypeAlias = "tuple[str, str, str, str]"
"""Group, topic, queue, and the handle without its last part."""


class _Known(NamedTuple):
    """Acknowledgements of one checkpoint, but for the offset."""

    ack: AckMsg
    revive_ms: int
    body: tuple[bytes, bytes]
    """Of the record: what stands before and behind the offset."""
    properties: tuple[bytes, bytes]
    key: tuple[str, str]
    """Its unique key, for the index."""


class _Run:
    """Acknowledgements of one read."""

    __slots__ = ("high", "known", "low", "merged", "notes", "now_ms", "opaques")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.merged: list[int] = []
        """Opaques of those whose checkpoints are in memory: nothing is stored of them."""
        self.opaques: list[int] = []
        """Of the others, which are to be stored."""
        self.notes: list[tuple[_Known, str]] = []
        """What is to be stored of them: each with its offset, in digits."""
        self.known: _Known | None = None
        """Of the last one; and the bounds of its queue."""
        self.low = self.high = 0

    def __len__(self) -> int:
        return len(self.merged) + len(self.opaques)


class AckPath:
    """Takes runs of ACK_MESSAGE (200051) with JSON headers, for servers that write these."""

    def __init__(
        self,
        checks: PopChecks,
        store: MessageStore,
        revive: ReviveTopic,
        merge: MergeBuffer,
        topics: TopicTable,
        admission: Admission,
        settings: Settings[BrokerConfig],
    ) -> None:
        self._checks, self._store, self._revive, self._merge = checks, store, revive, merge
        self._topics, self._admission, self._settings = topics, admission, settings
        self._host = store.store_host.ip + store.store_host.port.to_bytes(4, "big")
        self._known: dict[_Key, _Known] = {}
        self._version = -1

    def __call__(self, peer: HotPeer, data: bytes, start: int, reply_bytes_max: int) -> tuple[int, bytes, int]:
        """Note the plain acknowledgements from `start` on. See `HotPath`."""
        if self._admission.is_ack_late(peer.read_s) or not self._store.is_writable:
            return start, b"", 0  # the ordinary way tells why not
        version = self._topics.version + self._settings.version
        if version != self._version:
            self._known.clear()
            self._version = version
        run, size = _Run(self._store.store_clock.now_ms()), len(data)
        try:
            while start < size and len(run) < _REQUESTS_MAX and (end := self._add(data, start, run)):
                start = end
        except OSError:  # a queue cannot be read: the handler will meet it too, and has somebody to tell
            pass
        replies, later = self._noted(peer, run)
        return start, replies, later

    # --- taking them

    def _add(self, data: bytes, start: int, run: _Run) -> int:
        """Take what one frame says; where the frame ends, 0 if it is not taken. Raises `OSError`."""
        parsed = parse_ack(data, start) if data.startswith(ACK_START, start + 8) else None
        if parsed is None:
            return 0
        end, header = parsed
        fields = header.extFields
        text, handle = fields.offset, fields.extraInfo
        cut = handle.rfind(" ")
        if not _NUMBER(text) or not _NUMBER(handle, cut + 1) or fields.liteTopic:
            return 0
        key = fields.consumerGroup, fields.topic, fields.queueId, handle[:cut]
        known = self._known.get(key) or self._learn(key, run.now_ms)
        if known is None or not run.now_ms < known.revive_ms <= run.now_ms + self._revive.delay_ms_max:
            return 0
        ack, offset = known.ack, int(text)
        if known is not run.known:
            topic, queue_id = fields.topic, ack.queue_id
            run.known = known
            run.low, run.high = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        if not run.low <= offset <= run.high:
            return 0
        if len(self._merge) and self._merge.ack(replace(ack, ack_offset=offset)):
            run.merged.append(header.opaque)
        else:
            run.opaques.append(header.opaque)
            run.notes.append((known, text))
        return end

    def _learn(self, key: _Key, now_ms: int) -> _Known | None:
        """What the handler would store, but for the offset; None if it is not to be stored, or not for later."""
        group, topic, queue, shared = key
        if not _NUMBER(queue) or len(queue) > _QUEUE_DIGITS_MAX:
            return None
        try:
            handle = PopHandle.parse(f"{shared} 0")
        except RemoteProtocolError:
            return None
        is_ours = not handle.is_order and 0 <= handle.revive_queue_id < self._settings.value.revive_queue_num
        if not is_ours or self._checks.queue(topic, int(queue)) is not None:
            return None
        revive_ms = handle.pop_ms + handle.invisible_ms
        ack = AckMsg(topic, group, int(queue), handle.start_offset, handle.pop_ms, _OFFSET, handle.broker_name)
        message = self._revive.ack(ack, handle.revive_queue_id, revive_ms)
        try:
            body, properties = _cut(message.body), _cut(encode_properties(message.properties))
        except LocalProtocolError:  # of a name that no record can hold: the handler tells
            return None
        if message.topic != WHEEL_TIMER_TOPIC or body is None or properties is None:
            return None
        before, _, behind = message.properties[property_names.UNIQ_KEY].partition(str(_OFFSET))
        if len(self._known) >= _KEPT_MAX:
            self._known.clear()
        known = self._known[key] = _Known(ack, revive_ms, body, properties, (before, behind))
        return known

    # --- noting and answering them

    def _noted(self, peer: HotPeer, run: _Run) -> tuple[bytes, int]:
        """Answers, and how many are given once all is as safe as the settings promise."""
        replies, opaques = success_replies(run.merged), run.opaques
        if not opaques:
            return replies, 0
        problem = self._revive.put_laid(partial(self._lay, run))
        if problem is not None or not self._store.is_sync:
            return replies + answers(opaques, problem), 0
        self._revive.wait(lambda problem: peer.reply_bytes(answers(opaques, problem), len(opaques)))
        return replies, len(opaques)

    def _lay(self, run: _Run, writer: LogWriter, queue: Queue) -> None:
        for known, text in run.notes:
            offset, keys = text.encode(), (text.join(known.key), None, ACK_TAG)
            body, properties = offset.join(known.body), offset.join(known.properties)
            writer.add(queue, body, properties, _ACK_CODE, keys, self._host, 0, run.now_ms)


def _cut(data: bytes) -> tuple[bytes, bytes] | None:
    """What stands before and behind the offset, if it stands there once."""
    parts = data.split(b"%d" % _OFFSET)
    return (parts[0], parts[1]) if len(parts) == 2 else None


def answers(opaques: list[int], problem: str | None) -> bytes:
    """That all went well, or why not."""
    if problem is None:
        return success_replies(opaques)
    refused = response(ResponseCode.SYSTEM_ERROR, problem)
    return b"".join([frame.encode(replace(refused, opaque=opaque)) for opaque in opaques])
