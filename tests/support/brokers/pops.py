"""Pops as consumers send them, what they say of the messages, and what their answers tell."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

from rocketline.clock import SystemClock
from rocketline.model.message import StoredMessage
from rocketline.wire.codes import RequestCode
from rocketline.wire.command import Command
from rocketline.wire.message_codec import decode_records
from rocketline.wire.pop_handles import (
    PopHandle,
    PopMessage,
    TopicKind,
    build_handles,
    parse_message_offsets,
    parse_start_offsets,
)
from support.brokers.running import Peer

BROKER = "broker-a"
WALL = SystemClock()


def pop(poll_ms: int = 0, /, *, messages: int = 32, invisible_ms: int = 60_000, **fields: str) -> Command:
    """A pop of any queue of T for the group g; `fields` are the wire's names."""
    ext = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "-1",
        "maxMsgNums": str(messages),
        "invisibleTime": str(invisible_ms),
        "pollTime": str(poll_ms),
        "bornTime": "0",
        "initMode": "0",
        "expType": "TAG",
        "exp": "*",
        "order": "false",
    }
    return Command(RequestCode.POP_MESSAGE, ext | fields)


def popped(answer: Command) -> list[tuple[StoredMessage, PopHandle]]:
    """The messages of an answer, each with its handle."""
    assert answer.code == 0, answer.remark
    messages = decode_records(answer.body)
    shared = PopHandle.parse(
        f"0 {answer.ext['popTime']} {answer.ext['invisibleTime']} {answer.ext['reviveQid']} 0 {BROKER} 0 0"
    )
    fresh = [message for message in messages if "POP_CK" not in message.properties]
    built = iter(
        build_handles(
            [PopMessage(TopicKind.NORMAL, message.queue_id, message.queue_offset) for message in fresh],
            shared,
            parse_start_offsets(answer.ext["startOffsetInfo"]),
            parse_message_offsets(answer.ext["msgOffsetInfo"]),
        )
    )
    return [
        (message, PopHandle.parse(handle) if (handle := message.properties.get("POP_CK")) else next(built))
        for message in messages
    ]


def bodies(answer: Command) -> list[bytes]:
    return [message.body for message, _ in popped(answer)]


def handles(answer: Command) -> list[PopHandle]:
    return [handle for _, handle in popped(answer)]


def about(handle: PopHandle, topic: str, group: str) -> dict[str, str]:
    """How requests name a message."""
    return {
        "consumerGroup": group,
        "topic": handle.kind.store_topic(topic, group),
        "queueId": str(handle.queue_id),
        "extraInfo": handle.format(),
        "offset": str(handle.queue_offset),
    }


async def ack(peer: Peer, handle: PopHandle, *, topic: str = "T", group: str = "g", **fields: str) -> Command:
    return await peer.ask(RequestCode.ACK_MESSAGE, about(handle, topic, group) | fields)


async def change(
    peer: Peer, handle: PopHandle, invisible_ms: int, *, topic: str = "T", group: str = "g", **fields: str
) -> Command:
    ext = about(handle, topic, group) | {"invisibleTime": str(invisible_ms)} | fields
    return await peer.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext)


async def ack_many(peer: Peer, acked: Iterable[PopHandle], *, topic: str = "T", group: str = "g") -> Command:
    return await peer.ask(RequestCode.BATCH_ACK_MESSAGE, body=batch(acked, topic=topic, group=group))


def batch(acked: Iterable[PopHandle], *, topic: str = "T", group: str = "g") -> bytes:
    """Acknowledgements, an entry for each message."""
    acks = [
        {
            "c": group,
            "t": topic,
            "r": str(int(handle.kind)),
            "so": handle.start_offset,
            "q": handle.queue_id,
            "rq": handle.revive_queue_id,
            "pt": handle.pop_ms,
            "it": handle.invisible_ms,
            "b": _bits(handle.queue_offset - handle.start_offset),
        }
        for handle in acked
    ]
    return json.dumps({"brokerName": BROKER, "acks": acks}).encode()


def _bits(position: int) -> str:
    return base64.b64encode((1 << position).to_bytes(position // 8 + 1, "little")).decode()
