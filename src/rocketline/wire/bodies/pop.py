"""POP: what a broker notes of what was popped, acknowledgements in one go, assignments, and which groups pop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rocketline.errors import RemoteProtocolError
from rocketline.model.integers import Int32
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import MessageModel, MessageRequestMode
from rocketline.record import record

# --- what a broker notes in its revive topic

CHECKPOINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"


@dataclass(slots=True)
class PopCheckPoint:
    """Messages of one queue that were popped together: a record with the tag `ck`. Java: PopCheckPoint.

    Not frozen, because there is one for every pop and queue; by habit nobody changes one but for its `bit_map`.
    """

    topic: str | None = field(default=None, metadata={"java": "t", "also": ("topic",)})
    """Where the messages are, which may be a retry topic."""
    consumer_group: str | None = field(default=None, metadata={"java": "c", "also": ("cid",)})
    queue_id: Int32 = field(default=0, metadata={"java": "q", "also": ("queueId",)})
    start_offset: int = field(default=0, metadata={"java": "so", "also": ("startOffset",)})
    pop_time: int = field(default=0, metadata={"java": "pt", "also": ("popTime",)})
    invisible_time: int = field(default=0, metadata={"java": "it", "also": ("invisibleTime",)})
    message_count: Int32 = field(default=0, metadata={"java": "n", "also": ("num",)})
    queue_offset_diff: list[Int32] | None = field(default=None, metadata={"java": "d"})
    """The offsets of the messages, counted from `start_offset`; without them they are neighbours."""
    bit_map: Int32 = field(default=0, metadata={"java": "bm", "also": ("bitMap",)})
    """Bit i: the message i was acknowledged. Zero when it is written."""
    broker_name: str | None = field(default=None, metadata={"java": "bn", "also": ("brokerName",)})
    revive_offset: int = field(default=0, metadata={"java": "ro", "also": ("reviveOffset",)})
    revive_time: int = field(default=0, metadata={"java": "reviveTime"})
    """Written for those who look; `revive_ms` is what counts."""
    re_put_times: str | None = field(default=None, metadata={"java": "rp"})
    suspend: bool = field(default=False, metadata={"java": "sp"})

    @property
    def revive_ms(self) -> int:
        """When what is not acknowledged by then comes again."""
        return self.pop_time + self.invisible_time

    @property
    def count(self) -> int:
        """How many messages it is of, by what it says: to be asked before `offsets`."""
        return self.message_count if self.queue_offset_diff is None else len(self.queue_offset_diff)

    def offsets(self) -> list[int]:
        """Where the messages are in their queue."""
        differences = self.queue_offset_diff if self.queue_offset_diff is not None else range(self.message_count)
        return [self.start_offset + difference for difference in differences]


@dataclass(slots=True)
class AckMsg:
    """One of them was acknowledged: a record with the tag `ack`. Java: AckMsg."""

    topic: str | None = field(default=None, metadata={"java": "t", "also": ("topic",)})
    consumer_group: str | None = field(default=None, metadata={"java": "c", "also": ("consumerGroup",)})
    queue_id: Int32 = field(default=0, metadata={"java": "q", "also": ("queueId",)})
    start_offset: int = field(default=0, metadata={"java": "so", "also": ("startOffset",)})
    """Of their checkpoint."""
    pop_time: int = field(default=0, metadata={"java": "pt", "also": ("popTime",)})
    ack_offset: int = field(default=0, metadata={"java": "ao", "also": ("ackOffset",)})
    broker_name: str | None = field(default=None, metadata={"java": "bn", "also": ("brokerName",)})
    ack_offset_list: list[int] | None = field(default=None, metadata={"java": "aol", "also": ("ackOffsetList",)})
    """For several of them: the tag is `bAck`, and `ack_offset` is -1. Java: BatchAckMsg."""

    def offsets(self) -> list[int]:
        """Which messages were acknowledged."""
        return [self.ack_offset] if self.ack_offset_list is None else self.ack_offset_list


class CheckpointKey(NamedTuple):
    """By what acknowledgements name their checkpoint."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_ms: int
    broker_name: str

    @classmethod
    def of(cls, named: PopCheckPoint | AckMsg, broker_name: str) -> CheckpointKey:
        """Of a checkpoint, or of the one that is acknowledged. One that names no broker means `broker_name`."""
        return cls(
            named.topic or "",
            named.consumer_group or "",
            named.queue_id,
            named.start_offset,
            named.pop_time,
            named.broker_name or broker_name,
        )


@dataclass(slots=True)
class OrderInfo:
    """The last pop in order of one queue. Java: ConsumerOrderInfoManager.OrderInfo.

    Not frozen: it changes with every acknowledgement.
    """

    pop_time: int = 0
    invisible_time: int = field(default=60_000, metadata={"java": "i"})
    offset_list: list[int] = field(default_factory=list, metadata={"java": "o"})
    """The first offset, and by how much the others are behind it."""
    next_visible_time: dict[int, int] = field(default_factory=dict, metadata={"java": "ot"})
    """By offset, for messages that were put off."""
    consumed_count: dict[int, int] = field(default_factory=dict, metadata={"java": "oc"})
    """By offset, for messages that were popped before: how often."""
    last_consume_timestamp: int = field(default=0, metadata={"java": "l"})
    commit_offset_bit: int = field(default=0, metadata={"java": "cm"})
    """Bit i: the message i was acknowledged."""
    attempt_id: str | None = field(default=None, metadata={"java": "a"})

    def offsets(self) -> list[int]:
        """Where the messages are in their queue."""
        first = self.offset_list[0]
        return [first, *(first + behind for behind in self.offset_list[1:])]


@record
class ConsumerOrderInfoTable:
    """The content of `consumerOrderInfo.json`, by `topic@group` and queue. Java: ConsumerOrderInfoManager."""

    table: dict[str, dict[int, OrderInfo]] = field(default_factory=dict)


# --- what consumers ask


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


BIT_SET_BYTES_MAX: Final = 2048
"""A pop looks at some thousands of messages at most, and its first and last one are no farther apart."""


def bits_of(bit_set: bytes) -> list[int]:
    """The positions of the bits that are set, ascending. Raises `RemoteProtocolError` for more than any pop has.

    >>> bits_of(bytes.fromhex("0902"))
    [0, 3, 9]
    """
    if len(bit_set) > BIT_SET_BYTES_MAX:
        raise RemoteProtocolError(f"BatchAck: a bit set of {len(bit_set)} bytes, of {BIT_SET_BYTES_MAX} at most")
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
