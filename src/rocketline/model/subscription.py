"""What a consumer wants of a topic, and how its group consumes."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from rocketline.model.integers import Int32
from rocketline.record import record


class ConsumeType(Enum):
    """Who decides when messages come. The order is Java's, for peers that send positions. Java: ConsumeType."""

    CONSUME_ACTIVELY = "PULL"
    CONSUME_PASSIVELY = "PUSH"
    CONSUME_POP = "POP"


class MessageModel(Enum):
    """Whether a message goes to every member of the group or to one. Java: MessageModel."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"
    LITE_SELECTIVE = "LITE_SELECTIVE"


class ConsumeFromWhere(Enum):
    """Where a group without offsets begins; three of them are deprecated. Java: ConsumeFromWhere."""

    CONSUME_FROM_LAST_OFFSET = 0
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = 1
    CONSUME_FROM_MIN_OFFSET = 2
    CONSUME_FROM_MAX_OFFSET = 3
    CONSUME_FROM_FIRST_OFFSET = 4
    CONSUME_FROM_TIMESTAMP = 5


class MessageRequestMode(Enum):
    """How a group gets a topic's messages. Java: MessageRequestMode."""

    PULL = "PULL"
    POP = "POP"


@record
class SubscriptionData:
    """A topic and the expression that chooses among its messages. Java: SubscriptionData."""

    topic: str
    sub_string: str = "*"
    tags_set: list[str] = field(default_factory=list)
    code_set: list[Int32] = field(default_factory=list)
    """The hashes of the tags, which the broker filters by."""
    sub_version: int = 0
    """Greater is newer: milliseconds from Java, nanoseconds from Go."""
    expression_type: str = "TAG"
    class_filter_mode: bool = False
