"""The right to each message of a pop's answer, from what the answer tells of all of them. Pure.

Messages of a retry topic come with a handle of their own, made by the broker. A producer can write one into any
message, so such a property counts only if it fits this very answer. Java: MQClientAPIImpl.processPopResponse.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from rocketline.client.received_message import ReceivedMessage
from rocketline.errors import RemoteProtocolError
from rocketline.model import property_names
from rocketline.model.ids import QueueOffset
from rocketline.wire.headers import PopMessageResponseHeader
from rocketline.wire.pop_handles import (
    PopHandle,
    PopMessage,
    PopQueue,
    TopicKind,
    build_handles,
    parse_message_offsets,
    parse_start_offsets,
)

_NOWHERE: Final = QueueOffset(0)


def handles_of(
    messages: Sequence[ReceivedMessage], header: PopMessageResponseHeader, broker_name: str, topic: str
) -> list[PopHandle]:
    """A handle for each message, in order. Raises `RemoteProtocolError` if the answer does not speak of one.

    A message that names its retry topic is given `topic` back, which was asked for.
    """
    starts = parse_start_offsets(header.start_offset_info or "")
    offsets = parse_message_offsets(header.msg_offset_info or "")
    shared = PopHandle(
        _NOWHERE,
        header.pop_time,
        header.invisible_time,
        header.revive_qid,
        TopicKind.NORMAL,
        broker_name,
        0,
        _NOWHERE,
    )
    has_retries = any(kind is not TopicKind.NORMAL for kind, _ in starts)
    told = [_told(message, shared, starts) if has_retries else None for message in messages]
    others = [_place(message, topic) for message, handle in zip(messages, told, strict=True) if handle is None]
    built = iter(build_handles(others, shared, starts, offsets))
    return [handle or next(built) for handle in told]


def _told(message: ReceivedMessage, shared: PopHandle, starts: Container[PopQueue]) -> PopHandle | None:
    """The handle that a message of a retry topic brings along; None if it has none, or a producer made it up."""
    text = message.properties.get(property_names.POP_CK)
    if text is None:
        return None
    try:
        handle = PopHandle.parse(text)
    except RemoteProtocolError:
        return None
    is_of_this_pop = (
        handle.kind is not TopicKind.NORMAL
        and (handle.pop_ms, handle.revive_queue_id) == (shared.pop_ms, shared.revive_queue_id)
        and (handle.queue_id, handle.queue_offset) == (message.queue.queue_id, message.queue_offset)
        and handle.broker_name == shared.broker_name
        and PopQueue(handle.kind, handle.queue_id) in starts
    )
    return handle if is_of_this_pop else None


def _place(message: ReceivedMessage, topic: str) -> PopMessage:
    """Where it was popped from."""
    kind = TopicKind.of(message.topic)
    queue_id = message.queue.queue_id
    if kind is not TopicKind.NORMAL:
        message.topic = topic
    return PopMessage(kind, queue_id, message.queue_offset)
