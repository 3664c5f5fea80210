"""POP: the texts by which a broker tells what it handed out, and the handle by which a consumer acknowledges it.

A reply describes all its messages in three texts, items joined by `;` and parts by one blank:

    startOffsetInfo    kind queueId startOffset
    msgOffsetInfo      kind queueId offset,offset,…
    orderCountInfo     kind queueId count    or, for one message,    kind qo<queueId>%<queueOffset> count

A handle (property POP_CK, field extraInfo) repeats what concerns one message, in eight parts. Java: ExtraInfoUtil.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple, TypeVar

from rocketline.errors import LocalProtocolError, RemoteProtocolError
from rocketline.model.ids import QueueOffset
from rocketline.model.names import RETRY_PREFIX

ORDER_REVIVE_QUEUE_ID = 999
"""The revive queue that marks an orderly pop: it has no checkpoint, and nothing revives its messages."""

_HANDLE_PARTS = 8
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_INT64 = 2**63
_MESSAGE_KEY = re.compile(r"qo([0-9]{1,10})%([0-9]{1,19})")

K = TypeVar("K")
V = TypeVar("V")


class TopicKind(IntEnum):
    """Which of a group's three topics a popped message came from."""

    NORMAL = 0
    RETRY_V1 = 1
    """`%RETRY%group_topic`"""
    RETRY_V2 = 2
    """`%RETRY%group+topic`"""

    @classmethod
    def of(cls, topic: str) -> TopicKind:
        if not topic.startswith(RETRY_PREFIX):
            return cls.NORMAL
        return cls.RETRY_V2 if "+" in topic else cls.RETRY_V1

    def store_topic(self, topic: str, group: str) -> str:
        """The topic where a message popped from `topic` by `group` is stored, which an acknowledgement must name.

        >>> TopicKind.RETRY_V1.store_topic("T", "g")
        '%RETRY%g_T'
        """
        if self is TopicKind.NORMAL:
            return topic
        return f"{RETRY_PREFIX}{group}{'_' if self is TopicKind.RETRY_V1 else '+'}{topic}"


class PopQueue(NamedTuple):
    """A queue as the three texts name it."""

    kind: TopicKind
    queue_id: int


class PopMessage(NamedTuple):
    """A message as orderCountInfo names it."""

    kind: TopicKind
    queue_id: int
    queue_offset: QueueOffset


# --- handles


@dataclass(frozen=True, slots=True)
class PopHandle:
    """The right to acknowledge one message, until its invisible time has passed."""

    start_offset: QueueOffset
    """The first message of its checkpoint. Java: ckQueueOffset."""
    pop_ms: int
    invisible_ms: int
    revive_queue_id: int
    kind: TopicKind
    broker_name: str
    queue_id: int
    queue_offset: QueueOffset

    @property
    def is_order(self) -> bool:
        return self.revive_queue_id == ORDER_REVIVE_QUEUE_ID

    def format(self) -> str:
        """The text of the handle. Raises `LocalProtocolError` if the broker's name is empty or holds a blank."""
        if not self.broker_name or " " in self.broker_name:
            raise LocalProtocolError(f"a POP handle cannot carry the broker name {self.broker_name!r}")
        return (
            f"{self.start_offset} {self.pop_ms} {self.invisible_ms} {self.revive_queue_id} {self.kind:d} "
            f"{self.broker_name} {self.queue_id} {self.queue_offset}"
        )

    @classmethod
    def parse(cls, text: str) -> PopHandle:
        """The handle in `text`. Raises `RemoteProtocolError`.

        >>> PopHandle.parse("100 1700000000000 60000 3 0 broker-a 1 101").queue_offset
        101
        """
        parts = text.split(" ")
        if len(parts) < _HANDLE_PARTS or not parts[5]:
            raise RemoteProtocolError(f"POP handle {text[:160]!r} has not {_HANDLE_PARTS} parts")
        start, pop, invisible, revive, kind, broker_name, queue_id, queue_offset = parts[:_HANDLE_PARTS]
        return cls(
            QueueOffset(_integer(start)),
            _integer(pop),
            _integer(invisible),
            _integer(revive),
            _kind(kind),
            broker_name,
            _integer(queue_id),
            QueueOffset(_integer(queue_offset)),
        )

    def renewed(self, pop_ms: int, invisible_ms: int, revive_queue_id: int) -> PopHandle:
        """The handle that replaces this one after its invisible time was changed: a checkpoint of its own."""
        return replace(
            self,
            start_offset=self.queue_offset,
            pop_ms=pop_ms,
            invisible_ms=invisible_ms,
            revive_queue_id=revive_queue_id,
        )


# --- the texts of a reply


def format_start_offsets(starts: Mapping[PopQueue, QueueOffset]) -> str:
    return ";".join([f"{kind:d} {queue_id} {start}" for (kind, queue_id), start in starts.items()])


def parse_start_offsets(text: str) -> dict[PopQueue, QueueOffset]:
    """startOffsetInfo: where the checkpoint of each queue begins. Raises `RemoteProtocolError`.

    >>> parse_start_offsets("0 1 100;0 2 50")[PopQueue(TopicKind.NORMAL, 2)]
    50
    """
    return _unique([(_queue(kind, queue), QueueOffset(_integer(start))) for kind, queue, start in _items(text)], text)


def format_message_offsets(offsets: Mapping[PopQueue, Sequence[QueueOffset]]) -> str:
    return ";".join([f"{kind:d} {queue_id} {','.join(map(str, each))}" for (kind, queue_id), each in offsets.items()])


def parse_message_offsets(text: str) -> dict[PopQueue, list[QueueOffset]]:
    """msgOffsetInfo: the offsets handed out of each queue, in the messages' order. Raises `RemoteProtocolError`."""
    return _unique(
        [
            (_queue(kind, queue), [QueueOffset(_integer(offset)) for offset in offsets.split(",")])
            for kind, queue, offsets in _items(text)
        ],
        text,
    )


def format_order_counts(counts: Mapping[PopQueue | PopMessage, int]) -> str:
    return ";".join([f"{key.kind:d} {_order_key(key)} {count}" for key, count in counts.items()])


def _order_key(key: PopQueue | PopMessage) -> str:
    return f"qo{key.queue_id}%{key.queue_offset}" if isinstance(key, PopMessage) else str(key.queue_id)


def parse_order_counts(text: str) -> dict[PopQueue | PopMessage, int]:
    """orderCountInfo: how often queues, or single messages, were handed out before. Raises `RemoteProtocolError`."""
    return _unique([(_queue_or_message(kind, key), _integer(count)) for kind, key, count in _items(text)], text)


def build_handles(
    messages: Iterable[PopMessage],
    handle: PopHandle,
    starts: Mapping[PopQueue, QueueOffset],
    offsets: Mapping[PopQueue, Sequence[QueueOffset]],
) -> list[PopHandle]:
    """A handle for each message of one reply, in order; `handle` gives the parts that they share.

    A reply without startOffsetInfo comes from an old broker: then each queue's first message begins its checkpoint.
    Raises `RemoteProtocolError` if the reply does not speak of a message that it brought.
    """
    found: dict[PopQueue, list[QueueOffset]] = {}
    handles: list[PopHandle] = []
    for kind, queue_id, queue_offset in messages:
        queue = PopQueue(kind, queue_id)
        before = found.setdefault(queue, [])
        told = _told_offset(queue, len(before), offsets) if starts else queue_offset
        before.append(queue_offset)
        start = starts.get(queue) if starts else before[0]
        if start is None:
            raise RemoteProtocolError(f"startOffsetInfo of a POP reply lacks queue {queue_id} of kind {kind:d}")
        handles.append(replace(handle, start_offset=start, kind=kind, queue_id=queue_id, queue_offset=told))
    return handles


def _told_offset(queue: PopQueue, index: int, offsets: Mapping[PopQueue, Sequence[QueueOffset]]) -> QueueOffset:
    told = offsets.get(queue, ())
    if index >= len(told):
        raise RemoteProtocolError(
            f"msgOffsetInfo of a POP reply tells {len(told)} messages of queue {queue.queue_id}, more came"
        )
    return told[index]


# --- their parts


def _items(text: str) -> list[list[str]]:
    items = [item.split(" ") for item in text.split(";")] if text else []
    for item in items:
        if len(item) != 3:
            raise RemoteProtocolError(f"POP reply: {' '.join(item)[:80]!r} has {len(item)} parts instead of three")
    return items


def _unique(pairs: list[tuple[K, V]], text: str) -> dict[K, V]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise RemoteProtocolError(f"POP reply: {text[:160]!r} names a queue twice")
    return unique


def _queue(kind: str, queue_id: str) -> PopQueue:
    return PopQueue(_kind(kind), _integer(queue_id))


def _queue_or_message(kind: str, key: str) -> PopQueue | PopMessage:
    if match := _MESSAGE_KEY.fullmatch(key):
        return PopMessage(_kind(kind), int(match[1]), QueueOffset(_integer(match[2])))
    return _queue(kind, key)


def _kind(text: str) -> TopicKind:
    if text not in ("0", "1", "2"):
        raise RemoteProtocolError(f"POP: kind of topic {text[:40]!r}; 0, 1 and 2 are known")
    return TopicKind(int(text))


def _integer(text: str) -> int:
    number = int(text) if _INTEGER.fullmatch(text) else _INT64
    if not -_INT64 <= number < _INT64:
        raise RemoteProtocolError(f"POP: {text[:40]!r} is no integer of 64 bits")
    return number
