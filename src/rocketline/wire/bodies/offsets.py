"""Consumers' offsets: to read, to reset, to hand to a slave."""

from __future__ import annotations

from dataclasses import field

from rocketline.model.integers import Int32
from rocketline.model.queue import MessageQueue
from rocketline.model.subscription import SubscriptionData
from rocketline.model.topic_config import DataVersion
from rocketline.record import record


@record
class ResetOffsetBody:
    """The new offset of each queue. Java: ResetOffsetBody."""

    offset_table: dict[MessageQueue, int] = field(default_factory=dict)


@record
class ResetOffsetItem:
    """A queue and its new offset in one object. Java: MessageQueueForC."""

    topic: str
    broker_name: str
    queue_id: Int32
    offset: int


@record
class ResetOffsetList:
    """The same as a list, which C++ clients can read. Java: ResetOffsetBodyForC."""

    offset_table: list[ResetOffsetItem] = field(default_factory=list)


@record
class ConsumerStatus:
    """The offsets that one client has, or those of several by client id. Java: GetConsumerStatusBody."""

    message_queue_table: dict[MessageQueue, int] = field(default_factory=dict)
    consumer_table: dict[str, dict[MessageQueue, int]] | None = None


@record
class CorrectionOffsets:
    """The smallest offset of other groups, by queue id; 2**63 - 1 is ahead of all. Java: QueryCorrectionOffsetBody."""

    correction_offsets: dict[Int32, int] = field(default_factory=dict)


@record
class ConsumerOffsetTable:
    """All offsets of a broker by `topic@group`; before 5.5 without those of pulls. Java: ConsumerOffsetManager."""

    data_version: DataVersion | None = None
    group_topic_map: dict[str, list[str]] | None = None
    offset_table: dict[str, dict[Int32, int]] = field(default_factory=dict)
    pull_offset_table: dict[str, dict[Int32, int]] | None = None


@record
class DelayOffsetTable:
    """How far each delay level is. Java: DelayOffsetSerializeWrapper."""

    data_version: DataVersion | None = None
    offset_table: dict[Int32, int] = field(default_factory=dict)


@record
class ConsumeQueueData:
    """One entry of a queue, and whether a group's filter takes it. Java: ConsumeQueueData."""

    physic_offset: int = 0
    physic_size: Int32 = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


@record
class ConsumeQueueDump:
    """A span of a queue's entries. Java: QueryConsumeQueueResponseBody."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] = field(default_factory=list)
    max_queue_index: int = 0
    min_queue_index: int = 0
