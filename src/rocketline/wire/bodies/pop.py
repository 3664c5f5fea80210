"""POP consumers: acknowledgements in one go, assignments, and which groups pop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from rocketline.model.integers import Int32
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel, MessageRequestMode
from rocketline.record import record


@record
class BatchAck:
    """Acknowledges messages of one pop from one queue. Java: BatchAck."""

    consumer_group: str | None = field(default=None, metadata={"java": "c", "also": ("consumerGroup",)})
    topic: str | None = field(default=None, metadata={"java": "t", "also": ("topic",)})
    """The topic itself, also if the messages came from its retry topic."""
    retry: str | None = field(default=None, metadata={"java": "r", "also": ("retry",)})
    """Which topic they came from: 0 the topic itself, 1 and 2 its retry topics."""
    start_offset: int = field(default=0, metadata={"java": "so", "also": ("startOffset",)})
    queue_id: Int32 = field(default=0, metadata={"java": "q", "also": ("queueId",)})
    revive_queue_id: Int32 = field(default=0, metadata={"java": "rq", "also": ("reviveQueueId",)})
    pop_time: int = field(default=0, metadata={"java": "pt", "also": ("popTime",)})
    invisible_time: int = field(default=0, metadata={"java": "it", "also": ("invisibleTime",)})
    bit_set: bytes = field(default=b"", metadata={"java": "b", "also": ("bitSet",)})
    """Bit i: the message at `start_offset` + i. See `bits_of` and `bit_set_of`."""


@record
class BatchAckMessageRequestBody:
    """Acknowledgements for one broker. Java: BatchAckMessageRequestBody."""

    broker_name: str | None = None
    acks: list[BatchAck] = field(default_factory=list)


def bit_set_of(positions: Iterable[int]) -> bytes:
    """The bit set with these bits set, least significant byte first, as Java's `BitSet.toByteArray` gives it.

    >>> bit_set_of([0, 3, 9]).hex()
    '0902'
    """
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def bits_of(bit_set: bytes) -> list[int]:
    """The positions of the bits that are set, ascending.

    >>> bits_of(bytes.fromhex("0902"))
    [0, 3, 9]
    """
    return [8 * at + bit for at, byte in enumerate(bit_set) if byte for bit in range(8) if byte >> bit & 1]


@record
class QueryAssignmentRequestBody:
    """Which queues are mine? Java: QueryAssignmentRequestBody."""

    topic: str | None = None
    consumer_group: str | None = None
    client_id: str | None = None
    strategy_name: str | None = None
    message_model: MessageModel | None = None


@record
class MessageQueueAssignment:
    """A queue, or with id -1 all queues of a broker, and how to read it. Java: MessageQueueAssignment."""

    message_queue: MessageQueue | None = None
    mode: MessageRequestMode | None = None
    attachments: dict[str, str] | None = None


@record
class QueryAssignmentResponseBody:
    """The queues; None: keep those you have. Java: QueryAssignmentResponseBody."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


@record
class SetMessageRequestModeRequestBody:
    """Lets a group pull or pop a topic. Java: SetMessageRequestModeRequestBody."""

    topic: str | None = None
    consumer_group: str | None = None
    mode: MessageRequestMode = MessageRequestMode.PULL
    pop_share_queue_num: Int32 = 0


@record
class MessageRequestModeTable:
    """The modes of all groups, by topic and group. Java: MessageRequestModeSerializeWrapper."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = field(default_factory=dict)
