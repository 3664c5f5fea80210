"""Messages: as a producer hands them over, and as a broker has stored them."""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketline.model import property_names
from rocketline.model.ids import HostAddress, LogOffset, OffsetMessageId, QueueOffset

_NOWHERE = LogOffset(0)


@dataclass(slots=True)
class Message:
    """What a producer sends. Java: Message."""

    topic: str
    body: bytes
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    """The application's own number; RocketMQ only carries it."""


@dataclass(slots=True)
class StoredMessage:
    """One record of a commit log, as a broker keeps and delivers it. Java: MessageExt.

    Not frozen, because one is made for every message read; by habit nobody changes one that has been handed on.
    """

    topic: str
    body: bytes
    """As `sys_flag` says: compressed or not."""
    properties: dict[str, str]
    flag: int
    queue_id: int
    queue_offset: QueueOffset
    log_offset: LogOffset
    """Java: physicalOffset, commitLogOffset."""
    sys_flag: int
    born_ms: int
    born_host: HostAddress
    store_ms: int
    store_host: HostAddress
    reconsume_times: int = 0
    prepared_log_offset: LogOffset = _NOWHERE
    """Of a committed transaction: where its half message lies. Java: preparedTransactionOffset."""
    version: int = 1
    """The record's layout: 1, or 2 if the topic's length takes two bytes."""

    @property
    def offset_message_id(self) -> str:
        return str(OffsetMessageId(self.store_host, self.log_offset))

    @property
    def message_id(self) -> str:
        """The id that the application sees: the producer's own, or else the broker's."""
        return self.properties.get(property_names.UNIQ_KEY) or self.offset_message_id

    @property
    def tag(self) -> str | None:
        return self.properties.get(property_names.TAGS)

    @property
    def keys(self) -> list[str]:
        """What the message can be found by in the broker's index."""
        return [key for key in self.properties.get(property_names.KEYS, "").split(" ") if key]
