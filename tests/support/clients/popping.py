"""What a scripted broker answers to a pop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rocketline.model.ids import HostAddress, LogOffset, QueueOffset
from rocketline.model.message import StoredMessage
from rocketline.net.channel import Outcome
from rocketline.testing.scripted_broker import Received
from rocketline.wire.command import Command, response
from rocketline.wire.message_codec import encode_record

POP_MS: Final = 1_700_000_000_000
ASKED_MAX: Final = 32
"""Pops in two seconds by a client that backs off: sixteen at once, then pauses that grow to a second."""
_HOST: Final = HostAddress(bytes([127, 0, 0, 1]), 10911)


def record(
    body: bytes,
    offset: int,
    *,
    queue_id: int = 0,
    topic: str = "T",
    reconsume_times: int = 0,
    properties: Mapping[str, str] | None = None,
) -> bytes:
    """A stored message, as pops bring it."""
    message = StoredMessage(
        topic=topic,
        body=body,
        properties={"UNIQ_KEY": f"ID{offset}", **(properties or {})},
        flag=0,
        queue_id=queue_id,
        queue_offset=QueueOffset(offset),
        log_offset=LogOffset(1000 * (offset % 1000)),
        sys_flag=0,
        born_ms=POP_MS,
        born_host=_HOST,
        store_ms=POP_MS,
        store_host=_HOST,
        reconsume_times=reconsume_times,
    )
    return encode_record(message)


def popped(
    records: Sequence[bytes], starts: str = "0 0 0", offsets: str = "0 0 0", *, invisible_ms: int = 60_000
) -> Command:
    """The answer with these records; `starts` and `offsets` are the texts that tell of them."""
    ext = {
        "popTime": str(POP_MS),
        "invisibleTime": str(invisible_ms),
        "reviveQid": "3",
        "restNum": "0",
        "startOffsetInfo": starts,
        "msgOffsetInfo": offsets,
    }
    return response(0, ext=ext, body=b"".join(records))


def popped_bodies(*bodies: bytes, first: int = 0, reconsume_times: int = 0, **properties: str) -> Command:
    """The answer with messages of queue 0, from offset `first` on."""
    offsets = range(first, first + len(bodies))
    records = [
        record(body, offset, reconsume_times=reconsume_times, properties=properties)
        for body, offset in zip(bodies, offsets, strict=True)
    ]
    return popped(records, f"0 0 {first}", f"0 0 {','.join(map(str, offsets))}")


def hidden(received: Received) -> Outcome:
    """What a broker answers to CHANGE_MESSAGE_INVISIBLETIME: another handle."""
    ext = {"popTime": str(POP_MS + 1), "invisibleTime": str(received.header.invisible_time), "reviveQid": "5"}
    return response(0, ext=ext)
